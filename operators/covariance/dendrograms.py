"""Dendrograms of members and of groups, and the ranking by them as published."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.covariance.ages import groups_by_age
from laggard.operators.covariance.clustering import au_p_values, ward
from laggard.operators.covariance.distance import pairwise
from laggard.operators.covariance.present import MOST_LEAVES
from laggard.operators.covariance.published import rank
from laggard.operators.covariance.results import Dendrogram, Deviation, Level
from laggard.operators.covariance.windows import LIFE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.covariance.members import Node
    from laggard.operators.covariance.pool import Pool

    Floats = NDArray[np.float64]

MOST_LEVELS: Final = 16
"""The most groups in a report."""


def dendrogram_of(  # noqa: PLR0917 - the last one is seldom given
    pool: Pool,
    nodes: Sequence[Node],
    groups: Sequence[str],
    told: Sequence[Deviation],
    replicates: int,
    most: int = MOST_LEAVES,
    *,
    peaks: bool = True,
) -> Dendrogram | None:
    """Return the dendrogram of members, those that deviate among them, or of groups; None for fewer than two."""
    if groups and not any("/".join(node.path) in groups for node in nodes):
        return _of_courses(pool, groups, replicates)
    by_row = {node.row: node for node in nodes}
    first = [each.rows[0] for each in told if each.rows[0] in by_row]
    others = [row for row in by_row if row not in first]
    chosen = [*first, *others][:most]
    chosen = [row for row in by_row if row in set(chosen)]
    picked = [by_row[row] for row in chosen]
    if len(picked) < 2:
        return None
    depth = pool.depths[len(picked[0].path) - 1]
    slots = np.array([node.slot for node in picked], np.intp)
    covariances = depth.bank.windows.covariances(LIFE)[slots]
    sound = np.asarray(np.isfinite(covariances).all(axis=(1, 2)))
    picked = [node for node, is_sound in zip(picked, sound, strict=True) if is_sound]
    if len(picked) < 2:
        return None
    slots, covariances = slots[sound], covariances[sound]
    data = pairwise(covariances, noise=np.diag(depth.bank.resolution**2))
    if peaks:
        data = np.vstack([_scaled(data), _scaled(depth.bank.peaks(slots))])
    return _clustered(tuple(node.row for node in picked), data, replicates)


def _of_courses(pool: Pool, groups: Sequence[str], replicates: int) -> Dendrogram | None:
    names, covariances = [], []
    for name in groups:
        course = pool.courses.means(name)
        course = course[np.isfinite(course).all(axis=1)]
        if len(course) >= 3:
            names.append(name)
            covariances.append(np.atleast_2d(np.cov(course.T)))
    if len(names) < 2:
        return None
    data = pairwise(np.stack(covariances), noise=np.diag(pool.resolution_of() ** 2))
    return _clustered(tuple(names), _scaled(data), replicates)


def published_ranking(pool: Pool, replicates: int) -> tuple[tuple[Level, ...], tuple[Deviation, ...]]:
    """Run section IV on the whole lives of the members."""
    levels = pool.levels()
    groups = groups_by_age(pool)
    trees = {
        level: dendrogram_of(
            pool, levels.get(level, []), groups.get(level, ()), (), replicates, pool.limit, peaks=False
        )
        for level in sorted(set(levels) | set(groups))
    }
    highest = max((float(tree.merges[-1, 2]) for tree in trees.values() if tree is not None), default=0.0)
    shown, ranking = [], []
    for level, tree in trees.items():
        deviations = []
        if tree is not None and highest > 0.0:
            for cluster in rank(tree.merges, tree.p_values, max_height=highest):
                height = float(tree.merges[cluster.merge, 2]) if cluster.merge >= 0 else math.nan
                p_value = float(tree.p_values[cluster.merge]) if cluster.merge >= 0 else math.nan
                rows = tuple(tree.labels[leaf] for leaf in cluster.leaves)
                deviations.append(
                    Deviation(
                        rows,
                        ", ".join(rows),
                        "different",
                        max(height / (highest / 3.0), 1.0) if math.isfinite(height) else 1.0,
                        (),
                        math.nan,
                        math.nan,
                        LIFE,
                        height,
                        p_value,
                        level,
                        math.nan,
                    )
                )
        if deviations or not level:
            shown.append(Level(level, tree, tuple(deviations)))
        ranking += deviations
    return tuple(shown[:MOST_LEVELS]), tuple(ranking)


def _scaled(data: Floats) -> Floats:
    """Return data scaled to a median of 1 among values that are not 0."""
    size = np.abs(data[data != 0.0])
    return data / float(np.median(size)) if len(size) else data


def _clustered(labels: tuple[str, ...], data: Floats, replicates: int) -> Dendrogram:
    merges = ward(data)
    with_p_values = replicates > 0 and len(labels) <= MOST_LEAVES  # they need minutes for hundreds of members
    p_values = au_p_values(data, merges, replicates=replicates) if with_p_values else np.full(len(merges), np.nan)
    return Dendrogram(labels, merges, p_values)


def with_height(each: Deviation, dendrogram: Dendrogram | None) -> Deviation:
    """Return the deviation with the merge that takes its member into a larger cluster."""
    if dendrogram is None or each.rows[0] not in dendrogram.labels:
        return each
    leaf = dendrogram.labels.index(each.rows[0])
    merge = int(np.flatnonzero((dendrogram.merges[:, :2] == leaf).any(axis=1))[0])
    return replace(each, height=float(dendrogram.merges[merge, 2]), p_value=float(dendrogram.p_values[merge]))
