"""A group of Kafka, its coordinator and its broker as one small state: what members do to each other, without a clock.

Members are the real ones (`KafkaSubscription`, `Commits`, `claims`); below their seam to a client everything is
simulated. Whenever a member asks the broker something, something else may happen first: the member is expelled, another
one works or dies, an answer is lost. What the coordinator and the broker refuse is what Kafka's do: offsets of another
generation or member (KIP-447), and whatever comes from a fenced producer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.core.bus import BusUnavailable, Commit, Fenced, Partition, Polled
from laggard.pipeline.core.bus.kafka.client import Membership, Offset
from laggard.pipeline.core.bus.kafka.errors import Displaced, Outdated, Unresolved
from laggard.pipeline.core.bus.kafka.kafka_python_admin import Offsets
from laggard.pipeline.core.bus.kafka.members import KafkaSubscription
from laggard.pipeline.core.bus.kafka.options import KafkaOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

TOPIC: Final = "in"
GROUP: Final = "group"
RECORDS: Final = 2
"""Of each partition."""


class Made(NamedTuple):
    """What came of a record."""

    partition: Partition
    offset: int
    size: int = 0


Happen = Callable[["World", str, str], None]
"""Lets something happen before a worker, by its name, asks what."""


class World:
    """The coordinator and the broker.

    Parameters:
        partitions: how many the topic has.
        happen: see `Happen`.

    Attributes:
        outputs: what was committed, in its order.
        generation: of the group.
        alive: the clients of its members, by their ids.
        owners: of the partitions, by the ids of members.
        releasing: by partition, the member that has to hear first that it is not its own any more.
        committed: the offsets.
        epochs: of the transactional ids.
        lost: whose next answer to the end of a transaction is lost.

    """

    def __init__(self, partitions: int, happen: Happen) -> None:
        self.partitions = [Partition(TOPIC, number) for number in range(partitions)]
        self.outputs: list[Made] = []
        self.generation = 0
        self.alive: dict[str, SimulatedMember] = {}
        self.owners: dict[Partition, str] = {}
        self.releasing: dict[Partition, str] = {}
        self.committed: dict[Partition, Offset] = {}
        self.epochs: dict[str, int] = {}
        self.lost: set[str] = set()
        self._happen = happen
        self._named = 0

    def asked(self, who: str, what: str) -> None:
        """Let something happen before a worker asks this."""
        self._happen(self, who, what)

    # The group.

    def join(self, client: SimulatedMember) -> str:
        """Give a client an id."""
        self._named += 1
        name = f"{client.worker}-{self._named}"
        self.alive[name] = client
        self.balance()
        return name

    def leave(self, name: str) -> None:
        """Take a member out of the group: its session has ended, or it has."""
        if self.alive.pop(name, None) is not None:
            self.owners = {at: owner for at, owner in self.owners.items() if owner != name}
            self.heard(name)
            self.balance()

    def expel(self, worker: str) -> None:
        """Take a worker out of the group, which is not told before it asks."""
        for name in [name for name, client in self.alive.items() if client.worker == worker]:
            self.leave(name)

    def balance(self) -> None:
        """Hand partitions out: cooperative and sticky, in a new generation."""
        self.generation += 1
        if not self.alive:
            return
        most = -(-len(self.partitions) // len(self.alive))
        for name in self.alive:
            own = [at for at in self.partitions if self.owners.get(at) == name]
            for at in own[most:]:
                del self.owners[at]
                self.releasing[at] = name
        for at in self.partitions:
            if at not in self.owners and at not in self.releasing:
                self.owners[at] = min(self.alive, key=lambda name: (list(self.owners.values()).count(name), name))

    def of(self, name: str) -> set[Partition]:
        """The partitions of a member."""
        return {at for at, owner in self.owners.items() if owner == name}

    def heard(self, name: str) -> None:
        """A member has heard what is not its own any more: others may have it."""
        free = [at for at, owner in self.releasing.items() if owner == name]
        for at in free:
            del self.releasing[at]
        if free:
            self.balance()

    def check(self, membership: Membership) -> None:
        """Refuse offsets of another generation, or of no member."""
        if membership.member not in self.alive or membership.generation != self.generation:
            raise Outdated("illegal generation")


class SimulatedMember:
    """The client of a worker. A `forgetful` one that joins anew does not tell what it has lost meanwhile."""

    def __init__(self, world: World, worker: str, *, forgetful: bool) -> None:
        self.worker = worker
        self._world = world
        self._forgetful = forgetful
        self._here: set[Partition] = set()
        self._revoked: set[Partition] = set()
        self._assigned: set[Partition] = set()
        self._id = world.join(self)
        self._known = -1  # the newest generation that it knows

    def poll(self, timeout_s: float, max_records: int) -> Polled:
        """Hear of rebalances."""
        self._world.asked(self.worker, "poll")
        if self._id not in self._world.alive:
            if not self._forgetful:
                self._lose(self._here)
            self._id = self._world.join(self)
        while self._known != self._world.generation:
            self._known = self._world.generation
            own = self._world.of(self._id)
            gone = self._here - own
            self._lose(gone)
            new = own - self._here
            self._here |= new
            self._assigned |= new
            self._world.heard(self._id)
        return self.news()

    def _lose(self, partitions: Collection[Partition]) -> None:
        gone = set(partitions)
        self._here -= gone
        self._revoked |= gone - self._assigned
        self._assigned -= gone

    def news(self) -> Polled:
        """What was heard."""
        told = Polled(frozenset(self._revoked), frozenset(self._assigned))
        self._revoked.clear()
        self._assigned.clear()
        return told

    def membership(self) -> Membership | None:
        """As it was heard last."""
        return Membership(self._known, self._id, None) if self._known >= 0 else None

    def seek(self, partition: Partition, offset: int) -> None:
        """Nothing: the worker reads by itself."""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Nothing."""

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Leave the group."""
        self._world.leave(self._id)


class SimulatedTransactions:
    """One session of a transactional id."""

    def __init__(self, world: World, worker: str, name: str) -> None:
        world.asked(worker, "take")
        self.broken = False
        self._world, self._worker, self._name = world, worker, name
        self._epoch = world.epochs[name] = world.epochs.get(name, 0) + 1

    def run(
        self,
        records: Sequence[Any],
        offsets: Mapping[Partition, Offset],
        group: str,
        membership: Membership,
        timeout_s: float,
    ) -> None:
        """Commit."""
        self._world.asked(self._worker, "commit")
        if self._world.epochs[self._name] != self._epoch:
            self.broken = True
            raise Displaced("fenced")
        self._world.check(membership)
        self._world.committed |= offsets
        self._world.outputs += records
        if self._worker in self._world.lost:
            self._world.lost.discard(self._worker)
            self.broken = True
            raise Unresolved("no answer")

    def close(self) -> None:
        """Nothing is open."""


class Worker:
    """One that takes a record at a time, and tells what comes of it.

    Parameters:
        world: where it works.
        name: its own.
        kind: of its subscription.
        forgetful: see `SimulatedMember`.

    """

    def __init__(
        self, world: World, name: str, kind: type[KafkaSubscription] = KafkaSubscription, *, forgetful: bool = True
    ) -> None:
        self.name = name
        self.world = world
        self._states: dict[Partition, int] = {}
        options = KafkaOptions(("nowhere:1",), instance=name)
        client = SimpleNamespace(
            join=lambda group, topics, identity: SimulatedMember(world, name, forgetful=forgetful),
            transactions=lambda identity: SimulatedTransactions(world, name, identity),
        )
        partitions = world.partitions
        bus: Any = SimpleNamespace(
            options=options,
            client=client,
            requests=self,
            topics=self,
            groups=self,
            pack=list,
            partitions=lambda _: partitions,
        )
        self._member = kind(bus, GROUP, [TOPIC])

    def step(self) -> bool:
        """Take one record, or hear news; gives whether there was anything to do."""
        with suppress(BusUnavailable):
            polled = self._member.poll(0.0)
            for partition in polled.revoked:
                self._states.pop(partition, None)
            if polled.assigned:
                for partition in polled.assigned:
                    self._states[partition] = self._member.committed(partition)
                return True
            if polled.revoked:
                return True
            return self._work()
        return True

    def _work(self) -> bool:
        left = [at for at, position in sorted(self._states.items()) if position < RECORDS]
        for partition in left[:1]:
            position = self._states[partition]
            outputs: Any = [Made(partition, position)]
            try:
                self._member.commit(Commit({partition: position + 1}, outputs))
                self._states[partition] = position + 1
            except Fenced as error:
                for each in error.partitions or self._states.copy():
                    self._states.pop(each, None)
        return bool(left)

    def work(self) -> None:
        """Work until there is nothing to do."""
        for _ in range(100):
            if not self.step():
                return

    def die(self) -> None:
        """End without a word; the group finds out."""
        self.world.expel(self.name)

    # What it asks the cluster.

    def offsets(self, group: str, partitions: Iterable[Partition], *, stable: bool = False) -> Offsets:
        self.world.asked(self.name, "offsets")
        return Offsets({at: self.world.committed[at] for at in partitions if at in self.world.committed}, frozenset())

    def client_ids(self, group: str) -> frozenset[str]:
        return frozenset(f"{GROUP}-{client.worker}" for client in self.world.alive.values())

    def bounds(self, partition: Partition) -> tuple[int, int]:
        return 0, RECORDS

    def reachable(self, timeout_s: float) -> bool:
        return True
