"""A member of a group on Kafka: the common part for all clients."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit, Fenced, Polled, Subscription
from laggard.pipeline.core.bus.kafka.claims import settled_offsets
from laggard.pipeline.core.bus.kafka.commits import Commits, is_rest
from laggard.pipeline.core.bus.kafka.errors import Displaced, Expelled, Outdated, location, named
from laggard.pipeline.core.bus.kafka.snapshots import Chunks
from laggard.pipeline.core.bus.kafka.topic_admin import SETTLING_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.bus import Incoming, Partition
    from laggard.pipeline.core.bus.kafka.bus import KafkaBus
    from laggard.pipeline.core.bus.kafka.client import Membership

SETTLE_S: Final = 30.0
"""The time without an assignment after which a group does not settle without help, in seconds."""

COMMIT_S: Final = 10.0
"""The time that a commit waits for the end of a rebalance, in seconds; then it may be retried."""

MOST_EXPULSIONS: Final = 2
EXPULSIONS_S: Final = 60.0
"""A static member with this number of expulsions in this time, in seconds, has a namesake: it gives way."""

_STEP_S: Final = 0.05
_LEAST_PROBE_S: Final = 0.5
"""The least time for a new connection before brokers count as unreachable, in seconds: TLS over a long line is slow."""


class KafkaSubscription(Subscription):
    """One member of a group; for one thread at a time.

    A new partition is *claimed* before anything is read from it or committed to it: see `claims`. A commit during a
    rebalance waits for the end of it, and is made if its partitions are still this member's.

    Another member may have claimed partitions of this one without notice: some clients have been removed from their
    group, have rejoined, and have reported no loss. The other claim has fenced this member's transactional id, but only
    until this one takes the id again. So a claim is valid for one session of the id, and for one member id. In any
    other, a commit first checks whether this member committed the last offset of its partitions. If not, they are lost.
    """

    def __init__(self, bus: KafkaBus, group: str, topics: Sequence[str]) -> None:
        options = bus.options
        self._bus = bus
        self._options = options
        self._group = group
        self._topics = frozenset(topics)
        identity = f"{group}-{options.instance or uuid.uuid4().hex}"
        self._commits = Commits(options, bus.client, bus.groups, group, identity)
        self._identity = identity
        self._member = bus.client.join(group, topics, identity)
        self._void: Expelled | None = None
        self._expelled: list[float] = []  # the times of expulsions
        self._left = False
        self._mine: set[Partition] = set()  # as reported by `poll`
        self._unclaimed: set[Partition] = set()
        self._paused: set[Partition] = set()
        self._wanted: dict[Partition, int] = {}  # read positions of unclaimed partitions
        self._offsets: dict[Partition, int] = {}  # committed by this member, or found by its claim
        self._sure: dict[Partition, tuple[int, str]] = {}  # the session and member id for which its claim is valid
        self._revoked: set[Partition] = set()  # not reported yet
        self._assigned: set[Partition] = set()
        self._held: list[Incoming] = []  # came together with changes
        self._snapshots = Chunks(options.prefix, bus.partitions)
        self._ended: Commit | None = None  # was committed, which was found out after it had raised
        self._trying: Commit | None = None
        self._heard_at = time.monotonic()

    @property
    def joined(self) -> bool:
        """Whether the group has assigned this member its partitions."""
        return self._member.membership() is not None

    # Reading.

    def poll(self, timeout_s: float, max_records: int = 500) -> Polled:
        """Return changes of the assignment first, then records.

        Raises BusUnavailable when no broker has answered for a while, or the group does not settle.
        """
        self._check_open("poll")
        deadline = time.monotonic() + timeout_s
        self._settle()
        if self._revoked or self._assigned:
            return self._rebalanced()
        self._claim(self._unclaimed)
        if self._held:
            records, self._held = self._held[:max_records], self._held[max_records:]
            return Polled(records=tuple(records))
        while True:
            left = max(0.0, deadline - time.monotonic())
            # Outstanding claims must not wait for the whole time.
            polled = self._ask(min(left, _STEP_S) if self._unclaimed else left, max_records)
            self._note(polled)
            if self._revoked or self._assigned:
                self._held += polled.records
                return self._rebalanced()
            if polled.records:
                return polled
            if not max(0.0, deadline - time.monotonic()):
                self._probe(timeout_s)
                return Polled()
            self._claim(self._unclaimed)

    def _ask(self, timeout_s: float, max_records: int) -> Polled:
        """Poll the client; an expelled member rejoins, and has lost everything."""
        if self._void is None:
            try:
                return self._member.poll(timeout_s, max_records)
            except Expelled as error:
                now = time.monotonic()
                self._expelled = [at for at in self._expelled if now - at < EXPULSIONS_S] + [now]
                if len(self._expelled) >= MOST_EXPULSIONS:
                    raise
                self._void = error
        self._member.close()
        self._note(Polled(revoked=frozenset(self._mine)))
        self._assigned.clear()
        self._member = self._bus.client.join(self._group, sorted(self._topics), self._identity)
        self._void = None
        return Polled()

    def _note(self, polled: Polled) -> None:
        """Store changes from the client until `poll` reports them."""
        if polled.records or polled.assigned or polled.revoked:
            self._heard_at = time.monotonic()
        for partition in polled.revoked:
            self._assigned.discard(partition)
            if partition in self._mine:
                self._revoked.add(partition)
        self._assigned |= polled.assigned

    def _rebalanced(self) -> Polled:
        revoked, assigned = frozenset(self._revoked), frozenset(self._assigned)
        self._revoked.clear()
        self._assigned.clear()
        self._mine = self._mine - revoked | assigned
        self._snapshots.forget(revoked)
        for partition in revoked | assigned:
            self._paused.discard(partition)
            self._wanted.pop(partition, None)
            self._offsets.pop(partition, None)
            self._sure.pop(partition, None)
        self._unclaimed = self._unclaimed - revoked | assigned
        self._held = [record for record in self._held if record.partition in self._mine - assigned]
        return Polled(revoked=revoked, assigned=assigned)

    def _probe(self, timeout_s: float) -> None:
        """Check after a silence whether any broker is reachable."""
        now = time.monotonic()
        silent_s = now - self._heard_at
        if silent_s < self._options.request_timeout_s:
            return
        if not self._bus.requests.reachable(max(_LEAST_PROBE_S, timeout_s)):
            raise BusUnavailable(f"{location(self._options)}: no broker has answered for {silent_s:.0f} s")
        if self._member.membership() is not None:
            self._heard_at = now
        elif silent_s > SETTLE_S:
            raise BusUnavailable(
                f"{location(self._options)}: group {self._group} has not settled for {silent_s:.0f} s: look for "
                "members that do not answer, or are of another version"
            )

    def position(self, partition: Partition) -> int | None:
        """Return the read position."""
        if partition not in self._mine - self._unclaimed - self._revoked - self._paused:
            return None
        waits = any(record.partition == partition for record in self._held)
        return None if waits else self._member.position(partition)

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at this offset."""
        self._check_assigned("seek in", partition)
        self._held = [record for record in self._held if record.partition != partition]
        if partition in self._unclaimed:
            self._wanted[partition] = max(0, offset)
        elif partition not in self._revoked:
            self._member.seek(partition, max(0, offset))

    def pause(self, partition: Partition) -> None:
        """Return no records of this partition."""
        self._check_assigned("pause", partition)
        self._paused.add(partition)
        buffered = [record.offset for record in self._held if record.partition == partition]
        if buffered:
            self.seek(partition, buffered[0])
        if partition not in self._unclaimed | self._revoked:
            self._member.pause([partition])

    def resume(self, partition: Partition) -> None:
        """Return records of this partition again."""
        self._check_assigned("resume", partition)
        self._paused.discard(partition)
        if partition not in self._unclaimed | self._revoked:
            self._member.resume([partition])

    def committed(self, partition: Partition) -> int:
        """Return the group's committed offset; a partition of this member is claimed first."""
        self._check_open("look at an offset")
        self._settle()
        if partition not in self._mine:
            return self._bus.committed(self._group, partition)
        deadline = time.monotonic() + SETTLING_S
        while partition in self._unclaimed and partition not in self._revoked:
            if time.monotonic() > deadline:
                raise BusUnavailable(
                    f"{location(self._options)}: group {self._group}: {named([partition])} cannot be claimed yet: the "
                    "group has not settled, or another member has not ended its transaction"
                )
            self._advance(self._member.membership(), {partition}, deadline)
        return self._offsets.get(partition, 0)

    # Claiming.

    def _claim(self, wanted: Iterable[Partition]) -> None:
        """Claim those that can be claimed now; the others stay unclaimed. Raises BusUnavailable."""
        membership = self._member.membership()
        self._note(self._member.news())
        partitions = set(wanted) - self._revoked
        if not partitions or membership is None:
            return
        offsets = settled_offsets(self._bus, self._commits, self._group, partitions)
        if not offsets:
            return
        session = self._commits.session
        try:
            self._commits.run((), offsets, membership)
        except (Outdated, Displaced):
            return  # the next poll reports the change
        self._heard_at = time.monotonic()
        self._offsets |= offsets
        self._sure |= dict.fromkeys(offsets, (session, membership.member))
        self._unclaimed -= offsets.keys()
        for partition, offset in offsets.items():
            self._member.seek(partition, self._wanted.pop(partition, offset))
            if partition not in self._paused:
                self._member.resume([partition])

    def _unclaim(self, partitions: Iterable[Partition]) -> None:
        """Require new claims, to read the committed offsets again: the outcome of the last commit is unknown."""
        partitions = set(partitions) & self._mine - self._revoked
        self._member.pause(partitions)
        self._unclaimed |= partitions
        self._held = [record for record in self._held if record.partition not in partitions]

    # Committing.

    def commit(self, commit: Commit) -> None:
        """Commit all of it, or nothing."""
        self._check_open("commit")
        touched = {*commit.offsets, *(snapshot.partition for snapshot in commit.snapshots)}
        for partition in touched:
            if partition.topic not in self._topics:
                raise BusError(
                    f"{location(self._options)}: group {self._group}: cannot commit {named([partition])}: it is of no "
                    "topic of this member"
                )
        records = self._bus.pack(commit.outputs) + self._snapshots.pack(commit.snapshots)
        self._settle()
        if self._ended is not None:
            ended, self._ended = self._ended, None
            if is_rest(commit, ended):
                return
        deadline = time.monotonic() + COMMIT_S
        while True:
            membership = self._member.membership()
            # Only now: the coordinator accepts offsets of any partition from a member of the right generation.
            self._note(self._member.news())
            self._check_owned(touched)
            if membership is None or touched & self._unclaimed:
                self._check_patience(deadline)
                self._advance(membership, touched, deadline)
                continue
            if doubtful := self._doubtful(touched, membership):
                self._check_patience(deadline)
                self._assure(doubtful, membership)
                continue
            offsets = {partition: self._offsets[partition] for partition in touched} | dict(commit.offsets)
            try:
                self._commits.run(records, offsets, membership)
            except BusUnavailable:
                self._trying = commit if self._commits.unresolved else None
                raise
            except Outdated:
                self._check_patience(deadline)
                self._advance(membership, touched, deadline, outdated=True)
                continue
            except Displaced as error:
                self._unclaim(touched)
                raise Fenced(
                    f"{location(self._options)}: group {self._group}: the brokers have fenced this member's producer; "
                    f"it claims {named(touched)} again: {error}"
                ) from error
            self._committed(commit, offsets)
            return

    def _committed(self, commit: Commit, offsets: dict[Partition, int]) -> None:
        self._heard_at = time.monotonic()
        self._offsets |= {partition: offset for partition, offset in offsets.items() if partition in self._mine}
        self._snapshots.committed(commit.snapshots)

    def _check_owned(self, touched: set[Partition]) -> None:
        """Raise Fenced for partitions that this member does not have, or lost in between."""
        lost = frozenset(touched - (self._mine - self._revoked))
        if lost:
            raise Fenced(
                f"{location(self._options)}: group {self._group}: another member has taken {named(lost)} over", lost
            )

    def _doubtful(self, touched: set[Partition], membership: Membership) -> set[Partition]:
        """Return those that another member may have claimed since this one did."""
        self._commits.take()
        return {each for each in touched if self._sure.get(each) != (self._commits.session, membership.member)}

    def _assure(self, doubtful: set[Partition], membership: Membership) -> None:
        """Check whether another member has claimed these; report those as lost, and as assigned again."""
        found = self._bus.groups.offsets(self._group, doubtful, stable=True)
        lost = set()
        for partition in doubtful - set(found.unstable):
            offset = found.committed.get(partition)
            if offset is not None and self._commits.is_last(partition, offset):
                self._sure[partition] = self._commits.session, membership.member
            else:
                lost.add(partition)
        if found.unstable:
            time.sleep(_STEP_S)
        if lost:
            self._member.pause(lost)
            self._note(Polled(revoked=frozenset(lost)))
            self._assigned |= lost

    def _check_patience(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise BusUnavailable(
                f"{location(self._options)}: group {self._group} has not settled for {COMMIT_S:.0f} s; nothing was "
                "committed"
            )

    def _advance(
        self, membership: Membership | None, touched: set[Partition], deadline: float, *, outdated: bool = False
    ) -> None:
        """Take a step toward the end of a rebalance, or of a claim. The next poll reports its changes."""
        if membership is not None and not outdated:
            self._claim(touched & self._unclaimed)
            if touched & self._unclaimed - self._revoked:
                time.sleep(_STEP_S)
            return
        reading = self._mine - self._paused - self._unclaimed - self._revoked
        self._member.pause(reading)
        try:
            while True:
                self._note(self._ask(_STEP_S, 1))
                now = self._member.membership()
                if now is not None and (membership is None or now.generation != membership.generation):
                    return
                if time.monotonic() > deadline:
                    return
        finally:
            self._member.resume(reading - self._revoked)

    def _settle(self) -> None:
        """Find the outcome of an unanswered commit. Raises BusUnavailable."""
        if not self._commits.unresolved:
            return
        was_committed = self._commits.resolve()
        trying, self._trying = self._trying, None
        if was_committed and trying is not None:
            self._ended = trying
            self._committed(trying, dict(trying.offsets))

    # Leaving.

    def _check_open(self, what: str) -> None:
        if self._left:
            raise BusError(f"{location(self._options)}: group {self._group}: cannot {what}: this member has left")

    def _check_assigned(self, what: str, partition: Partition) -> None:
        if partition not in self._mine:
            raise BusError(
                f"{location(self._options)}: group {self._group}: cannot {what} {partition}: it is not assigned to "
                "this member"
            )

    def close(self) -> None:
        """Leave the group; a static member keeps its partitions until its session times out."""
        if self._left:
            return
        self._left = True
        self._commits.close()
        self._member.close()
