"""What only members of a group on Kafka do: they share, they die, they come back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove

from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit, Fenced, Outgoing, Partition, Snapshot
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from tests.pipeline.core.bus.kafka_buses import CLIENTS, kafka_options, prepare
from tests.pipeline.core.bus.test_contract import NOW, await_assignment, everything, take, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.core.bus import Subscription
    from laggard.pipeline.core.bus.kafka.members import KafkaSubscription
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from tests.brokers import Cluster

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
SETTLED_S = 90.0


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, broker: Cluster) -> KafkaOptions:
    """Of a group that waits long enough for its members that one of them is lost only where a test takes it away."""
    return kafka_options(broker, request.param, session_timeout_s=10.0, transaction_timeout_s=60.0)


@pytest.fixture
def impatient(options: KafkaOptions) -> KafkaOptions:
    """Of a group that takes a member that is silent for one second for dead, but waits two minutes for the end
    of a transaction."""
    return replace(options, session_timeout_s=1.0, transaction_timeout_s=120.0)


@pytest.fixture
def attach(options: KafkaOptions) -> Iterator[Callable[..., KafkaBus]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(KafkaBus(options))


class Members:
    """Members that are polled together, and what each of them holds as far as its polls told."""

    def __init__(self) -> None:
        self.held: dict[Subscription, set[Partition]] = {}
        self.records: dict[Subscription, list[tuple[float, bytes]]] = {}
        self.revoked: list[tuple[Subscription, Partition]] = []

    def add(self, member: Subscription) -> Subscription:
        self.held[member] = set()
        self.records[member] = []
        return member

    def poll(self, *which: Subscription) -> None:
        for member in which or tuple(self.held):
            polled = member.poll(0.02)
            assert self.held[member] >= polled.revoked
            self.held[member] -= polled.revoked
            assert not self.held[member] & polled.assigned
            self.held[member] |= polled.assigned
            self.revoked += [(member, partition) for partition in polled.revoked]
            self.records[member] += [(time.monotonic(), record.value) for record in polled.records]
            assert {record.partition for record in polled.records} <= self.held[member]

    def until(self, condition: Callable[[], bool], *which: Subscription) -> None:
        deadline = time.monotonic() + SETTLED_S
        while not condition():
            assert time.monotonic() < deadline, self.held
            self.poll(*which)

    def sizes(self) -> list[int]:
        """How many partitions each holds; fails when one has two holders."""
        everybody = [partition for held in self.held.values() for partition in held]
        assert len(everybody) == len(set(everybody))
        return sorted(len(held) for held in self.held.values())


@contextmanager
def ticking(bus: KafkaBus, topic: str, keys: Sequence[str]) -> Iterator[list[float]]:
    """A record of each key every 50 ms; gives when they were there."""
    stop = threading.Event()
    times: list[float] = []

    def tick() -> None:
        while not stop.wait(0.05):
            bus.append([Outgoing(topic, key, key.encode(), NOW) for key in keys])
            times.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def gaps(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def key_of(bus: KafkaBus, partition: Partition) -> str:
    return next(key for at in range(1000) if bus.partition_of(partition.topic, key := f"host-{at}") == partition)


def test_members_share_and_what_is_kept_goes_on(options: KafkaOptions, attach: Callable[[], KafkaBus]) -> None:
    prepare(options, input=4)
    topic, bus, members = f"{options.prefix}input", attach(), Members()
    group = f"{options.prefix}group"
    keys = {partition: key_of(bus, partition) for partition in bus.partitions(topic)}
    with ticking(bus, topic, list(keys.values())) as ticks:
        first = members.add(bus.subscribe(group, [topic]))
        members.until(lambda: members.sizes() == [4])
        second = members.add(bus.subscribe(group, [topic]))
        members.until(lambda: members.sizes() == [2, 2])
        assert len(members.revoked) == 2
        # A third joins, and the second does not answer for a while: the group cannot settle.
        members.add(bus.subscribe(group, [topic]))
        others = [member for member in members.held if member is not second]
        began = time.monotonic()
        members.until(lambda: time.monotonic() > began + 3.0, *others)
        kept = set(members.held[first])
        members.until(lambda: members.sizes() == [1, 1, 2])
        assert len(members.revoked) == 3
    # On a machine that stands still for a moment nothing comes, and nothing is sent either.
    longest_s = max(gaps([began, *(at for at in ticks if at > began)]))
    for partition in kept & members.held[first]:
        times = [at for at, value in members.records[first] if value == keys[partition].encode() and at > began]
        assert max(gaps([began, *times])) < 1.5 + longest_s
    for member in members.held:
        member.close()


def state_of(admin: KafkaAdminClient, group: str) -> str:
    return str(admin.describe_groups([group])[group]["group_state"])


def test_a_commit_waits_for_the_end_of_a_rebalance(options: KafkaOptions, attach: Callable[[], KafkaBus]) -> None:
    prepare(options, input=1, results=1)
    topic, results, bus, members = f"{options.prefix}input", f"{options.prefix}results", attach(), Members()
    group = f"{options.prefix}group"
    bus.append([Outgoing(topic, "a", b"0", NOW)])
    first: KafkaSubscription = members.add(bus.subscribe(group, [topic]))  # type: ignore[assignment]
    members.until(lambda: members.sizes() == [1] and bool(members.records[first]))
    second = members.add(bus.subscribe(group, [topic]))
    members.until(lambda: second.joined)
    third = members.add(bus.subscribe(group, [topic]))
    # The second one does not answer: the others wait for it.
    with closing(KafkaAdminClient(bootstrap_servers=list(options.bootstrap))) as admin:
        members.until(lambda: state_of(admin, group) == "PreparingRebalance", first, third)
    began = time.monotonic()
    # Long enough for the first one to hear of it with a heartbeat.
    members.until(lambda: time.monotonic() > began + options.session_timeout_s / 3, first, third)
    has_to_wait, woken = first._member.membership() is None, threading.Event()

    def wake() -> None:
        woken.set()
        members.until(lambda: third.joined, second, third)

    waking = threading.Timer(0.5, wake)
    waking.start()
    (partition,) = members.held[first]
    first.commit(Commit({partition: 1}, [Outgoing(results, "a", b"out", NOW)]))
    assert not has_to_wait or woken.is_set()
    while waking.is_alive():  # where it did not have to wait, it joins only now
        members.poll(first)
    waking.join()
    assert members.revoked == []
    assert bus.committed(group, partition) == 1
    assert values(everything(bus, results)) == [b"out"]
    for member in members.held:
        member.close()


def test_a_commit_of_lost_partitions_is_fenced_and_says_which(
    options: KafkaOptions, attach: Callable[[], KafkaBus]
) -> None:
    prepare(options, input=2, results=1)
    topic, results, bus, members = f"{options.prefix}input", f"{options.prefix}results", attach(), Members()
    group = f"{options.prefix}group"
    member = members.add(bus.subscribe(group, [topic]))
    members.until(lambda: members.sizes() == [2])
    other = members.add(attach().subscribe(group, [topic]))
    members.until(lambda: members.sizes() == [1, 1])
    (kept,), (lost,) = members.held[member], members.held[other]
    void = Commit({kept: 0, lost: 0}, [Outgoing(results, "a", b"void", NOW)])
    with pytest.raises(Fenced) as fenced:
        member.commit(void)
    assert fenced.value.partitions == frozenset({lost})
    member.commit(Commit({kept: 0}, [Outgoing(results, "a", b"kept", NOW)]))
    assert values(everything(bus, results)) == [b"kept"]
    member.close()
    other.close()


def test_a_member_that_was_thrown_out_commits_nothing_and_joins_again(
    options: KafkaOptions, attach: Callable[[], KafkaBus]
) -> None:
    prepare(options, input=1, results=1)
    topic, results, bus = f"{options.prefix}input", f"{options.prefix}results", attach()
    group = f"{options.prefix}group"
    member = bus.subscribe(group, [topic])
    (partition,) = await_assignment(member)
    member.commit(Commit({partition: 0}))
    admin = KafkaAdminClient(bootstrap_servers=list(options.bootstrap))
    (known,) = admin.describe_groups([group])[group]["members"]
    admin.remove_group_members(group, [MemberToRemove(member_id=known["member_id"])])
    admin.close()
    with pytest.raises(Fenced):
        member.commit(Commit({partition: 1}, [Outgoing(results, "a", b"void", NOW)]))
    polled = member.poll(1.0)
    assert polled.revoked == {partition}
    assert polled.assigned <= {partition}
    assert polled.assigned or await_assignment(member) == {partition}
    assert member.committed(partition) == 0
    member.commit(Commit({partition: 1}, [Outgoing(results, "a", b"out", NOW)]))
    assert values(everything(bus, results)) == [b"out"]
    member.close()


def test_a_member_that_was_thrown_out_while_it_joins_notices_what_another_one_has_committed(
    options: KafkaOptions, attach: Callable[[], KafkaBus]
) -> None:
    """kafka-python reports no loss where joining is refused, and what it had is its own again when it has joined.

    So it is where the group's coordinator was away for longer than the session, and another member has come and gone.
    """
    options = replace(options, session_timeout_s=30.0)
    prepare(options, input=2, results=1)
    topic, results, bus = f"{options.prefix}input", f"{options.prefix}results", attach()
    group = f"{options.prefix}group"
    with KafkaBus(options) as mine:
        member = mine.subscribe(group, [topic])
        partition, _ = sorted(await_assignment(member))
        member.commit(Commit({partition: 0}))
        admin = KafkaAdminClient(bootstrap_servers=list(options.bootstrap))
        (known,) = admin.describe_groups([group])[group]["members"]
        admin.remove_group_members(group, [MemberToRemove(member_id=known["member_id"])])
        admin.close()
        with closing(bus.subscribe(group, [topic])) as other:
            await_assignment(other)
            other.commit(Commit({partition: 1}, [Outgoing(results, "a", b"out", NOW)]))
        client = member._member  # type: ignore[attr-defined]
        if options.client == "kafka-python":
            client._consumer._coordinator.request_rejoin()
        # What happens to a member that claims another partition.
        member._commits._drop()  # type: ignore[attr-defined]
        deadline = time.monotonic() + SETTLED_S
        while (membership := client.membership()) is None or membership.member == known["member_id"]:
            assert time.monotonic() < deadline
            member._note(client.poll(0.1, 1))  # type: ignore[attr-defined]
        with pytest.raises(Fenced):
            member.commit(Commit({partition: 1}, [Outgoing(results, "a", b"twice", NOW)]))
        polled = member.poll(1.0)
        assert partition in polled.revoked
        assert partition in polled.assigned or partition in await_assignment(member)
        assert member.committed(partition) == 1
        member.commit(Commit({partition: 2}, [Outgoing(results, "a", b"next", NOW)]))
        member.close()
    assert values(everything(bus, results)) == [b"out", b"next"]


def test_a_member_knows_where_nothing_but_markers_of_transactions_follows(
    options: KafkaOptions, attach: Callable[[], KafkaBus]
) -> None:
    prepare(options, input=1)
    topic, bus = f"{options.prefix}input", attach()
    (partition,) = bus.partitions(topic)
    with closing(bus.subscribe(f"{options.prefix}group", [topic])) as member:
        await_assignment(member)
        member.commit(Commit({}, [Outgoing(topic, "a", b"one", NOW)]))
        assert [record.offset for record in take(member, 1)] == [0]
        deadline = time.monotonic() + SETTLED_S
        while member.position(partition) != 2:
            assert time.monotonic() < deadline, member.position(partition)
            assert not member.poll(0.1).records
        assert bus.bounds(partition)[1] == 2, "the record, and the marker"
        member.commit(Commit({partition: 2}))
        bus.append([Outgoing(topic, "a", b"two", NOW)])
        assert [record.value for record in take(member, 1)] == [b"two"]
        member.pause(partition)
        assert member.position(partition) is None


@contextmanager
def victim(options: KafkaOptions, group: str, topic: str, results: str) -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own with a transaction open."""
    given = {name: value for name, value in asdict(options).items() if isinstance(value, str | float | int | tuple)}
    command = [sys.executable, "-m", "tests.pipeline.core.bus.kafka_victim", json.dumps(given), group, topic, results]
    said: list[str] = []
    while said[-1:] != ["open\n"]:
        # An impatient group may lose one that the machine lets wait before it has anything open: then it says so.
        assert len(said) < 3, said
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as process:
            assert process.stdout is not None
            try:
                said.append(process.stdout.readline())
                if said[-1] == "open\n":
                    yield process
            finally:
                process.kill()


