"""From a slow process to the people: a worker, a Prometheus with laggard's rules, an Alertmanager with its route.

Everything is a real server. Time goes sixty times as fast in the rules and in the route, and in no other way changed.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
import time
import urllib.request
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.stage import REPLAY_HEADER
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.grafana.labels import JOB, span
from laggard.pipeline.grafana.rules import prometheus_rules
from tests.deploy.files import DEPLOY, documents
from tests.monitoring.servers import api, awaited, query
from tests.monitoring.worker import running_worker
from tests.programs import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.monitoring.fixtures import NewServer

pytestmark = pytest.mark.slow

FASTER: Final = 60.0

PROGRAMS: Final = ("nginx", "postgres", "python3", "sshd", "redis")
FEATURES: Final = (*(f"counter_{number}" for number in range(11)), "memory_rss_bytes")
LAYOUT: Final = make_layout([f"{name}[{pid}@1]" for pid, name in enumerate(PROGRAMS)], PROGRAMS, FEATURES)
SLOW: Final = (PROGRAMS.index("python3"), FEATURES.index("memory_rss_bytes"))

EVIDENCE: Final = (
    r"memory_rss_bytes reached (\d+\.?\d*)MB, usually (?:99\d\.?\d*kB|1(?:\.0\d*)?MB) ± (?:9|10)(?:\.\d+)?kB"
)

HOSTS: Final = ("web-1", "web-2")
BEFORE_TICKS, BEFORE_TICK_S = 420, 5.0
"""What is learned from before: 35 minutes, after which a model is not young. It is not live."""

QUIET_S: Final = 310.0
"""A calm of so long closes an incident; it is sent at once, dated ahead."""


class Message(NamedTuple):
    """What a receiver got."""

    to: str
    said: Any


class Receivers:
    """A chat, a gateway of tickets and a pager."""

    def __init__(self) -> None:
        got = self.got = list[Message]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                got.append(Message(self.path.strip("/"), said))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def chat(self) -> list[dict[str, Any]]:
        """What a person reads, newest last."""
        return [attachment for to, said in self.got if to == "chat" for attachment in said["attachments"]]

    def alerts(self, to: str, name: str = "") -> list[dict[str, Any]]:
        """What was said to a gateway, of one alert or all, newest last."""
        told = [alert for at, said in self.got if at == to for alert in said["alerts"]]
        return [alert for alert in told if not name or alert["labels"]["alertname"] == name]


class Machines:
    """Two machines, a tick a second of each; `slow` makes a process of both hold a hundred times its memory."""

    def __init__(self, path: Path) -> None:
        self.slow = False
        self._path = path
        self._draw = np.random.default_rng(3)
        self._sequence = 0
        self._ahead_s = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        with EmbeddedBus(path) as bus:
            bus.create(Topics().specs())
            now = time.time()
            past = [now - BEFORE_TICK_S * tick for tick in range(BEFORE_TICKS, 0, -1)]
            bus.append([record for ts in past for record in self._tick(ts, ((REPLAY_HEADER, b""),))])

    def start(self) -> None:
        self._thread.start()

    def calm_down(self) -> None:
        """Nothing is slow any more, and has not been for long."""
        with self._lock, EmbeddedBus(self._path) as bus:
            self.slow = False
            before = time.time() + self._ahead_s
            self._ahead_s += QUIET_S
            bus.append([record for ahead_s in range(1, int(QUIET_S)) for record in self._tick(before + ahead_s)])

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with EmbeddedBus(self._path) as bus:
            while not self._stop.wait(1.0):
                with self._lock:
                    bus.append(self._tick(time.time() + self._ahead_s))

    def _tick(self, ts: float, headers: tuple[tuple[str, bytes], ...] = ()) -> list[Outgoing]:
        records = []
        self._sequence += 1
        for host in HOSTS:
            values = self._draw.normal(1e6, 1e4, (len(PROGRAMS), len(FEATURES)))
            if self.slow:
                values[SLOW] *= 100.0
            frame = Frame("host", host, "process", ts, self._sequence, LAYOUT, values)
            records.append(Outgoing(Topics().name(COUNTERS), host, encode(frame), ts, headers))
        return records


def faster(route: dict[str, Any]) -> dict[str, Any]:
    """A route, and those below it, whose times are divided as those of the rules."""
    units = {"s": 1, "m": 60, "h": 3600}
    changed = {**route, "routes": [faster(below) for below in route.get("routes", [])]}
    for name in {"group_wait", "group_interval", "repeat_interval"} & set(route):
        changed[name] = span(float(route[name][:-1]) * units[route[name][-1]] / FASTER)
    return changed


def alertmanager_config(to: Receivers, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """That of laggard, but for where the receivers are, and the files that it names."""
    (config,) = documents((DEPLOY / "alertmanager/alertmanager.yml").read_text())
    (folder / "chat_url").write_text(f"{to.url}/chat")
    for receiver in config["receivers"]:
        for each in receiver.get("webhook_configs", []):
            each["url"] = f"{to.url}/{receiver['name']}"
        for each in receiver.get("slack_configs", []):
            each["api_url_file"] = str(folder / "chat_url")
    return {**config, "route": faster(config["route"])}, {
        "laggard.tmpl": (DEPLOY / "alertmanager/laggard.tmpl").read_text()
    }


def silence_as_the_runbook_says(url: str, **places: str) -> None:
    runbook = (DEPLOY / "runbooks/LaggardIncidentLasting.md").read_text()
    (line,) = re.findall(r"^    (amtool silence add .*)$", runbook, re.MULTILINE)
    for place, name in places.items():
        line = line.replace(f"={place}", f"={name}")
    command = [path_of("amtool"), f"--alertmanager.url={url}", *shlex.split(line)[1:]]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.timeout(240)
def test_an_alert_reaches_people_and_ends(prometheus: NewServer, alertmanager: NewServer, tmp_path: Path) -> None:
    to, machines = Receivers(), Machines(tmp_path / "laggard.db")
    try:
        with running_worker(tmp_path / "laggard.db") as (address, process):
            manager = alertmanager(*alertmanager_config(to, tmp_path))
            url = prometheus(
                {
                    "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
                    "rule_files": [str(tmp_path / "*.rules.yaml")],
                    "alerting": {
                        "alertmanagers": [{"static_configs": [{"targets": [manager.removeprefix("http://")]}]}]
                    },
                    "scrape_configs": [
                        {
                            "job_name": JOB,
                            "static_configs": [{"targets": [address], "labels": {"cluster": "eu-1"}}],
                        }
                    ],
                },
            )
            machines.start()
            known = 'count(laggard_model_young{operator="gaussian"} == 0 and laggard_anomalies_open == 0) == 2'
            awaited(lambda: query(url, f"{known} and on () sum(laggard_lag_records) < 5"), within_s=60)
            # Only now: the rules would take the seconds until then for minutes without a scrape or a frame.
            (tmp_path / "laggard.rules.yaml").write_text(json.dumps(prometheus_rules(FASTER)))
            urllib.request.urlopen(urllib.request.Request(f"{url}/-/reload", method="POST"), timeout=30).close()
            awaited(lambda: query(url, "host:laggard_score:max"))
            assert to.chat() == []
            silence_as_the_runbook_says(manager, HOST="web-2", ROW="python3", ME="me")

            began = time.time()
            machines.slow = True
            told = awaited(to.chat, within_s=60)[0]
            check_what_is_told(told, began)
            ticket = awaited(lambda: to.alerts("ticket", "LaggardIncidentLasting"), within_s=60)[0]
            about = {"host": "web-1", "scope": "process", "row": "python3", "feature": "memory_rss_bytes"}
            own = {"alertname": "LaggardIncidentLasting", "severity": "warning"}
            assert ticket["labels"] == {**own, **about, "cluster": "eu-1"}
            said = ticket["annotations"]["summary"]
            found = re.fullmatch(rf"process python3 on host web-1, for [\d.ms ]+: {EVIDENCE}", said)
            assert found, said
            assert 90 < float(found[1]) < 110
            at_once, lasting = (
                datetime.fromisoformat(known_of(manager, "web-1")[name]["startsAt"])
                for name in ("LaggardIncident", "LaggardIncidentLasting")
            )
            assert lasting - at_once >= timedelta(seconds=120.0 / FASTER), "who has a ticket knows that it lasted"
            both = {"LaggardIncident", "LaggardIncidentLasting"}
            silenced = awaited(lambda: known_of(manager, "web-2"), lambda found: found.keys() == both).values()
            assert {alert["status"]["state"] for alert in silenced} == {"suppressed"}
            assert all(alert["status"]["silencedBy"] for alert in silenced)

            machines.calm_down()
            over = awaited(lambda: [each for each in to.chat() if each["title"].startswith("Resolved: ")], within_s=60)
            assert over[0]["title"] == "Resolved: web-1 in eu-1"
            ended = {"status": "resolved", "labels": ticket["labels"]}
            awaited(lambda: [one for one in to.alerts("ticket") if one.items() >= ended.items()], within_s=60)
            awaited(lambda: not query(url, "ALERTS"))

            machines.stop()
            process.terminate()
            process.wait(30)
            page = awaited(lambda: to.alerts("page", "LaggardDown"), within_s=60)[0]
            labels = {"alertname": "LaggardDown", "severity": "critical", "cluster": "eu-1", "job": JOB}
            assert page["labels"] == labels
        assert "web-2" not in json.dumps(to.got), "it was silenced"
        assert to.alerts("page") == to.alerts("page", "LaggardDown")
    finally:
        machines.stop()
        to.close()


def known_of(manager: str, host: str) -> dict[str, dict[str, Any]]:
    """By their names, the alerts of a host that Alertmanager knows."""
    alerts = api(manager, "/api/v2/alerts")
    return {each["labels"]["alertname"]: each for each in alerts if each["labels"].get("host") == host}


def check_what_is_told(told: dict[str, Any], began: float) -> None:
    """Host, process, feature, value and what is usual, when, and what to type and to open next."""
    assert told["title"] == "web-1 in eu-1"
    lines = told["text"].splitlines()
    # At first it is what was judged, of some seconds, which grows.
    assert re.fullmatch(rf"process python3 on host web-1: {EVIDENCE}", lines[0]), lines[0]
    assert "has been behaving unusually since 20" in lines[1]
    assert "young" not in lines[1]
    why = re.fullmatch(r"Why: laggard why --host web-1 --at (\d+)", lines[2])
    assert why, lines[2]
    assert began - 2 <= int(why[1]) <= time.time()
    link = re.fullmatch(
        r"Dashboard: (http://\S+/d/laggard-host\?from=(\d+)&to=now&var-host=web-1&var-cluster=eu-1)", lines[3]
    )
    assert link, lines[3]
    assert told["title_link"] == link[1]
    assert float(link[2]) < 1000 * began
    assert lines[4].endswith("/deploy/runbooks/LaggardIncident.md")
