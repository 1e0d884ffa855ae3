"""The port in a worker: a real agent, bus, runner and server. What is read is scored and shown; a mark is answered."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import httpx
from prometheus_client.parser import text_string_to_metric_families

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.telemetry import Telemetry
from laggard.pipeline.core.records import Frame, Mark, encode
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.metrics.exporter import Exporter, metrics_registry
from laggard.pipeline.settings import Address
from laggard.pipeline.web.app import create_app
from laggard.pipeline.web.listen import Listen
from laggard.pipeline.web.server import serve
from laggard.pipeline.wiring import wire
from laggard.producers.host.agent import Agent
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TICKS = 3


def samples(url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(httpx.get(url + "/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def shows(url: str, operator: str, wanted: Mapping[str, float]) -> bool:
    """Whether these metrics of an operator, each of which it has once, have these values."""
    page = samples(url)
    return all(
        [value for labels, value in page[name] if labels["operator"] == operator] == [each]
        for name, each in wanted.items()
    )


def test_from_counters_to_page(tmp_path: Path) -> None:
    topics, stop = Topics(), threading.Event()
    with ExitStack() as stack:
        bus = stack.enter_context(EmbeddedBus(tmp_path / "laggard.db"))
        bus.create(topics.specs())

        published: list[Frame | Mark] = []

        def publish(records: Sequence[Frame | Mark]) -> None:
            published.extend(records)
            bus.append([Outgoing(topics.name(COUNTERS), "web-1", encode(record), record.ts) for record in records])

        telemetry = Telemetry()
        exporter = Exporter(telemetry, top_rows=3)
        settings = read_settings(environ={"HOME": str(tmp_path)})
        runner = Runner(bus, wire(settings), topics, observers=[exporter], telemetry=telemetry)
        listen = Listen.resolve(Address("127.0.0.1", 0))
        app = create_app(
            listen=listen,
            registry=metrics_registry(exporter),
            recovering=runner.recovering,
            append=lambda mark: publish([mark]),
            host="web-1",
        )
        serving = serve(app, listen, stop)
        stack.callback(serving.close)
        url = serving.url
        assert httpx.get(url + "/-/ready").status_code == 503
        running = threading.Thread(target=runner.run, args=(stop,))
        running.start()
        stack.callback(running.join)
        stack.callback(stop.set)
        until(lambda: httpx.get(url + "/-/ready").status_code == 200)
        agent = Agent(publish, "web-1", interval_s=0.5)
        for _ in range(TICKS):
            agent.tick()
        agent.close()
        assert httpx.post(url + "/marks", json={"note": "slow"}).status_code == 201
        assert len(published) > 3 * TICKS
        for operator, answers in (("gaussian", 1), ("cpu", 0)):
            counted = {
                "laggard_records_total": len(published),
                "laggard_outputs_total": answers,
                "laggard_lag_records": 0,
            }
            until(partial(shows, url, operator, counted))
        page = samples(url)
    scored = [(one["operator"], one["scope"]) for one, _ in page["laggard_score"] if one["host"] == "web-1"]
    assert scored == [
        ("cpu", "host"), ("cpu", "process"), ("gaussian", "host"), ("gaussian", "process"), ("saturation", "host"),
        ("saturation", "limit"),
    ]  # fmt: skip
    young = {one["operator"]: value for one, value in page["laggard_model_young"]}
    assert young == {"cpu": 0, "gaussian": 1, "saturation": 0}
    assert page["laggard_agent_processes"][0][1] > 1
    assert page["laggard_agent_resident_memory_bytes"][0][1] > 1e6
    assert page["laggard_dead_letters_total"][0][1] == 0
    assert page["process_resident_memory_bytes"][0][1] > 1e6
    most = 2 * (3 + 1) + 1 + 3  # the worst three processes, and the host; of saturation the host, and limits
    assert len(page.get("laggard_row_score", [])) <= most
