"""What people say of anomalies: what it excuses ends and is not told again, all else is, and it can be taken back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from laggard.pipeline.bus import Incoming
from laggard.pipeline.engine.task import Task
from laggard.pipeline.incidents.tolerance import KEPT_S, MOST
from laggard.pipeline.records import Case, Feedback, Frame, encode
from laggard.pipeline.records.outputs import Anomaly, FeedbackOutput, Notice, Progress, write_output
from tests.pipeline.engine.conftest import INPUT, moved
from tests.pipeline.engine.test_lasting import COMPUTES, MINUTE_S, ONSET, WIRED, WRITES, Fault, frames, minute

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
        "Somebody said that it is usual. It is not reported any more. Most likely to blame was `report` (pid 2)."
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
    long_ago = replace(USUAL, ts=ONSET - KEPT_S + MINUTE_S)
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
    assert [each.id for each in keyed.tolerance.said] == [f"{number}" for number in range(10, MOST + 10)]


def test_another_key_is_refused() -> None:
    task = new_task()
    task.process(Incoming(INPUT, 0, "web-2", encode(USUAL), USUAL.ts))
    (letter,) = task.outputs
    assert "expected the record's key 'web-2', got 'web-1'" in letter.reason  # type: ignore[union-attr]


@pytest.mark.parametrize("cut_min", [4.0, 5.1, 30.0, 45.0])
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