def test_an_open_transaction_of_a_dead_member_does_not_delay_its_successor(impatient: KafkaOptions) -> None:
    prepare(impatient, input=1, results=1)
    topic, results, group = (f"{impatient.prefix}{name}" for name in ("input", "results", "group"))
    with ExitStack() as opened:
        bus = opened.enter_context(KafkaBus(impatient))
        bus.append([Outgoing(topic, "a", b"0", NOW)])
        process = opened.enter_context(victim(impatient, group, topic, results))
        successor = bus.subscribe(group, [topic])
        began = time.monotonic()
        process.kill()
        (record,) = take(successor_of(successor), 1)
        successor.commit(Commit({record.partition: 1}, [Outgoing(results, "a", b"by the successor", NOW)]))
        assert values(everything(bus, results)) == [b"by the successor"]
        # One second for the session; two minutes would be the transaction's time.
        assert time.monotonic() - began < 60.0
        successor.close()


def successor_of(member: Subscription) -> Subscription:
    await_assignment(member)
    return member


def test_a_fenced_zombie_writes_nothing(impatient: KafkaOptions) -> None:
    prepare(impatient, input=1, results=1)
    topic, results, group = (f"{impatient.prefix}{name}" for name in ("input", "results", "group"))
    with ExitStack() as opened:
        bus = opened.enter_context(KafkaBus(impatient))
        bus.append([Outgoing(topic, "a", b"0", NOW)])
        process = opened.enter_context(victim(impatient, group, topic, results))
        process.send_signal(signal.SIGSTOP)
        successor = bus.subscribe(group, [topic])
        (record,) = take(successor_of(successor), 1)
        process.send_signal(signal.SIGCONT)
        assert process.stdin is not None
        assert process.stdout is not None
        print("go on", file=process.stdin, flush=True)
        said = process.stdout.readline()
        assert said == "Fenced\n"
        successor.commit(Commit({record.partition: 1}, [Outgoing(results, "a", b"by the successor", NOW)]))
        assert values(everything(bus, results)) == [b"by the successor"]
        assert bus.committed(group, record.partition) == 1
        successor.close()


