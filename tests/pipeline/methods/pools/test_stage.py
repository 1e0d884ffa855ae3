"""The task of pools: anomalies, rankings that change, silence, clocks set back, errors and recovery."""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.pipeline.alarms.courses import OVER_S
from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine import states
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, DeadLetter, Rekeyed
from laggard.pipeline.core.eventtime import SET_BACK_RECORDS, SILENT_S
from laggard.pipeline.core.records import Case, Feedback, Frame, Mark, Request, encode, make_layout
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.outputs import Anomaly, Progress, anomaly_id
from laggard.pipeline.core.records.pools import PoolOutput, pool_id
from laggard.pipeline.methods.pools.stage import MEMBER, CovarianceTask
from laggard.pipeline.scoring.observers import Observer
from tests.pipeline.methods.pools.records import NAN, STAGE, T0, X, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.operators.covariance.results import Deviation
    from laggard.pipeline.core.engine.stage import Output

INPUT = Partition("t.pools", 0)


def new_task(**options: Any) -> CovarianceTask:
    return STAGE.task(INPUT, **({"snapshot_records": 1000} | options))


def give(task: CovarianceTask, frames: Iterable[Frame], *headers: tuple[str, bytes]) -> list[Any]:
    for offset, each in enumerate(frames, start=task.position):
        task.process(Incoming(INPUT, offset, each.key, encode(each), each.ts, headers))
    outputs = list(task.outputs)
    task.outputs.clear()
    return outputs


