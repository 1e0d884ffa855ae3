"""Frames of any scope: each is scored by an operator of its own, asked by marks, and shares the budget of its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from laggard.operators.deviations import Deviations
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.records import Frame, Mark, make_layout
from laggard.pipeline.core.records.outputs import Anomaly, Progress, RankingOutput
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.scoring.scopes import MOST_SCOPES, Scopes
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import UNLEARNED, Wired
from laggard.pipeline.wiring import wire
from tests.pipeline.core.engine.conftest import INPUT, frame, record, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records import Layout

INTERVAL_S: Final = 60.0
BEGIN: Final = 1.7e9
QUEUES: Final = make_layout(("orders", "mail"), ("orders", "mail"), ("length_count",))
STORE: Final = make_layout(("store",), ("store",), ("available_ratio",))
PROCESSES: Final = make_layout(("nginx[1]", "dump[2]"), ("nginx", "dump"), ("cpu_user_ratio",))


@pytest.fixture
def wired() -> dict[str, Wired]:
    return {each.name: each for each in wire(read_settings(environ={"HOME": "/nowhere"}))}


def ticks(scope: str, layout: Layout, usual: float, number: int, start: int = 0, **wrong: float) -> Iterator[Frame]:
    """Frames a minute apart; `wrong`: values of rows."""
    random = np.random.default_rng(start)
    for tick in range(start, start + number):
        values = random.normal(usual, 0.01 * usual, (len(layout.rows), 1))
        for row, value in wrong.items():
            values[layout.rows.index(row)] = value
        yield Frame("host", "h1", scope, BEGIN + tick * INTERVAL_S, tick, layout, values)


def of(task: Task) -> Scopes:
    keyed = task.states.get("h1")
    assert isinstance(keyed, Scopes)
    return keyed


def budgets(task: Task) -> dict[str, float]:
    found: dict[str, float] = {}
    for scope, stream in of(task).streams.items():
        if stream.begun:
            assert isinstance(stream.operator, Deviations)
            found[scope] = round(stream.operator.false_alarms_per_day, 6)
    return found


def test_a_row_of_any_scope_is_reported_while_it_deviates(wired: dict[str, Wired]) -> None:
    task = Task(wired["gaussian"], INPUT)
    assert told(task, ticks("queue", QUEUES, 50.0, 300)) == []
    anomaly, *others = told(task, ticks("queue", QUEUES, 50.0, 20, 300, orders=900.0))
    assert isinstance(anomaly, Anomaly)
    assert anomaly.blame is not None
    assert (anomaly.scope, anomaly.blame.row) == ("queue", "orders")
    assert anomaly.sentence.startswith("`orders`")
    assert all(isinstance(each, Progress) and each.change != "ended" for each in others)
    *_, ended = told(task, ticks("queue", QUEUES, 50.0, 10, 320))
    assert isinstance(ended, Progress)
    assert ended.change == "ended"


def test_a_fall_is_reported_too(wired: dict[str, Wired]) -> None:
    task = Task(wired["gaussian"], INPUT)
    told(task, ticks("shop", STORE, 0.99, 300))
    (anomaly,) = (each for each in told(task, ticks("shop", STORE, 0.99, 5, 300, store=0.5)) if type(each) is Anomaly)
    assert "50 %" in anomaly.sentence


@pytest.mark.parametrize("scope", sorted(UNLEARNED))
def test_what_laggard_reports_about_itself_and_limits_are_not_learned(wired: dict[str, Wired], scope: str) -> None:
    for name in ("gaussian", "cpu"):
        task = Task(wired[name], INPUT)
        told(task, [frame("h1", 1, 5.0, scope=scope)])
        assert len(task.states) == 0


def test_only_operators_that_take_any_rows_see_other_scopes(wired: dict[str, Wired]) -> None:
    taken = {name for name, each in wired.items() if each.takes("queue")}
    assert taken == {"gaussian"}


def test_the_scopes_of_a_host_are_bounded(wired: dict[str, Wired]) -> None:
    task = Task(wired["gaussian"], INPUT)
    found = told(task, [frame("h1", number, 5.0, scope=f"scope-{number}") for number in range(MOST_SCOPES + 5)])
    assert len(of(task).streams) == MOST_SCOPES
    refused = [each for each in found if isinstance(each, DeadLetter)]
    assert len(refused) == 5 + len(task.wired.scopes)
    assert refused[0].reason.startswith("t.counters[0]@14: expected at most 16 scopes of 'h1': 'process', 'host', ")
    assert refused[0].reason.endswith("; got 'scope-14'")
    assert told(task, [frame("h1", 99, 5.0)]) == [], "others go on"


def test_the_budget_is_shared_by_the_scopes_that_have_frames(wired: dict[str, Wired]) -> None:
    task = Task(wired["gaussian"], INPUT)
    told(task, ticks("queue", QUEUES, 50.0, 3))
    assert budgets(task) == {"queue": 1.0}
    told(task, ticks("process", PROCESSES, 0.5, 3, 3))
    assert budgets(task) == {"process": 0.75, "queue": 0.25}
    told(task, ticks("host", STORE, 0.5, 3, 6))
    assert budgets(task) == {"process": 0.6, "host": 0.2, "queue": 0.2}


def restarted(task: Task, wired: Wired) -> Task:
    again = Task(wired, INPUT)
    task.states.save_all(task.position)
    again.states.load(task.states.take(task.position))
    again.states.loaded(task.position)
    again.position = task.position
    return again


def test_a_restart_changes_nothing(wired: dict[str, Wired]) -> None:
    frames = [*ticks("queue", QUEUES, 50.0, 120), *ticks("process", PROCESSES, 0.5, 120, 120)]
    frames += [*ticks("queue", QUEUES, 50.0, 9, 240, orders=900.0), *ticks("shop", STORE, 0.9, 9, 240)]
    undisturbed = Task(wired["gaussian"], INPUT)
    expected = told(undisturbed, frames)
    assert any(isinstance(each, Anomaly) for each in expected)
    task, outputs = Task(wired["gaussian"], INPUT), []
    for number, each in enumerate(frames):
        outputs += told(task, [each])
        if number % 50 == 49:
            before, task = budgets(task), restarted(task, wired["gaussian"])
            assert budgets(task) == before
    assert outputs == expected
    assert list(of(task).streams) == list(of(undisturbed).streams)


def test_a_mark_asks_all_scopes(wired: dict[str, Wired]) -> None:
    task = Task(wired["gaussian"], INPUT)

    def asked(tick: int, number: int) -> Any:
        mark = Mark("h1", BEGIN + tick * INTERVAL_S, "slow", number)
        task.process(record(mark, task.position))
        (found,) = (each for each in task.outputs if isinstance(each, RankingOutput))
        task.outputs.clear()
        return found

    told(task, ticks("queue", QUEUES, 50.0, 300))
    assert {row.row for row in asked(299, 1).ranking.rows} == {"orders", "mail"}
    told(task, ticks("process", PROCESSES, 0.5, 300))
    assert {row.row for row in asked(299, 2).ranking.rows} == set(PROCESSES.rows), "nothing is wrong"
    told(task, ticks("process", PROCESSES, 0.5, 5, 300))
    told(task, ticks("queue", QUEUES, 50.0, 5, 300, mail=900.0))
    found = asked(304, 3)
    assert found.ranking.rows[0].row == "mail"
    assert "`mail`" in found.sentence
    told(task, ticks("process", PROCESSES, 0.5, 5, 305))
    told(task, ticks("queue", QUEUES, 50.0, 5, 305))
    told(task, ticks("process", PROCESSES, 0.5, 200, 310))
    assert {row.row for row in asked(509, 4).ranking.rows} == set(PROCESSES.rows), "the queues are silent by now"
