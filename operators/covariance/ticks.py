"""One tick of a pool: the members and groups of each depth, compared with their siblings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.covariance.estimates import FEWEST
from laggard.operators.covariance.excuses import excused
from laggard.operators.covariance.members import Depth
from laggard.operators.covariance.presence import LASTING_SCORE, Newest
from laggard.operators.covariance.results import path_of
from laggard.operators.covariance.windows import LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout, Matrix
    from laggard.operators.covariance.bank import Bank
    from laggard.operators.covariance.comparison import Tick
    from laggard.operators.covariance.members import Node, Path
    from laggard.operators.covariance.pool import Pool
    from laggard.operators.covariance.presence import Standing

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The nodes of a layout at one depth, and the place of the node of each row; -1 for none."""

    paths: tuple[Path, ...]
    names: tuple[str, ...]
    leaves: NDArray[np.bool_]
    place: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One depth at one tick."""

    paths: tuple[Path, ...]  # of the present ones
    names: tuple[str, ...]
    leaves: NDArray[np.bool_]
    values: Floats
    known: NDArray[np.intp]  # places of those with a slot
    tick: Tick
    limit: float
    standings: Mapping[int, Standing | None]  # after this tick, by the places of those that deviate or did so
    scores: Floats  # of the tick, corrected for deviations that have ended or last


class Places:
    """The nodes of the rows of a layout, found once per layout."""

    def __init__(self, features: tuple[str, ...]) -> None:
        self._features = features
        self._layout: Layout | None = None
        self.depths: tuple[Rows, ...] = ()
        self.columns: NDArray[np.intp] = np.zeros(0, np.intp)

    def find(self, layout: Layout) -> None:
        """Find the nodes of the rows of a layout, and the columns of the features."""
        if layout is self._layout:
            return
        self._layout = layout
        places = {feature: at for at, feature in enumerate(layout.features)}
        self.columns = np.array([places.get(feature, -1) for feature in self._features], np.intp)
        paths = [path_of(row, name) for row, name in zip(layout.rows, layout.names, strict=True)]
        depths = []
        for depth in range(max(map(len, paths), default=0)):
            nodes: dict[Path, int] = {}
            place = np.full(len(paths), -1, np.intp)
            names: list[str] = []
            leaves: list[bool] = []
            for at, path in enumerate(paths):
                if len(path) > depth:
                    prefix = path[: depth + 1]
                    if prefix not in nodes:
                        nodes[prefix] = len(nodes)
                        leaves.append(len(path) == depth + 1)
                        names.append(layout.names[at] if leaves[-1] else "/".join(prefix))
                    place[at] = nodes[prefix]
            depths.append(Rows(tuple(nodes), tuple(names), np.array(leaves, np.bool_), place))
        self.depths = tuple(depths)


def compare(pool: Pool, places: Places, ts: float, layout: Layout, values: Matrix) -> tuple[Compared, ...]:
    """Compare the members of a tick. The state does not change."""
    if not pool.features:
        return ()
    places.find(layout)
    x = np.full((len(values), len(pool.features)), np.nan)
    known = places.columns >= 0
    x[:, known] = values[:, places.columns[known]]
    x[~(np.abs(x) <= LARGEST)] = np.nan
    there = np.isfinite(x).any(axis=1)
    comparisons = []
    for at, rows in enumerate(places.depths):
        depth = pool.depths[at] if at < len(pool.depths) else Depth(pool.bank())
        inside = there & (rows.place >= 0)
        place = rows.place[inside]
        count = len(rows.paths)
        sums = np.zeros((count, x.shape[1]))
        counts = np.zeros((count, x.shape[1]))
        part = x[inside]
        finite = np.isfinite(part)
        np.add.at(sums, place, np.where(finite, part, 0.0))
        np.add.at(counts, place, finite)
        means = sums / np.where(counts > 0.0, counts, np.nan)
        present = np.flatnonzero(np.bincount(place, minlength=count) > 0)
        paths = tuple(rows.paths[each] for each in present)
        nodes = [depth.nodes.get(path) for path in paths]
        known_places = np.array([at for at, node in enumerate(nodes) if node is not None], np.intp)
        known_nodes = [node for node in nodes if node is not None]
        slots = np.array([node.slot for node in known_nodes], np.intp)
        found = means[present]
        siblings = _groups(known_nodes)
        limit = pool.evidence_limit(depth.bank, len(slots))
        tick = depth.bank.compare(ts, slots, found[known_places], siblings, limit)
        tick = excused(pool, depth.bank, tick, known_nodes, groups=siblings, limit=limit)
        standings = _standings_after(pool, depth.bank, tick, known_nodes, limit)
        comparisons.append(
            Compared(
                paths,
                tuple(rows.names[each] for each in present),
                rows.leaves[present],
                found,
                known_places,
                tick,
                limit,
                standings,
                _present_scores(tick.scores, standings),
            )
        )
    return tuple(comparisons)


def _standings_after(
    pool: Pool, bank: Bank, tick: Tick, nodes: Sequence[Node], limit: float
) -> dict[int, Standing | None]:
    """Return the standings after this tick of members that deviate or have deviated."""
    return {
        at: Newest(bank, tick, at, limit, pool.usual_interval_s).follow(node.standing)
        for at, node in enumerate(nodes)
        if node.standing is not None or tick.scores[at] > 1.0
    }


def _groups(nodes: Sequence[Node]) -> NDArray[np.intp]:
    """Number the groups of siblings: of one wave, or of one parent if a wave of it has fewer than `FEWEST` members."""
    waves: dict[tuple[Path, int], int] = {}
    for node in nodes:
        key = node.path[:-1], node.wave
        waves[key] = waves.get(key, 0) + 1
    mixed = {parent for (parent, _), count in waves.items() if count < FEWEST}
    numbers: dict[tuple[Path, int], int] = {}
    return np.array(
        [
            numbers.setdefault((node.path[:-1], 0 if node.path[:-1] in mixed else node.wave + 1), len(numbers))
            for node in nodes
        ],
        np.intp,
    )


def _present_scores(scores: Floats, standings: Mapping[int, Standing | None]) -> Floats:
    """Return the scores of members: at most 1 for ended deviations, at least `LASTING_SCORE` for lasting ones."""
    present = scores.copy()
    for at, standing in standings.items():
        lasts = standing is not None and standing.lasts
        present[at] = max(present[at], LASTING_SCORE) if lasts else min(present[at], 1.0)
    return present
