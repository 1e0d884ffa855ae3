"""The reports of a task on the courses of its anomalies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.alarms.courses import JOINED_S
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, DeadLetter
from laggard.pipeline.core.eventtime import SET_BACK_RECORDS, SET_BACK_S
from laggard.pipeline.core.records.outputs import Anomaly, Blame, Progress, write_output
from tests.pipeline.core.engine.conftest import Drift, DriftScores, at, frame, moved, new_task, told

if TYPE_CHECKING:
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.core.records import Frame


STEADY = [frame("h1", tick, 5.0) for tick in range(3)]
SPIKE = frame("h1", 3, 25.0)
CALM = [frame("h1", tick, 12.0) for tick in range(4, 40)]


def test_the_end_of_an_anomaly_is_told() -> None:
    anomaly, ended = told(new_task(), [*STEADY, SPIKE, *CALM])
    assert isinstance(anomaly, Anomaly)
    assert isinstance(ended, Progress)
    assert (anomaly.scope, anomaly.blame) == ("process", Blame("a[1]", "a", "cpu_ratio", 25.0, 8.0, 1.0, ("cpu",)))
    assert (ended.id, ended.change, ended.number) == (anomaly.id, "ended", 1)
    assert (ended.ts, ended.opened_ts, ended.until_ts) == (at(3) + JOINED_S, at(3), at(3))
    assert (ended.score, ended.blame, ended.scope, ended.live) == (anomaly.score, anomaly.blame, "process", True)
    assert (ended.ranking.rows, ended.model_age_s) == ((), anomaly.model_age_s + JOINED_S)
    assert math.isnan(ended.silent_since_ts)
    assert ended.sentence == "Resolved within a second. The most likely culprit was `a` (pid 1)."


def test_two_anomalies_in_five_minutes_are_both_there() -> None:
    again = math.ceil(QUIET_S / 20.0) + 5
    calm = [frame("h1", tick, 11.0) for tick in range(4, again)]
    first, second, *ends = told(new_task(), [*STEADY, SPIKE, *calm, frame("h1", again, 90.0), *high_then_calm(again)])
    assert [first.kind, second.kind] == ["anomaly", "anomaly"]
    assert [(each.id, each.change) for each in ends] == [(first.id, "ended"), (second.id, "ended")]


def high_then_calm(tick: int) -> list[Frame]:
    """Frames that are as the mean is by then, for ten minutes."""
    task = new_task()
    told(task, [*STEADY, SPIKE, *[frame("h1", each, 11.0) for each in range(4, tick)], frame("h1", tick, 90.0)])
    keyed = task.states.get("h1")
    assert keyed is not None
    stream = keyed.streams["process"]
    frames = []
    for each in range(tick + 1, tick + 31):
        stream.learn()
        assert isinstance(stream.operator, Drift)
        mean = float(stream.operator.mean[0])
        frames.append(frame("h1", each, mean - 3.0))
        stream.frame = frames[-1]
    return frames


def test_what_comes_of_a_replay_stays_so() -> None:
    anomaly, ended = told(new_task(), [*STEADY, SPIKE, *CALM], ((REPLAY_HEADER, b""),))
    assert (anomaly.live, ended.live) == (False, False)


@pytest.mark.parametrize("cut", range(1, 26))
def test_a_state_that_was_restored_tells_the_same(cut: int) -> None:
    frames = [*STEADY, SPIKE, *(frame("h1", tick, 40.0 * tick) for tick in range(4, 9)), *CALM[5:]]
    want = told(new_task(), frames)
    assert {each.kind for each in want} == {"anomaly", "progress"}
    one, two = new_task(), new_task()
    got = told(one, frames[:cut])
    got += told(moved(one, two), frames[cut:])
    assert [write_output(each) for each in got] == [write_output(each) for each in want]


def test_the_anomalies_of_a_key_that_is_given_up_have_ended() -> None:
    one = new_task(max_keys=1)
    (anomaly,) = told(one, [*STEADY, SPIKE])
    (ended,) = told(one, [frame("h2", 4, 5.0)])
    assert (ended.change, ended.id, ended.key, ended.ts) == ("ended", anomaly.id, "h1", at(3))
    assert ended.silent_since_ts == at(3)


def test_the_anomalies_of_a_stream_that_begins_anew_have_ended() -> None:
    one = new_task()
    (anomaly,) = told(one, [replace(each, ts=each.ts + 2.0 * SET_BACK_S) for each in (*STEADY, SPIKE)])
    back = [frame("h1", 100 + number, 5.0, ts=at(4 + number)) for number in range(SET_BACK_RECORDS)]
    ended = [each for each in told(one, back) if not isinstance(each, DeadLetter)]
    assert [(each.change, each.id, each.ts) for each in ended] == [("ended", anomaly.id, anomaly.ts)]


def test_progress_that_cannot_be_told_is_refused_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    one = new_task()
    told(one, [*STEADY, SPIKE])

    def refuse(_: DriftScores, rows: int, features: int) -> Ranking:
        raise ValueError(f"no ranking of {rows} rows and {features} features")

    monkeypatch.setattr(DriftScores, "ranking", refuse)
    letters = told(one, [frame("h1", tick, 100.0 * 1.5**tick) for tick in range(4, 14)])
    assert all(isinstance(each, DeadLetter) for each in letters)
    assert [each.record.offset for each in letters] == [6, 9, 12]
    assert "progress that cannot be reported: ValueError: no ranking" in letters[0].reason