def calm(start: float, stop: float, **more: Any) -> list[Frame]:
    """A pool of three whose members do nothing, every five seconds."""
    ticks = range(int(start // 5), int(stop // 5))
    return [told(5.0 * number, {"a[1]": 0.1, "b[2]": 0.1, "c[3]": 0.1} | more) for number in ticks]


def busy(start: float, stop: float, value: float = 3.0) -> list[Frame]:
    return calm(start, stop, **{"b[2]": value})


def kinds(outputs: Sequence[Output]) -> list[str]:
    return ["letter" if isinstance(each, DeadLetter) else type(each).__name__ for each in outputs]


def place(offset: int) -> str:
    return f"t.pools[0]@{offset}"


def test_a_member_that_deviates_is_an_anomaly_and_the_ranking_is_told_as_it_changes() -> None:
    task = new_task()
    assert give(task, calm(0, 100)) == []
    anomaly, ranking = give(task, busy(100, 130))
    assert isinstance(anomaly, Anomaly)
    assert (anomaly.id, anomaly.operator) == (
        anomaly_id("covariance", "workers", f"member {anomaly.ts!r} -1"),
        "covariance",
    )
    assert (anomaly.keyed_by, anomaly.key, anomaly.scope, anomaly.ts) == ("pool", "workers", "member", T0 + 100.0)
    assert (anomaly.score, anomaly.live, anomaly.parameters) == (3.0, True, {"method": "plain"})
    assert anomaly.blame is not None
    assert (anomaly.blame.row, anomaly.blame.name, anomaly.blame.feature) == ("b[2]", "b", X)
    assert (anomaly.blame.value, anomaly.blame.resources) == (3.0, ("cpu",))
    assert anomaly.sentence.startswith("`b` (pid 2) is busier than the others: it uses 300 % of one core in user mode,")
    assert isinstance(ranking, PoolOutput)
    assert (ranking.id, ranking.pool, ranking.ts) == (
        pool_id("covariance", "workers", repr(anomaly.ts)),
        "workers",
        T0 + 100.0,
    )
    assert (ranking.members, ranking.age_s, ranking.young, ranking.whole) == (3, 95.0, False, False)
    (one,) = ranking.ranking
    assert (one.rows, one.name, one.kind, one.score, one.features[0].feature) == (("b[2]",), "b", "busy", 3.0, X)
    # Another one beside it, then none: told each time, and a ranking of the same is not.
    (both,) = give(task, calm(130, 150, **{"b[2]": 3.0, "c[3]": 2.0}))
    assert [each.rows for each in both.ranking] == [("b[2]",), ("c[3]",)]
    # Half a minute after one is not any more: both were so last at 145 s.
    assert give(task, calm(150, 145 + OVER_S)) == []
    ended, none = give(task, calm(145 + OVER_S, 150 + OVER_S))
    assert (none.ranking, none.levels) == ((), ())
    assert isinstance(ended, Progress)
    assert (ended.change, ended.until_ts) == ("ended", T0 + 145.0)
    assert ended.sentence == "Resolved after 45 s. The member that deviated most was `b`."


def test_a_score_about_the_budget_is_told_once_and_what_is_within_it_is_not_ranked() -> None:
    task = new_task()
    values = [1.1, 0.9] * 10 + [0.9] * 20
    outputs = give(task, [*calm(0, 100), *(one for at, value in enumerate(values)
                                           for one in busy(100 + 5 * at, 105 + 5 * at, value))])  # fmt: skip
    rankings = [[each.kind for each in one.ranking] for one in outputs if isinstance(one, PoolOutput)]
    assert rankings == [["busy"], []]
    assert give(new_task(), [*calm(0, 100), *busy(100, 200, value=0.9)]) == []


def test_hosts_are_compared_with_each_other_in_one_tick() -> None:
    task = new_task()
    frames = []
    for number in range(30):
        for at, host in enumerate(("web-1", "web-2", "db-1")):
            value = 3.0 if host == "db-1" and number >= 20 else 0.1
            frames.append(told(5.0 * number + at, {f"{host}/w[1@1]": value}, host))
    anomaly, ranking = give(task, frames)
    assert (anomaly.ts, ranking.members) == (T0 + 102.0, 3)
    assert anomaly.id == anomaly_id("covariance", "workers", f"member {anomaly.ts!r} -1")
    assert anomaly.blame.row == "db-1/w[1@1]"
    pool = task.pool("workers")
    assert pool is not None
    assert [sorted(each) for _, each in pool.streams[MEMBER].operator.learned[5:]] == [  # type: ignore[attr-defined]
        ["db-1/w[1@1]", "web-1/w[1@1]", "web-2/w[1@1]"]
    ] * 24


def test_what_was_recorded_earlier_is_not_live() -> None:
    task = new_task()
    found = give(task, [*calm(0, 100), *busy(100, 110)], (REPLAY_HEADER, b""))
    assert [each.live for each in found] == [False, False]


class Watching(Observer):
    def __init__(self) -> None:
        self.compares: list[tuple[str, str, int, int]] = []
        self.scores: list[float] = []

    def compared(self, operator: str, pool: str, members: int, deviations: Sequence[Deviation]) -> None:
        self.compares.append((operator, pool, members, len(deviations)))

    def scored(self, operator: str, frame: Frame, scores: Any, anomalies: Any) -> None:
        self.scores.append(scores.score)


def test_observers_see_each_tick_with_those_below_the_budget_and_without_members_that_have_no_value() -> None:
    watching = Watching()
    frames = [*calm(0, 50), *busy(50, 55, value=0.9), *calm(55, 60, **{"b[2]": NAN})]
    give(new_task(observers=[watching]), frames)
    below = ("covariance", "workers", 3, 1)
    assert watching.compares == [*[("covariance", "workers", 3, 0)] * 10, below, ("covariance", "workers", 2, 0)]
    assert watching.scores[:11] == [0.0] * 10 + [0.9]


def test_what_comes_twice_changes_nothing_and_what_is_late_is_told() -> None:
    task = new_task()
    frames = calm(0, 100)
    assert give(task, [*frames, frames[-1], frames[-2]]) == []
    assert task.telemetry.duplicates == 2
    (letter,) = give(task, [told(50.0, {"a[1]": 0.3})])
    assert isinstance(letter, DeadLetter)
    assert letter.reason == f"{place(22)}: late: expected a time of at least {T0 + 95.0!r}, got {T0 + 50.0!r}"
    assert task.telemetry.late == 1


def test_a_clock_that_is_set_back_begins_the_pool_anew() -> None:
    task = new_task()
    ahead = [told(1e6 + 5.0 * number, {"a[1]": 3.0, "b[2]": 0.1}) for number in range(10)]
    assert kinds(give(task, ahead)) == ["Anomaly", "PoolOutput"]
    outputs = give(task, calm(0, 5.0 * SET_BACK_RECORDS))
    assert kinds(outputs) == ["letter"] * (SET_BACK_RECORDS - 1) + ["Progress"]
    assert "1 of 12 after which the clock counts as set back" in outputs[0].reason
    assert (outputs[-1].change, outputs[-1].silent_since_ts) == ("ended", T0 + 1e6 + 45.0)
    assert task.telemetry.clocks_set_back == 1
    pool = task.pool("workers")
    assert pool is not None
    assert math.isinf(pool.streams[MEMBER].ts)
    (calmed,) = give(task, calm(60, 100))
    assert calmed.ranking == ()  # it was told that one is ranked


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (-1.0, f"{place(10)}: not scored: ValueError: cannot score this"),
        (-2.0, f"{place(11)}: the frame before, of {T0 + 50.0!r}, was not learned: ValueError: cannot learn this"),
    ],
)
def test_an_operator_that_raises_costs_one_tick(value: float, said: str) -> None:
    task = new_task()
    (letter,) = give(task, [*calm(0, 50), *calm(50, 55, **{"a[1]": value}), *calm(55, 60)])
    assert isinstance(letter, DeadLetter)
    assert letter.reason == said
    assert letter.record.value
    assert kinds(give(task, busy(60, 65))) == ["Anomaly", "PoolOutput"]


