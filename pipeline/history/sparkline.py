"""Time series on one line of characters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII: Final = "_.-~=*#@"
"""For terminals without Unicode."""

GAP: Final = " "


def sparkline(columns: Sequence[float], low: float, high: float, glyphs: str = BLOCKS) -> str:
    """Return one character per column, from `low` to `high`; NaN is a gap, and a constant series is flat."""
    span = high - low
    return "".join(_glyph(value, low, span, glyphs) for value in columns)


def columns(
    points: Iterable[tuple[float, float]], start: float, end: float, width: int, *, hold: bool = False
) -> list[float]:
    """Return the largest value in each of `width` equal parts of the time from `start` to `end` (inclusive).

    Args:
        points: (ts, value) in any order; points outside and values that are not finite are left out.
        start: seconds, as `ts`.
        end: seconds, later than `start`.
        width: the number of columns.
        hold: whether a column without a point repeats the one before it, once: for points at uneven distances.

    Returns:
        One value per column, NaN without a point.

    """
    result = [math.nan] * width
    scale = width / (end - start)
    for ts, value in points:
        if start <= ts <= end and math.isfinite(value):
            column = min(int((ts - start) * scale), width - 1)
            result[column] = value if math.isnan(result[column]) else max(result[column], value)
    if hold:
        return [
            before if math.isnan(value) else value for before, value in zip((math.nan, *result), result, strict=False)
        ]
    return result


def _glyph(value: float, low: float, span: float, glyphs: str) -> str:
    if math.isnan(value):
        return GAP
    level = (value - low) / span if 0.0 < span < math.inf else 0.0
    return glyphs[min(max(int(level * len(glyphs)), 0), len(glyphs) - 1)]
