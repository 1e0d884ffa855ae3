"""Snapshots of other versions of laggard: where they are, and how older ones become today's.

A snapshot has two versions: that of its form, which includes what a task keeps of a key (`snapshots.VERSION`), and that
of the operator's own state (`state_version`). Whoever raises one of them adds a pure function that makes the new state
of an old one, or has it rebuilt from the input where that cannot be.

Both together number its *generation*, and each generation has a name of its own on the bus: `gaussian`, `gaussian.2`.
So a newer laggard overwrites nothing that an older one wrote. Going back to the older one finds its snapshots as they
were at the upgrade and replays the input from there; going forward again finds the newer ones likewise. Of all that a
version can read it takes the generation that has got furthest; one newer than itself it never looks at.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from laggard.pipeline.bus import BusError, BusUnavailable
from laggard.pipeline.engine.snapshots import BASE_KEY, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.bus import Bus, Partition, Snapshot
    from laggard.pipeline.engine.stage import Stage

_logger = logging.getLogger(__name__)


def snapshot_name(operator: str, generation: int) -> str:
    """What a bus knows the snapshots of a generation by: in the place of the operator's name."""
    return operator if generation == 1 else f"{operator}.{generation}"


def newest_snapshots(
    bus: Bus, stage: Stage, partition: Partition, at_or_before: int | None = None
) -> Sequence[Snapshot]:
    """A stage's snapshots, see `Bus.snapshots`: those of one generation, this version's or an older one's."""
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
    """Up to where these are all that there is: the input position of the last commit after which none was due."""
    return max((snapshot.offset for snapshot in snapshots if snapshot.key == BASE_KEY), default=-1)


def migrate(state: dict[str, Any], stage: Stage, place: str) -> bool:
    """Bring the operator's part of a key's state up to date, in place; gives whether it was older.

    Raises:
        SnapshotError: it is another operator's, a newer version's, or one that no migration leads on from.

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
                f"{place}: {_versions(stage, version)}: an older laggard wrote it, and nothing leads on"
            )
        for stream in state["streams"].values():
            stream["operator"] = step(stream["operator"])
        version += 1
    state["state_version"] = version
    return bool(version != found)


def _versions(stage: Stage, version: int) -> str:
    return f"expected state version {stage.state_version} of {stage.name}, got {version}"