def test_parts_that_are_too_much_together_are_refused() -> None:
    task = new_task()
    parts = [told(0.0, {f"{row}{n}": {f"{row}{n}": 1.0} for n in range(1500)}) for row in "ab"]
    (letter,) = give(task, [*parts, told(5.0, {"a": 1.0})])
    assert "not joined" in letter.reason
    assert letter.record.value


def test_what_is_no_frame_of_the_pool_is_refused() -> None:
    task = new_task()
    host = told(0.0, {"a": 1.0})
    records = [
        Incoming(INPUT, 0, "other", encode(host), host.ts),
        Incoming(INPUT, 1, "s", encode(Request("s", T0, "r", 1.0)), T0),
        Incoming(INPUT, 2, "h", encode(Frame("host", "h", MEMBER, T0, 1, host.layout, host.values)), T0),
    ]
    for each in records:
        task.process(each)
    reasons = [letter.reason.partition(": ")[2] for letter in task.outputs if isinstance(letter, DeadLetter)]
    assert reasons == [
        "expected the record's key 'other', got 'workers'",
        "expected a frame, a mark or feedback, got a request",
        "expected a frame of a pool, got one of a host",
    ]
    task.outputs.clear()
    task.process(Incoming(INPUT, 3, "workers", encode(Mark("workers", T0)), T0))
    assert give(task, [told(0.0, {"a": 9.0}, scope="source")] * 9) == []


def test_a_pool_that_falls_silent_ends_its_anomalies_by_the_frames_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "SILENT_RECORDS", 5)
    task = new_task()
    anomaly, _ = give(task, [*calm(0, 100), *busy(100, 130)])
    others = [told(130.0 + 300.0 * number, {"x": 0.1, "y": 0.1}, pool="other") for number in range(14)]
    (ended,) = give(task, others)
    assert (ended.id, ended.silent_since_ts) == (anomaly.id, T0 + 125.0)
    # It comes back as it was: that is another anomaly, and no other ranking.
    assert kinds(give(task, busy(130.0 + SILENT_S, 160.0 + SILENT_S))) == ["Anomaly"]


def test_a_pool_that_has_lost_all_members_ends_its_anomaly_within_a_minute() -> None:
    task = new_task()
    anomaly, _ = give(task, [*calm(0, 100), *busy(100, 130)])
    nothing = make_layout([], [], [X]), np.zeros((0, 1))
    empty = [Frame("pool", "workers", "member", T0 + 5.0 * number, number, *nothing) for number in range(26, 38)]
    (ended,) = (each for each in give(task, empty) if isinstance(each, Progress))
    assert (ended.id, ended.change) == (anomaly.id, "ended")
    assert ended.ts <= T0 + 130.0 + 60.0


# Recovery, and the end.


def _plain(output: Output) -> Any:
    assert not isinstance(output, Rekeyed)
    return output.reason if isinstance(output, DeadLetter) else output.to_json()


def noisy(seed: int) -> list[Frame]:
    """Two pools, one of them of three hosts that fall out, come late and twice; members come, go and get busy."""
    draw = random.Random(seed)
    frames = []
    for number in range(150):
        for at, host in enumerate(("web-1", "web-2", "db-1")):
            if draw.random() < 0.05 or (host == "db-1" and 60 <= number < 75):
                continue
            rows = {f"{host}/w[{pid}]": 3.0 * (draw.random() < 0.05) for pid in range(draw.randrange(1, 4))}
            frames.append(told(5.0 * number + at + draw.random(), rows, host, sequence=number, pool="spread"))
        frames.append(told(5.0 * number, {"a": 0.1, "b": draw.choice([0.1, 0.1, 5.0, -1.0])}))
        if draw.random() < 0.1:
            frames.append(draw.choice(frames[-30:]))
    return frames


