from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from laggard.operators.ranking import FeatureScore
from laggard.pipeline.core.bus import Commit, Outgoing, Snapshot
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Mark
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.history.answers import answer
from laggard.pipeline.history.hosts import NothingRecordedError, UnknownHostError
from laggard.pipeline.history.series import began
from laggard.pipeline.history.watch import Watch
from laggard.pipeline.history.why import History, OutsideError
from laggard.pipeline.scoring.task import Task
from tests.pipeline.history.conftest import GAP, HOG, MARKED, START, TICKS, TOPICS, WRONG, append, at, frames, work

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = TOPICS.name(COUNTERS)


def ranked(history, ts, host="web-1"):
    return history.ask(host, ts, rows=20, features=12).ranking


def test_the_process_that_went_wrong_is_named_with_what_it_did(recorded):
    asked = recorded.history.ask("web-1", at(155), rows=3, features=2)
    worst = asked.ranking.rows[0]
    assert worst.row == HOG
    assert {each.feature for each in worst.features} == {"io_write_bytes_per_s", "io_write_operations_per_s"}
    assert worst.score > 1.0
    assert asked.ranking.rows[1].score < 1.0
    assert len(asked.ranking.rows) == 3
    assert asked.commands[HOG] == "python3 hog.py"
    assert asked.frame.ts == at(155)
    assert asked.host_frame is not None
    assert asked.host_frame.scope == "host"

    assert ranked(recorded.history, at(WRONG.start) - 1.0).rows[0].score < 1.0, "before it went wrong"


@pytest.mark.parametrize("tick", [0, 3, 49, 50, 51, 99, 155, 179, 231, TICKS - 1])
def test_the_answer_is_that_of_an_undisturbed_run_bit_for_bit(recorded, tick):
    bus, partition = recorded.bus, recorded.bus.partition_of(TOPIC, "web-1")
    task = Task(recorded.wired, partition)
    for record in bus.read(partition, 0):
        if record.ts <= at(tick):
            task.process(record)
    undisturbed = answer(task, "web-1", None, 20, 12)
    assert undisturbed is not None
    assert ranked(recorded.history, at(tick)) == undisturbed.ranking


def test_the_answer_at_a_mark_is_the_one_that_the_worker_gave(recorded):
    partition = recorded.bus.partition_of("laggard.anomalies", "web-1")
    told = [record.value for record in recorded.bus.read(partition, 0) if b'"mark":"checkout hangs"' in record.value]
    assert len(told) == 1
    (mark,) = recorded.history.marks("web-1")
    score = ranked(recorded.history, mark.frame_ts).score
    assert f'"score":{score!r}'.encode() in told[0]
    assert b'"sentence":"`hog` (pid 4711, `python3 hog.py`) is behaving unusually: it writes 212 MB/s' in told[0]


def test_what_comes_after_the_moment_has_no_part_in_it(empty):
    append(empty.bus, frames("web-1", range(60)))
    before = ranked(empty.history, at(59))
    append(empty.bus, frames("web-1", range(60, 180)))
    assert ranked(empty.history, at(59)) == before


@pytest.mark.parametrize("ahead", [Mark("web-1", at(70), "early"), next(frames("web-2", [TICKS]))])
def test_a_clock_that_is_ahead_elsewhere_hides_no_frame(empty, ahead):
    append(empty.bus, frames("web-1", range(20)))
    append(empty.bus, [ahead])
    append(empty.bus, frames("web-1", range(20, 60)))
    asked = empty.history.ask("web-1", at(50), 1, 1)
    assert asked.frame.ts == at(50)
    times = [ts for ts, _ in empty.history.series(asked, HOG, "cpu_user_ratio").points]
    assert times == [at(tick) for tick in range(60)]


def test_without_a_snapshot_that_can_be_used_the_input_is_learned(empty):
    append(empty.bus, frames("web-1", range(160)))
    assert ranked(empty.history, None).rows[0].row == HOG
    partition = empty.bus.partition_of(TOPIC, "web-1")
    member = empty.bus.subscribe("test", [TOPIC])
    member.poll(1.0)
    member.commit(Commit({partition: 10}, snapshots=[Snapshot("gaussian", partition, "web-1", 10, at(5), b"junk")]))
    member.close()
    assert ranked(empty.history, None).rows[0].row == HOG


def test_an_unreadable_record_is_skipped(empty):
    append(empty.bus, frames("web-1", range(100)))
    empty.bus.append([Outgoing(TOPIC, "web-1", b"junk", at(99.5))])
    append(empty.bus, frames("web-1", range(100, 156)))
    asked = empty.history.ask("web-1", None, 1, 1)
    assert asked.ranking.rows[0].row == HOG
    assert len(empty.history.series(asked, HOG, "io_write_bytes_per_s").points) > 36


