"""Rates of counters between two readings, resets included. Pure.

The parts of one histogram or summary are reset together: after a restart, one bucket may already be above its earlier
count, and another not yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from laggard.producers.sources.prometheus.page import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PARTS: Final = ("_bucket", "_count", "_sum")


@dataclass(frozen=True, slots=True)
class Increases:
    """The increases of counters.

    Attributes:
        by: the increases by series, of those that were there before.
        impossible: series with values that no counter has: negative, infinite or no number. The other parts of their
            histogram are left out, too.

    """

    by: Mapping[Series, float]
    impossible: Sequence[Series]


def increases(before: Mapping[Series, float], now: Mapping[Series, float]) -> Increases:
    """Return the increases of counters from `before` to `now`.

    A counter below its earlier value has started from 0 again. A new counter has no increase yet: it may have been
    counted elsewhere for long. Sums may be negative.
    """
    groups: dict[Series, list[Series]] = {}
    for one in now:
        groups.setdefault(_group(one), []).append(one)
    found: dict[Series, float] = {}
    impossible: list[Series] = []
    for members in groups.values():
        wrong = [one for one in members if not _possible(one, now[one])]
        impossible += wrong
        if wrong or any(one not in before or not _possible(one, before[one]) for one in members):
            continue
        monotonic = [one for one in members if not one.name.endswith("_sum")] or members
        begun_anew = any(now[one] < before[one] for one in monotonic)
        for one in members:
            found[one] = now[one] if begun_anew else now[one] - before[one]
    return Increases(found, impossible)


def increase(values: Sequence[float]) -> float:
    """Return the increase of a counter over its values, from the first to the last."""
    return sum(after - before if after >= before else after for before, after in pairwise(values))


def _group(one: Series) -> Series:
    """Return the group of a series: the same for all parts of one histogram or summary."""
    for part in _PARTS:
        if one.name.endswith(part):
            return Series(one.name.removesuffix(part), tuple(label for label in one.labels if label[0] != "le"))
    return one


def _possible(one: Series, value: float) -> bool:
    return math.isfinite(value) and (value >= 0 or one.name.endswith("_sum"))
