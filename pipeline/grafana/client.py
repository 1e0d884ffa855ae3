"""The part of Grafana's HTTP API that laggard needs, by the library grafana-api.

The library (1.0.3) has folders, dashboards, data sources and annotations. The rest goes through its client,
`Connection.ask`: the state of the server, queries, versions of dashboards, alert rules and contact points. So do
partial changes of annotations, where the library writes null for missing fields.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from laggard.pipeline.grafana.alerting import Alerting
from laggard.pipeline.grafana.annotations import Annotations
from laggard.pipeline.grafana.connection import Connection, shortened
from laggard.pipeline.grafana.errors import GrafanaError
from laggard.pipeline.grafana.settings import GrafanaSettings
from laggard.pipeline.grafana.version import OLDEST, Version
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.secrets import secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.settings import Settings


class Grafana(Connection):
    """The calls to Grafana. Each method raises GrafanaError if its call fails."""

    @cached_property
    def alerting(self) -> Alerting:
        """The calls about alert rules."""
        return Alerting(self)

    @cached_property
    def annotations(self) -> Annotations:
        """The calls about annotations."""
        return Annotations(self)

    def version(self) -> Version:
        """Return the version, which needs no right. Raises if the server is not Grafana, or is too old."""
        try:
            health = self.ask("GET", "/health", "say how it is")
        except GrafanaError as error:
            if error.status in {404, 405}:
                raise GrafanaError(
                    f"there is no Grafana at {self.url}; expected its address in grafana.url, with the path that it "
                    "is served under",
                    error.status,
                ) from None
            raise
        if not isinstance(health, dict) or "database" not in health:
            raise GrafanaError(f"what answers at {self.url} is no Grafana; expected its address in grafana.url")
        version = Version.parse(str(health.get("version", "")))
        if 0 < version.major < OLDEST:
            raise GrafanaError(f"Grafana at {self.url} is {version.text}, too old; expected {OLDEST} or newer")
        return version

    def permissions(self) -> dict[str, list[str]] | None:
        """Return the scopes of each right (`dashboards:write`) of the token; None if Grafana does not report them.

        Grafana's own pages call this; its API document does not have it.
        """
        found = self.ask("GET", "/access-control/user/permissions", "say what the token may", absent=(403, 404))
        return found if isinstance(found, dict) else None

    def folder(self, uid: str) -> dict[str, Any] | None:
        """Return a folder, None for a missing one."""
        return self.object(
            lambda: self.face.folder.get_folder(quote(uid, safe="")), f"read folder {uid}", "folders:read", (404,)
        )

    def create_folder(self, uid: str, title: str) -> None:
        """Create a folder at the top level."""
        self.call(
            lambda: self.face.folder.create_folder(title, uid),
            f"create folder {title}",
            "folders:create",
            changes=True,
        )

    def delete_folder(self, uid: str) -> None:
        """Delete a folder with its contents."""
        self.call(lambda: self.face.folder.delete_folder(quote(uid, safe="")), "delete the folder", "folders:delete")

    def folder_counts(self, uid: str) -> dict[str, int] | None:
        """Return the number of things of each kind in a folder and below; None if Grafana does not report it."""
        path = f"/folders/{quote(uid, safe='')}/counts"
        found = self.ask("GET", path, "count what is in the folder", "folders:read", absent=(404,))
        return {name: count for name, count in found.items() if isinstance(count, int)} if found else None

    def data_sources(self) -> list[dict[str, Any]]:
        """Return all data sources."""
        return self.objects(self.face.datasource.list_datasources, "list the data sources", "datasources:read")

    def query(self, data_source: str, expr: str, *, start_ms: int, end_ms: int) -> list[Series]:
        """Return Prometheus's answer to PromQL at the end of this time.

        Raises GrafanaError also if Prometheus does not answer, or rejects the query.
        """
        what = f"ask data source {data_source}"
        query = {
            "refId": "A",
            "datasource": {"type": "prometheus", "uid": data_source},
            "expr": expr,
            "instant": True,
            "range": False,
            "intervalMs": 15_000,
            "maxDataPoints": 10_000,
        }
        body = {"queries": [query], "from": str(start_ms), "to": str(end_ms)}
        found = self.ask("POST", "/ds/query", what, "datasources:query", body=body, changes=False)
        try:
            result = found["results"]["A"]
            if result.get("error"):
                raise GrafanaError(f"Grafana at {self.url} could not {what}: {shortened(str(result['error']))}")
            return [Series.parse(frame) for frame in result.get("frames") or ()]
        except (KeyError, TypeError, AttributeError, IndexError):
            raise GrafanaError(f"Grafana at {self.url} answered no series when it was to {what}") from None

    def dashboard(self, uid: str) -> dict[str, Any] | None:
        """Return a dashboard with its `meta`, None for a missing one."""
        return self.object(
            lambda: self.face.dashboard.get_dashboard(quote(uid, safe="")),
            f"read dashboard {uid}",
            "dashboards:read",
            (404,),
        )

    def dashboard_message(self, uid: str) -> str:
        """Return the message of the last save of a dashboard."""
        path = f"/dashboards/uid/{quote(uid, safe='')}/versions?limit=1"
        found = self.ask("GET", path, f"read the versions of dashboard {uid}", "dashboards:write")
        versions = found.get("versions") if isinstance(found, dict) else found  # a list until Grafana 11
        newest: dict[str, Any] = max(versions or (), key=lambda each: int(each.get("version", 0)), default={})
        return str(newest.get("message") or "")

    def save_dashboard(self, dashboard: Mapping[str, Any], folder: str, message: str) -> None:
        """Save a dashboard; its `version` must be the present one, so that no later change is lost."""
        command = {"dashboard": dashboard, "folderUid": folder, "message": message, "overwrite": False}
        self.call(
            lambda: self.face.dashboard.update_dashboard(command),
            f"save dashboard {dashboard['uid']}",
            "dashboards:create and dashboards:write",
            changes=True,
        )

    def delete_dashboard(self, uid: str) -> None:
        """Delete a dashboard."""
        self.call(
            lambda: self.face.dashboard.delete_dashboard(quote(uid, safe="")),
            f"delete dashboard {uid}",
            "dashboards:delete",
        )

    def dashboards_in(self, folder: str) -> list[str]:
        """Return the uids of the dashboards in a folder."""
        path = f"/search?type=dash-db&limit=5000&folderUIDs={quote(folder, safe='')}"
        found = self.objects(lambda: self.face.api.GET(path), "list the folder's dashboards", "dashboards:read")
        return sorted(str(each["uid"]) for each in found)


@dataclass(frozen=True, slots=True)
class Series:
    """One series of Prometheus: its labels, and pairs of seconds since the Unix epoch and value."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @classmethod
    def parse(cls, frame: Any) -> Series:
        """Parse a data frame of Grafana. Raises KeyError, TypeError or IndexError if it is not one."""
        times, values = frame["data"]["values"] or ([], [])
        labels = frame["schema"]["fields"][1].get("labels") or {} if times else {}
        points = zip(times, values, strict=True)
        return cls(labels, tuple((ms / 1000.0, float(value)) for ms, value in points if value is not None))


