"""The states of a task's keys: which there are, when each is saved, and where a replay has to begin.

A snapshot of a key is taken after so many of its records, in different keys at different records, so that few fall
together; after fewer where there are many keys, so that a recovery has not much more than `REPLAY_RECORDS` to replay.
Distances are counted in records, not in seconds, so that a task that was interrupted takes the same snapshots as one
that was not. They are not counted in offsets either: those of Kafka have holes, where transactions end. So a state
depends on the records alone, and equal states have equal bytes. Beside the snapshots the *base* is saved, the first
offset that is not in some key's snapshot, with the number of records before it: replay begins there, and goes on
counting. A key that has fallen silent is saved once more, so that it does not hold the base back.

Of more than `max_keys` keys the one heard least recently is given up, and so is one that was silent for too long; a
snapshot without content tells that to a later recovery. Where a key is told of by somebody who waits for how that ends,
it is noted when the key falls silent. All of it follows from the records alone; what changes a key at the record of
another one is in that very commit, so that a replay, which may begin behind that record, finds it done.

Memory: `max_keys` states, each with an operator for each scope (see there; for `gaussian` 176 bytes per row and
feature), with the newest frame of each and the 256 sequence numbers last seen; snapshots that wait for a
commit, of which there are as many as fell due since the last one; and what the task's decoder remembers of names. A
recovery holds the partition's newest snapshots as bytes beside the states that it makes of them.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar
from zlib import crc32

from laggard.pipeline.bus import Partition, Snapshot
from laggard.pipeline.engine.migrations import migrate
from laggard.pipeline.engine.snapshots import (
    BASE_KEY,
    SnapshotError,
    decode_state,
    encode_state,
    read_state,
    state_bytes,
)
from laggard.pipeline.engine.stage import LONGEST_REASON
from laggard.pipeline.records import Decoder
from laggard.pipeline.records.limits import MAX_TS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from laggard.pipeline.engine.stage import Stage

GIVEN_UP: Final = b""
"""The content of the snapshot that says that a key has no state any more."""

MAX_SNAPSHOT_BYTES: Final = 48 << 20
"""A bus takes values of 64 MiB."""

MAX_TAKEN_BYTES: Final = 8 << 20
"""A commit is to be short: what is beyond goes into the next one."""

REPLAY_RECORDS: Final = 25_000
"""Between two snapshots of all keys there are at most about so many records."""

FEWEST_RECORDS: Final = 10
"""... unless a key would have to be saved after fewer than so many of its own."""

FORGOTTEN_RECORDS: Final = 100_000
"""A key that was silent while all keys had so many records each is given up: at 5 s ticks after some two days."""

SILENT_RECORDS: Final = 200
"""A key has fallen silent when all keys had so many records each meanwhile, beside the time that has passed: one other
key's clock, which may be wrong, is not enough."""

_MOST_RECORDS: Final = 1 << 53

_SILENT_ROUNDS: Final = 4
"""A key that was not saved while all keys together had records for so many rounds of snapshots has fallen silent."""

_logger = logging.getLogger(__name__)


