"""The engine on a real broker: partitions that come, go and are kept, offsets with holes, standbys."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer

from laggard.pipeline.core.bus import BusError, Outgoing, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, Mark, encode
from laggard.pipeline.core.records.outputs import Anomaly, Incident, Progress, read_output, write_output
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, Topics
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.methods.incidents.stage import Joining
from tests.pipeline.core.bus.kafka_buses import CLIENTS, kafka_options
from tests.pipeline.core.engine.conftest import WIRED, at, frame, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from laggard.pipeline.core.bus import Bus, Incoming
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from laggard.pipeline.core.engine.stage import Stage
    from tests.brokers import Cluster

pytestmark = pytest.mark.slow

JOINING = Joining()

BEGAN = float(round(time.time()) - 6000)
"""The broker deletes what is older than its topic's retention, and the stream's clock begins in 1970."""

RECORDS = [one if isinstance(one, bytes) else replace(one, ts=BEGAN + one.ts) for one in stream(200, hosts=12)]
CALM = [
    replace(frame(f"h{host}", tick, 5.0, scope=scope), ts=BEGAN + at(tick))
    for tick in range(200, 230)
    for host in range(12)
    for scope in ("process", "host")
]
"""Ten minutes in which all anomalies end."""

PARTITIONS = 3
PATIENCE_S = 150.0


class Gated(KafkaBus):
    """A bus on which a recovery may be held up, and that counts the records that recoveries read."""

    def __init__(self, options: KafkaOptions) -> None:
        super().__init__(options)
        self.gate = threading.Event()
        self.gate.set()
        self.replayed = 0

    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        """As the bus does, but only while the gate is open."""
        of_input = partition.topic.endswith(COUNTERS.name)
        for record in super().read(partition, start, stop, key):
            if of_input:
                self.gate.wait()
                self.replayed += 1
            yield record


class Group:
    """The workers of one operator, each on a bus of its own, driven by the test one after the other.

    Parameters:
        options: of the buses.
        committed_is_taken: whether each offset of the input is that of a record.

    """

    def __init__(self, options: KafkaOptions, *, committed_is_taken: bool = True) -> None:
        self.topics = Topics(options.prefix)
        self.input = self.topics.name(COUNTERS)
        self.name = self.topics.group(WIRED.name)
        self.runners: list[Runner] = []
        self.buses: list[Gated] = []
        self._options = options
        self._committed_is_taken = committed_is_taken
        self._opened = ExitStack()
        self.bus: Bus = self._opened.enter_context(KafkaBus(options))
        self.bus.create(self.topics.specs(partitions=PARTITIONS))
        self.bus.create(self.topics.specs([self.topics.snapshots(each.snapshots) for each in (WIRED, JOINING)]))

    def partitions(self) -> Sequence[Partition]:
        return self.bus.partitions(self.input)

    def join(self, stages: Sequence[Stage] = (WIRED,), **options: Any) -> Runner:
        bus = self._opened.enter_context(Gated(self._options))
        options = {"pace": Pace(0.0, 7, 7), "snapshot_records": 4, **options}
        self.buses.append(bus)
        self.runners.append(Runner(bus, stages, self.topics, **options))
        return self.runners[-1]

    def until(self, holds: Callable[[], bool], *runners: Runner) -> None:
        """Let the runners take turns until it holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline
            for one in runners:
                one.step(threading.Event())

    def has(self, one: Runner) -> list[Partition]:
        """The partitions that a runner has, recovered or not."""
        return [
            each
            for each in self.partitions()
            if (counted := one.telemetry.task(WIRED.name, each)).assignments > counted.revocations
        ]

    def append(self, records: Iterable[Frame | Mark | bytes]) -> None:
        self.bus.append([outgoing(self.input, one) for one in records])

    def taken(self) -> int:
        """How many of the records are committed."""
        committed = {each: self.bus.committed(self.name, each) for each in self.partitions()}
        if self._committed_is_taken:
            return sum(committed.values())
        return sum(len(list(self.bus.read(each, 0, offset))) for each, offset in committed.items())

    def stop(self, one: Runner) -> None:
        stopped = threading.Event()
        stopped.set()
        one.run(stopped)

    def die(self, one: Runner) -> None:
        """Leave without a last commit."""
        for turn in one._turns:
            turn.member.close()

    def left(self) -> Any:
        return left(self.bus, self.topics)

    def incidents(self) -> tuple[list[str], list[str]]:
        """The records of incidents, by partition in their order; and those that follow from the anomalies before."""
        told: list[str] = []
        follow: list[str] = []
        for partition in self.bus.partitions(self.topics.name(ANOMALIES)):
            joiners: dict[str, Joiner] = defaultdict(Joiner)
            for record in self.bus.read(partition, 0):
                match read_output(record.value, "here"):
                    case Incident() as one:
                        told.append(write_output(one))
                    case Anomaly() | Progress() as found:
                        follow += map(write_output, joiners[found.key].take(found))
        return told, follow

    def close(self) -> None:
        for bus in self.buses:
            bus.gate.set()
        for one in self.runners:
            self.die(one)
        self._opened.close()


