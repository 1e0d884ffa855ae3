"""Partitions that come and go, recoveries beside, and standbys: what is on the bus in the end is always the same."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core import backoff
from laggard.pipeline.core.bus import BusError, Commit, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine import runner as running
from laggard.pipeline.core.engine import standby
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.recoverer import Recoverer
from laggard.pipeline.core.engine.telemetry import Telemetry
from laggard.pipeline.core.topics import ANOMALIES, DEAD_LETTERS
from laggard.pipeline.metrics.exporter import Exporter
from tests.pipeline.core.engine.conftest import INPUT, NEVER, TOPICS, WIRED, append, frame, runner, settle, stop, stream
from tests.pipeline.core.engine.shared_bus import SharedBus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.engine.runner import Runner
    from laggard.pipeline.core.records import Frame, Mark

LENGTH = 60
RECORDS = stream(LENGTH, hosts=6)
GROUP = TOPICS.group("drift")


@pytest.fixture
def new_shared(tmp_path: Path) -> Iterator[Callable[..., SharedBus]]:
    """Makes buses of two input partitions, with the records on them."""
    buses: list[EmbeddedBus] = []

    def make(share: float = 0.0, seed: int = 1, records: Sequence[Frame | Mark | bytes] = RECORDS) -> SharedBus:
        bus = EmbeddedBus(tmp_path / f"shared-{len(buses)}.db")
        buses.append(bus)
        bus.create(TOPICS.specs(partitions=2))
        append(bus, records)
        return SharedBus(bus, share, seed)

    yield make
    for bus in buses:
        bus.close()


@pytest.fixture
def shared(new_shared: Callable[..., SharedBus]) -> SharedBus:
    return new_shared()


P0, P1 = (Partition(INPUT.topic, number) for number in range(2))
BOTH = (P0, P1)


def joined(shared: SharedBus, **options: Any) -> Runner:
    """A runner that has become a member of the group."""
    one, number = runner(shared, **options), len(shared.members)
    while len(shared.members) == number:
        one.step(NEVER)
    return one


def until(holds: Callable[[], bool], *runners: Runner) -> None:
    """Let the runners take turns until it holds."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        for one in runners:
            one.step(NEVER)


def done(bus: Bus, *partitions: Partition) -> bool:
    return all(bus.committed(GROUP, each) == bus.bounds(each)[1] for each in partitions)


def left(bus: Bus) -> tuple[dict[str, list[tuple[bytes, Any]]], dict[str, bytes], dict[Partition, int]]:
    """All that is on the bus: outputs by topic and key in their order, states, offsets."""
    outputs: dict[str, list[tuple[bytes, Any]]] = {}
    for topic in (ANOMALIES, DEAD_LETTERS):
        for partition in bus.partitions(TOPICS.name(topic)):
            for each in bus.read(partition, 0):
                outputs.setdefault(f"{topic.name} {each.key}", []).append((each.value, each.headers))
    states = {each.key: each.value for one in BOTH for each in bus.snapshots(WIRED.snapshots, one) if each.key}
    return outputs, states, {each: bus.committed(GROUP, each) for each in BOTH}


def undisturbed(shared: SharedBus, **options: Any) -> Any:
    one = joined(shared, **options)
    for partition in BOTH:
        shared.give(partition, 0)
    until(lambda: done(shared, *BOTH), one)
    stop(one)
    return left(shared)


@pytest.fixture
def want(new_shared: Callable[..., SharedBus]) -> Any:
    """What one undisturbed worker leaves."""
    return undisturbed(new_shared())


def half_done(shared: SharedBus) -> None:
    """Somebody had both partitions, and died in the middle of them."""
    one = joined(shared, snapshot_records=1000)
    for partition in BOTH:
        shared.give(partition, 0)
        until(lambda partition=partition: shared.committed(GROUP, partition) > 8, one)  # type: ignore[misc]
        shared.give(partition, None)


def hosts(exporter: Exporter) -> set[str]:
    """The hosts whose scores are shown."""
    scores = (family.samples for family in exporter.collect() if family.name == "laggard_score")
    return {sample.labels["host"] for samples in scores for sample in samples}