class KeyState(Protocol):
    """The state of one key.

    Attributes:
        records: how many records of the key have changed it.
        heard: how many records of the partition came before the last of them; see `States.counted`.

    """

    records: int
    heard: int

    @property
    def ts(self) -> float:
        """The time that it is of, seconds since the Unix epoch; 0 where there is none."""

    @property
    def awaited_until(self) -> float:
        """Until when it is waited for more of the key, seconds since the Unix epoch; infinite where nothing waits."""

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` or `KeyError` naming what does not fit."""


State = TypeVar("State", bound=KeyState)


@dataclass(slots=True)
class _Place:
    """A place in the partition.

    Attributes:
        offset: of a record.
        counted: how many records come before it.

    """

    offset: int
    counted: int


@dataclass(slots=True)
class _Unsaved(_Place):
    """Where a key's first record is that is not in its snapshot, or some place before that.

    Attributes:
        last: the offset of its last record.

    """

    last: int


@dataclass(slots=True)
class Loaded:
    """What a task's snapshots gave.

    Attributes:
        base: where the replay begins; None where no snapshot tells it.
        saved: by key, the first offset that is not in its state.
        damaged: by key, why its snapshot could not be used.
        migrated: how many were of an older version.

    """

    base: int | None = None
    saved: dict[str, int] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    migrated: int = 0


def _time_of(keyed: KeyState) -> float:
    """The time of a state, for its snapshot; 0 where it has none that can be told."""
    try:
        ts = float(keyed.ts)
    except Exception:  # noqa: BLE001 - of a state that somebody else wrote
        return 0.0
    return ts if 0.0 <= ts <= MAX_TS else 0.0


def _base_of(snapshot: Snapshot, place: str) -> tuple[int, int]:
    """Where the replay begins, and how many records come before. Raises `SnapshotError` where that cannot be."""
    state = decode_state(snapshot.value, place)
    base, counted = state["base"], state["counted"]
    if not (type(base) is type(counted) is int and 0 <= counted <= base <= snapshot.offset):
        expected = f"a base of at most {snapshot.offset}, and a count of at most that"
        raise SnapshotError(f"{place}: expected {expected}, got {base!r} and {counted!r}")
    return base, counted


class States(Generic[State]):
    """The states of one task.

    Parameters:
        stage: whose they are.
        partition: whose keys these are.
        empty: makes the state of a key of which nothing was heard.
        snapshot_records: how many records of a key are between two of its snapshots, at most.
        max_keys: how many keys may have a state.

    Attributes:
        counted: how many records of the partition came so far, each once: the measure of all distances.
        evicted: how many keys were given up.
        failed: how many of them were set aside.
        state_bytes: the size of the newest snapshots of all keys, before compression.

    """

    def __init__(
        self, stage: Stage, partition: Partition, empty: Callable[[], State], snapshot_records: int, max_keys: int
    ) -> None:
        self.counted = 0
        self.evicted = 0
        self.failed = 0
        self.state_bytes = 0
        self._gone: list[tuple[str, State]] = []
        self._stage = stage
        self._partition = partition
        self._empty = empty
        self._snapshot_records = self._every = snapshot_records
        self._max_keys = max_keys
        self._keys: dict[str, State] = {}  # the one heard least recently first
        self._unsaved: dict[str, _Unsaved] = {}  # of the keys that have records beyond their snapshots; the least first
        self._passed: list[_Place] = []  # places that a standby has passed
        self._relearned: set[str] = set()  # keys of which it is not known when they were heard last
        self._sizes: dict[str, int] = {}
        self._unsavable: set[str] = set()
        self._to_save: list[str] = []  # keys whose snapshots are damaged or of an older generation
        self._awaited: dict[str, None] = {}  # keys of which something has to end; the one heard least recently first
        self._due: deque[Snapshot] = deque()
        self._at_once: list[Snapshot] = []  # for the next commit, whatever its size
        self._replaying = False
        self._saving = True

    def __len__(self) -> int:
        return len(self._keys)

    def keys(self) -> tuple[str, ...]:
        """All keys that have a state, the one heard least recently first."""
        return tuple(self._keys)

    def get(self, key: str) -> State | None:
        """The state of a key, None where it has none."""
        return self._keys.get(key)

    def open(self, key: str, offset: int) -> State:
        """The state of a key; a new one, in the place of the key heard least recently, where it has none."""
        keyed = self._keys.get(key)
        if keyed is None:
            while len(self._keys) >= self._max_keys:
                self._give_up(next(iter(self._keys)), offset)
            keyed = self._keys[key] = self._empty()
            self._space()
        return keyed

    def _give_up(self, key: str, offset: int) -> None:
        keyed = self._keys.pop(key)
        self._space()
        self.evicted += 1
        self._gone.append((key, keyed))
        self._unsaved.pop(key, None)
        self._unsavable.discard(key)
        self._relearned.discard(key)
        self._awaited.pop(key, None)
        self.state_bytes -= self._sizes.pop(key, 0)
        if self._saving:
            self._save_at_once(self._snapshot(key, offset, _time_of(keyed), GIVEN_UP))

    def set_aside(self, key: str, position: int) -> None:
        """Give a key up whose state cannot be used: nothing of it is told or saved."""
        if key in self._keys:
            self._give_up(key, position)
            self._gone = [each for each in self._gone if each[0] != key]
            self.failed += not self._replaying

    def _save_at_once(self, snapshot: Snapshot) -> None:
        # What was due of the key must not come after this.
        self._due = deque(each for each in self._due if each.key != snapshot.key)
        self._at_once.append(snapshot)

    def take_gone(self) -> Iterator[tuple[str, State]]:
        """The keys that were given up since this was asked last, with their states."""
        while self._gone:
            yield self._gone.pop(0)

    def heard(self, key: str, offset: int) -> None:
        """A record changed the state of a key: note it, and save the key if it is its turn."""
        keyed = self._keys[key] = self._keys.pop(key)
        keyed.records += 1
        keyed.heard = self.counted - 1
        self._unsaved.setdefault(key, _Unsaved(offset, keyed.heard, offset)).last = offset
        self._awaited.pop(key, None)
        if keyed.awaited_until < math.inf:
            self._awaited[key] = None
        if self._saving and keyed.records % self._every == crc32(key.encode()) % self._every:
            self._save(key, offset + 1)

    def _space(self) -> None:
        """Say how many records of a key are between two of its snapshots, with as many keys as there are.

        In halves, so that a key whose turn it was is not passed over when there is one key more or less.
        """
        self._every = self._snapshot_records
        while self._every * len(self._keys) > REPLAY_RECORDS and self._every >= 2 * FEWEST_RECORDS:
            self._every //= 2

    def look_after_silent(self, position: int) -> None:
        """Save the key whose records have waited longest for it, and give up the one heard least recently.

        Each only if that is too long ago. Called after each record, with the first offset that was not processed.
        """
        if self._saving and self._unsaved:
            key, unsaved = next(iter(self._unsaved.items()))
            if self.counted - unsaved.counted > _SILENT_ROUNDS * self._every * len(self._keys):
                self._save(key, position)
        # What is given up goes into the same commit as the record that it was given up at: a replay finds it done.
        if self._keys and not self._replaying:
            key, keyed = next(iter(self._keys.items()))
            if self.counted - keyed.heard > FORGOTTEN_RECORDS * len(self._keys):
                self._give_up(key, position)

    def silent(self, ts: float) -> tuple[str, State] | None:
        """A key that has fallen silent while it is waited for more of it: of those the one heard least recently.

        Whoever asks changes its state so that nothing waits any more, and calls `silenced`.

        Args:
            ts: the time of the newest record, of whatever key, seconds since the Unix epoch.

        Returns:
            The key and its state; None where there is none, and in a replay, whose snapshots have it.

        """
        if self._replaying or not self._awaited:
            return None
        key = next(iter(self._awaited))
        keyed = self._keys[key]
        if ts < keyed.awaited_until or self.counted - keyed.heard <= SILENT_RECORDS * len(self._keys):
            return None
        return key, keyed

    def silenced(self, key: str, position: int) -> None:
        """The state of a key was changed at another key's record, before this position."""
        del self._awaited[key]
        self._unsaved.pop(key, None)
        if self._saving and (snapshot := self._encoded(key, position)) is not None:
            self._save_at_once(snapshot)

    def save_all(self, position: int) -> None:
        """Save every key that has records beyond its snapshot."""
        for key in list(self._unsaved):
            self._save(key, position)

    def _save(self, key: str, position: int) -> None:
        self._unsaved.pop(key, None)
        if (snapshot := self._encoded(key, position)) is not None:
            self._due.append(snapshot)

    def _encoded(self, key: str, position: int) -> Snapshot | None:
        """A snapshot of a key; None where it cannot be saved."""
        keyed = self._keys[key]
        told = {"operator": self._stage.name, "state_version": self._stage.state_version}
        try:
            value = encode_state({**told, **keyed.snapshot()}, MAX_SNAPSHOT_BYTES)
        except SnapshotError as error:
            # Such a key is learned anew after a restart; it must not keep the others from being saved.
            self._tell_unsavable(key, error)
            return None
        except Exception as error:  # noqa: BLE001 - of a state that somebody else wrote
            self._tell_unsavable(key, error)
            self.set_aside(key, position)
            return None
        self.state_bytes += state_bytes(value) - self._sizes.get(key, 0)
        self._sizes[key] = state_bytes(value)
        return self._snapshot(key, position, _time_of(keyed), value)

    def _tell_unsavable(self, key: str, error: Exception) -> None:
        if key not in self._unsavable:
            self._unsavable.add(key)
            reason = str(error)[:LONGEST_REASON]
            _logger.warning("%s of %r in %s cannot be saved: %s", self._stage.name, key, self._partition, reason)

    def _snapshot(self, key: str, offset: int, ts: float, value: bytes) -> Snapshot:
        return Snapshot(self._stage.snapshots, self._partition, key, offset, ts, value)

    def take(self, position: int) -> list[Snapshot]:
        """The snapshots that are due, for the commit up to this position; some, if all are too much for one."""
        taken, self._at_once = self._at_once, []
        size = 0
        while self._due and size < MAX_TAKEN_BYTES:
            snapshot = self._due.popleft()
            taken.append(snapshot)
            size += len(snapshot.value)
        if taken and not self._due:
            base = next(iter(self._unsaved.values()), _Place(position, self.counted))
            taken.append(self._base(position, taken[-1].ts, base))
        return taken

    def _base(self, position: int, ts: float, base: _Place) -> Snapshot:
        value = encode_state({"base": base.offset, "counted": base.counted})
        return self._snapshot(BASE_KEY, position, ts, value)

    def whole(self, position: int, ts: float) -> list[Snapshot]:
        """Snapshots of all that there is, as it is at this position: a recovery begins with them, and replays nothing.

        Args:
            position: the first offset that is not in them.
            ts: their time where they have none of their own, seconds since the Unix epoch.

        """
        found = (self._encoded(key, position) for key in tuple(self._keys))
        base = self._base(position, ts, _Place(position, self.counted))
        return [*(snapshot for snapshot in found if snapshot is not None), base]

    # Recovery.

    def load(self, snapshots: Iterable[Snapshot]) -> Loaded:
        """Take over the newest snapshots of all keys. Nothing is given up until `follow`, or saved until `loaded`."""
        self._replaying = True
        self._saving = False
        loaded = Loaded()
        former: set[str] = set()
        decoder = Decoder()
        for snapshot in snapshots:
            partition = snapshot.partition
            place = f"{snapshot.operator} in {partition.topic}[{partition.number}]@{snapshot.offset}, {snapshot.key!r}"
            try:
                if snapshot.key == BASE_KEY:
                    loaded.base, self.counted = _base_of(snapshot, place)
                    continue
                if snapshot.value != GIVEN_UP:
                    state, older = read_state(snapshot.value, place)
                    loaded.migrated += migrate(state, self._stage, place) or older
                    if older:
                        former.add(snapshot.key)
                    self._keys[snapshot.key] = self._restored(state, decoder, place)
                    self._sizes[snapshot.key] = state_bytes(snapshot.value)
                    if snapshot.operator != self._stage.snapshots:
                        self._to_save.append(snapshot.key)
                loaded.saved[snapshot.key] = snapshot.offset
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one of them, the others are loaded
                loaded.damaged[snapshot.key] = f"{place}: {type(error).__name__}: {error}"[:LONGEST_REASON]
        for key, keyed in self._keys.items():
            # Of an older form there may be offsets in the place of counts, which are ahead of these.
            if loaded.base is None or (key in former and keyed.heard >= self.counted):
                self._lose_track(key)
        self.state_bytes = sum(self._sizes.values())
        self._space()
        return loaded

    def _lose_track(self, key: str) -> None:
        """Take a key for heard just before the replay: when it was is not known."""
        self._keys[key].heard = self.counted - 1
        self._relearned.add(key)

    def relearned(self, key: str, counted: int) -> None:
        """A key whose snapshot is damaged was learned from its own records alone; `counted` is as it was before."""
        self.counted = counted
        if key in self._keys:
            self._lose_track(key)
            self._to_save.append(key)

    def skipped(self, key: str) -> None:
        """The replay has come past a record that is in its key's state."""
        if key in self._relearned:
            self._keys[key].heard = self.counted - 1

    def _restored(self, state: dict[str, Any], decoder: Decoder, place: str) -> State:
        keyed = self._empty()
        keyed.restore(state, decoder, place)
        if not (0 <= keyed.records <= _MOST_RECORDS and -1 <= keyed.heard <= _MOST_RECORDS):
            raise SnapshotError(f"{place}: expected numbers of records, got {keyed.records} and {keyed.heard}")
        if not (0.0 <= keyed.ts <= MAX_TS and keyed.awaited_until >= 0.0):
            raise SnapshotError(f"{place}: expected a time, got {keyed.ts!r}")
        return keyed

    def follow(self) -> None:
        """The replay has come to where keys may be given up by what follows: nobody has done so yet."""
        if self._replaying:
            self._replaying = False
            self._relearned.clear()
            self._keys = dict(sorted(self._keys.items(), key=lambda item: item[1].heard))
            self._sort_unsaved()
            self._awaited = {key: None for key, keyed in self._keys.items() if keyed.awaited_until < math.inf}

    def _sort_unsaved(self) -> None:
        self._unsaved = dict(sorted(self._unsaved.items(), key=lambda item: item[1].offset))

    def confirm(self, saved: Mapping[str, int], position: int) -> None:
        """Note the snapshots that somebody else has saved meanwhile.

        Args:
            saved: by key, the first offset that is not in it.
            position: where the replay is.

        """
        for key in self._unsaved.keys() & saved.keys():
            unsaved = self._unsaved[key]
            if unsaved.last < saved[key]:
                del self._unsaved[key]
                continue
            for place in self._passed:  # there it is known how many records came before
                if unsaved.offset < place.offset <= saved[key]:
                    unsaved.offset, unsaved.counted = place.offset, place.counted
        self._sort_unsaved()
        self._passed.append(_Place(position, self.counted))
        least = next((each.offset for each in self._unsaved.values()), position)
        self._passed = [each for each in self._passed if each.offset > least]

    def loaded(self, position: int) -> None:
        """The replay is over, and has come to this position: from here on, states are saved.

        What an older version saved is saved anew at once, for a generation of snapshots has to hold all keys; so is
        what had a damaged snapshot.
        """
        self.follow()
        self._saving = True
        for key in self._to_save:
            if key in self._keys:
                self._save(key, position)
        self._to_save.clear()