def left(bus: Bus, topics: Topics) -> Any:
    """Outputs by topic and key in their order, without the prefix of each test's topics; and states."""
    outputs: dict[str, list[bytes]] = {}
    for topic in (ANOMALIES, DEAD_LETTERS):
        for partition in bus.partitions(topics.name(topic)):
            for each in bus.read(partition, 0):
                value = each.value.replace(topics.prefix.encode(), b"")
                outputs.setdefault(f"{topic.name} {each.key}", []).append(value)
    states = {
        saved.key: saved.value
        for partition in bus.partitions(topics.name(COUNTERS))
        for saved in bus.snapshots(WIRED.snapshots, partition)
        if saved.key
    }
    return outputs, states


def outgoing(topic: str, one: Frame | Mark | bytes) -> Outgoing:
    if isinstance(one, bytes):
        return Outgoing(topic, "h1", one, BEGAN)
    return Outgoing(topic, one.key if isinstance(one, Frame) else one.host, encode(one), one.ts)


@pytest.fixture(autouse=True)
def quick_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runners take turns, one that has nothing to do keeps the others waiting."""
    monkeypatch.setattr("laggard.pipeline.core.engine.runner.IDLE_S", 0.05)


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, broker: Cluster) -> KafkaOptions:
    return kafka_options(broker, request.param, session_timeout_s=6.0)


@pytest.fixture
def group(options: KafkaOptions) -> Iterator[Group]:
    with closing(Group(options)) as group:
        yield group


@pytest.fixture(scope="module")
def want(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one undisturbed worker leaves, on a bus without a broker."""
    topics, stopped = Topics("want."), threading.Event()
    topic = topics.name(COUNTERS)
    with EmbeddedBus(tmp_path_factory.mktemp("want") / "bus.db") as bus:
        bus.create(topics.specs(partitions=PARTITIONS))
        bus.create(topics.specs([topics.snapshots(WIRED.snapshots)]))
        bus.append([outgoing(topic, one) for one in RECORDS])
        runner = Runner(bus, [WIRED], topics, pace=Pace(0.0, 7, 7), snapshot_records=4)
        while sum(bus.committed(topics.group(WIRED.name), each) for each in bus.partitions(topic)) < len(RECORDS):
            runner.step(threading.Event())
        stopped.set()
        runner.run(stopped)
        return left(bus, topics)


def test_what_is_kept_goes_on_while_the_group_rebalances_and_another_partition_recovers(
    group: Group, want: Any
) -> None:
    group.append(RECORDS[:80])
    one, two = group.join(snapshot_records=1000), group.join(snapshot_records=1000)
    group.until(lambda: group.taken() == 80, one)
    assert len(group.has(one)) == PARTITIONS
    group.until(lambda: len(group.has(two)) == 1 and not two.recovering(), one, two)
    kept = group.has(one)
    assert len(kept) == PARTITIONS - 1
    revoked = {each: one.telemetry.task(WIRED.name, each).revocations for each in group.partitions()}
    assert [revoked[each] for each in kept] == [0, 0], "nothing is taken away and given back"
    # Its partition comes back to the first one, whose recovery is held up for longer than the session.
    group.buses[0].gate.clear()
    lost = group.has(two)
    group.die(two)
    group.until(lambda: len(group.has(one)) == PARTITIONS, one)
    group.append(RECORDS[80:])
    ends = {each: group.bus.bounds(each)[1] for each in kept}
    until = time.monotonic() + 8.0
    group.until(lambda: all(group.bus.committed(group.name, each) == ends[each] for each in kept), one)
    assert one.recovering().keys() == {f"drift {each.topic}[{each.number}]" for each in lost}
    group.until(lambda: time.monotonic() > until, one)
    assert len(group.has(one)) == PARTITIONS, "a slow recovery costs it nothing"
    assert [one.telemetry.task(WIRED.name, each).revocations for each in kept] == [0, 0]
    group.buses[0].gate.set()
    group.until(lambda: group.taken() == len(RECORDS), one)
    group.stop(one)
    assert group.left() == want


def test_offsets_with_holes_are_no_losses_and_no_lag(options: KafkaOptions, want: Any, broker: Cluster) -> None:
    """A producer that writes in transactions leaves a marker in each partition, and what it aborts."""
    with closing(Group(options, committed_is_taken=False)) as group:
        check_offsets_with_holes(group, want, broker)