def test_only_the_worker_that_has_a_partition_shows_its_hosts(shared: SharedBus) -> None:
    exporters = Exporter(Telemetry(), 3), Exporter(Telemetry(), 3)
    one, two = (joined(shared, observers=[exporter]) for exporter in exporters)
    for partition in BOTH:
        shared.give(partition, 0)
    until(lambda: done(shared, *BOTH), one, two)
    everything = hosts(exporters[0])
    shared.give(P1, 1)
    until(lambda: one.telemetry.task("drift", P1).revocations == 1, one, two)
    kept = hosts(exporters[0])
    assert set() < kept < everything
    append(shared, [frame(host, 1000, 5.0) for host in sorted(everything)])
    until(lambda: done(shared, *BOTH), one, two)
    assert [hosts(exporter) for exporter in exporters] == [kept, everything - kept]
    stop(one)
    stop(two)


def test_hosts_whose_state_is_void_are_not_shown_until_it_is_recovered(shared: SharedBus) -> None:
    exporter = Exporter(Telemetry(), 3)
    one = joined(shared, observers=[exporter])
    for partition in BOTH:
        shared.give(partition, 0)
    until(lambda: done(shared, *BOTH), one)
    everything = hosts(exporter)
    of_second = {host for host in everything if shared.partition_of(INPUT.topic, host) == P1}
    assert set() < of_second < everything
    shared.hold_up(P1)
    shared.members[0].fences = [frozenset({P1})]
    append(shared, [frame(host, 1000, 5.0) for host in sorted(of_second)])
    until(lambda: one.telemetry.fenced == 1, one)
    assert hosts(exporter) == everything - of_second
    shared.let_go(P1)
    until(lambda: done(shared, *BOTH), one)
    assert hosts(exporter) == everything
    stop(one)


def test_a_kept_partition_goes_on_while_another_recovers(shared: SharedBus, want: Any) -> None:
    half_done(shared)
    one = joined(shared)
    shared.give(P0, 1)
    until(lambda: not one.recovering() and shared.committed(GROUP, P0) > 10, one)
    shared.hold_up(P1)
    shared.give(P1, 1)
    polls = shared.members[1].polls
    before = shared.committed(GROUP, P1)
    until(lambda: done(shared, P0), one)
    assert one.recovering().keys() == {"drift t.counters[1]"}
    assert shared.committed(GROUP, P1) == before
    one.update_lag()
    assert [one.telemetry.task("drift", each).lag_records for each in BOTH] == [0, shared.bounds(P1)[1] - before]
    assert shared.members[1].polls > polls + 10, "it keeps its place in the group"
    shared.let_go(P1)
    until(lambda: done(shared, *BOTH), one)
    stop(one)
    assert left(shared) == want


def test_a_recovery_of_a_partition_that_goes_away_ends_at_once(shared: SharedBus, want: Any) -> None:
    half_done(shared)
    one, two = joined(shared), joined(shared)
    shared.hold_up(P1)
    shared.give(P1, 1)
    until(lambda: bool(one.recovering()), one)
    shared.give(P1, 2)
    one.step(NEVER)
    assert not one.recovering()
    replayed = shared.replayed[P1]
    shared.let_go(P1)
    stop(one)
    assert shared.replayed[P1] <= replayed + 1, "the record that was being read was the last one"
    shared.give(P0, 2)
    until(lambda: done(shared, *BOTH), two)
    stop(two)
    assert left(shared) == want


def test_what_comes_back_during_its_recovery_begins_anew(shared: SharedBus, want: Any) -> None:
    half_done(shared)
    one, two = joined(shared), joined(shared, snapshot_records=1000)
    shared.hold_up(P1)
    shared.give(P1, 1)
    until(lambda: bool(one.recovering()), one)
    shared.give(P1, 2)
    one.step(NEVER)
    shared.let_go(P1)
    # Somebody else goes on with it meanwhile.
    before = shared.committed(GROUP, P1)
    until(lambda: shared.committed(GROUP, P1) > before + 3, two)
    for partition in BOTH:
        shared.give(partition, 1)
    until(lambda: done(shared, *BOTH), one, two)
    stop(one)
    assert left(shared) == want


