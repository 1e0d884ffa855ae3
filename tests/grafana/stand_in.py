"""A stand-in for Grafana's HTTP API, since no real Grafana is available.

It keeps folders, dashboards with their versions, alert rules and annotations, and answers with Grafana's status codes
and forms of errors. Each request is checked against Grafana's OpenAPI document of the version that it stands for
(document.py): method, path, parameters, headers and body. Nothing is allowed that the document does not have. Its own
answers are checked, too. Requests that do not fit are kept in `violations`, which `running` wants to be empty.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.grafana.document import Document

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

VERSIONS = {"10.2": "10.2.0", "11.3": "11.3.1", "12.1": "12.1.0-247386", "13.0": "13.0.0"}
"""The version that the Grafana of each document reports."""

UNDOCUMENTED = {
    "/access-control/user/permissions": "asked by Grafana's own pages, and in no OpenAPI document",
    "/health": "not in the document of 10.2; its documentation has it",
}
COMMON = {401, 403, 429, 500, 502, 503, 504}
"""Statuses that any call may have, whether or not the document lists them for it."""

TOKEN = "glsa_stand-in"  # what a service account's token looks like


class Refused(Exception):  # noqa: N818 - of HTTP
    def __init__(self, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = code
        self.body = {"message": message, **more}


@dataclass
class Failure:
    """An answer that the next calls get instead of the real one."""

    path: str
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    method: str = ""
    after: bool = False
    """Whether the call is done before it fails, as behind a proxy that times out."""


class StandIn:
    """Grafana, as far as laggard sees it."""

    def __init__(self, version: str, *, prefix: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.version = VERSIONS[version]
        self.major = int(self.version.partition(".")[0])
        self.document = Document(version)
        self.prefix = prefix
        self.lock = threading.RLock()
        self.violations: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.failures: list[Failure] = []
        self.denied: set[str] = set()
        self.folders: dict[str, dict[str, Any]] = {}
        self.dashboards: dict[str, list[dict[str, Any]]] = {}
        self.provisioned: set[str] = set()
        self.rules: dict[str, dict[str, Any]] = {}
        self.intervals: dict[tuple[str, str], int] = {}
        self.annotations: dict[int, dict[str, Any]] = {}
        self.data_sources = [
            {"id": 1, "orgId": 1, "uid": "prom-1", "name": "Prometheus", "type": "prometheus", "isDefault": True},
            {"id": 2, "orgId": 1, "uid": "loki-1", "name": "Logs", "type": "loki", "isDefault": False},
        ]
        self.contact_points = [
            {
                "uid": "first",
                "name": "email receiver",
                "type": "email",
                "settings": {"addresses": "<example@email.com>"},
            }
        ]
        self.permissions: Any = {
            right: ["*"]
            for right in (
                *("folders:create", "folders:read", "dashboards:read", "dashboards:create", "dashboards:write"),
                *("alert.provisioning:read", "alert.provisioning:write", "datasources:read", "datasources:query"),
                *("annotations:read", "annotations:create", "annotations:write"),
            )
        }
        self.answer: Callable[[str, float, float, float], Any] = lambda expr, start, end, step: [
            ({"__name__": "up", "job": "laggard", "instance": "worker-1"}, [(end, 1.0)])
        ]
        """The answer of Prometheus: labels and points, of an expression from start to end by steps (0: at the end)."""
        self.mangle: Callable[[dict[str, Any]], None] = lambda rule: None
        """A change to a saved rule that this Grafana makes without reporting it."""
        self._ids = iter(range(1, 1_000_000))
        server = self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        server.daemon_threads = True
        scheme = "http"
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{server.server_port}{prefix}"
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The calls that change something."""
        return [call for call in self.calls if call[0] != "GET" and call[1] != "/ds/query"]

    def fail(self, path: str, status: int, body: Any = None, **more: Any) -> None:
        self.failures.append(Failure(path, status, {"message": "no"} if body is None else body, **more))

    # One call.

    def serve(self, method: str, target: str, headers: Any, body: bytes) -> tuple[int, Any, dict[str, str]]:
        parts = urlsplit(target)
        path = parts.path.removeprefix(f"{self.prefix}/api")
        if path == parts.path and not parts.path.startswith("/api"):
            return 404, "<html>404</html>", {"Content-Type": "text/html"}
        with self.lock:
            self.calls.append((method, path))
            failure = next(
                (
                    each
                    for each in self.failures
                    if each.times > 0 and re.fullmatch(each.path, path) and each.method in {"", method}
                ),
                None,
            )
            if failure is not None:
                failure.times -= 1
                if failure.after:
                    self.serve_really(method, path, parts.query, headers, body)
                return failure.status, failure.body, failure.headers
            try:
                status, answer = self.serve_really(method, path, parts.query, headers, body)
            except Refused as refused:
                status, answer = refused.status, refused.body
            except Exception as error:
                # A mistake of a test or of this file: not to be lost in a server's thread.
                self.violations.append(f"{method} {path}: {error!r}")
                raise
            self.check_answer(method, path, status, answer)
            return status, answer, {}

    def serve_really(self, method: str, path: str, query: str, headers: Any, body: bytes) -> tuple[int, Any]:
        if path == "/health":
            return 200, {"commit": "abc", "database": "ok", "version": self.version}
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "Invalid API key", messageId="api-key.invalid", statusCode=401, traceID="")
        if path == "/access-control/user/permissions":
            return 200, self.permissions
        found = self.document.find(method, path)
        if found is None:
            self.violations.append(f"{method} {path}: not in the document")
            raise Refused(404, "Not found")
        operation, arguments = found
        name = operation["operationId"]
        asked, wrong = self.document.read(operation, query, headers, body)
        self.violations += [f"{name}: {each}" for each in wrong]
        if name in self.denied:
            raise Refused(
                403, f"You'll need additional permissions to perform this action: {name}", title="Access denied"
            )
        self.headers = headers
        answer = getattr(self, name)(*arguments, **asked)
        return {"postAlertRule": 201, "deleteAlertRule": 204}.get(name, 200), answer

    def check_answer(self, method: str, path: str, status: int, answer: Any) -> None:
        """That the stand-in itself is as the document says."""
        if (found := self.document.find(method, path)) is None:
            if status != 404 and path not in UNDOCUMENTED:
                self.violations.append(f"{path} is answered with {status}")
            return
        name, responses = found[0]["operationId"], found[0]["responses"]
        if str(status) not in responses:
            # Of alert rules the document lists few statuses.
            if status not in COMMON and not name.endswith(("AlertRule", "AlertRuleGroup")):
                self.violations.append(f"{name} is answered with {status}")
        elif schema := responses[str(status)].get("schema"):
            wrong = self.document.check(schema, json.loads(json.dumps(answer)), strict=False)
            self.violations += [f"the answer of {name}: {each}" for each in wrong]

    # Operations, by their names in the document.

    def getFolderByUID(self, uid: str) -> Any:  # noqa: N802
        if uid not in self.folders:
            raise Refused(404, "folder not found", status="not-found")
        return self.folders[uid]

    def createFolder(self, command: dict[str, Any]) -> Any:  # noqa: N802
        if command["uid"] in self.folders:
            raise Refused(409, "a folder with the same uid already exists")
        self.folders[command["uid"]] = {"id": next(self._ids), "uid": command["uid"], "title": command["title"]}
        return self.folders[command["uid"]]

    def deleteFolder(self, uid: str) -> Any:  # noqa: N802
        if any(rule["folderUID"] == uid for rule in self.rules.values()):
            raise Refused(400, "folder is not empty")
        for dashboard in [name for name in self.dashboards if self.newest(name)["folder"] == uid]:
            del self.dashboards[dashboard]
        folder = self.folders.pop(uid)
        return {"message": f"Folder {folder['title']} deleted", "id": folder["id"], "title": folder["title"]}

    def getFolderDescendantCounts(self, uid: str) -> Any:  # noqa: N802
        return {
            "folder": 0,
            "librarypanel": 0,
            "dashboard": sum(1 for name in self.dashboards if self.newest(name)["folder"] == uid),
            "alertrule": sum(1 for rule in self.rules.values() if rule["folderUID"] == uid),
        }

    def getDataSources(self) -> Any:  # noqa: N802
        return self.data_sources

    def queryMetricsWithExpressions(self, command: dict[str, Any]) -> Any:  # noqa: N802
        (query,) = command["queries"]
        if query["datasource"]["uid"] not in {each["uid"] for each in self.data_sources}:
            raise Refused(404, "Data source not found")
        start, end = int(command["from"]) / 1000, int(command["to"]) / 1000
        step = query["intervalMs"] / 1000 if query["range"] else 0.0
        frames = []
        for labels, points in self.answer(query["expr"], start, end, step):
            fields = [
                {"name": "Time", "type": "time", "typeInfo": {"frame": "time.Time"}},
                {"name": "Value", "type": "number", "typeInfo": {"frame": "float64"}, "labels": labels},
            ]
            values = [[round(1000 * at) for at, _ in points], [value for _, value in points]]
            frames.append({"schema": {"refId": "A", "fields": fields}, "data": {"values": values}})
        return {"results": {"A": {"status": 200, "frames": frames}}}

    def newest(self, uid: str) -> dict[str, Any]:
        return self.dashboards[uid][-1]

    def getDashboardByUID(self, uid: str) -> Any:  # noqa: N802
        if uid not in self.dashboards:
            raise Refused(404, "Dashboard not found")
        newest = self.newest(uid)
        meta = {
            "version": newest["dashboard"]["version"],
            "folderUid": newest["folder"],
            "provisioned": uid in self.provisioned,
            "canSave": True,
        }
        return {"meta": meta, "dashboard": newest["dashboard"]}

    def getDashboardVersionsByUID(self, uid: str, limit: int = 0) -> Any:  # noqa: N802
        versions = [
            {"id": number, "uid": uid, "version": each["dashboard"]["version"], "message": each["message"]}
            for number, each in enumerate(self.dashboards[uid], 1)
        ][::-1]
        found = versions[: limit or None]
        return found if isinstance(self._versions_schema(), list) else {"continueToken": "", "versions": found}

    def _versions_schema(self) -> Any:
        operation = self.document.find("GET", "/dashboards/uid/x/versions")
        assert operation is not None
        return [] if operation[0]["responses"]["200"]["schema"].get("type") == "array" else {}

    def postDashboard(self, command: dict[str, Any]) -> Any:  # noqa: N802
        dashboard = command["dashboard"]
        uid, folder = dashboard["uid"], command.get("folderUid", "")
        if folder and folder not in self.folders:
            raise Refused(400, "folder not found", status="not-found")
        if uid in self.provisioned:
            raise Refused(400, "Cannot save provisioned dashboard")
        if uid in self.dashboards:
            there = self.newest(uid)["dashboard"]["version"]
            if dashboard.get("version") != there and not command.get("overwrite"):
                raise Refused(412, "The dashboard has been changed by someone else", status="version-mismatch")
        elif any(
            self.newest(other)["dashboard"]["title"] == dashboard["title"] and self.newest(other)["folder"] == folder
            for other in self.dashboards
        ):
            raise Refused(412, "A dashboard with the same name in the folder already exists", status="name-exists")
        return self.keep_dashboard(dashboard, folder, command.get("message", ""))

    def keep_dashboard(self, dashboard: dict[str, Any], folder: str, message: str) -> Any:
        uid = dashboard["uid"]
        versions = self.dashboards.setdefault(uid, [])
        identity = versions[0]["dashboard"]["id"] if versions else next(self._ids)
        kept = {**dashboard, "id": identity, "version": len(versions) + 1}
        versions.append({"dashboard": json.loads(json.dumps(kept)), "folder": folder, "message": message})
        return {
            "id": identity,
            "uid": uid,
            "url": f"/d/{uid}",
            "status": "success",
            "version": len(versions),
            "title": dashboard["title"],
        }

    def deleteDashboardByUID(self, uid: str) -> Any:  # noqa: N802
        if uid in self.provisioned:
            raise Refused(400, "provisioned dashboard cannot be deleted")
        if uid not in self.dashboards:
            raise Refused(404, "Dashboard not found")
        title = self.newest(uid)["dashboard"]["title"]
        del self.dashboards[uid]
        return {"id": 1, "uid": uid, "title": title, "message": f"Dashboard {title} deleted"}

    def search(self, type: str, folderUIDs: list[str], limit: int = 1000) -> Any:  # noqa: A002, N803
        assert type == "dash-db"
        return [
            {"uid": uid, "title": self.newest(uid)["dashboard"]["title"], "type": type}
            for uid in self.dashboards
            if self.newest(uid)["folder"] in folderUIDs
        ]

    def getAlertRule(self, uid: str) -> Any:  # noqa: N802
        if uid not in self.rules:
            raise Refused(404, "alert rule not found")
        return self.rules[uid]

    def getAlertRules(self) -> Any:  # noqa: N802
        return list(self.rules.values())

    def postAlertRule(self, command: dict[str, Any]) -> Any:  # noqa: N802
        if command["uid"] in self.rules:
            raise Refused(409, "a conflicting alert rule is found: rule UID is already taken")
        return self.keep_rule(command)

    def putAlertRule(self, uid: str, command: dict[str, Any]) -> Any:  # noqa: N802
        if uid not in self.rules:
            raise Refused(404, "alert rule not found")
        return self.keep_rule(command)

    def keep_rule(self, command: dict[str, Any]) -> Any:
        if command["folderUID"] not in self.folders:
            raise Refused(400, "folder does not exist")
        for name in ("for", "keep_firing_for"):
            if name in command and not re.fullmatch(r"(\d+(ms|[smhdwy]))+", command[name]):
                self.violations.append(f"alert rule {command['uid']}: {name} is {command[name]!r}")
        provenance = "" if self.headers.get("X-Disable-Provenance") else "api"
        self.check_provenance(self.rules.get(command["uid"]), provenance)
        rule = json.loads(json.dumps(command)) | {"id": next(self._ids), "updated": "2026-11-22T08:00:00Z"}
        rule.pop("provenance", None)
        if provenance:
            rule["provenance"] = provenance
        if self.major < 12:
            rule.pop("keep_firing_for", None)
        rule["for"] = "5m0s" if rule["for"] == "5m" else rule["for"]
        for query in rule["data"]:
            query["model"] = {"intervalMs": 1000, "maxDataPoints": 43200, **query["model"]}
        answered = json.loads(json.dumps(rule))
        self.mangle(rule)
        self.rules[rule["uid"]] = rule
        self.intervals.setdefault((rule["folderUID"], rule["ruleGroup"]), 60)
        return answered

    def check_provenance(self, there: dict[str, Any] | None, provenance: str) -> None:
        stored = (there or {}).get("provenance", "")
        if stored not in {"", provenance} and not (stored == "api" and not provenance):
            raise Refused(409, f"cannot change provenance from '{stored}' to '{provenance}'")

    def deleteAlertRule(self, uid: str) -> Any:  # noqa: N802
        self.check_provenance(self.rules.get(uid), "")
        self.rules.pop(uid, None)

    def getAlertRuleGroup(self, folder: str, group: str) -> Any:  # noqa: N802
        rules = [each for each in self.rules.values() if (each["folderUID"], each["ruleGroup"]) == (folder, group)]
        if not rules:
            raise Refused(404, "rule group not found")
        return {"title": group, "folderUid": folder, "interval": self.intervals[folder, group], "rules": rules}

    def putAlertRuleGroup(self, folder: str, group: str, command: dict[str, Any]) -> Any:  # noqa: N802
        there = self.getAlertRuleGroup(folder, group)
        if command["interval"] % 10:
            raise Refused(400, "interval (45s) should be non-zero and divided exactly by scheduler interval: 10s")
        sent = {rule["uid"]: rule for rule in command["rules"]}
        for rule in there["rules"]:
            self.check_provenance(rule, "")
            if rule["uid"] not in sent:
                del self.rules[rule["uid"]]  # it is replaced as a whole
        for rule in sent.values():
            self.keep_rule(rule)
        self.intervals[folder, group] = command["interval"]
        return self.getAlertRuleGroup(folder, group)

    def getContactpoints(self) -> Any:  # noqa: N802
        return self.contact_points

    def getAnnotations(self, tags: list[str], limit: int = 100) -> Any:  # noqa: N802
        newest = sorted(self.annotations.values(), key=lambda each: -each["time"])
        return [each for each in newest if set(tags) <= set(each["tags"])][:limit]

    def postAnnotation(self, command: dict[str, Any]) -> Any:  # noqa: N802
        if any(len(part) > 100 for tag in command["tags"] for part in tag.split(":", 1)):
            raise Refused(500, "Failed to save annotation")  # by its database
        identity = next(self._ids)
        self.annotations[identity] = {"id": identity, "timeEnd": command["time"], **command}
        return {"id": identity, "message": "Annotation added"}

    def patchAnnotation(self, identity: str, command: dict[str, Any]) -> Any:  # noqa: N802
        if int(identity) not in self.annotations:
            raise Refused(404, "Could not find annotation to update")
        self.annotations[int(identity)] |= command
        return {"message": "Annotation patched"}

    # What a person does.

    def edit_dashboard(self, uid: str, message: str = "", **changes: Any) -> None:
        newest = self.newest(uid)
        self.keep_dashboard({**newest["dashboard"], **changes}, newest["folder"], message)

    def move_dashboard(self, uid: str, folder: str) -> None:
        self.newest(uid)["folder"] = folder

    def edit_rule(self, uid: str, **changes: Any) -> None:
        self.rules[uid] = json.loads(json.dumps({**self.rules[uid], **changes, "updated": "2026-11-22T09:00:00Z"}))

    def state(self) -> str:
        """All that is kept, to be compared."""
        return json.dumps(
            [self.folders, self.dashboards, self.rules, sorted(map(repr, self.intervals.items())), self.annotations],
            sort_keys=True,
        )


def handler_of(grafana: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # else the head goes alone, and the body waits for its acknowledgement

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer, headers = grafana.serve(self.command, self.path, self.headers, body)
            text = b"" if status == 204 else answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - of the library

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


@contextmanager
def running(version: str, **more: Any) -> Iterator[StandIn]:
    """One that runs, and at its end no request was other than the document says."""
    grafana = StandIn(version, **more)
    try:
        yield grafana
    finally:
        grafana.close()
    assert not grafana.violations, "\n".join(grafana.violations[:20])
