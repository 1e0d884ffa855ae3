"""The states of a task's keys: their snapshots, the limits on their number, and the beginning of a replay.

Each key is saved after a number of its records, different keys at different records, so that few snapshots are due at
once. The number is lower with many keys, so that a recovery replays not much more than `REPLAY_RECORDS`. Distances are
counted in records, not in seconds, so that an interruption of the task does not change its snapshots. They are not
counted in offsets, since those of Kafka have holes where transactions end. So a state depends on the records alone,
and equal states have equal bytes. The *base* is saved with the snapshots: the first offset that is not in the snapshot
of its key, and the number of records before it. A replay begins there, and continues the count. A silent key is saved
again, so that it does not hold the base back.

If there are more than `max_keys` keys, the least recently active one is dropped. So is a key that was silent for too
long. An empty snapshot marks this for later recoveries. If the state of a key awaits further records, the silence of
the key is detected. All of this depends on the records alone. A change to a key at the record of another one is in the
same commit as that record, since a replay may begin after it.

Memory: `max_keys` states, the snapshots that have become due since the last commit, and the names in the task's
decoder. A state has an operator for each scope (see there; for `gaussian` 176 bytes per row and feature), the newest
frame of each scope, and the last 256 sequence numbers. A recovery also has the newest snapshots of the partition as
bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Generic
from zlib import crc32

from laggard.pipeline.core.engine.key_state import State, time_of
from laggard.pipeline.core.engine.loading import GIVEN_UP, load
from laggard.pipeline.core.engine.saving import Saving, UnusableStateError
from laggard.pipeline.core.engine.unsaved import Place, Unsaved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from laggard.pipeline.core.bus import Partition, Snapshot
    from laggard.pipeline.core.engine.loading import Loaded
    from laggard.pipeline.core.engine.stage import Stage

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
        saving: the snapshots that are due, and the size of the newest ones.

    """

    def __init__(
        self, stage: Stage, partition: Partition, empty: Callable[[], State], snapshot_records: int, max_keys: int
    ) -> None:
        self.counted = 0
        self.evicted = 0
        self.failed = 0
        self.saving = Saving(stage, partition)
        self._gone: list[tuple[str, State]] = []
        self._stage = stage
        self._empty = empty
        self._snapshot_records = self._every = snapshot_records
        self._max_keys = max_keys
        self._keys: dict[str, State] = {}  # the least recently active first
        self._unsaved = Unsaved()
        self._relearned: set[str] = set()  # keys whose last record is unknown
        self._to_save: list[str] = []  # keys whose snapshots are damaged or of an older generation
        self._awaited: dict[str, None] = {}  # keys whose further records are awaited; the least recently active first
        self._replaying = False
        self._saves = True

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
            self._every = self._spacing()
        return keyed

    def _give_up(self, key: str, offset: int) -> None:
        keyed = self._keys.pop(key)
        self._every = self._spacing()
        self.evicted += 1
        self._gone.append((key, keyed))
        self._unsaved.drop(key)
        self._relearned.discard(key)
        self._awaited.pop(key, None)
        self.saving.forget(key)
        if self._saves:
            self.saving.add_at_once(self.saving.snapshot(key, offset, time_of(keyed), GIVEN_UP))

    def set_aside(self, key: str, position: int) -> None:
        """Drop a key with an unusable state, which `take_gone` does not yield."""
        if key in self._keys:
            self._give_up(key, position)
            self._gone = [each for each in self._gone if each[0] != key]
            self.failed += not self._replaying

    def take_gone(self) -> Iterator[tuple[str, State]]:
        """Yield the keys that were dropped since the last call, with their states."""
        while self._gone:
            yield self._gone.pop(0)

    def note(self, key: str, offset: int) -> None:
        """Note that a record changed the state of a key, and save the key if it is due."""
        keyed = self._keys[key] = self._keys.pop(key)
        keyed.records += 1
        keyed.last_number = self.counted - 1
        self._unsaved.note(key, offset, keyed.last_number)
        self._awaited.pop(key, None)
        if keyed.awaited_until < math.inf:
            self._awaited[key] = None
        if self._saves and keyed.records % self._every == crc32(key.encode()) % self._every:
            self._save(key, offset + 1)

    def _spacing(self) -> int:
        """Return the number of records of a key between two of its snapshots, by the number of keys.

        It changes by a factor of two, so that a key is not skipped when there is one key more or less.
        """
        every = self._snapshot_records
        while every * len(self._keys) > REPLAY_RECORDS and every >= 2 * FEWEST_RECORDS:
            every //= 2
        return every

    def save_silent(self, position: int) -> None:
        """Save the key whose records have waited longest for it, and drop the least recently active one.

        Each only if that is too long ago. Called after each record, with the first unprocessed offset.
        """
        if self._saves and (unsaved := self._unsaved.lowest()) is not None:
            key, place = unsaved
            if self.counted - place.counted > _SILENT_ROUNDS * self._every * len(self._keys):
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
        self._unsaved.drop(key)
        if self._saves and (snapshot := self._encoded(key, position)) is not None:
            self.saving.add_at_once(snapshot)

    def save_all(self, position: int) -> None:
        """Save every key with records after its snapshot."""
        for key in self._unsaved.keys():  # noqa: SIM118 - no dictionary
            self._save(key, position)

    def _save(self, key: str, position: int) -> None:
        self._unsaved.drop(key)
        if (snapshot := self._encoded(key, position)) is not None:
            self.saving.add(snapshot)

    def _encoded(self, key: str, position: int) -> Snapshot | None:
        """Return a snapshot of a key; None if it cannot be saved."""
        try:
            return self.saving.encoded(key, self._keys[key], position)
        except UnusableStateError:
            self.set_aside(key, position)
            return None

    def take(self, position: int) -> list[Snapshot]:
        """Remove and return the due snapshots, or as many as fit, for the commit up to this position."""
        return self.saving.take(position, self._unsaved.base(Place(position, self.counted)))

    def whole(self, position: int, ts: float) -> list[Snapshot]:
        """Return snapshots of the whole state at this position, from which a recovery replays nothing.

        Args:
            position: the first offset that is not in them.
            ts: the time of the base, seconds since the Unix epoch.

        """
        found = (self._encoded(key, position) for key in tuple(self._keys))
        base = self.saving.base(position, ts, Place(position, self.counted))
        return [*(snapshot for snapshot in found if snapshot is not None), base]

    # Recovery.

    def load(self, snapshots: Iterable[Snapshot]) -> Loaded[State]:
        """Restore the newest snapshots of all keys. `follow` allows dropping silent keys, and `loaded` saving."""
        self._replaying = True
        self._saves = False
        loaded: Loaded[State] = load(snapshots, self._stage, self._empty)
        self._keys, self._to_save = loaded.states, loaded.to_save
        self.counted = loaded.counted
        for key, keyed in self._keys.items():
            # States of an older form may have offsets in place of counts, which are ahead of them.
            if loaded.base is None or (key in loaded.former and keyed.last_number >= self.counted):
                self._lose_track(key)
        self.saving.restart(loaded.sizes)
        self._every = self._spacing()
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
            self._unsaved.sort()
            self._awaited = {key: None for key, keyed in self._keys.items() if keyed.awaited_until < math.inf}

    def confirm(self, saved: Mapping[str, int], position: int) -> None:
        """Note the snapshots that another member has saved.

        Args:
            saved: by key, the first offset that is not in its snapshot.
            position: the position of the replay.

        """
        self._unsaved.confirm(saved, Place(position, self.counted))

    def loaded(self, position: int) -> None:
        """End the replay at this position: from here on, states are saved.

        Snapshots of an older version are saved again at once, since a generation of snapshots must contain all keys. So
        are keys with a damaged snapshot.
        """
        self.follow()
        self._saves = True
        for key in self._to_save:
            if key in self._keys:
                self._save(key, position)
        self._to_save.clear()