def test_a_clean_stop_does_not_wait_for_a_recovery(shared: SharedBus, want: Any) -> None:
    half_done(shared)
    one = joined(shared)
    shared.give(P0, 1)
    settle(one)
    shared.hold_up(P1)
    shared.give(P1, 1)
    until(lambda: bool(one.recovering()), one)
    replayed = shared.replayed[P1]
    job = one._turns[0].member._recoverer._jobs[P1]

    def let_go() -> None:
        job.stopped.wait(120)
        shared.let_go(P1)  # the record that is being read comes; no other is asked for

    letting = threading.Thread(target=let_go)
    letting.start()
    stop(one)
    letting.join()
    assert shared.replayed[P1] <= replayed + 1
    two = joined(shared)
    for partition in BOTH:
        shared.give(partition, 2)
    until(lambda: done(shared, *BOTH), two)
    stop(two)
    assert left(shared) == want


@pytest.mark.parametrize("told", [frozenset({P1}), None, frozenset()])
def test_only_what_was_fenced_is_void(
    new_shared: Callable[..., SharedBus], want: Any, told: frozenset[Partition] | None
) -> None:
    shared = new_shared(records=RECORDS[:20])
    one = joined(shared, pace=Pace(0.0, 6, 6))
    for partition in BOTH:
        shared.give(partition, 0)
    until(lambda: done(shared, *BOTH), one)
    append(shared, RECORDS[20:])
    shared.hold_up(P0)
    shared.hold_up(P1)
    before = {each: shared.committed(GROUP, each) for each in BOTH}
    shared.members[0].fences = [told]
    until(lambda: bool(one.recovering()), one)
    assert one.telemetry.fenced == 1
    lost = {"drift t.counters[1]"} if told else {"drift t.counters[0]", "drift t.counters[1]"}
    assert one.recovering().keys() <= lost
    assert "drift t.counters[1]" in one.recovering()
    assert (shared.committed(GROUP, P0) > before[P0]) == bool(told)
    assert shared.committed(GROUP, P1) == before[P1]
    shared.let_go(P0)
    shared.let_go(P1)
    until(lambda: done(shared, *BOTH), one)
    stop(one)
    assert left(shared) == want


