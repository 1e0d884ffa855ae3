"""Snapshots of other versions of laggard: their names, and the migration of older ones.

A snapshot has two versions: that of its form, which includes a task's state of a key (`snapshots.VERSION`), and that of
the operator's own state (`state_version`). A change that raises one of them adds a pure function that migrates an older
state. If that is impossible, the state is rebuilt from the input.

Both together give the number of its *generation*, and each generation has a name of its own on the bus: `gaussian`,
`gaussian.2`. So a newer laggard overwrites nothing that an older one wrote. A downgrade finds the snapshots from before
the upgrade, and replays the input from there. A second upgrade likewise finds the newer ones. A version uses the
generation with the highest offset that it can read. It never reads newer ones than its own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.engine.snapshots import BASE_KEY, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Bus, Partition, Snapshot
    from laggard.pipeline.core.engine.stage import Stage

_logger = logging.getLogger(__name__)


def snapshot_name(operator: str, generation: int) -> str:
    """Return the name of a generation's snapshots on a bus, in place of the operator's name."""
    return operator if generation == 1 else f"{operator}.{generation}"


def newest_snapshots(
    bus: Bus, stage: Stage, partition: Partition, at_or_before: int | None = None
) -> Sequence[Snapshot]:
    """Return a stage's snapshots of one generation, this version's or an older one's; see `Bus.snapshots`."""
    newest = bus.snapshots(stage.snapshots, partition, at_or_before)
    for generation in range(stage.generation - 1, 0, -1):
        try:
            found = bus.snapshots(snapshot_name(stage.name, generation), partition, at_or_before)
        except BusUnavailable:
            raise
        except BusError as error:
            _logger.warning(
                "%s: snapshots of an older version cannot be read; going on without them: %s", stage.name, error
            )
            continue
        if _reach(found) > _reach(newest):
            newest = found
    return newest


def _reach(snapshots: Sequence[Snapshot]) -> int:
    """Return the offset up to which these are complete: that of the last commit after which none was due."""
    return max((snapshot.offset for snapshot in snapshots if snapshot.key == BASE_KEY), default=-1)


def migrate(state: dict[str, Any], stage: Stage, place: str) -> bool:
    """Migrate the operator's part of a key's state to this version, in place. Return whether it was older.

    Raises:
        SnapshotError: it is another operator's, or of a newer version, or a migration is missing.

    """
    if state["operator"] != stage.name:
        raise SnapshotError(f"{place}: expected a state of {stage.name}, got one of {state['operator']}")
    found, version = state["state_version"], state["state_version"]
    if version > stage.state_version:
        raise SnapshotError(f"{place}: {_versions(stage, version)}: a newer laggard wrote it; update this one")
    while version < stage.state_version:
        step = stage.migrations.get(version)
        if step is None:
            raise SnapshotError(
                f"{place}: {_versions(stage, version)}: an older laggard wrote it, and there is no migration"
            )
        for stream in state["streams"].values():
            stream["operator"] = step(stream["operator"])
        version += 1
    state["state_version"] = version
    return bool(version != found)


def _versions(stage: Stage, version: int) -> str:
    return f"expected state version {stage.state_version} of {stage.name}, got {version}"
