"""A time series in one line of characters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII: Final = "_.-~=*#@"
"""For terminals that do not write Unicode."""

GAP: Final = " "


def sparkline(columns: Sequence[float], low: float, high: float, glyphs: str = BLOCKS) -> str:
    """One character per column, from `low` to `high`; NaN is a gap, and a series without any spread lies flat."""
    span = high - low
    return "".join(_glyph(value, low, span, glyphs) for value in columns)


def columns(
    points: Iterable[tuple[float, float]], start: float, end: float, width: int, *, hold: bool = False
) -> list[float]:
    """The largest value in each of `width` equal parts of the time from `start` up to and with `end`.

    Args:
        points: (ts, value) in any order; what lies outside and what is not finite is left out.
        start: seconds, as `ts`.
        end: later than `start`.
        width: number of columns.
        hold: whether a column without a point goes on with the one before it, once: for points at uneven distances.

    Returns:
        One value per column, NaN where there is no point.

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