def test_whenever_it_is_written_down_and_read_back_it_goes_on_alike() -> None:
    frames = noisy(3)
    expected = [json.dumps(_plain(each)) for each in give(new_task(), frames)]
    assert {json.loads(each)["kind"] for each in expected if each.startswith("{")} == {"anomaly", "progress", "pool"}
    for cut in (17, 140, 250, 402, len(frames) - 1):
        first = new_task(snapshot_records=10_000)
        got = [json.dumps(_plain(each)) for each in give(first, frames[:cut])]
        first.states.loaded(first.position)
        first.states.save_all(first.position)
        second = new_task(snapshot_records=10_000)
        loaded = second.states.load(first.states.take(first.position))
        assert loaded.damaged == {}
        second.states.loaded(first.position)
        second.position = first.position
        got += [json.dumps(_plain(each)) for each in give(second, frames[cut:])]
        assert got == expected


def test_a_state_says_which_version_it_is_of() -> None:
    task = new_task(snapshot_records=1)
    task.states.loaded(0)
    give(task, calm(0, 20))
    state = decode_state(task.states.take(task.position)[0].value, "here")
    assert (state["operator"], state["state_version"]) == ("covariance", 1)
    assert set(state["streams"]) == {"member"}


def test_at_the_end_of_recorded_data_the_rest_is_judged_and_the_whole_is_told() -> None:
    task = new_task(live=False)
    assert kinds(give(task, [*calm(0, 50), *busy(50, 55), *calm(55, 60)])) == ["Anomaly", "PoolOutput"]
    give(task, [told(5.0 * number, {"x": 0.1, "y": 4.0}, pool="other") for number in range(2)])
    task.finish()
    *rest, other = task.outputs
    whole = rest.pop(0)
    assert isinstance(whole, PoolOutput)
    assert (whole.pool, whole.whole, whole.live, whole.ts, whole.members) == ("workers", True, False, T0 + 55.0, 3)
    assert whole.id == pool_id("covariance", "workers", f"{whole.ts!r} whole")
    assert [(each.rows, each.kind, each.height, each.p_value) for each in whole.ranking] == [
        (("b[2]",), "busy", 4.0, 99.0)
    ]
    (level,) = whole.levels
    assert [leaf.label for leaf in level.leaves] == ["a[1]", "b[2]"]
    assert [(leaf.deviating, leaf.kind) for leaf in level.leaves] == [(0, ""), (1, "busy")]
    # The second tick of the other pool, which nothing was behind, is judged too.
    assert kinds(rest) == []
    assert isinstance(other, PoolOutput)
    assert (other.pool, other.ts) == ("other", T0 + 5.0)


def test_an_operator_that_cannot_report_costs_that_alone() -> None:
    task = new_task(live=False)
    give(task, [told(5.0 * number, {"broken": 0.1}, pool="other") for number in range(5)])
    give(task, calm(0, 50))
    task.finish()
    letter, whole = task.outputs
    assert isinstance(letter, DeadLetter)
    assert letter.reason == f"{place(14)}: a whole that cannot be reported: ValueError: cannot report this"
    assert isinstance(whole, PoolOutput)
    # Of what nothing can be said there is no whole.
    task = new_task()
    assert task.whole("workers") is None
    give(task, [told(0.0, {"a": -1.0})])
    task.finish()
    assert kinds(task.outputs) == ["letter"]


def test_what_a_person_says_is_expected_ends_and_is_told_after_its_time() -> None:
    task = new_task()
    anomaly, _ = give(task, [*calm(0, 100), *busy(100, 130)])
    said = Feedback("pool", "workers", T0 + 130.0, "a", "expected", (Case("b"),), T0 + 160.0)
    task.process(Incoming(INPUT, task.position, "workers", encode(said), said.ts))
    ended, told = task.outputs
    assert isinstance(ended, Progress)
    assert (ended.id, ended.change, ended.feedback) == (anomaly.id, "ended", "expected")
    assert told == FeedbackOutput.of(said, "covariance", live=True)
    task.outputs.clear()
    assert give(task, busy(130, 160)) == []
    (again,) = give(task, busy(160, 170))
    assert (type(again), again.ts) == (Anomaly, T0 + 160.0)


def test_a_member_that_is_excused_hides_no_other() -> None:
    task = new_task()
    give(task, calm(0, 100))
    said = Feedback("pool", "workers", T0 + 100.0, "a", "usual", (Case("b"),))
    task.process(Incoming(INPUT, task.position, "workers", encode(said), said.ts))
    task.outputs.clear()
    both = calm(100, 130, **{"b[2]": 3.0, "c[3]": 2.5})
    anomaly, *_ = (each for each in give(task, both) if isinstance(each, Anomaly))
    assert anomaly.blame is not None
    assert anomaly.blame.name == "c"
    assert "`c` (pid 3)" in anomaly.sentence