def grafana_of(settings: Settings, sleep: Callable[[float], object] = time.sleep) -> Grafana:
    """Return the Grafana of the settings. Raises SettingError for missing or invalid ones."""
    problems: list[str] = []
    grafana = settings[GrafanaSettings]
    if not grafana.url:
        problems.append("grafana.url is not set; expected where Grafana is, such as https://grafana.example.com")
    token = secret(settings, GrafanaSettings.token, GrafanaSettings.token_file, problems)
    if not token and grafana.token_file is None:
        problems.append("grafana.token is not set; expected a service account's token in it or in grafana.token_file")
    if not re.fullmatch(r"[\x21-\x7e]*", token):
        problems.append(f"{settings.place(GrafanaSettings.token)}: grafana.token: expected nothing but a token")
    ca_file = grafana.ca_file
    if ca_file is not None and not ca_file.is_file():
        problems.append(f"{settings.place(GrafanaSettings.ca_file)}: grafana.ca_file: {ca_file}: expected a file")
    if ca_file is not None and not grafana.url.startswith("https:"):
        place = settings.place(GrafanaSettings.ca_file)
        problems.append(f"{place}: grafana.ca_file is given, but grafana.url is not https; expected it")
    if problems:
        raise SettingError(problems)
    return Grafana(
        grafana.url,
        token,
        ca_file=ca_file,
        timeout_s=grafana.timeout,
        sleep=sleep,
    )
