"""Asking for the cause on a host whose rows are not processes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.history.watch import Watch
from laggard.pipeline.history.why import History
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.wiring import asked
from tests.pipeline.history.conftest import START, TOPICS, append, frames, work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TICK_S = 30.0
TICKS, WRONG = 400, 20
QUEUES = make_layout(("orders", "mail"), ("orders", "mail"), ("length_count",))
STORE = make_layout(("store",), ("store",), ("available_ratio",))


def at(tick: int) -> float:
    return START + tick * TICK_S


def queues() -> Iterator[Frame]:
    """Two scopes at once: a queue grows, and a store fails, at the end; the store the more unusual."""
    random = np.random.default_rng(1)
    for tick in range(TICKS):
        wrong = tick >= TICKS - WRONG
        lengths = random.normal([[50.0], [20.0]], [[2.0], [1.0]]) * [[4.0 if wrong else 1.0], [1.0]]
        yield Frame("host", "broker-1", "queue", at(tick), tick, QUEUES, lengths)
        available = np.array([[min(random.normal(0.995, 0.002), 1.0) * (0.6 if wrong else 1.0)]])
        yield Frame("host", "broker-1", "shop", at(tick) + 1.0, tick, STORE, available)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path_factory.mktemp("scopes") / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        append(bus, queues())
        append(bus, frames("web-1", range(100)))
        work(bus, [asked(read_settings(environ={}))])
        yield bus


@pytest.fixture
def history(bus: EmbeddedBus) -> History:
    return History(bus, TOPICS, asked(read_settings(environ={})))


def test_the_most_anomalous_scope_answers(history: History) -> None:
    answer = history.ask("broker-1", None, 5, 5)
    assert (answer.frame.scope, [row.name for row in answer.verdict.culprits]) == ("shop", ["store"])
    assert answer.began == pytest.approx(at(TICKS - WRONG) + 1.0, abs=TICK_S), "it fell then"
    assert not answer.began_before


def test_before_anything_is_wrong_nothing_is(history: History) -> None:
    answer = history.ask("broker-1", at(TICKS - WRONG - 5), 5, 5)
    assert not answer.verdict.culprits
    assert answer.frame.ts <= at(TICKS - WRONG - 4)


def test_processes_answer_where_nothing_else_is_wrong(history: History) -> None:
    assert history.ask("web-1", None, 5, 5).frame.scope == "process"


def test_a_watch_follows_them(bus: EmbeddedBus, history: History) -> None:
    watch = Watch(history, "broker-1")
    answer = watch.answer(5, 5)
    assert answer is not None
    assert answer.frame.scope == "shop"
    row = answer.ranking.rows[0]
    series = watch.series(answer, row.row, row.features[0].feature, answer.frame.scope)
    assert len(series.points) >= WRONG
    append(bus, [Frame("host", "broker-1", "shop", at(TICKS) + 1.0, TICKS, STORE, np.array([[0.5]]))])
    assert watch.advance()
    assert watch.ts == at(TICKS) + 1.0


def test_why_reports_rows_of_other_scopes(bus: EmbeddedBus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--bus", str(bus.path), "--set", f"state={tmp_path}", "--host", "broker-1"]
    assert run(["why", *options, "--at", f"@{at(TICKS - 1):.0f}"]) == 0
    out = capsys.readouterr().out
    assert "`store` is behaving unusually: its available_ratio is" in out
    assert re.search(r"since \S+ \(9(\.5)? min\)\.", out), out
