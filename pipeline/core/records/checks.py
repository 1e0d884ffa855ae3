"""Checks of the kinds of fields, for all code that builds, writes or reads a record.

Every function returns the value, except for `wholes`, or raises `RecordError` with the given field and place.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.frame import UNNUMBERED
from laggard.pipeline.core.records.limits import MAX_KEY, MAX_NAME, MAX_SEQUENCE, MAX_STATES, MAX_TS

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def key(value: Any, field: str, place: str) -> str:
    """Check a key or a scope: it becomes a topic's key, a metric's label, a line in a terminal."""
    if isinstance(value, str) and 0 < len(value) <= MAX_KEY and not _CONTROL.search(value):
        return value
    raise RecordError(place, field, f"text of 1 to {MAX_KEY} characters without control characters", shown(value))


def text(value: Any, field: str, place: str, longest: int, *, shortest: int = 0) -> str:
    """Check a text of a person or a program: anything in UTF-8, except for U+0000, which separates packed names."""
    if isinstance(value, str) and shortest <= len(value) <= longest and _is_usable(value):
        return value
    expected = f"text of {shortest} to {longest:,} characters without U+0000 and lone surrogates"
    raise RecordError(place, field, expected, shown(value))


def texts(values: Sequence[Any], field: str, place: str, longest: int, *, shortest: int = 0) -> tuple[str, ...]:
    """Check several texts at once, and one by one only to name the wrong one."""
    found = tuple(values)
    if found and not _all_usable(found, longest, shortest):
        for number, each in enumerate(found):
            text(each, f"{field}[{number}]", place, longest, shortest=shortest)
    return found


def items(value: Any, field: str, place: str, most: int) -> Sequence[Any]:
    """Check the length of a list of anything."""
    if isinstance(value, list | tuple) and len(value) <= most:
        return value
    raise RecordError(place, field, f"a list of at most {most:,}", shown(value))


def unique(values: tuple[str, ...], field: str, place: str) -> tuple[str, ...]:
    """Check that names differ."""
    if len(set(values)) == len(values):
        return values
    [(repeated, times)] = Counter(values).most_common(1)
    raise RecordError(place, field, "each name only once", f"{shown(repeated)} {times:,} times")


def ts(value: Any, field: str, place: str) -> float:
    """Check a time, in seconds since the Unix epoch."""
    if _is_number(value) and 0 <= value <= MAX_TS:
        return float(value)
    raise RecordError(place, field, f"seconds since the Unix epoch, from 0 to {MAX_TS:.0f}", shown(value))


def sequence(value: Any, field: str, place: str) -> int:
    """Check the number of a record."""
    if isinstance(value, int) and not isinstance(value, bool) and UNNUMBERED <= value <= MAX_SEQUENCE:
        return value
    raise RecordError(place, field, f"an integer from 0 to 2**63 - 1, or {UNNUMBERED} for none", shown(value))


def wholes(values: Sequence[Any], field: str, place: str, most: int) -> None:
    """Check integers from 0 to `most`."""
    if set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= most:
        return
    for number, each in enumerate(values):
        if not isinstance(each, int) or isinstance(each, bool) or not 0 <= each <= most:
            raise RecordError(place, f"{field}[{number}]", f"an integer from 0 to {most:,}", shown(each))


def amount(value: Any, field: str, place: str) -> float:
    """Check a count or a duration."""
    if _is_number(value) and 0 <= value <= sys.float_info.max:
        return float(value)
    raise RecordError(place, field, "a finite number of at least 0", shown(value))


def all_amounts(values: Sequence[Any], field: str, place: str) -> Sequence[float]:
    """Check counts or durations."""
    if _are_amounts(values):
        return values
    return [amount(each, f"{field}[{number}]", place) for number, each in enumerate(values)]


def amounts(value: Any, field: str, place: str) -> dict[str, float]:
    """Check counts or durations by state."""
    if not isinstance(value, Mapping) or len(value) > MAX_STATES:
        raise RecordError(place, field, f"a map of at most {MAX_STATES:,} states to numbers", shown(value))
    # All at once, and one by one only to name the wrong one.
    states = tuple(value)
    if not states or (_are_amounts(tuple(value.values())) and _all_usable(states, MAX_NAME, 1)):
        return dict(value)
    return {
        text(state, field, place, MAX_NAME, shortest=1): amount(each, f"{field}[{shown(state)}]", place)
        for state, each in value.items()
    }


def _is_usable(value: str) -> bool:
    if "\0" in value:
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _all_usable(values: tuple[Any, ...], longest: int, shortest: int) -> bool:
    try:
        joined = "".join(values)
    except TypeError:
        return False
    return shortest <= min(map(len, values)) and max(map(len, values)) <= longest and _is_usable(joined)


def _are_amounts(values: Sequence[Any]) -> bool:
    """Return True only if all are finite floats of at least 0. It may be False for huge ones, whose sum overflows."""
    return set(map(type, values)) == {float} and min(values) >= 0.0 and math.isfinite(sum(values))


def _is_number(value: Any) -> bool:
    # Python compares integers with floats exactly, so that a huge integer needs no conversion before it is refused.
    return isinstance(value, float | int) and not isinstance(value, bool)