def test_an_error_of_a_recovery_that_does_not_pass_is_raised(
    shared: SharedBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_done(shared)
    one = joined(shared)
    shared.give(P1, 1)

    def bounds(partition: Partition) -> tuple[int, int]:
        raise BusError(f"{partition}: not authorised")

    monkeypatch.setattr(shared, "bounds", bounds)
    with pytest.raises(BusError, match="not authorised"):
        one.run(threading.Event())


def test_rebalances_are_counted(shared: SharedBus) -> None:
    one = joined(shared)
    for number in (0, None, 0):
        shared.give(P0, number)
        one.step(NEVER)
    counted = one.telemetry.task("drift", P0)
    assert (counted.assignments, counted.revocations) == (2, 1)


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {}),
        *(pytest.param(seed, {}, marks=pytest.mark.slow) for seed in range(1, 4)),
        pytest.param(4, {"standby": True}, marks=pytest.mark.slow),
        (5, {"standby": True}),
        (6, {"max_keys": 2}),
        (7, {"max_keys": 2, "standby": True}),
        (8, {"max_keys": 2, "standby": True, "pace": Pace(0.0, 5, 5)}),
        *(
            pytest.param(seed, {"max_keys": 2 + seed % 3, "standby": seed % 2 == 0}, marks=pytest.mark.slow)
            for seed in range(10, 30)
        ),
    ],
)
def test_however_partitions_come_and_go_the_result_is_the_same(
    new_shared: Callable[..., SharedBus], seed: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(backoff, name, 1e-3)
    monkeypatch.setattr(running, "IDLE_S", 0.002)
    monkeypatch.setattr("laggard.pipeline.core.engine.recoverer.EVERY_S", 0.0)
    monkeypatch.setattr(standby, "CONFIRM_EVERY_S", 0.0)
    expected = undisturbed(new_shared(), **{**options, "standby": False})
    shared = new_shared(share=0.02, seed=seed)
    for one in disturbed(shared, random.Random(seed), options):
        stop(one)
    last = joined(shared, **options)
    for partition in BOTH:
        shared.give(partition, len(shared.members) - 1)
    until(lambda: all(last.telemetry.task("drift", each).assignments for each in BOTH), last)
    until(lambda: done(shared._bus, *BOTH) and not last.recovering(), last)
    stop(last)
    assert left(shared._bus) == expected


def disturbed(shared: SharedBus, draw: random.Random, options: dict[str, Any]) -> Iterable[Runner]:
    """Let workers come, go and die, and partitions wander among them; gives the workers that are still there."""
    alive: dict[int, Runner] = {}

    def die(number: int) -> None:
        del alive[number]
        for partition in BOTH:
            if shared.owners.get(partition) is shared.members[number]:
                shared.give(partition, None)

    for _ in range(150):
        what = draw.choices(["step", "give", "take", "die", "leave", "join"], [60, 8, 4, 2, 2, 4])[0]
        if what == "join" or not alive:
            one = joined(shared, **options)
            alive[len(shared.members) - 1] = one
        elif what == "step":
            for one in alive.values():
                one.step(NEVER)
        elif what == "give":
            shared.give(draw.choice(BOTH), draw.choice(list(alive)))
        elif what == "take":
            shared.give(draw.choice(BOTH), None)
        elif what == "die":
            die(draw.choice(list(alive)))
        else:
            stop(alive.pop(draw.choice(list(alive))))
    return alive.values()


# Standby.


def taken_over(shared: SharedBus, *, with_standby: bool, monkeypatch: pytest.MonkeyPatch) -> int:
    """One worker dies and another one takes its partition over; gives how many records that one then replays."""
    monkeypatch.setattr("laggard.pipeline.core.engine.recoverer.EVERY_S", 0.0)
    one, two = joined(shared, snapshot_records=1000), joined(shared, standby=with_standby)
    shared.give(P1, 0)
    shared.give(P0, 1)
    until(lambda: shared.committed(GROUP, P1) > 10, one, two)
    if with_standby:
        counted = two.telemetry.task("drift", P1)
        until(lambda: counted.standby_position == shared.committed(GROUP, P1) and not counted.standby_left_records, two)
    replayed = shared.replayed[P1]
    shared.give(P1, 1)
    until(lambda: not two.recovering() and two.telemetry.task("drift", P1).records > 0, two)
    replayed = shared.replayed[P1] - replayed
    until(lambda: done(shared, *BOTH), two)
    assert two.telemetry.task("drift", P1).standby_position == 0
    stop(two)
    return replayed


def test_a_standby_replays_less_and_the_result_is_the_same(
    new_shared: Callable[..., SharedBus], want: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, warm = new_shared(), new_shared()
    assert taken_over(without, with_standby=False, monkeypatch=monkeypatch) > 10
    assert taken_over(warm, with_standby=True, monkeypatch=monkeypatch) == 0
    assert left(warm) == left(without) == want


def test_a_standby_knows_what_its_owner_has_saved(
    shared: SharedBus, want: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its first snapshots would send the next recovery back to where the standby began."""
    monkeypatch.setattr("laggard.pipeline.core.engine.recoverer.EVERY_S", 0.0)
    monkeypatch.setattr(standby, "CONFIRM_EVERY_S", 0.0)
    one, two = joined(shared), joined(shared, standby=True)
    shared.give(P1, 0)
    until(lambda: shared.committed(GROUP, P1) > 15, one, two)
    counted = two.telemetry.task("drift", P1)
    until(lambda: counted.standby_position == shared.committed(GROUP, P1), two)
    saved = shared.committed(GROUP, P1)
    shared.give(P1, 1)
    until(lambda: shared.committed(GROUP, P1) > saved + 4, two)  # and dies
    dead = shared.committed(GROUP, P1)
    three = joined(shared)
    shared.give(P1, 2)
    replayed = shared.replayed[P1]
    settle(three)
    until(lambda: not three.recovering() and three.telemetry.task("drift", P1).records > 0, three)
    # From the snapshots of the first owner on, however far the second one came before it died.
    assert dead - (shared.replayed[P1] - replayed) > saved // 2
    shared.give(P0, 2)
    until(lambda: done(shared, *BOTH), three)
    stop(three)
    assert left(shared) == want


def test_a_standby_whose_input_was_deleted_begins_anew(
    shared: SharedBus, want: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laggard.pipeline.core.engine.recoverer.EVERY_S", 0.0)
    one, two = joined(shared), joined(shared, standby=True)
    shared.give(P1, 0)
    until(lambda: shared.committed(GROUP, P1) > 3, one)
    until(lambda: two.telemetry.task("drift", P1).standby_position > 3, two)
    until(lambda: done(shared, P1), one)
    stop(one)  # all of it is in snapshots
    bounds = shared.bounds
    monkeypatch.setattr(
        shared, "bounds", lambda partition: (bounds(partition)[1],) * 2 if partition == P1 else bounds(partition)
    )
    shared.give(P1, 1)
    shared.give(P0, 1)
    until(lambda: done(shared, P0) and not two.recovering(), two)
    assert two.telemetry.task("drift", P1).missed_records == 0
    stop(two)
    assert left(shared) == want


def test_a_standby_follows_only_while_all_own_states_are_there(
    shared: SharedBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_recover: list[dict[str, int]] = []
    two = runner(shared, standby=True)
    monkeypatch.setattr(Recoverer, "warm", lambda _: to_recover.append(two.recovering()))
    until(lambda: len(shared.members) > 0, two)
    for partition in BOTH:
        shared.give(partition, 0)
    until(lambda: done(shared, *BOTH), two)
    stop(two)
    assert len(to_recover) > 3
    assert not any(to_recover)


class Following:
    """A standby that follows until it is told to stop, where it is not done at once."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.followed = 0
        self.told_to_stop = False

    def advance(self, stopped: Callable[[], bool]) -> None:
        self.followed += 1
        deadline = time.monotonic() + 20.0
        while not (self.at_once or self.told_to_stop):
            self.told_to_stop = stopped()
            assert time.monotonic() < deadline


def test_a_standby_follows_once_a_second(shared: SharedBus) -> None:
    following, seconds, found = Following(at_once=True), (0.0, 0.5, 1.0, 1.5, 2.0), []
    clock = iter(standby.EVERY_S * each for each in seconds)
    one = Recoverer(shared, "drift", None, following, clock.__next__)  # type: ignore[arg-type]
    for _ in seconds:
        one.warm()
        one._executor.submit(lambda: None).result()  # it does one thing at a time
        found.append(following.followed)
    one.close()
    assert found == [1, 1, 2, 2, 3]


def test_warming_does_not_wait_for_a_standby_that_follows(shared: SharedBus) -> None:
    following, clock = Following(at_once=False), iter((0.0, 2.0 * standby.EVERY_S))
    one = Recoverer(shared, "drift", None, following, clock.__next__)  # type: ignore[arg-type]
    one.warm()
    one.warm()
    assert not following.told_to_stop
    one.close()
    assert (following.followed, following.told_to_stop) == (1, True)


# Offsets that are not where they were.


def test_an_offset_that_was_set_back_begins_with_what_was_known_there(shared: SharedBus) -> None:
    one = joined(shared)
    for partition in BOTH:
        shared.give(partition, 0)
    until(lambda: done(shared, *BOTH), one)
    stop(one)
    assert shared.inner is not None
    states = left(shared)[1]
    shared.inner.commit(Commit({P1: 5}))
    two = joined(shared)
    for partition in BOTH:
        shared.give(partition, 1)
    until(lambda: done(shared, *BOTH), two)
    stop(two)
    assert left(shared)[1] == states
