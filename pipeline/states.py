"""The states of a task's keys: which there are, when each is saved, and where a replay has to begin.

A snapshot of a key is taken after so many of its records, in different keys at different records, so that few fall
together. Positions are counted in records, not in seconds, so that a task that was interrupted takes the same snapshots
as one that was not. Beside the snapshots the *base* is saved, the first offset that is not in some key's snapshot:
replay begins there. A key that has fallen silent is saved once more, so that it does not hold the base back.

Of more than `max_keys` keys the one heard least recently is given up; a snapshot without content tells that to a later
recovery. All of it follows from the records alone.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from laggard.pipeline.bus import Partition, Snapshot
from laggard.pipeline.records import Decoder
from laggard.pipeline.snapshots import SnapshotError, decode_state, encode_state, state_bytes
from laggard.pipeline.stream import Sequences, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.wiring import Wired

BASE_KEY: Final = ""
"""The key of the snapshot that holds the base; no record that has a state has this key."""

GIVEN_UP: Final = b""
"""The content of the snapshot that says that a key has no state any more."""

MAX_SNAPSHOT_BYTES: Final = 48 << 20
"""A bus takes values of 64 MiB."""

MAX_TAKEN_BYTES: Final = 8 << 20
"""A commit is to be short: what is beyond goes into the next one."""

_SILENT_ROUNDS: Final = 4
"""A key that was not saved while all keys together had records for so many rounds of snapshots has fallen silent."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Keyed:
    """The state of one key.

    Attributes:
        streams: by scope.
        marks: the sequence numbers of its marks.
        records: how many records of the key were neither duplicate nor late.
        heard: the offset of the last of them.

    """

    streams: dict[str, Stream]
    marks: Sequences = field(default_factory=Sequences)
    records: int = 0
    heard: int = -1

    @property
    def ts(self) -> float:
        """The time of the newest frame; 0 before there is one that the operator took."""
        return max((stream.ts for stream in self.streams.values() if stream.offset >= 0), default=0.0)

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "records": self.records,
            "heard": self.heard,
            "marks": self.marks.snapshot(),
            "streams": {scope: stream.snapshot() for scope, stream in self.streams.items()},
        }


@dataclass(slots=True)
class Loaded:
    """What a task's snapshots gave.

    Attributes:
        base: where the replay begins; None where no snapshot tells it.
        saved: by key, the first offset that is not in its state.
        damaged: by key, why its snapshot could not be used.

    """

    base: int | None = None
    saved: dict[str, int] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)


