"""Groups of different times, compared at the same age."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.covariance.bank import Bank
from laggard.operators.covariance.estimates import FEWEST
from laggard.operators.covariance.kinds import Sign, kind_of
from laggard.operators.covariance.members import wave_name
from laggard.operators.covariance.present import LEAST_REPORTED_SHARE, REPORTED_SHARE, is_rising, reported
from laggard.operators.covariance.results import Deviation
from laggard.operators.ranking import FeatureScore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.covariance.pool import Pool

    Floats = NDArray[np.float64]

ALIGNED_WINDOWS: Final = (2, 8, 32)
ALIGNED_BLOCK: Final = 8
"""The lengths of windows and blocks, in bins of a group's life, of which there are up to 128."""


def groups_by_age(pool: Pool) -> dict[str, tuple[str, ...]]:
    """Return the groups by their parent, for parents of at least three groups with a course."""
    found: dict[str, list[str]] = {}
    for depth in pool.depths:
        for node in depth.nodes.values():
            if node.leaf:
                name = wave_name(node.path[:-1], node.wave)
                names = found.setdefault("/".join(node.path[:-1]), [])
                if name in pool.courses and name not in names:
                    names.append(name)
            elif node.row in pool.courses:
                found.setdefault("/".join(node.path[:-1]), []).append(node.row)
    return {parent: tuple(names) for parent, names in found.items() if len(names) >= FEWEST}


def rank_groups(pool: Pool, parent: str, names: Sequence[str], inside: dict[str, list[Deviation]]) -> None:
    """Rank groups by how their courses differ at the same age, and by the members that deviate inside."""
    deviations = {each.rows[0]: each for each in inside.get(parent, [])}
    begins = np.array([pool.courses.begin_ts(name) for name in names])
    untils = np.array([pool.courses.until_ts(name) for name in names])
    together = float(np.ptp(begins)) <= 0.1 * float(np.median(untils - begins))
    if not together:
        for each in _compare_courses(pool, parent, names):
            if each.rows[0] not in deviations or deviations[each.rows[0]].score < each.score:
                deviations[each.rows[0]] = each
    for name, begin, until in zip(names, begins, untils, strict=True):
        members = [each for each in inside.get(name, []) if each.score > 1.0]
        if len(members) < 2:
            continue
        worst = max(members, key=lambda each: each.score)
        if name not in deviations:
            deviations[name] = replace(worst, rows=(name,), name=name, level=parent, age_s=float(until - begin))
        elif deviations[name].score < worst.score:
            deviations[name] = replace(deviations[name], score=worst.score)
    if deviations:
        inside[parent] = list(deviations.values())


def _compare_courses(pool: Pool, parent: str, names: Sequence[str]) -> list[Deviation]:
    courses = [pool.courses.means(name) for name in names]
    bank = Bank(
        pool.resolution_of(), ALIGNED_WINDOWS, limit=len(names), block=ALIGNED_BLOCK, settled=ALIGNED_WINDOWS[0]
    )
    slots = bank.claim(len(names))
    interval_s = pool.courses.width * pool.usual_interval_s
    limit = bank.extremes.evidence_limit(len(names), interval_s, pool.false_alarms_per_day)
    for at in range(max(map(len, courses))):
        here = np.array([place for place, course in enumerate(courses) if len(course) > at], np.intp)
        if len(here) < FEWEST:
            break
        values = np.stack([courses[place][at] for place in here])
        tick = bank.compare(float(at), slots[here], values, np.zeros(len(here), np.intp), limit)
        bank.take(tick, values)
    peaks = bank.peaks(slots) / limit
    found = []
    for at in np.flatnonzero(peaks.max(axis=0) > 1.0).tolist():
        name = names[at]
        begin = pool.courses.begin_ts(name)
        worst = bank.largest.worst(slots[at : at + 1])[..., 0]
        features, signs, window, worst_at = features_of_life(pool, bank, slots[at], peaks[:, at], worst, lasting=True)
        begins, untils, _ = bank.runs.best(slots[at : at + 1])
        since = float(begins[0]) if math.isfinite(begins[0]) else worst_at
        until = float(untils[0]) if math.isfinite(untils[0]) else worst_at
        kind = kind_of(signs, duration_s=(until - since) * interval_s, interval_s=interval_s, age_share=1.0)
        found.append(
            Deviation(
                (name,),
                name,
                kind,
                float(peaks[:, at].max()),
                features,
                begin + since * interval_s,
                begin + until * interval_s,
                window * pool.courses.width,
                math.nan,
                math.nan,
                parent,
                pool.courses.until_ts(name) - begin,
            )
        )
    return found


def features_of_life(
    pool: Pool, bank: Bank, slot: np.intp, peaks: Floats, worst: Floats, *, lasting: bool
) -> tuple[tuple[FeatureScore, ...], list[Sign], int, float]:
    """Return the deviating features of a member's life, their signs, the best window, and the time of the worst one."""
    p = bank.metrics
    differences = bank.differences(np.array([slot]))
    scored: list[tuple[FeatureScore, Sign]] = []
    shape: list[Sign] = []
    order = np.argsort(-peaks, kind="stable")
    for metric in order:
        if peaks[metric] < (REPORTED_SHARE * max(float(peaks.max()), 1.0) if scored else LEAST_REPORTED_SHARE):
            break
        _, _, direction, value, usual, spread, _ = worst[:, metric]
        above = direction == 0.0
        if metric == p:
            shape.append(Sign("", True, float(peaks[p]), math.nan, math.nan, False, lasting))
            continue
        means = differences[:, metric, 0] * (1.0 if above else -1.0)
        still = bool(means[0] > 0.5 * abs(value - usual))
        feature, score = pool.features[metric], float(peaks[metric])
        scored.append(
            (
                FeatureScore(feature, float(value), float(usual), float(spread), score),
                Sign(feature, above, score, float(value), float(usual), is_rising(means), still),
            )
        )
    at = int(order[0])
    features, signs = reported(scored, shape)
    return features, signs, int(bank.window_of[int(worst[1, at])]), float(worst[6, at])
