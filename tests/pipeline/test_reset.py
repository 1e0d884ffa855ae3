"""`laggard reset` and incidents: what is published again is joined again; else it is as if nothing had happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from tests.pipeline.core.engine.conftest import TOPICS, WIRED, append, at, runner, stop
from tests.pipeline.core.engine.test_joining import BOTH, TROUBLED, drain, incidents, left

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.core.records.outputs import Incident

BEFORE = len(TROUBLED) - 100
"""Records before the reset: in the middle of a trouble."""


@pytest.fixture
def scene(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBus]:
    """A bus with the first records, on a machine whose own configuration and state take no part."""
    monkeypatch.setattr("laggard.pipeline.wiring.wire", lambda _: (WIRED,))
    monkeypatch.setenv("LAGGARD_OPERATORS", "gaussian")  # those of pools are wired apart
    monkeypatch.setattr("laggard.pipeline.core.engine.runner.IDLE_S", 0.0)
    # The records are of 1970, which a user who types so few digits does not mean.
    monkeypatch.setattr("laggard.pipeline.cli.reset.parse_time", lambda text, _: float(text))
    with EmbeddedBus(nowhere / "bus.db") as bus:
        bus.create(TOPICS.specs())
        append(bus, TROUBLED[:BEFORE])
        yield bus


def work(bus: EmbeddedBus) -> list[Incident]:
    """Return the incidents that a worker reports."""
    before = len(incidents(bus))
    worker = runner(bus, BOTH)
    drain(worker, bus)
    stop(worker)
    return incidents(bus)[before:]


@pytest.mark.parametrize(
    "to",
    ["earliest", str(at(60)), *(pytest.param(to, marks=pytest.mark.slow) for to in (str(at(90)), "here", "latest"))],
)
def test_incidents_are_joined_again_where_anomalies_are_published_again(
    scene: EmbeddedBus, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = work(scene)
    states = left(scene)[1]
    open_now = {each.id for each in told} - {each.id for each in told if each.change == "closed"}
    assert open_now
    assert run(["reset", "--bus", str(scene.path), "--set", "topics.prefix=t.", "--yes", "--json", "--to", to]) == 0
    done = json.loads(capsys.readouterr().out)["operators"]
    assert [each["operator"] for each in done] == ["drift", "incidents"]
    begins = {"earliest": 0.0, "here": at(1000), "latest": at(1000)}.get(to) or float(to if to[0].isdigit() else 0.0)
    again = work(scene)
    assert again == [each for each in told if each.ts >= begins], "the same records, by ids and numbers too"
    assert left(scene)[1] == states
    append(scene, TROUBLED[BEFORE:])
    assert {each.id for each in work(scene) if each.change == "closed"} >= open_now
