"""The report on a whole pool: all members that ever deviated, by the levels of their groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.calibration import DAY_S
from laggard.operators.covariance.ages import features_of_life, groups_by_age, rank_groups
from laggard.operators.covariance.dendrograms import MOST_LEVELS, dendrogram_of, with_height
from laggard.operators.covariance.estimates import FEWEST
from laggard.operators.covariance.kinds import kind_of
from laggard.operators.covariance.present import REPORTED_SHARE, left
from laggard.operators.covariance.results import Deviation, Level, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.covariance.members import Depth
    from laggard.operators.covariance.pool import Pool


def adaptive(pool: Pool, replicates: int) -> tuple[tuple[Level, ...], tuple[Deviation, ...]]:
    """Return the levels, top-down, with the deviations inside each; and all deviations in the order of the report."""
    inside: dict[str, list[Deviation]] = {}
    for depth in pool.depths:
        for each in _deviations_of_life(pool, depth):
            node = depth.nodes[path_of(each.rows[0], "")]
            inside.setdefault(pool.level_of(node), []).append(each)
    for each in left(pool):
        path = path_of(each.rows[0], "")
        level = pool.level_of(pool.depths[len(path) - 1].nodes[path])
        deviations = [other for other in inside.get(level, []) if other.rows != each.rows]
        inside[level] = [*deviations, each]
    groups = groups_by_age(pool)
    members = pool.levels()
    for parent, names in groups.items():
        rank_groups(pool, parent, names, inside)
    for level, found in list(inside.items()):
        inside[level] = sorted(found, key=lambda each: (-len(inside.get(each.rows[0], ())), -each.score))
    shown: list[Level] = []
    for level in sorted(set(members) | set(groups), key=lambda level: (level.count("/") + bool(level), level)):
        deviations = inside.get(level, [])
        if level and not deviations:
            continue
        if len(shown) >= MOST_LEVELS:
            break
        dendrogram = dendrogram_of(pool, members.get(level, []), groups.get(level, ()), deviations, replicates)
        inside[level] = [with_height(each, dendrogram) for each in deviations]
        shown.append(Level(level, dendrogram, tuple(inside[level])))
    return tuple(shown), tuple(_flat(inside))


def _flat(inside: Mapping[str, Sequence[Deviation]]) -> list[Deviation]:
    """Return all deviations, those of a group before those of its members; then those in groups that do not deviate."""
    found: list[Deviation] = []
    done: set[str] = set()

    def add(level: str) -> None:
        if level in done:
            return
        done.add(level)
        for each in inside.get(level, ()):
            found.append(each)
            add(each.rows[0])

    add("")
    rest = sorted(
        (each for each in inside if each not in done),
        key=lambda each: -inside[each][0].score if inside[each] else 0.0,
    )
    for each in rest:
        add(each)
    return found


def _deviations_of_life(pool: Pool, depth: Depth) -> list[Deviation]:
    nodes = list(depth.nodes.values())
    if len(nodes) < FEWEST:
        return []
    bank = depth.bank
    slots = np.array([node.slot for node in nodes], np.intp)
    compared = max(int(np.median([sum(each.alive for each in nodes), len(nodes)])), 2)
    # In a load test every doubtful finding is of interest; over days they are due to chance.
    lasting = pool.ts - pool.first_ts > DAY_S
    peaks = bank.peaks(slots) / pool.evidence_limit(bank, compared, raised=lasting)
    scores = peaks.max(axis=0)
    begins, untils, lasts = bank.runs.best(slots)
    found = []
    for at in np.flatnonzero(scores > 1.0):
        node = nodes[at]
        lasting = bool(lasts[at] > REPORTED_SHARE)
        worst = bank.largest.worst(slots[at : at + 1])[..., 0]
        features, signs, window, worst_ts = features_of_life(
            pool, bank, slots[at], peaks[:, at], worst, lasting=lasting
        )
        begin = float(begins[at]) if math.isfinite(begins[at]) else worst_ts
        until = float(untils[at]) if math.isfinite(untils[at]) else worst_ts
        siblings = [each for each in nodes if each.path[:-1] == node.path[:-1]]
        ages = float(np.median([each.until_ts - each.begin_ts for each in siblings]))
        kind = kind_of(
            signs,
            duration_s=until - begin,
            interval_s=pool.usual_interval_s,
            age_share=(node.until_ts - node.begin_ts) / max(ages, 1e-9),
        )
        found.append(
            Deviation(
                (node.row,),
                node.name,
                kind,
                min(float(scores[at]), 1.0) if kind == "younger" else float(scores[at]),
                features,
                begin,
                math.nan if lasting and node.alive else until,
                window,
                math.nan,
                math.nan,
                pool.level_of(node),
                node.until_ts - node.begin_ts,
            )
        )
    return found
