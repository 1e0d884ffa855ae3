"""Differences that are no fault of a member: a later or earlier start, and siblings that are no pool."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.covariance.estimates import deviation_of, median
from laggard.operators.covariance.kinds import YOUNGER, nature
from laggard.operators.covariance.members import WAVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.covariance.bank import Bank
    from laggard.operators.covariance.comparison import Tick
    from laggard.operators.covariance.members import Node
    from laggard.operators.covariance.pool import Pool

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]

UNLIKE: Final = {"use": 2.0, "stock": 1.5}
"""Members are no pool if their uses typically differ by more than a factor of 2, and their stocks by more than 1.5."""

MOST_UNLIKE: Final = 1e3
"""The largest counted factor: a member may do nothing at all."""

OLDER: Final = 2.0
"""A member above this number of times the others' age holds more for that reason."""


def excused(pool: Pool, bank: Bank, tick: Tick, nodes: Sequence[Node], *, groups: Slots, limit: float) -> Tick:
    """Return a tick without the evidence that is no fault, as NaN.

    Args:
        pool: the pool.
        bank: the bank of the members.
        tick: the comparison of members.
        nodes: these members.
        groups: the number of the group of siblings of each, shape (n,).
        limit: the evidence with a score of 1.

    """
    if not nodes:
        return tick
    evidence = tick.evidence.copy()
    _excuse_starts(pool, bank, tick, np.array([node.begin_ts for node in nodes]), evidence)
    evidence[:, :, unlike(bank, tick, [nature(feature) for feature in pool.features], groups)] = np.nan
    if np.array_equal(np.isnan(evidence), np.isnan(tick.evidence)):
        return tick
    alone = bank.extremes.alone(evidence, limit)
    return replace(tick, evidence=evidence, alone=alone, scores=bank.runs.lasting(alone, tick.slots))


def _excuse_starts(pool: Pool, bank: Bank, tick: Tick, begins: Floats, evidence: Floats) -> None:
    """Excuse stocks that differ since a member began later than the others, or much earlier, in place.

    A later member holds less, and gains on the others for as long as it does. So its growth is no leak until it holds
    more than they do.
    """
    ages = tick.ts - begins
    usual = float(np.median(ages))
    later = ages < usual - WAVE * pool.usual_interval_s
    older = ages > OLDER * usual
    if not (later | older).any():
        return
    levels, changes = slice(bank.levels), slice(bank.levels, bank.levels + bank.changes)
    stocks = np.array([nature(feature) == "stock" for feature in pool.features] + [True])[bank.metric_of]
    younger = ages < YOUNGER * usual
    evidence[1][np.ix_(stocks, later)] = np.nan
    evidence[0][changes][:, later] = np.where(
        stocks[changes, None] & ~_holds_more(bank, tick)[bank.metric_of[changes]][:, later],
        np.nan,
        evidence[0][changes][:, later],
    )
    evidence[0][bank.levels + bank.changes :, younger] = np.nan
    # A member that has just begun changes for that reason.
    begun = younger & (bank.extremes.ticks(tick.slots) < pool.windows[-1])
    evidence[:, changes, begun] = np.nan
    evidence[0][np.ix_(stocks & (np.arange(len(stocks)) < bank.levels), older)] = np.nan
    evidence[1][np.ix_(stocks & (np.arange(len(stocks)) >= levels.stop), older)] = np.nan


def _holds_more(bank: Bank, tick: Tick) -> NDArray[np.bool_]:
    """Return whether members are above their siblings in the shortest window by its spread, shape (metrics, n)."""
    p = bank.metrics
    means = tick.sums[0, :p] / np.maximum(tick.weights[0, :p], 1e-300)
    return np.asarray(means > np.nan_to_num(tick.spreads[:p]))


def unlike(bank: Bank, tick: Tick, natures: Sequence[str], groups: Slots) -> NDArray[np.bool_]:
    """Return the members whose siblings are programs of one name and no pool, shape (n,).

    Members of a pool do like work or hold like amounts. The factor between members is computed for each metric over
    their lives: its median absolute deviation among siblings on a logarithmic scale. The factor of uses, and that of
    stocks, is the median over the metrics that differ at all. So one deviating member, or one metric, makes no pool
    unlike.
    """
    p = bank.metrics
    weights = np.maximum(tick.weights[-1, :p], 1e-300)
    usual = tick.references[-1, :p] / weights
    means = usual + tick.sums[-1, :p] / weights
    result = np.zeros(len(groups), np.bool_)
    for group in np.unique(groups):
        members = groups == group
        level = median(usual[:, members])
        known = np.isfinite(level) & (level > bank.noticeable) & (np.ptp(means[:, members], axis=1) > 0.0)
        if not known.any():
            continue
        with np.errstate(over="ignore"):
            ratios = means[known][:, members] / level[known, None]
        ratios = np.clip(ratios, 1.0 / MOST_UNLIKE, MOST_UNLIKE)
        logarithms = np.log(ratios)
        factors = np.exp(deviation_of(logarithms - median(logarithms)[:, None], int(members.sum())))
        kinds = np.array(natures)[known]
        result[members] = all(
            (kinds == kind).any() and np.median(factors[kinds == kind]) > most for kind, most in UNLIKE.items()
        )
    return result
