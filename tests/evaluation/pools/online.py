"""How soon a pool's member that goes wrong is found, tick by tick (S3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.covariance import Covariance
from tests.evaluation.pools.simulation import FAULTS, INTERVAL_S, KINDS, WORLDS, online
from tests.evaluation.pools.workers import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.evaluation.pools.simulation import Fault, Pool

GRACE_S: Final = 1800.0
"""A short deviation may be found so long after its end: what is still in a window."""


@dataclass(frozen=True)
class Found:
    """What an operator made of one pool with one deviation.

    Attributes:
        world: which.
        fault: which.
        ticks: from the onset until the member is among those that deviate; NaN if it never was.
        named: the same until its kind was right.
        first: whether it stood first when it was found.
        false: members other than that, each once, that were ever called deviating.

    """

    world: str
    fault: Fault
    ticks: float
    named: float
    first: bool
    false: int


def watch(pool: Pool, operator: Covariance, world: str) -> Found:
    """Follow a pool with one injection from its first tick to its last, or until long after the deviation."""
    (injection,) = pool.injections
    found = named = np.nan
    first = False
    false: set[str] = set()
    onset = int(np.searchsorted(pool.ts, injection.begin_ts))
    for at, (ts, layout, values) in enumerate(pool.frames()):
        told = [each for each in operator.score(ts, layout, values).deviations if each.score > 1.0]
        for each in told:
            if injection.row not in each.rows:
                false.update(each.rows)
            elif at < onset:
                false.add(injection.row)
            else:
                if np.isnan(found):
                    found, first = at - onset, each is told[0]
                if np.isnan(named) and each.kind in KINDS[injection.fault]:
                    named = at - onset
        if ts > injection.end_ts + GRACE_S:
            break
        operator.learn(ts, layout, values)
    return Found(world, injection.fault, found, named, first, len(false))


def find(world: str, fault: Fault, seed: int, strength: float, members: int) -> Found:
    """Make a pool, and follow it."""
    return watch(online(seed, world, fault, members=members, strength=strength), Covariance(), world)


def run(
    seeds: Sequence[int],
    *,
    worlds: Sequence[str] = tuple(WORLDS),
    faults: Sequence[Fault] = FAULTS,
    strength: float = 1.0,
    members: int = 10,
    workers: int = 1,
) -> str:
    """By fault, then by world, in Markdown."""
    cases = [(world, fault, seed, strength, members) for world in worlds for fault in faults for seed in seeds]
    every = spread(find, cases, workers)
    heads = ("", "found", "ticks of 7 s: median", "90 %", "right kind", "until then: median", "stood first", "false")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [_line(fault, [each for each in every if each.fault == fault]) for fault in faults]
    lines += [_line(f"world `{world}`", [each for each in every if each.world == world]) for world in worlds]
    if len(faults) > 1 and len(worlds) > 1:
        lines += ["", f"| found | {' | '.join(faults)} |", "|---" * (len(faults) + 1) + "|"]
        for world in worlds:
            cells = []
            for fault in faults:
                mine = [each for each in every if (each.world, each.fault) == (world, fault)]
                cells.append(f"{sum(not np.isnan(each.ticks) for each in mine)}/{len(mine)}")
            lines.append(f"| {world} | {' | '.join(cells)} |")
    title = f"{members} members, ticks of {INTERVAL_S:g} s, strength {strength:g}, seeds {seeds[0]} to {seeds[-1]}"
    return "\n".join([title, "", *lines])


def _line(name: str, found: Sequence[Found]) -> str:
    ticks = [each.ticks for each in found]
    named = [each.named for each in found]
    seen = sum(not np.isnan(each) for each in ticks)
    return (
        f"| {name} | {seen}/{len(found)} | {_quantile(ticks, 0.5)} | {_quantile(ticks, 0.9)} | "
        f"{sum(not np.isnan(each) for each in named)}/{len(found)} | {_quantile(named, 0.5)} | "
        f"{sum(each.first for each in found)}/{seen} | {sum(each.false for each in found)} |"
    )


def _quantile(ticks: Sequence[float], share: float) -> str:
    """Of all, where those that were never found come last."""
    value = np.sort(np.nan_to_num(np.array(ticks), nan=np.inf))[int(np.ceil(share * len(ticks))) - 1]
    return "never" if np.isinf(value) else f"{value:.0f}"
