"""Reads posted marks: returns a mark for the bytes of a body, or rejects them with the error."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from laggard.pipeline.core.records import Mark, RecordError, checks
from laggard.pipeline.core.records.limits import MAX_NOTE
from laggard.pipeline.web.errors import RequestError, too_often
from laggard.pipeline.web.limits import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BODY_BYTES = 64 * 1024
"""The most bytes of a mark's JSON: the longest note fits, escaped."""
MAX_AHEAD_S = 300.0
"""The most seconds that a mark may lie in the future, since clocks differ."""

MARKS_AT_ONCE = 60
"""The most marks at once."""

MARKS_PER_S = 1.0
"""The lasting marks per second: every worker computes a ranking for each, and none is deleted early."""

_EXPECTED = '{"note": text, "ts": seconds since the Unix epoch (optional), "host": text (optional)}'


class Allowance:
    """The limit of marks, which refills with time. Thread-safe.

    Args:
        clock: returns seconds on a clock that never steps.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = Bucket(MARKS_AT_ONCE, MARKS_PER_S, clock)

    def take(self) -> None:
        """Use one mark. Raises `RequestError` if none is left."""
        if wait_s := self._bucket.take():
            raise too_often("too many marks", f"at most {MARKS_AT_ONCE} at once, and {MARKS_PER_S:g} a second", wait_s)


def read_mark(body: bytes, host: str, now: float) -> Mark:
    """Read `{"note": "checkout hangs", "ts": 1700000007.5, "host": "web-1"}`.

    Args:
        body: JSON in UTF-8.
        host: the mark's host if the body has none.
        now: the mark's time if the body has none, seconds since the Unix epoch.

    Raises:
        RequestError: the mark is invalid. It names the field, its value, and what was expected.

    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not JSON", _EXPECTED) from None
    if not isinstance(fields, dict) or "note" not in fields:
        raise RequestError(400, "the body is not a mark", _EXPECTED)
    if unknown := sorted(fields.keys() - {"note", "ts", "host"}):
        raise RequestError(400, f"unknown field {unknown[0][:100]!a}", _EXPECTED)
    return checked_mark(fields.get("host", host), fields.get("ts", now), fields["note"], now)


def checked_mark(host: object, ts: object, note: object, now: float) -> Mark:
    """Return a mark of untrusted fields; `now` in seconds since the Unix epoch.

    Raises:
        RequestError: a field is invalid. It names the field, its value, and what was expected.

    """
    try:
        mark = Mark(
            host=checks.key(host, "host", ""),
            ts=checks.ts(ts, "ts", ""),
            note=checks.text(note, "note", "", MAX_NOTE),
        )
    except RecordError as error:
        raise RequestError(400, f"field '{error.field}' is {error.got}", error.expected) from None
    if mark.ts > now + MAX_AHEAD_S:
        raise RequestError(400, f"field 'ts' is {mark.ts!r}, which is in the future", f"at most {now!r}, which is now")
    return mark