def test_a_static_member_comes_back_without_a_rebalance(options: KafkaOptions, broker: Cluster) -> None:
    # Long enough to come back in.
    own = {**{name: getattr(options, name) for name in ("client", "prefix")}, "session_timeout_s": 20.0}
    prepare(options, input=2)
    topic, group, members = f"{options.prefix}input", f"{options.prefix}group", Members()
    with (
        KafkaBus(kafka_options(broker, **own, instance="w-1")) as one,
        KafkaBus(kafka_options(broker, **own, instance="w-2")) as two,
    ):
        first = members.add(one.subscribe(group, [topic]))
        second: KafkaSubscription = members.add(two.subscribe(group, [topic]))  # type: ignore[assignment]
        members.until(lambda: members.sizes() == [1, 1])
        members.until(lambda: first.joined and second.joined)
        (partition,) = members.held[first]
        first.commit(Commit({partition: 0}))
        before = second._member.membership()
        first.close()
        again = one.subscribe(group, [topic])
        members.held[again], members.records[again] = set(), []
        del members.held[first]
        members.revoked.clear()
        members.until(lambda: members.held[again] == {partition})
        again.commit(Commit({partition: 0}))
        members.poll()
        assert members.revoked == []
        assert second._member.membership() == before
        again.close()
        second.close()


