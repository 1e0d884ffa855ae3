"""Rows that were out of the ordinary when they ended: they are ranked for a moment longer."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

from laggard.operators.ranking import FeatureScore, RowScore

if TYPE_CHECKING:
    from collections.abc import Iterable

SUSPICIOUS = 0.1
"""A row with this score is remembered for a while, should it end."""

GONE_S = 10.0
"""For so long a row that has ended is still ranked, with a score that fades by this time constant."""

MAX_SUSPECTS = 16
SUSPECT_FEATURES = 12

Suspects = dict[str, tuple[float, RowScore]]
"""By the id of a row, when it was there last, and what it was then."""


def gone(suspects: Suspects, ts: float, rows: Iterable[str]) -> tuple[RowScore, ...]:
    """Return the suspects that are not in a frame any more, by its time and its rows."""
    if not suspects:
        return ()
    there = set(rows)
    return tuple(
        replace(found, score=found.score * math.exp(-(ts - seen) / GONE_S), gone_s=ts - seen)
        for row, (seen, found) in suspects.items()
        if row not in there and 0.0 < ts - seen <= GONE_S
    )


def recent(suspects: Suspects, ts: float) -> Suspects:
    """Return the suspects that may still be ranked at a time."""
    return {row: each for row, each in suspects.items() if 0.0 <= ts - each[0] <= GONE_S}


def plain(row: RowScore) -> list[Any]:
    """Return a suspect as plain data."""
    return [
        row.row,
        row.name,
        row.score,
        row.age_s,
        row.basis,
        row.waits,
        [list(astuple(each)) for each in row.features],
    ]


def restored(found: list[Any]) -> RowScore:
    """Return the suspect of `plain` data."""
    row, name, score, age_s, basis, waits, features = found
    return RowScore(row, name, score, tuple(FeatureScore(*each) for each in features), age_s, basis, waits)
