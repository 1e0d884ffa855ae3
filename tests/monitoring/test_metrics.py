"""The metrics as a real Prometheus has them: scraped from a worker's port, with their exemplars."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.telemetry import Telemetry
from laggard.pipeline.core.records import Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.metrics.exporter import Exporter, metrics_registry
from laggard.pipeline.settings import Address
from laggard.pipeline.web.app import create_app
from laggard.pipeline.web.listen import Listen
from laggard.pipeline.web.server import serve
from laggard.pipeline.wiring import stages
from tests.deploy.files import DEPLOY, documents
from tests.monitoring.servers import api, awaited, query
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.monitoring.fixtures import NewServer

TICKS = 200
FEATURES = [f"feature_{number}_bytes" for number in range(12)]
LAYOUT = make_layout([f"worker-{row}[{row}@1]" for row in range(5)], [f"worker-{row}" for row in range(5)], FEATURES)


def frames(now: float) -> Iterator[Frame]:
    """Steady processes up to now, 5 s apart; of the last two ticks one of them has a hundred times of one feature."""
    draw = np.random.default_rng(1)
    for tick in range(TICKS):
        values = draw.normal(1e6, 1e4, (len(LAYOUT.rows), len(FEATURES)))
        if tick >= TICKS - 2:
            values[3, 7] *= 100.0
        yield Frame("host", "web-1", "process", now - 5.0 * (TICKS - 1 - tick), tick, LAYOUT, values)


OF_TARGETS = {"host": "node-7", "service": "laggard-worker", "pod": "worker-0", "namespace": "laggard"}
"""Labels of targets, such as those that a ServiceMonitor adds; some are names of labels of the metrics."""


@contextmanager
def worker(folder: Path) -> Iterator[tuple[str, Callable[[Sequence[Frame | Mark]], None]]]:
    """A worker with its port; gives its address, and what appends to its input."""
    topics, stop, telemetry = Topics(), threading.Event(), Telemetry()
    with EmbeddedBus(folder / "laggard.db") as bus:
        bus.create(topics.specs())

        def publish(records: Sequence[Frame | Mark]) -> None:
            bus.append([Outgoing(topics.name(COUNTERS), "web-1", encode(record), record.ts) for record in records])

        exporter = Exporter(telemetry, 3, {"gaussian": 1.0})
        runner = Runner(
            bus, stages(read_settings(environ={"HOME": str(folder)})), topics, observers=[exporter], telemetry=telemetry
        )
        listen = Listen.resolve(Address("127.0.0.1", 0))
        registry = metrics_registry(exporter)
        app = create_app(
            listen=listen, registry=registry, recovering=runner.recovering, append=lambda mark: publish([mark]), host=""
        )
        serving = serve(app, listen, stop)
        running = threading.Thread(target=runner.run, args=(stop,))
        running.start()
        try:
            yield serving.url.removeprefix("http://"), publish
        finally:
            stop.set()
            running.join()
            serving.close()


@pytest.mark.slow
def test_prometheus_reads_an_incident_with_its_exemplars(prometheus: NewServer, tmp_path: Path) -> None:
    (sample,) = documents((DEPLOY / "prometheus/prometheus.yml").read_text())
    job = {name: sample["scrape_configs"][0][name] for name in ("job_name", "relabel_configs")}
    with worker(tmp_path) as (address, publish):
        url = prometheus(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                "scrape_configs": [{**job, "static_configs": [{"targets": [address], "labels": OF_TARGETS}]}],
            }
        )
        began = time.time()
        publish([*frames(began), Mark("web-1", began, "slow")])
        (found,) = awaited(lambda: query(url, "laggard_anomaly_value"))
        blamed = {"host": "web-1", "scope": "process", "row": "worker-3", "feature": "feature_7_bytes"}
        assert found["metric"].items() >= blamed.items()
        assert found["metric"].keys() & {*OF_TARGETS, "exported_host"} == {"host", "pod", "namespace"}
        assert 0.9e8 < float(found["value"][1]) < 1.1e8

        def value(expression: str) -> float:
            # A scrape that comes too late leaves everything out until the next one.
            return float(awaited(lambda: query(url, expression))[0]["value"][1])

        assert value("laggard_anomalies_open == 1") == 1.0
        assert value('laggard_anomalies_opened_total{operator="gaussian"}') == 1.0
        assert 0.9e6 < value("laggard_anomaly_usual") < 1.1e6
        assert abs(value("laggard_anomaly_start_timestamp_seconds") - began) <= 5.1
        assert value("laggard_incidents_open == 1") == 1.0
        assert value("laggard_incidents_total") == 1.0
        (joined,) = awaited(lambda: query(url, "laggard_incident_score"))
        assert joined["metric"].items() >= {**blamed, "operator": "gaussian"}.items()
        assert value("laggard_incident_start_timestamp_seconds") == value("laggard_anomaly_start_timestamp_seconds")
        assert 0.9e8 < value("laggard_incident_value") < 1.1e8
        awaited(lambda: query(url, "laggard_marks_total == 1"))
        assert value("laggard_false_alarms_budget_per_day") == 1.0
        assert value("count(laggard_feature_value)") == value("count(laggard_feature_score)") == 9.0

        def exemplars(name: str) -> list[dict[str, str]]:
            parameters = {"query": name, "start": str(began - 86400.0), "end": str(time.time() + 60.0)}
            found = api(url, "/api/v1/query_exemplars", **parameters)["data"]
            return [exemplar["labels"] for series in found for exemplar in series["exemplars"]]

        hosts = awaited(lambda: exemplars("laggard_latency_seconds_bucket"))
        assert hosts == [{"host": "web-1"}] * len(hosts)
        (labels,) = awaited(lambda: exemplars("laggard_anomalies_opened_total"))
        assert list(labels) == ["anomaly"]
        (labels,) = awaited(lambda: exemplars("laggard_incidents_total"))
        assert list(labels) == ["incident"]
        page = httpx.get(f"http://{address}/metrics").text
        done = subprocess.run(
            [path_of("promtool"), "check", "metrics"],
            input=page,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
        assert "laggard_anomaly_score{" in page