@pytest.mark.parametrize(
    ("ts", "judged"),
    [(at(100) + 4.9, at(100)), (START - 100.0, START)],
    ids=["the one before it", "where none is before it the one after it"],
)
def test_of_the_frames_near_a_moment_one_is_judged(recorded, ts, judged):
    asked = recorded.history.ask("web-1", ts, 1, 1)
    assert (asked.ts, asked.frame.ts) == (ts, judged)


@pytest.mark.parametrize(
    "ts", [START - 121.0, at(TICKS) + 120.0, (at(GAP.start) + at(GAP.stop)) / 2], ids=["before", "after", "gap"]
)
def test_a_moment_without_a_frame_is_an_error_that_says_what_there_is(recorded, ts):
    with pytest.raises(OutsideError) as caught:
        recorded.history.ask("web-1", ts, 1, 1)
    assert (caught.value.first, caught.value.last) == (START, at(TICKS - 1))


def test_a_host_that_has_no_frames_yet_is_told(empty):
    empty.bus.append([Outgoing(TOPIC, "web-9", b"junk", START)])
    with pytest.raises(OutsideError) as caught:
        empty.history.ask("web-9", None, 1, 1)
    assert math.isnan(caught.value.first)


def test_the_host_is_the_one_wanted_else_the_default_else_the_only_one(recorded, empty):
    assert recorded.history.hosts.choose("web-2", "web-1") == "web-2"
    assert recorded.history.hosts.choose(None, "web-1") == "web-1"
    with pytest.raises(UnknownHostError) as caught:
        recorded.history.hosts.choose(None, "other")
    assert caught.value.hosts == ["web-1", "web-2"]
    with pytest.raises(NothingRecordedError):
        empty.history.hosts.choose("web-1", "web-1")
    append(empty.bus, frames("db-1", range(1)))
    assert empty.history.hosts.choose(None, "other") == "db-1"
    with pytest.raises(UnknownHostError):
        empty.history.hosts.choose("web-1", "db-1")


class Keyless(EmbeddedBus):
    """Knows no keys and keeps only the newest snapshots, as Kafka does."""

    knows_keys = False

    def keys(self, topic):
        raise AssertionError("the whole topic would be read")

    def snapshots(self, operator, partition, at_or_before=None):
        newest = super().snapshots(operator, partition)
        return [each for each in newest if at_or_before is None or each.offset <= at_or_before]


@pytest.fixture
def keyless(recorded) -> Iterator[History]:
    with Keyless(recorded.path) as bus:
        yield History(bus, TOPICS, recorded.wired)


def test_on_a_bus_that_knows_no_keys_a_host_is_found_without_reading_everything(keyless, monkeypatch):
    monkeypatch.setattr("laggard.pipeline.history.hosts.LATELY", 10)
    assert keyless.hosts.all() == ["web-1", "web-2"], "one by its records, one by its state"
    assert keyless.hosts.choose(None, "web-2") == "web-2"
    assert keyless.hosts.choose("web-1", "db-9") == "web-1"
    assert not keyless.hosts.knows("db-9")
    with pytest.raises(UnknownHostError, match="db-9"):
        keyless.hosts.choose(None, "db-9")


def test_where_no_state_of_the_moment_is_left_it_is_told_from_when_on_was_learned(keyless, recorded, empty):
    asked = recorded.history.ask("web-1", at(155), 5, 3)
    found = keyless.ask("web-1", at(155), 5, 3)
    assert found.ranking.rows[0].row == asked.ranking.rows[0].row == HOG
    assert math.isnan(asked.since)
    assert math.isnan(found.since), "it saw all that there ever was"
    assert math.isnan(keyless.ask("web-1", None, 5, 3).since), "the newest state is there"
    append(empty.bus, frames("web-1", range(170)))
    (partition,) = empty.bus.partitions(TOPICS.name(COUNTERS))
    empty.bus.discard(partition, 100)
    late = empty.history.ask("web-1", at(155), 5, 3)
    assert late.since == at(50)
    assert late.ranking.rows[0].row == HOG


def test_marks_are_listed_newest_first_those_that_wait_for_the_worker_too(recorded):
    marks = recorded.history.marks()
    assert [(each.host, each.note) for each in marks] == [("web-1", "checkout hangs"), ("web-2", "slow too")]
    assert recorded.history.marks("web-2") == marks[1:]
    assert len({each.id for each in marks}) == 2


def test_a_mark_keeps_its_id_when_the_worker_has_taken_it(empty, wired):
    append(empty.bus, frames("web-1", range(158)))
    (waiting,) = empty.history.marks()
    work(empty.bus, wired)
    (answered,) = empty.history.marks()
    assert (answered.id, answered.ts, answered.note) == (waiting.id, waiting.ts, waiting.note)
    assert waiting.frame_ts == MARKED
    assert answered.frame_ts == at(155)


