"""What people say of anomalies: what it excuses ends and is not told again, all else is, and it can be taken back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from laggard.pipeline.alarms.tolerance import LONGEST_S, MOST
from laggard.pipeline.core.bus import Incoming
from laggard.pipeline.core.records import Case, Feedback, Frame, encode, make_layout
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.outputs import Anomaly, Notice, Progress, write_output
from laggard.pipeline.scoring.task import Task
from tests.pipeline.core.engine.conftest import INPUT, moved
from tests.pipeline.scoring.test_lasting import COMPUTES, MINUTE_S, ONSET, WIRED, WRITES, Fault, frames, minute

if TYPE_CHECKING:
    from collections.abc import Sequence

USUAL: Final = Feedback("host", "web-1", ONSET + 5 * MINUTE_S, "a", "usual", (Case("report", ("cpu",)),))
AGAIN: Final = (COMPUTES._replace(end_min=10.0), COMPUTES._replace(begin_min=40.0, end_min=60.0))
LEAK: Final = Fault("report[2]", "memory_rss_bytes", 4e9, 3.0, 30.0)


def given(minutes: float, faults: Sequence[Fault], *said: Feedback) -> list[Frame | Feedback]:
    """The frames, and what was said between them."""
    return sorted([*frames(minutes, *faults), *said], key=lambda each: each.ts)


def told(task: Task, records: Sequence[Frame | Feedback]) -> list[Any]:
    """What comes out."""
    for offset, each in enumerate(records, start=task.position):
        task.process(Incoming(INPUT, offset, each.key, encode(each), each.ts))
    outputs = [each for each in task.outputs if not isinstance(each, Notice)]
    task.outputs.clear()
    return outputs


def new_task() -> Task:
    return Task(WIRED, INPUT, snapshot_records=100_000)


def run(minutes: float, faults: Sequence[Fault], *said: Feedback) -> list[Any]:
    return told(new_task(), given(minutes, faults, *said))


def opened(outputs: Sequence[Any]) -> list[tuple[str, float]]:
    """The anomalies: whom each blames, and since when, in minutes."""
    found = [each for each in outputs if isinstance(each, Anomaly)]
    return [
        (each.blame.name if each.blame else "", minute(each.ts if math.isnan(each.onset_ts) else each.onset_ts))
        for each in found
    ]


def ended(outputs: Sequence[Any]) -> list[tuple[float, str]]:
    """The ends: when they were told, in minutes, and what a person said."""
    return [
        (minute(each.ts), each.feedback) for each in outputs if isinstance(each, Progress) and each.change == "ended"
    ]


def test_what_is_usual_ends_at_once_and_is_not_told_again() -> None:
    outputs = run(90, AGAIN, USUAL)
    assert [name for name, _ in opened(outputs)] == ["report"]
    assert ended(outputs) == [(5.0, "usual")]
    (said,) = (each for each in outputs if isinstance(each, FeedbackOutput))
    assert (said.feedback, said.operator, said.live) == (USUAL, "gaussian", True)
    (last,) = (each for each in outputs if isinstance(each, Progress) and each.change == "ended")
    assert last.sentence == (
        "By feedback it is usual, and is no longer reported. The most likely culprit was `report` (pid 2)."
    )


def test_without_it_the_second_one_is_told() -> None:
    assert [name for name, _ in opened(run(90, AGAIN))] == ["report", "report"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(WRITES._replace(end_min=30.0), id="of another program"),
        pytest.param(LEAK, id="of another resource"),
    ],
)
def test_what_it_does_not_speak_of_is_told(other: Fault) -> None:
    found = opened(run(60, (COMPUTES, other), replace(USUAL, ts=ONSET + 2 * MINUTE_S)))
    assert [name for name, _ in found] == ["report", other.row.partition("[")[0]]


def test_what_is_much_larger_is_told() -> None:
    """The excess that was said to be usual, and half as much more."""
    small, large = (Case("report", ("cpu",), "cpu_user_ratio", excess) for excess in (0.5, 0.7))
    begun = ONSET - MINUTE_S
    assert opened(run(30, (COMPUTES,), replace(USUAL, ts=begun, cases=(small,)))) != []
    assert opened(run(30, (COMPUTES,), replace(USUAL, ts=begun, cases=(large,)))) == []


def test_a_deviation_of_unknown_size_excuses_its_own_counter_alone() -> None:
    other, own = (Case("report", ("cpu",), feature) for feature in ("cpu_system_ratio", "cpu_user_ratio"))
    said = {case: run(30, AGAIN[:1], replace(USUAL, ts=ONSET - MINUTE_S, cases=(case,))) for case in (other, own)}
    assert [name for name, _ in opened(said[other])] == ["report"]
    assert not opened(said[own])


def test_what_is_expected_is_told_after_its_time() -> None:
    until_ts = ONSET + 20 * MINUTE_S
    outputs = run(45, (COMPUTES,), replace(USUAL, says="expected", until_ts=until_ts))
    (first, second) = opened(outputs)
    assert first[0] == second[0] == "report"
    assert second[1] == pytest.approx(0.0, abs=0.26)
    anomaly = [each for each in outputs if isinstance(each, Anomaly)][1]
    assert 20.0 <= minute(anomaly.ts) <= 20.5
    assert [said for _, said in ended(outputs)] == ["expected", ""]


def test_what_is_expected_before_it_begins_is_not_told() -> None:
    """Nor what else happens on the host, if it speaks of all."""
    said = replace(USUAL, ts=ONSET - 60 * MINUTE_S, says="expected", until_ts=ONSET + 60 * MINUTE_S, cases=())
    assert opened(run(60, (COMPUTES, WRITES), said)) == []


def test_it_can_be_taken_back() -> None:
    back = replace(USUAL, ts=ONSET + 12 * MINUTE_S, says="withdrawn", cases=())
    expected = replace(USUAL, says="expected", until_ts=ONSET + 60 * MINUTE_S)
    outputs = run(45, (COMPUTES,), expected, back)
    assert len(opened(outputs)) == 2
    assert minute([each for each in outputs if isinstance(each, Anomaly)][1].ts) == pytest.approx(12.0, abs=0.51)


def test_it_holds_for_a_while() -> None:
    long_ago = replace(USUAL, ts=ONSET - LONGEST_S + MINUTE_S)
    ((name, since),) = opened(run(30, (COMPUTES,), long_ago))
    assert name == "report"
    assert since == pytest.approx(0.0, abs=1.6)


def test_what_is_said_twice_is_a_duplicate() -> None:
    task = new_task()
    outputs = told(task, given(30, (COMPUTES,), USUAL, replace(USUAL, ts=USUAL.ts + 1.0)))
    assert sum(isinstance(each, FeedbackOutput) for each in outputs) == 1
    assert task.telemetry.duplicates == 1


def test_what_is_remembered_is_bounded() -> None:
    task = new_task()
    for number in range(MOST + 10):
        task.receive(Incoming(INPUT, number, "web-1", b"", USUAL.ts), replace(USUAL, id=f"{number}"))
    keyed = task.states.get("web-1")
    assert keyed is not None
    assert [each.id for each in keyed.tolerance.feedback] == [f"{number}" for number in range(10, MOST + 10)]


def test_another_key_is_refused() -> None:
    task = new_task()
    task.process(Incoming(INPUT, 0, "web-2", encode(USUAL), USUAL.ts))
    (letter,) = task.outputs
    assert "expected the record's key 'web-2', got 'web-1'" in letter.reason  # type: ignore[union-attr]


@pytest.mark.parametrize("cut_min", [5.1, *(pytest.param(cut, marks=pytest.mark.slow) for cut in (4.0, 30.0, 45.0))])
@pytest.mark.parametrize("says", ["usual", "expected"])
def test_a_state_that_was_restored_in_the_middle_tells_the_same(says: Any, cut_min: float) -> None:
    said = replace(USUAL, says=says, until_ts=ONSET + 50 * MINUTE_S if says == "expected" else math.nan)
    records = given(75, AGAIN, said)
    want = told(new_task(), records)
    cut = next(place for place, each in enumerate(records) if minute(each.ts) > cut_min)
    one = new_task()
    got = told(one, records[:cut])
    got += told(moved(one, new_task()), records[cut:])
    assert list(map(write_output, got)) == list(map(write_output, want))


def test_a_snapshot_at_the_feedback_has_the_end_that_it_caused() -> None:
    records = given(30, (COMPUTES,), USUAL)
    cut = next(place for place, each in enumerate(records) if isinstance(each, Feedback)) + 1
    one, two = (Task(WIRED, INPUT, snapshot_records=1) for _ in range(2))
    told(one, records[:cut])
    two.states.load(one.states.take(one.position))
    two.states.loaded(one.position)
    two.position = one.position
    assert list(map(write_output, told(two, records[cut:]))) == list(map(write_output, told(one, records[cut:])))
    assert not any(isinstance(each, Progress) for each in told(two, []))


def test_another_key_that_falls_silent_is_told_after_one_was_excused() -> None:
    other = [replace(each, key="web-2") for each in frames(400, COMPUTES)]
    fault = [each for each in other if minute(each.ts) <= 6.0 or minute(each.ts) > 399.0]
    calm = [replace(each, key="web-3") for each in frames(300)]
    mine = [each for each in frames(5, COMPUTES) if minute(each.ts) <= 5.0]
    records: list[Any] = sorted([*mine, *fault, *calm, USUAL], key=lambda each: each.ts)
    ends = [each for each in told(new_task(), records) if isinstance(each, Progress) and each.change == "ended"]
    assert [(each.key, each.feedback) for each in ends[:2]] == [("web-1", "usual"), ("web-2", "")]
    assert minute(ends[1].silent_since_ts) == pytest.approx(6.0, abs=0.26)


def test_what_was_told_as_too_large_is_told_to_its_end_and_is_not_usual_after_it() -> None:
    small = replace(USUAL, ts=ONSET - MINUTE_S, cases=(Case("report", ("cpu",), "cpu_user_ratio", 0.2),))
    outputs = run(90, AGAIN, small)
    assert [name for name, _ in opened(outputs)] == ["report", "report"]
    assert [said for _, said in ended(outputs)] == ["", ""]


def test_what_has_grown_since_it_was_told_is_usual_as_it_is_now() -> None:
    grows = (COMPUTES._replace(more=0.5), COMPUTES._replace(more=0.4, begin_min=3.0))
    told_of = Case("report", ("cpu",), "cpu_user_ratio", 0.5)
    assert len(opened(run(30, grows, replace(USUAL, cases=(told_of,))))) == 1


def test_withdrawing_unknown_feedback_makes_no_state() -> None:
    task = new_task()
    told(task, [replace(USUAL, says="withdrawn")])
    assert (len(task.states), task.telemetry.duplicates) == (0, 1)


def host(minutes: float, *shortages: str) -> list[Frame]:
    """The host itself: two hours of calm, then it lacks these."""
    layout = make_layout(("web-1",), ("web-1",), ("pressure_cpu_some_ratio", "pressure_io_some_ratio", "load_1m"))
    random = np.random.default_rng(2)
    found = []
    for tick in range(round((120.0 + minutes) * 12)):
        ts = ONSET - 120 * MINUTE_S + 5.0 * tick
        values = np.abs(random.normal([[0.01, 0.005, 1.0]], [[0.002, 0.001, 0.1]]))
        for each in shortages:
            values[0, layout.features.index(each)] += 0.8 * (ts > ONSET)
        found.append(Frame("host", "web-1", "host", ts, tick, layout, values))
    return found


@pytest.mark.parametrize(
    ("shortages", "blamed"),
    [
        (["pressure_cpu_some_ratio"], []),
        (["pressure_io_some_ratio"], [("disk",)]),
        (["pressure_cpu_some_ratio", "pressure_io_some_ratio"], [("disk",)]),
    ],
)
def test_of_a_host_what_it_lacks_beside_is_told(shortages: list[str], blamed: list[tuple[str, ...]]) -> None:
    case = Case("web-1", ("cpu",), "pressure_cpu_some_ratio", 1.0)
    said = replace(USUAL, ts=ONSET - MINUTE_S, cases=(case,))
    records: list[Any] = sorted([*host(3, *shortages), said], key=lambda each: each.ts)
    found = [each for each in told(new_task(), records) if isinstance(each, Anomaly)]
    assert [each.blame.resources for each in found if each.blame] == blamed
