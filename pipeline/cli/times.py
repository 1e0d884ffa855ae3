"""Moments as a person types them, and durations before now. Pure: `now` is an argument."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from laggard.pipeline.settings.kinds import duration

FORMS = (
    "14:05, 14:05:30, yesterday 14:05, 2026-01-02 14:05, 2026-01-02T14:05:00Z, -5m, 5m ago, now, or seconds since 1970"
)
"""The forms that `parse_time` accepts, for help texts."""

UNTIL_FORMS = "2h, 18:00, 2026-01-02 18:00, 2026-01-02T18:00:00Z, or seconds since 1970"
"""The forms that `parse_until` accepts."""

LATEST = 7_258_118_400.0
"""2200-01-01 UTC. A later time is a mistake, most likely in milliseconds."""

_SECOND_S = 0.999_999
"""From the begin of a second to its end, before the next one."""

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_YESTERDAY = re.compile(r"yesterday\s+(\d{1,2}):(\d{2}(?::\d{2})?)", re.ASCII | re.IGNORECASE)
_EPOCH = re.compile(r"@?(\d{9,}(?:\.\d+)?)", re.ASCII)
_BEFORE = re.compile(r"-\s*(?P<minus>\S.*)|(?P<ago>\S.*?)\s+ago", re.ASCII)


def parse_time(text: str, now: float) -> float:
    """Return the moment that `text` names, in seconds since the Unix epoch.

    A time of day is its last past occurrence. Without a zone, that of the machine applies. If a time passed twice
    because the clock was set back, a time of day is the later past one, a full date and time the first one.

    Raises:
        ValueError: it has none of the accepted forms, which the message names.

    """
    stripped = text.strip()
    try:
        ts = _parse(stripped, now)
    except (ValueError, OverflowError, OSError):
        ts = None
    if ts is None or not 0 <= ts < LATEST:
        raise ValueError(f"{text!r} is not a time; expected {FORMS}")
    return ts


def parse_shown(text: str, now: float) -> float:
    """Return the moment that `text` names, as `parse_time` does, but the end of its second at the latest `now`.

    Times are shown to the second, so the time of a frame must find this frame, and not the one before it. Seconds since
    1970 are exact. Raises likewise.
    """
    ts = parse_time(text, now)
    exact = _EPOCH.fullmatch(text.strip()) or not ts.is_integer()
    return ts if exact or ts > now else min(ts + _SECOND_S, now)


def parse_until(text: str, now: float) -> float:
    """Return the future moment that `text` names, in seconds since the Unix epoch. A time of day is the next one.

    Raises:
        ValueError: it is past, or has none of the accepted forms, which the message names.

    """
    stripped = text.strip()
    try:
        ts = float(epoch[1]) if (epoch := _EPOCH.fullmatch(stripped)) else now + duration(stripped)
    except ValueError:
        try:
            ts = parse_time(stripped, now)
        except ValueError:
            raise ValueError(f"{text!r} is not a time; expected {UNTIL_FORMS}") from None
        if _CLOCK.fullmatch(stripped):  # a day has 23 to 25 hours
            ts = next((each for hours in (23, 25) if (each := parse_time(stripped, now + 3600.0 * hours)) > now), ts)
    if not now < ts < LATEST:
        raise ValueError(f"{text!r} is over; expected a time to come: {UNTIL_FORMS}")
    return ts


def _parse(text: str, now: float) -> float | None:
    if text.lower() == "now":
        return now
    if clock := _CLOCK.fullmatch(text):
        return _latest(int(clock[1]), int(clock[2]), int(clock[3] or 0), now)
    if epoch := _EPOCH.fullmatch(text):
        return float(epoch[1])
    if before := _BEFORE.fullmatch(text):
        return now - duration(before["minus"] or before["ago"])
    if yesterday := _YESTERDAY.fullmatch(text):
        day = datetime.fromtimestamp(now).astimezone().date() - timedelta(days=1)
        text = f"{day} {yesterday[1]:0>2}:{yesterday[2]}"
    if not re.match(r"\d{4}-?\d{2}-?\d{2}", text):
        return None
    return datetime.fromisoformat(text).timestamp()


def _latest(hour: int, minute: int, second: int, now: float) -> float:
    """Return the last moment up to `now` at which the machine's clock showed this time of day."""
    today = datetime.fromtimestamp(now).astimezone().replace(hour=hour, minute=minute, second=second, microsecond=0)
    moments = [
        (today.replace(tzinfo=None, fold=fold) - timedelta(days=days)).replace(fold=fold).timestamp()
        for days in (0, 1, 2)
        for fold in (0, 1)
    ]
    return max(moment for moment in moments if moment <= now)