@pytest.mark.parametrize("tick", [100, 150])
def test_a_mark_about_an_earlier_moment_is_asked_about_at_that_moment(empty, wired, tick):
    append(empty.bus, [*frames("web-1", range(155)), Mark("web-1", at(tick) + 1.0, "it was slow")])
    work(empty.bus, wired)
    (mark,) = empty.history.marks()
    assert mark.frame_ts == mark.ts
    assert empty.history.ask("web-1", mark.frame_ts, 1, 1).frame.ts == at(tick)


def test_the_series_is_dense_before_the_moment_and_thin_long_before(recorded):
    asked = recorded.history.ask("web-1", at(155), 1, 1)
    series = recorded.history.series(asked, HOG, "io_write_bytes_per_s")
    times = [ts for ts, _ in series.points]
    assert times == sorted(set(times))
    assert times[0] == START
    dense = [ts for ts in times if ts >= series.dense_from]
    assert dense == [at(tick) for tick in range(119, 168)]
    assert len(times) - len(dense) <= 48
    assert {value for ts, value in series.points if at(150) <= ts < at(160)} == {212e6}
    for row, feature in (("gone[1@1]", "cpu_user_ratio"), (HOG, "no_such_feature")):
        assert recorded.history.series(asked, row, feature).points == ()


def test_a_series_of_the_first_tick_is_that_tick(empty):
    append(empty.bus, frames("web-1", range(1)))
    series = empty.history.series(empty.history.ask("web-1", None, 1, 1), HOG, "cpu_user_ratio")
    assert [ts for ts, _ in series.points] == [START]


# Since when.


@pytest.mark.parametrize(
    ("tick", "began_ts"),
    [*((tick, at(WRONG.start)) for tick in (WRONG.start, WRONG.start + 1, WRONG.stop - 1)), (WRONG.stop + 6, math.nan)],
)
def test_it_is_known_since_when_it_has_been_so_until_it_is_over(recorded, tick, began_ts):
    asked = recorded.history.ask("web-1", at(tick), 5, 3)
    assert asked.began == pytest.approx(began_ts, abs=0.0, nan_ok=True)
    assert bool(asked.verdict.culprits) == (not math.isnan(began_ts))


def test_who_watches_sees_since_when_it_has_been_so(recorded, empty):
    append(empty.bus, frames("web-1", range(155)))
    watched = Watch(empty.history, "web-1")
    asked = watched.answer(5, 3)
    assert asked is not None
    assert asked.began == at(WRONG.start)
    append(empty.bus, frames("web-1", range(155, 157)))
    assert watched.advance()
    asked = watched.answer(5, 3)
    assert asked is not None
    assert (asked.frame.ts, asked.began) == (at(156), at(WRONG.start))


def test_the_asking_process_is_left_out_of_its_answer(recorded):
    asked = recorded.history.ask("web-1", at(155), 5, 3, asking=4711)
    assert HOG not in {each.row for each in asked.ranking.rows}
    assert not asked.verdict.culprits


FAR = FeatureScore("threads", 90.0, 10.0, 2.0, 40.0)


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ([10, 11, 90, 88, 90], 2),
        ([90] * 5, 0),
        ([90, 9, 9, 9, 90, 90], 0),  # a lull
        ([90, 9, 9, 9, 9, 9, 9, 90, 90], 7),
        ([10, 30, 50, 70, 90], 1),  # a leak
        ([90, 90, 10, 10], 0),  # over for so short that it still counts
        ([math.nan, math.nan, 90, 90], 2),
        ([10, 10, 10, 10, 10, 10], None),
        ([], None),
    ],
)
def test_since_when_a_value_is_far_from_its_usual(values, first):
    points = [(5.0 * n, float(value)) for n, value in enumerate(values)]
    found = began(reversed(points), FAR, 5.0)
    assert math.isnan(found) if first is None else found == 5.0 * first


def test_a_fall_begins_where_it_falls():
    points = [
        (5.0 * n, value) for n, value in enumerate([90.0, 91.0, 89.0, 90.0, 91.0, 89.0, 90.0, 91.0, 50.0, 9.0, 8.0])
    ]
    fallen = FeatureScore("x_ratio", 9.0, 90.0, 1.0, 9.0)
    assert began(reversed(points), fallen, 1.0) == 40.0


def test_where_nothing_ever_varied_the_beginning_is_a_tenth_of_the_way():
    found = began([(9.0, 90.0), (8.0, 80.0), (7.0, 1.0), (2.0, 1.0)], FeatureScore("x", 90.0, 0.0, 0.0, 9.0), 1.0)
    assert found == 8.0
    assert began([(9.0, 90.0)], FeatureScore("x", 90.0, math.nan, math.nan, 9.0), 1.0) == 9.0


def test_a_task_that_goes_on_comes_to_what_one_says_that_begins_anew(recorded):
    history = recorded.history
    stop = history.stop_of("web-1", at(40))
    learned = history.learned("web-1", stop)
    end = history.stop_of("web-1", None)
    history.go_on(learned, "web-1", end)
    assert learned.task.position == end
    found = answer(learned.task, "web-1", None, 20, 12)
    assert found is not None
    assert found.ranking == ranked(history, None)
