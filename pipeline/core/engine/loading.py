"""Loads the states of a task's keys from the newest snapshots of its partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic

from laggard.pipeline.core.engine.key_state import State
from laggard.pipeline.core.engine.migrations import migrate
from laggard.pipeline.core.engine.snapshots import BASE_KEY, SnapshotError, decode_state, read_state, state_bytes
from laggard.pipeline.core.engine.stage import LONGEST_REASON, error_text
from laggard.pipeline.core.records import Decoder
from laggard.pipeline.core.records.limits import MAX_TS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from laggard.pipeline.core.bus import Snapshot
    from laggard.pipeline.core.engine.key_state import KeyState
    from laggard.pipeline.core.engine.stage import Stage

GIVEN_UP: Final = b""
"""The content of the snapshot of a key whose state was dropped."""

_MOST_RECORDS: Final = 1 << 53


@dataclass(slots=True)
class Loaded(Generic[State]):
    """The result of loading a task's snapshots.

    Attributes:
        base: the offset at which the replay begins; None without a snapshot of it.
        counted: the number of records of the partition before it.
        states: the states, by key.
        sizes: the sizes of their snapshots before compression, in bytes, by key.
        saved: by key, the first offset that is not in its state.
        damaged: by key, the reason for which its snapshot is unusable.
        former: the keys whose snapshots are of an older form.
        to_save: the keys whose snapshots are of an older generation.
        migrated: the number of snapshots of older versions.

    """

    base: int | None = None
    counted: int = 0
    states: dict[str, State] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    saved: dict[str, int] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    former: set[str] = field(default_factory=set)
    to_save: list[str] = field(default_factory=list)
    migrated: int = 0


def load(snapshots: Iterable[Snapshot], stage: Stage, empty: Callable[[], State]) -> Loaded[State]:
    """Load the newest snapshots of all keys; one that is unusable is noted as damaged.

    Args:
        snapshots: the newest of each key, and that of the base.
        stage: the stage of the task.
        empty: makes the state of a new key.

    """
    loaded: Loaded[State] = Loaded()
    decoder = Decoder()
    for snapshot in snapshots:
        partition = snapshot.partition
        place = f"{snapshot.operator} in {partition.topic}[{partition.number}]@{snapshot.offset}, {snapshot.key!r}"
        try:
            if snapshot.key == BASE_KEY:
                loaded.base, loaded.counted = _base_of(snapshot, place)
                continue
            if snapshot.value != GIVEN_UP:
                state, older = read_state(snapshot.value, place)
                loaded.migrated += migrate(state, stage, place) or older
                if older:
                    loaded.former.add(snapshot.key)
                keyed = empty()
                keyed.restore(state, decoder, place)
                _check(keyed, place)
                loaded.states[snapshot.key] = keyed
                loaded.sizes[snapshot.key] = state_bytes(snapshot.value)
                if snapshot.operator != stage.snapshots:
                    loaded.to_save.append(snapshot.key)
            loaded.saved[snapshot.key] = snapshot.offset
        except Exception as error:  # noqa: BLE001 - one bad snapshot must not prevent loading the others
            loaded.damaged[snapshot.key] = f"{place}: {error_text(error)}"[:LONGEST_REASON]
    return loaded


def _base_of(snapshot: Snapshot, place: str) -> tuple[int, int]:
    """Return the beginning of the replay, and the number of records before it. Raises `SnapshotError` if invalid."""
    state = decode_state(snapshot.value, place)
    base, counted = state["base"], state["counted"]
    if not (type(base) is type(counted) is int and 0 <= counted <= base <= snapshot.offset):
        expected = f"a base of at most {snapshot.offset}, and a count of at most that"
        raise SnapshotError(f"{place}: expected {expected}, got {base!r} and {counted!r}")
    return base, counted


def _check(keyed: KeyState, place: str) -> None:
    """Raise `SnapshotError` if a restored state has impossible numbers or times."""
    if not (0 <= keyed.records <= _MOST_RECORDS and -1 <= keyed.last_number <= _MOST_RECORDS):
        raise SnapshotError(f"{place}: expected numbers of records, got {keyed.records} and {keyed.last_number}")
    if not (0.0 <= keyed.ts <= MAX_TS and keyed.awaited_until >= 0.0):
        raise SnapshotError(f"{place}: expected a time, got {keyed.ts!r}")
