"""Reading a mark that was posted: the body's bytes in, a mark out, or what is wrong with them."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

from laggard.pipeline.records import Mark
from laggard.pipeline.web.errors import RequestError

MAX_BODY_BYTES = 16 * 1024
MAX_NOTE = 1000
"""Characters of a note."""
MAX_HOST = 253
"""Characters of a host's name, as in DNS."""
MAX_AHEAD_S = 300.0
"""How far in the future a mark may lie: clocks differ, but nobody has felt tomorrow's slowness."""

_EXPECTED = '{"note": text, "ts": seconds since the Unix epoch (optional), "host": text (optional)}'


def read_mark(body: bytes, host: str, now: float) -> Mark:
    """Read `{"note": "checkout hangs", "ts": 1700000007.5, "host": "web-1"}`.

    Args:
        body: JSON in UTF-8.
        host: the mark's host where the body names none.
        now: the mark's time where the body names none, seconds since the Unix epoch.

    Raises:
        RequestError: naming the field, what it holds, and what was expected.

    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not JSON", _EXPECTED) from None
    if not isinstance(fields, dict) or "note" not in fields:
        raise RequestError(400, "the body is not a mark", _EXPECTED)
    if unknown := sorted(fields.keys() - {"note", "ts", "host"}):
        raise RequestError(400, f"unknown field {unknown[0][:100]!r}", _EXPECTED)
    return Mark(
        host=_text("host", fields.get("host", host), 1, MAX_HOST),
        ts=_time(fields.get("ts", now), now),
        note=_text("note", fields["note"], 0, MAX_NOTE),
    )


def _text(name: str, value: Any, shortest: int, longest: int) -> str:
    # What is written here is shown in terminals later: no escape sequences, nothing that UTF-8 cannot carry.
    if (
        isinstance(value, str)
        and shortest <= len(value) <= longest
        and not any(unicodedata.category(character) in ("Cc", "Cs") for character in value)
    ):
        return value
    raise RequestError(
        400, f"field {name!r} is not usable", f"text of {shortest} to {longest} characters without control characters"
    )


def _time(value: Any, now: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            ts = float(value)
        except OverflowError:
            ts = math.inf
        if 0 <= ts <= now + MAX_AHEAD_S:  # not true for NaN
            return ts
    raise RequestError(400, "field 'ts' is not usable", "seconds since the Unix epoch, not in the future")