class States:
    """The states of one task.

    Parameters:
        wired: makes the operators, and says which scopes.
        partition: whose keys these are.
        snapshot_records: how many records of a key are between two of its snapshots.
        max_keys: how many keys may have a state.

    Attributes:
        evicted: how many keys were given up.
        state_bytes: the size of the newest snapshots of all keys, before compression.

    """

    def __init__(self, wired: Wired, partition: Partition, snapshot_records: int, max_keys: int) -> None:
        self.evicted = 0
        self.state_bytes = 0
        self._wired = wired
        self._partition = partition
        self._snapshot_records = snapshot_records
        self._max_keys = max_keys
        self._keys: dict[str, Keyed] = {}  # the one heard least recently first
        self._unsaved: dict[str, int] = {}  # by key, the first offset that is not in its snapshot; the least first
        self._sizes: dict[str, int] = {}
        self._unsavable: set[str] = set()
        self._due: deque[Snapshot] = deque()
        self._saving = True

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str) -> Keyed | None:
        """The state of a key, None where it has none."""
        return self._keys.get(key)

    def open(self, key: str, offset: int) -> Keyed:
        """The state of a key; a new one, in the place of the key heard least recently, where it has none."""
        keyed = self._keys.get(key)
        if keyed is None:
            while len(self._keys) >= self._max_keys:
                self._give_up(next(iter(self._keys)), offset)
            keyed = self._keys[key] = self._empty()
        return keyed

    def _empty(self) -> Keyed:
        return Keyed({scope: Stream(self._wired.make()) for scope in self._wired.scopes})

    def _give_up(self, key: str, offset: int) -> None:
        keyed = self._keys.pop(key)
        self.evicted += 1
        self._unsaved.pop(key, None)
        self._unsavable.discard(key)
        self.state_bytes -= self._sizes.pop(key, 0)
        if self._saving:
            self._due.append(self._snapshot(key, offset, keyed.ts, GIVEN_UP))

    def heard(self, key: str, offset: int) -> None:
        """A record changed the state of a key: note it, and save the key if it is its turn."""
        keyed = self._keys[key] = self._keys.pop(key)
        keyed.records += 1
        keyed.heard = offset
        self._unsaved.setdefault(key, offset)
        turn = crc32(key.encode()) % self._snapshot_records
        if self._saving and keyed.records % self._snapshot_records == turn:
            self._save(key, offset + 1)

    def save_silent(self, position: int) -> None:
        """Save the key whose records have waited longest for it, if that is too long."""
        if self._saving and self._unsaved:
            key, since = next(iter(self._unsaved.items()))
            if position - since > _SILENT_ROUNDS * self._snapshot_records * len(self._keys):
                self._save(key, position)

    def save_all(self, position: int) -> None:
        """Save every key that has records beyond its snapshot."""
        for key in list(self._unsaved):
            self._save(key, position)

    def _save(self, key: str, position: int) -> None:
        keyed = self._keys[key]
        del self._unsaved[key]
        state = {"operator": self._wired.name, "state_version": self._wired.state_version, **keyed.snapshot()}
        try:
            value = encode_state(state, MAX_SNAPSHOT_BYTES)
        except SnapshotError as error:
            # Such a key is learned anew after a restart; it must not keep the others from being saved.
            if key not in self._unsavable:
                self._unsavable.add(key)
                _logger.warning("%s of %r in %s cannot be saved: %s", self._wired.name, key, self._partition, error)
            return
        self.state_bytes += state_bytes(value) - self._sizes.get(key, 0)
        self._sizes[key] = state_bytes(value)
        self._due.append(self._snapshot(key, position, keyed.ts, value))

    def _snapshot(self, key: str, offset: int, ts: float, value: bytes) -> Snapshot:
        return Snapshot(self._wired.name, self._partition, key, offset, ts, value)

    def take(self, position: int) -> list[Snapshot]:
        """The snapshots that are due, for the commit up to this position; some, if all are too much for one."""
        taken: list[Snapshot] = []
        size = 0
        while self._due and size < MAX_TAKEN_BYTES:
            snapshot = self._due.popleft()
            taken.append(snapshot)
            size += len(snapshot.value)
        if taken and not self._due:
            base = next(iter(self._unsaved.values()), position)
            taken.append(self._snapshot(BASE_KEY, position, taken[-1].ts, encode_state({"base": base})))
        return taken

    # Recovery.

    def load(self, snapshots: Iterable[Snapshot]) -> Loaded:
        """Take over the newest snapshots of all keys. Nothing is saved until `loaded` is called."""
        self._saving = False
        loaded = Loaded()
        decoder = Decoder()
        for snapshot in snapshots:
            partition = snapshot.partition
            place = f"{snapshot.operator} in {partition.topic}[{partition.number}]@{snapshot.offset}, {snapshot.key!r}"
            try:
                if snapshot.key == BASE_KEY:
                    loaded.base = int(decode_state(snapshot.value, place)["base"])
                    continue
                if snapshot.value != GIVEN_UP:
                    self._keys[snapshot.key] = self._restored(decode_state(snapshot.value, place), decoder, place)
                    self._sizes[snapshot.key] = state_bytes(snapshot.value)
                loaded.saved[snapshot.key] = snapshot.offset
            except (SnapshotError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
                loaded.damaged[snapshot.key] = f"{place}: {type(error).__name__}: {error}"
        self.state_bytes = sum(self._sizes.values())
        return loaded

    def _restored(self, state: dict[str, Any], decoder: Decoder, place: str) -> Keyed:
        wanted = (self._wired.name, self._wired.state_version)
        if (found := (state["operator"], state["state_version"])) != wanted:
            raise ValueError(f"expected operator and state version {wanted}, got {found}")
        keyed = self._empty()
        keyed.marks = Sequences(state["marks"])
        keyed.records, keyed.heard = int(state["records"]), int(state["heard"])
        # A scope that was not wanted when this was saved begins anew.
        for scope in keyed.streams.keys() & state["streams"].keys():
            keyed.streams[scope].restore(state["streams"][scope], decoder, place)
        return keyed

    def loaded(self) -> None:
        """The replay is over: from here on, states are saved."""
        self._saving = True
        self._keys = dict(sorted(self._keys.items(), key=lambda item: item[1].heard))
        self._unsaved = dict(sorted(self._unsaved.items(), key=lambda item: item[1]))
