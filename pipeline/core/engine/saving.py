"""The snapshots of a task: how a state becomes one, and those that wait for a commit."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import Partition, Snapshot
from laggard.pipeline.core.engine.key_state import KeyState, time_of
from laggard.pipeline.core.engine.snapshots import BASE_KEY, SnapshotError, encode_state, state_bytes
from laggard.pipeline.core.engine.stage import LONGEST_REASON

if TYPE_CHECKING:
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.engine.unsaved import Place

MAX_SNAPSHOT_BYTES: Final = 48 << 20
"""The most bytes of a snapshot: the embedded bus accepts values of up to 64 MiB."""

MAX_TAKEN_BYTES: Final = 8 << 20
"""The bytes of snapshots after which a commit accepts no more, so that it is short: the rest goes into the next one."""

_logger = logging.getLogger(__name__)


class UnusableStateError(Exception):
    """A state raised when it was saved."""


class Saving:
    """The snapshots of a task's keys.

    Parameters:
        stage: the stage of the task.
        partition: the input partition of the task.

    Attributes:
        state_bytes: the size of the newest snapshots of all keys, before compression.

    """

    def __init__(self, stage: Stage, partition: Partition) -> None:
        self.state_bytes = 0
        self._stage = stage
        self._partition = partition
        self._sizes: dict[str, int] = {}
        self._unsavable: set[str] = set()  # the keys with a warning
        self._due: deque[Snapshot] = deque()
        self._at_once: list[Snapshot] = []  # for the next commit, whatever its size

    def restart(self, sizes: dict[str, int]) -> None:
        """Begin with the sizes of the snapshots from which all states were restored."""
        self._sizes = sizes
        self.state_bytes = sum(sizes.values())

    def forget(self, key: str) -> None:
        """Forget a key whose state is dropped."""
        self._unsavable.discard(key)
        self.state_bytes -= self._sizes.pop(key, 0)

    def encoded(self, key: str, keyed: KeyState, position: int) -> Snapshot | None:
        """Return a snapshot of a key; None if it cannot be saved. Raises UnusableStateError if its state raises."""
        header = {"operator": self._stage.name, "state_version": self._stage.state_version}
        try:
            value = encode_state({**header, **keyed.snapshot()}, MAX_SNAPSHOT_BYTES)
        except SnapshotError as error:
            # Such a key is learned from scratch after a restart. It must not prevent the others from being saved.
            self._report(key, error)
            return None
        except Exception as error:  # a third-party state may raise anything
            self._report(key, error)
            raise UnusableStateError(key) from error
        self.state_bytes += state_bytes(value) - self._sizes.get(key, 0)
        self._sizes[key] = state_bytes(value)
        return self.snapshot(key, position, time_of(keyed), value)

    def _report(self, key: str, error: Exception) -> None:
        if key not in self._unsavable:
            self._unsavable.add(key)
            reason = str(error)[:LONGEST_REASON]
            _logger.warning("%s of %r in %s cannot be saved: %s", self._stage.name, key, self._partition, reason)

    def snapshot(self, key: str, offset: int, ts: float, value: bytes) -> Snapshot:
        """Return a snapshot with this value."""
        return Snapshot(self._stage.snapshots, self._partition, key, offset, ts, value)

    def base(self, position: int, ts: float, base: Place) -> Snapshot:
        """Return the snapshot of the base at this position."""
        value = encode_state({"base": base.offset, "counted": base.counted})
        return self.snapshot(BASE_KEY, position, ts, value)

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot for one of the next commits."""
        self._due.append(snapshot)

    def add_at_once(self, snapshot: Snapshot) -> None:
        """Add a snapshot for the next commit."""
        # An earlier snapshot of the key must not follow this one.
        self._due = deque(each for each in self._due if each.key != snapshot.key)
        self._at_once.append(snapshot)

    def take(self, position: int, base: Place) -> list[Snapshot]:
        """Remove and return the due snapshots, or as many as fit, for the commit up to this position.

        The base follows the last of them.
        """
        snapshots, self._at_once = self._at_once, []
        size = 0
        while self._due and size < MAX_TAKEN_BYTES:
            snapshot = self._due.popleft()
            snapshots.append(snapshot)
            size += len(snapshot.value)
        if snapshots and not self._due:
            snapshots.append(self.base(position, snapshots[-1].ts, base))
        return snapshots
