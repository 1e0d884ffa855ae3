"""How often healthy pools are said to have a member that deviates, beside the budget (S3)."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.calibration import QUIET_S
from laggard.operators.covariance import Covariance
from tests.evaluation.null import rate
from tests.evaluation.pools.simulation import DAY_S, WORLDS, healthy
from tests.evaluation.pools.workers import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIZES: Final[Mapping[int, float]] = {5: 7.0, 10: 7.0, 40: 15.0, 200: 60.0}
"""Members of a pool, and the seconds of its ticks: larger ones at longer ticks, for the time that it takes."""

DAYS: Final = 2.0
"""Of one pool."""

FIRST_S: Final = 3 * 3600.0
"""For so long the operator knows little: told apart in the tables."""


class Cry(NamedTuple):
    """What an operator made of a healthy pool.

    Attributes:
        world: which.
        members: of the pool.
        days: how long it was.
        findings: times that the pool's score rose above 1, after it had been below it for a quiet time.
        early: of those, the ones in the first hours.
        kinds: of the findings, by what stood first.
        above: share of the ticks with a score above 1.
        seconds: of CPU that it took.

    """

    world: str
    members: int
    days: float
    findings: int
    early: int
    kinds: Mapping[str, int]
    above: float
    seconds: float


def cry(world: str, members: int, seed: int, days: float, interval_s: float) -> Cry:
    """Follow a healthy pool from its first tick to its last."""
    began = time.process_time()
    pool = healthy(seed, world, members, days=days, interval_s=interval_s)
    operator = Covariance()
    kinds = Counter[str]()
    above = early = 0
    calm_since = -np.inf
    for ts, layout, values in pool.frames():
        scores = operator.score(ts, layout, values)
        if scores.score > 1.0:
            above += 1
            if ts - calm_since >= QUIET_S:
                kinds[scores.deviations[0].kind] += 1
                early += ts - pool.ts[0] < FIRST_S
            calm_since = np.inf
        elif np.isposinf(calm_since):
            calm_since = ts
        operator.learn(ts, layout, values)
    seconds = time.process_time() - began
    return Cry(world, members, days, sum(kinds.values()), early, kinds, above / len(pool.ts), seconds)


def run(
    seeds: Sequence[int],
    *,
    worlds: Sequence[str] = tuple(WORLDS),
    sizes: Sequence[int] = tuple(SIZES),
    days: float = DAYS,
    workers: int = 1,
) -> str:
    """By size, then by world, in Markdown."""
    cases = [(world, size, seed, days, SIZES[size]) for size in sizes for world in worlds for seed in seeds]
    every = spread(cry, cases, workers)
    heads = ("", "pool-days", "false findings per pool-day", "later than 3 h", "worst pool", "ticks above 1", "kinds")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines.append(_line("all", every))
    lines += [
        _line(f"{size} members, {SIZES[size]:g} s", [one for one in every if one.members == size]) for size in sizes
    ]
    lines += [_line(f"world `{world}`", [one for one in every if one.world == world]) for world in worlds]
    if len(sizes) > 1 and len(worlds) > 1:
        lines += ["", f"| findings | {' | '.join(f'{size} members' for size in sizes)} |"]
        lines.append("|---" * (len(sizes) + 1) + "|")
        for world in worlds:
            counts = [sum(each.findings for each in every if each[:2] == (world, size)) for size in sizes]
            lines.append(f"| {world} | {' | '.join(map(str, counts))} |")
    spent = sum(each.seconds for each in every)
    title = f"{len(seeds)} x {days:g} days each, seeds {seeds[0]} to {seeds[-1]}, {spent:.0f} s of CPU"
    return "\n".join([title, "", *lines])


def _line(name: str, cries: Sequence[Cry]) -> str:
    days = sum(each.days for each in cries)
    findings = sum(each.findings for each in cries)
    later = findings - sum(each.early for each in cries)
    kinds = sum((Counter(each.kinds) for each in cries), Counter[str]())
    return (
        f"| {name} | {days:g} | {rate(findings, days)} | {later / (days - len(cries) * FIRST_S / DAY_S):.2f} | "
        f"{max(each.findings / each.days for each in cries):.1f} | "
        f"{100.0 * np.mean([each.above for each in cries]):.2f} % | "
        f"{', '.join(f'{kind} {count}' for kind, count in kinds.most_common()) or '-'} |"
    )
