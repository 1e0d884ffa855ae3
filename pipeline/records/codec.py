"""Records as bytes: one MessagePack map each, the names and the matrix in it as byte strings.

Every map has `v`, the version `[major, minor]`, `kind`, `ts` and `sequence`. A `frame` has `keyed_by`, `key`, `scope`,
`layout` (see `layout.py`), `values` (float64, little-endian, one row after the other) and `hosts`; a `mark` has `host`
and `note`; a `request` has `service`, `request`, `duration_s`, `counts`, `times_s` and `syscalls`. A reader passes over
fields it does not know, so that a newer minor version may add some.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from laggard.pipeline.records import checked
from laggard.pipeline.records.errors import RecordError, shown
from laggard.pipeline.records.frame import Frame, Mark, Received, Request
from laggard.pipeline.records.layout import LayoutMemory
from laggard.pipeline.records.limits import MAX_RECORD_BYTES
from laggard.pipeline.records.messagepack import pack, unpack_map

VERSION: Final = (1, 0)
"""Of the form written here. The major version grows when a reader of the older form would misread the newer one."""

_FLOAT64: Final = np.dtype("<f8")


def encode(record: Received) -> bytes:
    """The record's bytes, which any `Decoder` takes.

    Raises:
        RecordError: a field is of the wrong type or shape, or beyond a limit.

    """
    fields: dict[str, Any] = {field: getattr(record, field) for field in record.__slots__}
    match record:
        case Frame():
            kind = "frame"
            checked.frame(fields, record.layout, record.values, "")
            fields["layout"] = record.layout.packed
            fields["values"] = record.values.astype(_FLOAT64, copy=False).tobytes()
        case Mark():
            kind = "mark"
            checked.mark(fields, "")
        case Request():
            kind = "request"
            checked.request(fields, "")
    encoded = pack({"v": VERSION, "kind": kind, **fields})
    if len(encoded) > MAX_RECORD_BYTES:
        raise RecordError("", "", f"a record of at most {MAX_RECORD_BYTES:,} bytes", f"{len(encoded):,}")
    return encoded


class Decoder:
    """Reads records, and remembers layouts (see `LayoutMemory`) so that names that do not change cost a look-up.

    For one thread at a time.
    """

    def __init__(self) -> None:
        self._layouts = LayoutMemory()

    def decode(self, value: bytes, place: str) -> Received:
        """The record that was encoded.

        A frame's values are a read-only view of what was read, every bit as it was written. Frames with the same
        packed layout get the same `Layout` for as long as it is remembered.

        Args:
            value: any bytes.
            place: where they come from, for errors: `counters[3]@1042`.

        Raises:
            RecordError: the bytes are no record, or one of a newer major version.

        """
        if len(value) > MAX_RECORD_BYTES:
            raise RecordError(place, "", f"a record of at most {MAX_RECORD_BYTES:,} bytes", f"{len(value):,}")
        try:
            fields = unpack_map(value)
        except ValueError as error:
            raise RecordError(place, "", "a MessagePack map", str(error)) from None
        _check_version(fields.get("v"), place)
        kind = fields.get("kind")
        if kind == "frame":
            return self._frame(fields, place)
        if kind == "mark":
            return checked.mark(fields, place)
        if kind == "request":
            return checked.request(fields, place)
        raise RecordError(place, "kind", "'frame', 'mark' or 'request'", shown(kind))

    def _frame(self, fields: dict[str, Any], place: str) -> Frame:
        packed = fields.get("layout")
        if not isinstance(packed, bytes):
            raise RecordError(place, "layout", "a byte string", shown(packed))
        layout = self._layouts.read(packed, place)
        shape = len(layout.rows), len(layout.features)
        raw = fields.get("values")
        if not isinstance(raw, bytes) or len(raw) != shape[0] * shape[1] * _FLOAT64.itemsize:
            expected = f"a byte string of {shape[0]:,} rows x {shape[1]:,} features x {_FLOAT64.itemsize} bytes"
            raise RecordError(place, "values", expected, shown(raw))
        return checked.frame(fields, layout, np.frombuffer(raw, _FLOAT64).reshape(shape), place)


def _check_version(version: Any, place: str) -> None:
    match version:
        case [int(major), int(minor)] if major == VERSION[0] and minor >= 0:
            return
        case [int(major), int(minor)] if major > VERSION[0] and minor >= 0:
            known, found = f"{VERSION[0]}.{VERSION[1]}", f"{major}.{minor}"
            expected = f"version {known} or another {VERSION[0]}.x"
            raise RecordError(place, "v", expected, f"{found}, which is newer: update laggard here first")
    raise RecordError(place, "v", f"a version [{VERSION[0]}, minor]", shown(version))
