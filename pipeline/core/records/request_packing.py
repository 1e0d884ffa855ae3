"""Requests in fewer bytes: a repeated text is written once, and its occurrences refer to it by its place.

`texts` has each text once. `syscalls` is a list of places in it. An entry of `spent` is `[state, syscall, on, by, pid,
result, times, time_s]` and one of `path` `[thread, begin_s, end_s, state, detail]`, each text as its place. Empty
fields are omitted, except for those of version 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.core.records import checks
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.limits import MAX_NAME, MAX_SEGMENTS, MAX_SPENT, MAX_SYSCALLS
from laggard.pipeline.core.records.requests import Segment, Spent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.records.requests import Request

LATER: Final = ("host", "name", "critical_s", "spent", "threads", "path", "notes", "missing_ratio")
"""The fields that were added after version 1.0."""

TEXTS: Final = "texts"
"""The field with the texts."""

_MOST_TEXTS: Final = MAX_SYSCALLS
_TEXTUAL: Final = frozenset(("state", "syscall", "on", "by", "result", "detail"))
"""The fields of entries that are texts."""


def pack_request(request: Request) -> dict[str, Any]:
    """Return the fields to write for a checked request.

    Raises:
        RecordError: it has too many different texts.

    """
    places: dict[str, int] = {}

    def place(text: str) -> int:
        return places.setdefault(text, len(places))

    fields: dict[str, Any] = {
        "service": request.service,
        "ts": request.ts,
        "request": request.request,
        "duration_s": request.duration_s,
        "counts": request.counts,
        "times_s": request.times_s,
        "syscalls": [place(each) for each in request.syscalls],
        "sequence": request.sequence,
    }
    fields |= {name: found for name in LATER if (found := getattr(request, name))}
    if request.spent:
        fields["spent"] = [
            (place(state), place(syscall), place(on), place(by), pid, place(result), times, time_s)
            for state, syscall, on, by, pid, result, times, time_s in request.spent
        ]
    if request.path:
        fields["path"] = [
            (thread, begin_s, end_s, place(state), place(detail))
            for thread, begin_s, end_s, state, detail in request.path
        ]
    if len(places) > _MOST_TEXTS:
        raise RecordError("", TEXTS, f"at most {_MOST_TEXTS:,} different texts", f"{len(places):,}")
    if places:
        fields[TEXTS] = list(places)
    return fields


def unpack_request(fields: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return the fields with the texts instead of their places; those of versions 1.0 and 1.1 are unchanged.

    Raises:
        RecordError: a place is invalid.

    """
    if TEXTS not in fields:
        return fields
    texts = checks.texts(checks.items(fields[TEXTS], TEXTS, place, _MOST_TEXTS), TEXTS, place, MAX_NAME)
    unpacked = {**fields, "syscalls": _texts(fields.get("syscalls"), "syscalls", texts, MAX_SYSCALLS, place)}
    for field, names, most in (("spent", Spent._fields, MAX_SPENT), ("path", Segment._fields, MAX_SEGMENTS)):
        if field in fields:
            unpacked[field] = _entries(fields[field], names, texts, field=field, most=most, place=place)
    return unpacked


def _texts(value: Any, field: str, texts: tuple[str, ...], most: int, place: str) -> tuple[str, ...]:
    places = checks.items(value, field, place, most)
    try:
        if not places or min(places) >= 0:
            return tuple(map(texts.__getitem__, places))
    except (TypeError, IndexError):
        pass
    wrong = next(each for each in places if not isinstance(each, int) or not 0 <= each < len(texts))
    raise RecordError(place, field, f"places in 'texts', which has {len(texts):,}", shown(wrong))


def _entries(value: Any, names: tuple[str, ...], texts: tuple[str, ...], *, field: str, most: int, place: str) -> Any:
    """Return the entries with their texts. They are unchanged if one is not a list of the right length."""
    entries = checks.items(value, field, place, most)
    if not all(isinstance(each, list) and len(each) == len(names) for each in entries):
        return entries
    columns = list(zip(*entries, strict=True))
    for at in [at for at, name in enumerate(names) if name in _TEXTUAL and columns]:
        columns[at] = _texts(columns[at], field, texts, most, place)
    return list(zip(*columns, strict=True))
