"""The states of a task's keys: their snapshots, the limits on their number, and the beginning of a replay.

Each key is saved after a number of its records, different keys at different records, so that few snapshots are due at
once. The number is lower with many keys, so that a recovery replays not much more than `REPLAY_RECORDS`. Distances are
counted in records, not in seconds, so that an interruption of the task does not change its snapshots. They are not
counted in offsets, since those of Kafka have holes where transactions end. So a state depends on the records alone,
and equal states have equal bytes. The *base* is saved with the snapshots: the first offset that is not in the snapshot
of its key, and the number of records before it. A replay begins there, and continues the count. A silent key is saved
once more, so that it does not hold the base back.

If there are more than `max_keys` keys, the least recently active one is dropped. So is a key that was silent for too
long. An empty snapshot marks this for later recoveries. If the state of a key awaits further records, the silence of
the key is detected. All of this depends on the records alone. A change to a key at the record of another one is in the
same commit as that record, since a replay may begin after it.

Memory: `max_keys` states, each with an operator for each scope (see there; for `gaussian` 176 bytes per row and
feature), the newest frame of each scope, and the last 256 sequence numbers; the snapshots that have become due since
the last commit; and the names in the task's decoder. A recovery also holds the newest snapshots of the partition as
bytes.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic
from zlib import crc32

from laggard.pipeline.bus import Partition, Snapshot
from laggard.pipeline.engine.key_state import State, time_of
from laggard.pipeline.engine.loading import GIVEN_UP, load
from laggard.pipeline.engine.snapshots import BASE_KEY, SnapshotError, encode_state, state_bytes
from laggard.pipeline.engine.stage import LONGEST_REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from laggard.pipeline.engine.loading import Loaded
    from laggard.pipeline.engine.stage import Stage

MAX_SNAPSHOT_BYTES: Final = 48 << 20
"""The most bytes of a snapshot: the embedded bus accepts values of up to 64 MiB."""

MAX_TAKEN_BYTES: Final = 8 << 20
"""The bytes of snapshots after which a commit accepts no more, so that it is short: the rest goes into the next one."""

REPLAY_RECORDS: Final = 25_000
"""About the most records of a partition between two snapshots of all keys ..."""

FEWEST_RECORDS: Final = 10
"""... except if a key would be saved after fewer of its own records than this."""

FORGOTTEN_RECORDS: Final = 100_000
"""A key that was silent for this number of records per key is dropped: at a record every 5 s, after about six days."""

SILENT_RECORDS: Final = 200
"""A key counts as silent only after this number of records per key, in addition to the time: the clock of a single
other key may be wrong."""

_SILENT_ROUNDS: Final = 4
"""A key with unsaved records is saved as silent after the records of this number of rounds of snapshots of all keys."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Place:
    """A place in the partition.

    Attributes:
        offset: the offset of a record.
        counted: the number of records before it.

    """

    offset: int
    counted: int


@dataclass(slots=True)
class _Unsaved(_Place):
    """The place of a key's first record that is not in its snapshot, or a place before that.

    Attributes:
        last: the offset of the key's last record.

    """

    last: int


