"""Records from fields of any type: every field is checked, whatever its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, get_args

import numpy as np

from laggard.pipeline.core.records import checks
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.feedback import Feedback
from laggard.pipeline.core.records.frame import Frame, KeyedBy, Layout, Mark, Wish, WishKind
from laggard.pipeline.core.records.limits import (
    MAX_HOSTS,
    MAX_METRIC,
    MAX_NAME,
    MAX_NOTE,
    MAX_NOTES,
    MAX_SYSCALLS,
    MAX_THREADS,
)
from laggard.pipeline.core.records.requests import Request, checked_path, checked_spent

if TYPE_CHECKING:
    from collections.abc import Mapping

Received = Frame | Mark | Request | Wish | Feedback
"""The input records of operators."""

KEYED_BY: Final = frozenset(get_args(KeyedBy))
WISHES: Final[tuple[WishKind, ...]] = get_args(WishKind)
_FLOAT64: Final = np.dtype(np.float64)


def fields_of(record: Received) -> dict[str, Any]:
    """Return the fields of a record by name, in their order."""
    return {field: getattr(record, field) for field in record.__slots__}


def frame(fields: Mapping[str, Any], layout: Layout, values: Any, place: str) -> Frame:
    """Return a frame of its layout, its values, and the other fields of `Frame`.

    Raises:
        RecordError: a field is of the wrong type or shape, or beyond a limit.

    """
    keyed_by: Any = fields.get("keyed_by")
    if not isinstance(keyed_by, str) or keyed_by not in KEYED_BY:
        raise RecordError(place, "keyed_by", "'host', 'application', 'pool' or 'service'", shown(keyed_by))
    if not isinstance(values, np.ndarray) or values.dtype != _FLOAT64:
        got = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else shown(values)
        raise RecordError(place, "values", "an array of float64", got)
    expected = (len(layout.rows), len(layout.features))
    if values.shape != expected:
        raise RecordError(place, "values", f"the shape {expected}", f"{values.shape}")
    hosts: tuple[str, ...] = ()
    if named := checks.items(fields.get("hosts", ()), "hosts", place, MAX_HOSTS):
        if keyed_by == "host":
            raise RecordError(place, "hosts", "nothing for a frame keyed by host", shown(named))
        hosts = checks.unique(tuple(checks.key(each, "hosts", place) for each in named), "hosts", place)
    return Frame(
        cast("KeyedBy", keyed_by),
        checks.key(fields.get("key"), "key", place),
        checks.key(fields.get("scope"), "scope", place),
        checks.ts(fields.get("ts"), "ts", place),
        checks.sequence(fields.get("sequence"), "sequence", place),
        layout,
        values,
        hosts,
    )


def mark(fields: Mapping[str, Any], place: str) -> Mark:
    """Return a mark of its fields.

    Raises:
        RecordError: a field is of the wrong type, or beyond a limit.

    """
    return Mark(
        host=checks.key(fields.get("host"), "host", place),
        ts=checks.ts(fields.get("ts"), "ts", place),
        note=checks.text(fields.get("note"), "note", place, MAX_NOTE),
        sequence=checks.sequence(fields.get("sequence"), "sequence", place),
    )


def request(fields: Mapping[str, Any], place: str) -> Request:
    """Return a request of its fields. Entries of `spent` and `path` are lists of their fields.

    Raises:
        RecordError: a field is of the wrong type, or beyond a limit.

    """
    syscalls = checks.items(fields.get("syscalls"), "syscalls", place, MAX_SYSCALLS)
    threads = checks.items(fields.get("threads", ()), "threads", place, MAX_THREADS)
    notes = checks.items(fields.get("notes", ()), "notes", place, MAX_NOTES)
    host: Any = fields.get("host", "")
    return Request(
        service=checks.key(fields.get("service"), "service", place),
        ts=checks.ts(fields.get("ts"), "ts", place),
        request=checks.text(fields.get("request"), "request", place, MAX_NAME, shortest=1),
        duration_s=checks.amount(fields.get("duration_s"), "duration_s", place),
        counts=checks.amounts(fields.get("counts"), "counts", place),
        times_s=checks.amounts(fields.get("times_s"), "times_s", place),
        syscalls=checks.texts(syscalls, "syscalls", place, MAX_NAME, shortest=1),
        sequence=checks.sequence(fields.get("sequence"), "sequence", place),
        host="" if host == "" else checks.key(host, "host", place),
        name=checks.text(fields.get("name", ""), "name", place, MAX_NAME),
        critical_s=checks.amounts(fields.get("critical_s", {}), "critical_s", place),
        spent=checked_spent(fields.get("spent", ()), place),
        threads=checks.texts(threads, "threads", place, MAX_NAME, shortest=1),
        path=checked_path(fields.get("path", ()), len(threads), place),
        notes=checks.texts(notes, "notes", place, MAX_NOTE, shortest=1),
        missing_ratio=checks.amount(fields.get("missing_ratio", 0.0), "missing_ratio", place),
    )


def wish(fields: Mapping[str, Any], place: str) -> Wish:
    """Return a wish of its fields.

    Raises:
        RecordError: a field is of the wrong type, or beyond a limit.

    """
    metric = checks.text(fields.get("metric"), "metric", place, MAX_METRIC, shortest=1)
    row, _, feature = metric.rpartition(":")
    if not row or not feature:
        raise RecordError(place, "metric", "a row and a feature such as 'web-1/nginx:cpu_wait_ratio'", shown(metric))
    wished: Any = fields.get("wish")
    if wished not in WISHES:
        raise RecordError(place, "wish", "'pin', 'ban' or 'free'", shown(wished))
    return Wish(
        application=checks.key(fields.get("application"), "application", place),
        ts=checks.ts(fields.get("ts"), "ts", place),
        metric=metric,
        wish=wished,
        sequence=checks.sequence(fields.get("sequence"), "sequence", place),
    )
