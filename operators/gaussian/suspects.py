"""Rows that were anomalous when they ended: they stay in the ranking for some seconds."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

from laggard.operators.ranking import FeatureScore, RowScore

if TYPE_CHECKING:
    from collections.abc import Iterable

SUSPICIOUS = 0.1
"""The score from which on a row stays in the ranking after its end."""

GONE_S = 10.0
"""The time for which it stays, and the time constant with which its score fades, in seconds."""

MAX_SUSPECTS = 16
SUSPECT_FEATURES = 12

Suspects = dict[str, tuple[float, RowScore]]
"""By the id of a row, the time of its last frame and its score there."""


def gone(suspects: Suspects, ts: float, rows: Iterable[str]) -> tuple[RowScore, ...]:
    """Return the suspects that are no longer in a frame of this time and these rows."""
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