class States(Generic[State]):
    """The states of one task.

    Parameters:
        stage: the stage of the task.
        partition: the input partition of the task.
        empty: makes the state of a new key.
        snapshot_records: the most records of a key between two of its snapshots.
        max_keys: the most keys with a state.

    Attributes:
        counted: the number of records of the partition so far, each counted once: the measure of all distances.
        evicted: the number of dropped keys.
        failed: the number of these that were set aside.
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
        self._keys: dict[str, State] = {}  # the least recently active first
        self._unsaved: dict[str, _Unsaved] = {}  # of keys with records after their snapshots; the lowest first
        self._passed: list[_Place] = []  # places that a standby has passed
        self._relearned: set[str] = set()  # keys whose last record is unknown
        self._sizes: dict[str, int] = {}
        self._unsavable: set[str] = set()
        self._to_save: list[str] = []  # keys whose snapshots are damaged or of an older generation
        self._awaited: dict[str, None] = {}  # keys whose further records are awaited; the least recently active first
        self._due: deque[Snapshot] = deque()
        self._at_once: list[Snapshot] = []  # for the next commit, whatever its size
        self._replaying = False
        self._saving = True

    def __len__(self) -> int:
        return len(self._keys)

    def keys(self) -> tuple[str, ...]:
        """Return all keys with a state, the least recently active first."""
        return tuple(self._keys)

    def get(self, key: str) -> State | None:
        """Return the state of a key; None without one."""
        return self._keys.get(key)

    def open(self, key: str, offset: int) -> State:
        """Return the state of a key. A new one replaces that of the least recently active key if there are too many."""
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
            self._save_at_once(self._snapshot(key, offset, time_of(keyed), GIVEN_UP))

    def set_aside(self, key: str, position: int) -> None:
        """Drop a key with an unusable state, which `take_gone` does not yield."""
        if key in self._keys:
            self._give_up(key, position)
            self._gone = [each for each in self._gone if each[0] != key]
            self.failed += not self._replaying

    def _save_at_once(self, snapshot: Snapshot) -> None:
        # An earlier snapshot of the key must not follow this one.
        self._due = deque(each for each in self._due if each.key != snapshot.key)
        self._at_once.append(snapshot)

    def take_gone(self) -> Iterator[tuple[str, State]]:
        """Yield the keys that were dropped since the last call, with their states."""
        while self._gone:
            yield self._gone.pop(0)

    def note(self, key: str, offset: int) -> None:
        """Note that a record changed the state of a key, and save the key if it is due."""
        keyed = self._keys[key] = self._keys.pop(key)
        keyed.records += 1
        keyed.last_number = self.counted - 1
        self._unsaved.setdefault(key, _Unsaved(offset, keyed.last_number, offset)).last = offset
        self._awaited.pop(key, None)
        if keyed.awaited_until < math.inf:
            self._awaited[key] = None
        if self._saving and keyed.records % self._every == crc32(key.encode()) % self._every:
            self._save(key, offset + 1)

    def _space(self) -> None:
        """Set the number of records of a key between two of its snapshots, by the number of keys.

        It changes by a factor of two, so that a key is not skipped when there is one key more or less.
        """
        self._every = self._snapshot_records
        while self._every * len(self._keys) > REPLAY_RECORDS and self._every >= 2 * FEWEST_RECORDS:
            self._every //= 2

    def save_silent(self, position: int) -> None:
        """Save the key whose records have waited longest for it, and drop the least recently active one.

        Each only if that is too long ago. Called after each record, with the first unprocessed offset.
        """
        if self._saving and self._unsaved:
            key, unsaved = next(iter(self._unsaved.items()))
            if self.counted - unsaved.counted > _SILENT_ROUNDS * self._every * len(self._keys):
                self._save(key, position)
        # The key is dropped in the same commit as the record that causes it: a replay finds it done.
        if self._keys and not self._replaying:
            key, keyed = next(iter(self._keys.items()))
            if self.counted - keyed.last_number > FORGOTTEN_RECORDS * len(self._keys):
                self._give_up(key, position)

    def silent(self, ts: float) -> tuple[str, State] | None:
        """Return the least recently active key whose further records are awaited, if it has fallen silent.

        The caller changes its state so that nothing is awaited any more, and calls `silenced`.

        Args:
            ts: the time of the newest record of any key, seconds since the Unix epoch.

        Returns:
            The key and its state; None without such a key, and in a replay, whose snapshots have the change.

        """
        if self._replaying or not self._awaited:
            return None
        key = next(iter(self._awaited))
        keyed = self._keys[key]
        if ts < keyed.awaited_until or self.counted - keyed.last_number <= SILENT_RECORDS * len(self._keys):
            return None
        return key, keyed

    def silenced(self, key: str, position: int) -> None:
        """Save a silent key, whose state was changed at another key's record, before this position."""
        del self._awaited[key]
        self._unsaved.pop(key, None)
        if self._saving and (snapshot := self._encoded(key, position)) is not None:
            self._save_at_once(snapshot)

    def save_all(self, position: int) -> None:
        """Save every key with records after its snapshot."""
        for key in list(self._unsaved):
            self._save(key, position)

    def _save(self, key: str, position: int) -> None:
        self._unsaved.pop(key, None)
        if (snapshot := self._encoded(key, position)) is not None:
            self._due.append(snapshot)

    def _encoded(self, key: str, position: int) -> Snapshot | None:
        """Return a snapshot of a key; None if it cannot be saved."""
        keyed = self._keys[key]
        told = {"operator": self._stage.name, "state_version": self._stage.state_version}
        try:
            value = encode_state({**told, **keyed.snapshot()}, MAX_SNAPSHOT_BYTES)
        except SnapshotError as error:
            # Such a key is learned from scratch after a restart. It must not prevent the others from being saved.
            self._report_unsavable(key, error)
            return None
        except Exception as error:  # noqa: BLE001 - a third-party state may raise anything
            self._report_unsavable(key, error)
            self.set_aside(key, position)
            return None
        self.state_bytes += state_bytes(value) - self._sizes.get(key, 0)
        self._sizes[key] = state_bytes(value)
        return self._snapshot(key, position, time_of(keyed), value)

    def _report_unsavable(self, key: str, error: Exception) -> None:
        if key not in self._unsavable:
            self._unsavable.add(key)
            reason = str(error)[:LONGEST_REASON]
            _logger.warning("%s of %r in %s cannot be saved: %s", self._stage.name, key, self._partition, reason)

    def _snapshot(self, key: str, offset: int, ts: float, value: bytes) -> Snapshot:
        return Snapshot(self._stage.snapshots, self._partition, key, offset, ts, value)

    def take(self, position: int) -> list[Snapshot]:
        """Remove and return the due snapshots, or as many as fit, for the commit up to this position."""
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
        """Return snapshots of the whole state at this position, from which a recovery replays nothing.

        Args:
            position: the first offset that is not in them.
            ts: the time of the base, seconds since the Unix epoch.

        """
        found = (self._encoded(key, position) for key in tuple(self._keys))
        base = self._base(position, ts, _Place(position, self.counted))
        return [*(snapshot for snapshot in found if snapshot is not None), base]

    # Recovery.

    def load(self, snapshots: Iterable[Snapshot]) -> Loaded[State]:
        """Restore the newest snapshots of all keys. `follow` allows dropping silent keys, and `loaded` saving."""
        self._replaying = True
        self._saving = False
        loaded: Loaded[State] = load(snapshots, self._stage, self._empty)
        self._keys, self._sizes, self._to_save = loaded.states, loaded.sizes, loaded.to_save
        self.counted = loaded.counted
        for key, keyed in self._keys.items():
            # States of an older form may have offsets in place of counts, which are ahead of them.
            if loaded.base is None or (key in loaded.former and keyed.last_number >= self.counted):
                self._lose_track(key)
        self.state_bytes = sum(self._sizes.values())
        self._space()
        return loaded

    def _lose_track(self, key: str) -> None:
        """Assume that a key was active just before the replay, since the place of its last record is unknown."""
        self._keys[key].last_number = self.counted - 1
        self._relearned.add(key)

    def relearned(self, key: str, counted: int) -> None:
        """Note that a key with a damaged snapshot was learned from its records, and reset the count to `counted`."""
        self.counted = counted
        if key in self._keys:
            self._lose_track(key)
            self._to_save.append(key)

    def skipped(self, key: str) -> None:
        """Note that the replay has passed a record that is in its key's state."""
        if key in self._relearned:
            self._keys[key].last_number = self.counted - 1

    def follow(self) -> None:
        """Allow keys to be dropped from here on: the replay has reached records whose effects are in no snapshot."""
        if self._replaying:
            self._replaying = False
            self._relearned.clear()
            self._keys = dict(sorted(self._keys.items(), key=lambda item: item[1].last_number))
            self._sort_unsaved()
            self._awaited = {key: None for key, keyed in self._keys.items() if keyed.awaited_until < math.inf}

    def _sort_unsaved(self) -> None:
        self._unsaved = dict(sorted(self._unsaved.items(), key=lambda item: item[1].offset))

    def confirm(self, saved: Mapping[str, int], position: int) -> None:
        """Note the snapshots that another member has saved.

        Args:
            saved: by key, the first offset that is not in its snapshot.
            position: the position of the replay.

        """
        for key in self._unsaved.keys() & saved.keys():
            unsaved = self._unsaved[key]
            if unsaved.last < saved[key]:
                del self._unsaved[key]
                continue
            for place in self._passed:  # the number of records before these is known
                if unsaved.offset < place.offset <= saved[key]:
                    unsaved.offset, unsaved.counted = place.offset, place.counted
        self._sort_unsaved()
        self._passed.append(_Place(position, self.counted))
        least = next((each.offset for each in self._unsaved.values()), position)
        self._passed = [each for each in self._passed if each.offset > least]

    def loaded(self, position: int) -> None:
        """End the replay at this position: from here on, states are saved.

        Snapshots of an older version are saved again at once, since a generation of snapshots must contain all keys. So
        are keys with a damaged snapshot.
        """
        self.follow()
        self._saving = True
        for key in self._to_save:
            if key in self._keys:
                self._save(key, position)
        self._to_save.clear()