def test_two_workers_of_one_instance_are_told(options: KafkaOptions, broker: Cluster) -> None:
    own = {name: getattr(options, name) for name in ("client", "prefix", "session_timeout_s")}
    prepare(options, input=1)
    with KafkaBus(kafka_options(broker, **own, instance="w-1")) as bus:
        namesakes = [bus.subscribe(f"{options.prefix}group", [f"{options.prefix}input"]) for _ in range(2)]
        with pytest.raises(BusError, match=r"worker\.instance 'w-1'"):
            poll_for(namesakes, SETTLED_S)
        for member in namesakes:
            member.close()


def test_a_session_that_the_brokers_do_not_allow_names_the_setting(options: KafkaOptions) -> None:
    prepare(options, input=1)
    with KafkaBus(replace(options, session_timeout_s=0.4)) as bus:
        member = bus.subscribe(f"{options.prefix}group", [f"{options.prefix}input"])
        with pytest.raises(
            BusError, match=r"do not allow a kafka\.session_timeout of 0\.4 s; set it within their"
        ) as raised:
            poll_for([member], SETTLED_S)
        assert not isinstance(raised.value, BusUnavailable)
        member.close()


def poll_for(members: Sequence[Subscription], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for member in members:
            member.poll(0.1)


def test_a_snapshot_alone_is_fenced_like_an_offset(options: KafkaOptions, attach: Callable[[], KafkaBus]) -> None:
    prepare(options, input=1)
    topic, bus, members = f"{options.prefix}input", attach(), Members()
    group = f"{options.prefix}group"
    member = members.add(bus.subscribe(group, [topic]))
    members.until(lambda: members.sizes() == [1])
    (partition,) = members.held[member]
    member.commit(Commit({}, (), [Snapshot("operator", partition, "a", 0, NOW, b"state")]))
    assert bus.committed(group, partition) == 0
    other = members.add(attach().subscribe(group, [topic]))
    member.close()
    members.held[member].clear()
    members.until(lambda: members.held[other] == {partition}, other)
    other.commit(Commit({}, (), [Snapshot("operator", partition, "a", 0, NOW, b"newer")]))
    assert [snapshot.value for snapshot in bus.snapshots("operator", partition)] == [b"newer"]
    other.close()


def test_a_commit_without_a_topic_for_snapshots_names_it(options: KafkaOptions, attach: Callable[[], KafkaBus]) -> None:
    prepare(options, input=1)
    member = attach().subscribe(f"{options.prefix}group", [f"{options.prefix}input"])
    (partition,) = await_assignment(member)
    with pytest.raises(BusError, match=rf"{options.prefix}snapshots\.unknown.*laggard topics create"):
        member.commit(Commit({partition: 0}, (), [Snapshot("unknown", partition, "a", 0, NOW, b"state")]))
    member.close()


def test_the_text_beside_an_offset_is_the_members_own(options: KafkaOptions, attach: Callable[[], KafkaBus]) -> None:
    prepare(options, input=1)
    bus, group = attach(), f"{options.prefix}group"
    member: KafkaSubscription = bus.subscribe(group, [f"{options.prefix}input"])  # type: ignore[assignment]
    (partition,) = await_assignment(member)
    texts = set()
    for _ in range(3):
        member.commit(Commit({partition: 0}))
        bus.committed(group, partition)
        (offset,) = bus.groups.offsets(group, [partition]).committed.values()
        assert offset.metadata.startswith(f"{member._commits.identity} ")
        assert offset.metadata.isprintable()
        texts.add(offset.metadata)
    assert len(texts) == 3
    member.close()
