"""The state of a pool: its members and groups by depth, its ticks, and the calibration of its scores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.calibration import Calibration
from laggard.operators.covariance.bank import Bank
from laggard.operators.covariance.groups import Courses
from laggard.operators.covariance.members import Depth, Node, Wave, wave_name
from laggard.operators.covariance.presence import restored as restored_standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.covariance.members import Path

    Floats = NDArray[np.float64]

STEPS: Final = 20.0
CALIBRATION: Final = {"prior": (17.3, 1.5), "prior_s": 21_600.0}
"""Scores are calibrated in steps of 5 %. The limit is 1 at first, and changes only after hours."""


class Pool:
    """The state of a pool, and the parameters that it depends on; those of `Covariance`.

    Attributes:
        features: the compared features.
        depths: the members and groups by the length of their paths.
        courses: the courses of groups by age.
        first_ts: the time of the first tick, seconds since the Unix epoch.
        ts: the time of the newest tick.
        interval_s: the mean time between ticks; NaN before there are two.
        ticks: the number of ticks.
        calibration: the calibration of the limit.
        members: the number of members at the newest tick.
        steady: the number of ticks since a member came or went.
        away: the members that left while the pool was of fixed size, with the tick at which they did.
        refused: the number of members of the newest tick beyond the limit.

    """

    def __init__(
        self, windows: Sequence[int], false_alarms_per_day: float, resolution: Mapping[str, float], limit: int
    ) -> None:
        self.windows = tuple(int(length) for length in windows)
        self.false_alarms_per_day = false_alarms_per_day
        self.resolution = dict(resolution)
        self.limit = limit
        self.features: tuple[str, ...] = ()
        self.depths: list[Depth] = []
        self.courses = Courses(0)
        self.first_ts = self.ts = math.nan
        self.interval_s = math.nan
        self.ticks = 0
        self.calibration = Calibration(per_day=false_alarms_per_day, **CALIBRATION)  # type: ignore[arg-type]
        self.members = 0
        self.steady = 0
        self.away: dict[Path, int] = {}
        self.refused = 0

    def begin_anew(self, features: tuple[str, ...]) -> None:
        """Restart learning after new features, whose spread is unknown."""
        self.features = features
        self.depths = []
        self.courses = Courses(len(self.features))
        self.away, self.steady = {}, 0

    def bank(self) -> Bank:
        """Return an empty bank for members of one depth."""
        return Bank(self.resolution_of(), self.windows, limit=self.limit)

    def resolution_of(self) -> Floats:
        """Return the resolution of each feature."""

        def of(feature: str) -> float:
            found = [end for end in self.resolution if feature.endswith(end)]
            return self.resolution[max(found, key=len)] if found else 0.0

        return np.array([of(feature) for feature in self.features])

    @property
    def usual_interval_s(self) -> float:
        """The time between ticks; a default before there are two."""
        return self.interval_s if self.interval_s > 0.0 else 5.0

    def evidence_limit(self, bank: Bank, members: int, *, raised: bool = True) -> float:
        """Return the evidence with a score of 1: that of the budget, raised if this pool needs more."""
        allowed = bank.extremes.evidence_limit(members, self.usual_interval_s, self.false_alarms_per_day)
        return allowed * max(self.calibration.limit / STEPS, 1.0) if raised else allowed

    def levels(self) -> dict[str, list[Node]]:
        """Return nodes by the level inside which they are compared: siblings, or those of one wave."""
        levels: dict[str, list[Node]] = {}
        for depth in self.depths:
            for node in depth.nodes.values():
                levels.setdefault(self.level_of(node), []).append(node)
        return levels

    def level_of(self, node: Node) -> str:
        """Return the level inside which a node is compared."""
        name = wave_name(node.path[:-1], node.wave)
        return name if node.leaf and name in self.courses else "/".join(node.path[:-1])

    def release(self, depth: Depth, nodes: Sequence[Node]) -> None:
        """Forget members or groups."""
        depth.release(nodes)
        for node in nodes:
            self.away.pop(node.path, None)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "features": list(self.features),
            "first_ts": self.first_ts,
            "ts": self.ts,
            "interval_s": self.interval_s,
            "ticks": self.ticks,
            "members": self.members,
            "calibration": self.calibration.snapshot(),
            "steady": self.steady,
            "away": [[list(path), at] for path, at in self.away.items()],
            "courses": self.courses.snapshot(),
            "depths": [
                {
                    "bank": depth.bank.snapshot(),
                    "nodes": [
                        [
                            list(node.path),
                            node.name,
                            node.slot,
                            node.begin_ts,
                            node.wave,
                            node.leaf,
                            node.until_ts,
                            node.alive,
                            node.kind,
                            node.next_kind,
                            node.ticks,
                            None if node.standing is None else node.standing.snapshot(),
                        ]
                        for node in depth.nodes.values()
                    ],
                    "waves": [[list(parent), wave.number, wave.tick] for parent, wave in depth.waves.items()],
                }
                for depth in self.depths
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self.features = tuple(state["features"])
        self.first_ts, self.ts = float(state["first_ts"]), float(state["ts"])
        self.interval_s = float(state["interval_s"])
        self.ticks, self.members = int(state["ticks"]), int(state["members"])
        self.calibration.restore(state["calibration"])
        self.steady = int(state["steady"])
        self.away = {tuple(path): int(at) for path, at in state["away"]}
        self.courses = Courses(len(self.features))
        self.courses.restore(state["courses"])
        self.depths = []
        for part in state["depths"]:
            depth = Depth(self.bank())
            depth.bank.restore(part["bank"])
            for path, name, slot, begin_ts, wave, leaf, until_ts, alive, kind, next_kind, ticks, *standing in part[
                "nodes"
            ]:
                node = Node(tuple(path), name, int(slot), float(begin_ts), int(wave), bool(leaf), float(until_ts))
                node.alive, node.kind, node.next_kind, node.ticks = bool(alive), kind, next_kind, int(ticks)
                if standing and standing[0] is not None:  # not in states of older versions
                    node.standing = restored_standing(standing[0])
                depth.nodes[node.path] = node
            depth.waves = {tuple(parent): Wave(int(number), int(tick)) for parent, number, tick in part["waves"]}
            self.depths.append(depth)