def check_offsets_with_holes(group: Group, want: Any, broker: Cluster) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=group.name, linger_ms=0)
    producer.init_transactions()

    def send(records: Iterable[Frame | Mark | bytes]) -> None:
        for one in records:
            sent = outgoing(group.input, one)
            number = group.bus.partition_of(group.input, sent.key).number
            producer.send(
                group.input, sent.value, sent.key.encode(), partition=number, timestamp_ms=round(sent.ts * 1000)
            )

    for first in range(0, len(RECORDS), 20):
        producer.begin_transaction()
        send(RECORDS[first : first + 20])
        producer.commit_transaction()
        producer.begin_transaction()
        send(RECORDS[first : first + 5])
        producer.flush()
        producer.abort_transaction()
    producer.close()
    one = group.join()
    group.until(lambda: group.taken() > 120, one)
    group.die(one)
    two = group.join()
    group.until(lambda: group.taken() == len(RECORDS) and not two.recovering(), two)
    for _ in range(3):  # the second look finds that nothing came, a third one is told so
        two.update_lag()
    # A marker may come a moment after its transaction is told to have ended.
    deadline = time.monotonic() + PATIENCE_S
    while any(two.telemetry.task(WIRED.name, each).lag_records for each in group.partitions()):
        assert time.monotonic() < deadline
        two.update_lag()
    for partition in group.partitions():
        counted = two.telemetry.task(WIRED.name, partition)
        assert (counted.lag_records, counted.missed_records) == (0, 0)

    def passed() -> bool:
        """The markers, which others that watch the group would take for records."""
        return all(group.bus.committed(group.name, each) == group.bus.bounds(each)[1] for each in group.partitions())

    group.until(passed, two)
    group.stop(two)
    three = group.join()
    group.until(lambda: len(group.has(three)) == PARTITIONS and not three.recovering(), three)
    assert group.buses[-1].replayed == 0, "all of it is in snapshots"
    group.append([RECORDS[0]])
    group.until(lambda: sum(each.records for each in three.telemetry.tasks()) == 1, three)
    three.update_lag()
    assert {each.missed_records for each in three.telemetry.tasks()} == {0}
    assert group.left() == want


def test_a_standby_takes_over_without_replaying(group: Group, want: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.pipeline.core.engine.recoverer.EVERY_S", 0.1)
    group.append(RECORDS[:150])
    one = group.join(snapshot_records=1000)
    group.until(lambda: group.taken() == 150, one)
    warm = group.join(standby=True)
    group.until(lambda: len(group.has(warm)) == 1 and not warm.recovering(), one, warm)
    others = set(group.partitions()) - set(group.has(warm))

    def followed() -> bool:
        return all(
            warm.telemetry.task(WIRED.name, each).standby_position == group.bus.committed(group.name, each)
            for each in others
        )

    group.until(followed, one, warm)
    group.append(RECORDS[150:])
    group.until(lambda: group.taken() == len(RECORDS), one, warm)
    group.until(followed, one, warm)
    replayed = group.buses[1].replayed
    group.die(one)
    group.until(lambda: len(group.has(warm)) == PARTITIONS and not warm.recovering(), warm)
    assert group.buses[1].replayed == replayed
    group.stop(warm)
    assert group.left() == want


def test_incidents_are_joined_exactly_once_while_partitions_move(group: Group) -> None:
    both = (WIRED, JOINING)
    group.append(RECORDS[:80])
    one, two = group.join(both), group.join(both)
    group.until(lambda: group.taken() == 80, one)
    group.until(lambda: len(group.has(two)) == 1 and not two.recovering(), one, two)
    group.append(RECORDS[80:140])
    group.until(lambda: group.taken() == 140, one, two)
    group.die(one)
    # The operator and what joins its anomalies in workers of their own, the one after the other dead.
    # They commit more at once: the calm at the end is long.
    more = Pace(0.0, 100, 100)
    three, four = group.join([WIRED], pace=more), group.join([JOINING], pace=more)
    group.until(lambda: bool(group.has(three)) and not three.recovering(), two, three, four)
    group.die(two)
    group.append(RECORDS[140:])
    group.until(lambda: group.taken() == len(RECORDS) and not four.recovering(), three, four)

    group.append(CALM)
    group.until(lambda: group.taken() == len(RECORDS) + len(CALM), three, four)

    def joined() -> bool:
        told, follow = group.incidents()
        return told == follow

    group.until(joined, three, four)
    told, _ = group.incidents()
    changes = [json.loads(each)["change"] for each in told]
    assert changes.count("opened") == changes.count("closed") > 5
    assert "extended" in changes


@pytest.mark.parametrize("missing", [ANOMALIES.name, DEAD_LETTERS.name, f"snapshots.{WIRED.snapshots}"])
def test_a_worker_that_lacks_a_topic_says_so_before_it_begins(broker: Cluster, missing: str) -> None:
    """As after an update whose snapshots have a new form, and so a topic of their own."""
    options = kafka_options(broker)
    topics = Topics(options.prefix)
    specs = [*topics.specs(), *topics.specs([topics.snapshots(WIRED.snapshots)])]
    with KafkaBus(options) as bus:
        bus.create(spec for spec in specs if spec.name != options.prefix + missing)
        runner = Runner(bus, [WIRED], topics)
        with pytest.raises(BusError, match=rf"{options.prefix}{missing}.*`laggard topics create`"):
            runner.step(threading.Event())
        assert not bus.groups.client_ids(topics.group(WIRED.name))
