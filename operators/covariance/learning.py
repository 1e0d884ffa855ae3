"""Learning of the ticks of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.covariance.bank import SETTLED
from laggard.operators.covariance.estimates import FEWEST
from laggard.operators.covariance.members import wave_name
from laggard.operators.covariance.pool import STEPS
from laggard.operators.covariance.present import LONGEST_LEFT, take_kinds
from laggard.operators.covariance.ticks import Compared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.covariance.members import Depth, Path
    from laggard.operators.covariance.pool import Pool

CLEAR: Final = 1.6
"""A stretch above 1 that reached this score is a deviation. Lower ones may be normal for this pool, and are counted."""

LONGEST_STEADY: Final = 720
"""A pool is of fixed size if no member came or went for half of its age, up to this number of ticks."""


def calibrate(pool: Pool, ts: float, looks: Sequence[Compared]) -> None:
    """Learn how often members slightly exceed 1: a pool in which that is usual has a higher limit."""
    raised, worst = max(pool.calibration.limit / STEPS, 1.0), 0.0
    for depth, comparison in zip(pool.depths, looks, strict=False):
        if len(comparison.tick.slots):
            quiet = comparison.tick.scores <= 1.0
            worst = max(worst, float(comparison.tick.scores[quiet].max(initial=0.0)))
            over = depth.bank.over(comparison.tick)
            # Relative to the limit before it was raised, or each deviation would make the next one doubtful.
            worst = max(worst, float(over[over * raised < CLEAR].max(initial=0.0)))
    pool.calibration.learn(ts, worst * raised * STEPS)


def learn_depth(pool: Pool, depth: Depth, look: Compared, ts: float) -> None:
    """Learn the members and groups of one depth."""
    bank = depth.bank
    take_kinds(pool, depth, look)
    bank.take(look.tick, look.values[look.known])
    here = set(look.paths)
    changed = False
    for place in look.known:
        node = depth.nodes[look.paths[place]]
        if not node.alive:
            node.alive = changed = True
            pool.away.pop(node.path, None)
        node.until_ts = ts
    for at, standing in look.standings.items():
        depth.nodes[look.paths[look.known[at]]].standing = standing
    for node in depth.nodes.values():
        if node.alive and node.path not in here:
            node.alive, changed = False, True
            if node.leaf and pool.steady >= max(SETTLED, min(pool.ticks // 2, LONGEST_STEADY)):
                pool.away[node.path] = pool.ticks
    new = [at for at in range(len(look.paths)) if look.paths[at] not in depth.nodes]
    if new:
        changed = True
        pool.away = {path: at for path, at in pool.away.items() if at < pool.ticks - LONGEST_LEFT}
        _claim(pool, depth, look, new, ts)
    if look.leaves.any():
        pool.steady = 0 if changed else pool.steady + 1
    pool.release(depth, depth.forgettable(ts))
    _keep_courses(pool, depth, look, ts)


def learn_nobody(pool: Pool, depth: Depth, ts: float) -> None:
    """Learn a tick without members of a depth."""
    nobody = np.zeros(0, np.intp)
    values = np.zeros((0, len(pool.features)))
    tick = depth.bank.compare(ts, nobody, values, nobody, 1.0)
    nothing = np.zeros(0, np.bool_)
    learn_depth(pool, depth, Compared((), (), nothing, values, nobody, tick, 1.0, {}, tick.scores), ts)


def _claim(pool: Pool, depth: Depth, comparison: Compared, new: Sequence[int], ts: float) -> None:
    room = pool.limit - len(depth.nodes)
    if room < len(new):
        ended = sorted((node for node in depth.nodes.values() if not node.alive), key=lambda node: node.until_ts)
        pool.release(depth, ended[: len(new) - room])
        room = pool.limit - len(depth.nodes)
    pool.refused += max(len(new) - room, 0)
    new = new[:room]
    for at, slot in zip(new, depth.bank.claim(len(new)).tolist(), strict=True):
        depth.claim(comparison.paths[at], comparison.names[at], slot, ts, pool.ticks, leaf=bool(comparison.leaves[at]))


def _keep_courses(pool: Pool, depth: Depth, comparison: Compared, ts: float) -> None:
    """Learn the courses of groups by their age."""
    inner = np.flatnonzero(~comparison.leaves)
    for at in inner:
        pool.courses.add(ts, "/".join(comparison.paths[at]), comparison.values[at])
    waves: dict[tuple[Path, int], list[int]] = {}
    for place in comparison.known[comparison.leaves[comparison.known]]:
        node = depth.nodes.get(comparison.paths[place])
        if node is not None and depth.waves[node.path[:-1]].number > 0:
            waves.setdefault((node.path[:-1], node.wave), []).append(int(place))
    for (parent, wave), places in waves.items():
        if len(places) >= FEWEST:
            values = comparison.values[places]
            known = np.isfinite(values)
            count = known.sum(axis=0)
            means = np.where(known, values, 0.0).sum(axis=0) / np.where(count, count, np.nan)
            pool.courses.add(ts, wave_name(parent, wave), means)
