"""Records as bytes: one MessagePack map each, with the names and the matrix as byte strings.

Every map has `v`, the version `[major, minor]`, `kind`, `ts` and `sequence`. A `frame` has `keyed_by`, `key`, `scope`,
`layout` (see `layout.py`), `values` (float64, little-endian, row by row) and, unless empty, `hosts`. A `mark` has
`host` and `note`. A `request` has `service`, `request`, `duration_s`, `counts`, `times_s`, `syscalls` and optional
fields, see `request_packing.py`. A `wish` (since 1.1) has `application`, `metric` and `wish`. `feedback` (since 1.4)
has the fields of `Feedback`. Readers ignore unknown fields, so that a newer minor version may add some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.pipeline.core.records import checked
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.feedback import Feedback, checked_feedback, plain_feedback
from laggard.pipeline.core.records.frame import UNNUMBERED, Frame, Layout, Mark, Wish
from laggard.pipeline.core.records.layout import read_layout
from laggard.pipeline.core.records.limits import MAX_RECORD_BYTES, MAX_SEQUENCE, MAX_TS
from laggard.pipeline.core.records.memory import MAX_BYTES, LayoutMemory
from laggard.pipeline.core.records.messagepack import pack_map, unpack_map
from laggard.pipeline.core.records.request_packing import pack_request, unpack_request
from laggard.pipeline.core.records.requests import Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.pipeline.core.records.checked import Received

VERSION: Final = (1, 4)
"""The version of the written form. The major version grows if readers of the older form would misread the newer one."""

_OWN_VERSION: Final = list(VERSION)
MAX_STREAMS: Final = 4_096
SPARE_LAYOUTS: Final = 16
"""The number of remembered layouts besides the newest one of each stream. Few, as most old layouts never return."""
_FLOAT64: Final = np.dtype("<f8")


def encode(record: Received) -> bytes:
    """Return the bytes of the record, which any `Decoder` reads.

    Raises:
        RecordError: a field is of the wrong type or shape, or beyond a limit.

    """
    fields = checked.fields_of(record)
    match record:
        case Frame():
            kind = "frame"
            checked.frame(fields, record.layout, record.values, "")
            fields["layout"] = record.layout.packed
            fields["values"] = record.values.astype(_FLOAT64, copy=False).tobytes()
            if not record.hosts:
                del fields["hosts"]
        case Mark():
            kind = "mark"
            checked.mark(fields, "")
        case Request():
            kind = "request"
            fields = pack_request(checked.request(fields, ""))
        case Wish():
            kind = "wish"
            checked.wish(fields, "")
        case Feedback():
            kind = "feedback"
            fields = plain_feedback(checked_feedback(fields, ""))
    try:
        return pack_map({"v": VERSION, "kind": kind, **fields})
    except ValueError as error:
        raise RecordError("", "", f"a record of at most {MAX_RECORD_BYTES:,} bytes", str(error)) from None


class Decoder:
    """A reader of records. It remembers layouts, so that unchanged names cost only a comparison.

    It stores at most the newest layouts of `MAX_STREAMS` streams, as many others, and `SPARE_LAYOUTS` more. Their
    packed bytes are at most twice `MAX_BYTES`. For one thread at a time.
    """

    def __init__(self) -> None:
        self._layouts = LayoutMemory[bytes]()
        # The layout of the last frame, by kind of key, key and scope, which need no other check. Comparing the layout
        # is faster than hashing the new bytes.
        self._latest: dict[tuple[Any, Any, Any], Layout] = {}
        self._latest_bytes = 0

    def decode(self, value: bytes, place: str) -> Received:
        """Return the record of these bytes.

        The values of a frame are a read-only view of the bytes, with every bit as it was written. Frames with the same
        packed layout get the same `Layout` while it is remembered.

        Args:
            value: any bytes.
            place: their origin, for errors: `counters[3]@1042`.

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
            return checked.request(unpack_request(fields, place), place)
        if kind == "wish":
            return checked.wish(fields, place)
        if kind == "feedback":
            return checked_feedback(fields, place)
        got = shown(kind)
        if (minor := fields["v"][1]) > VERSION[1]:
            got += f" of version {VERSION[0]}.{minor}, which is newer than {VERSION[0]}.{VERSION[1]}: update laggard"
        raise RecordError(place, "kind", "'frame', 'mark', 'request', 'wish' or 'feedback'", got)

    def _frame(self, fields: dict[Any, Any], place: str) -> Frame:
        packed = fields.get("layout")
        if not isinstance(packed, bytes):
            raise RecordError(place, "layout", "a byte string", shown(packed))
        keyed_by: Any = fields.get("keyed_by")
        key: Any = fields.get("key")
        scope: Any = fields.get("scope")
        ts, sequence = fields.get("ts"), fields.get("sequence")
        frames_of = keyed_by, key, scope
        latest = self._latest_of(frames_of)
        if latest is not None and latest.packed == packed:
            layout = self._layouts.get(latest.packed, lambda: latest)
            values = _values(fields.get("values"), layout, place)
            if (
                type(ts) is float
                and 0.0 <= ts <= MAX_TS
                and type(sequence) is int
                and UNNUMBERED <= sequence <= MAX_SEQUENCE
                and "hosts" not in fields
            ):
                return Frame(keyed_by, key, scope, ts, sequence, layout, values)
        else:
            layout = self._layouts.get(packed, lambda: read_layout(packed, place))
            values = _values(fields.get("values"), layout, place)
        frame = checked.frame(fields, layout, values, place)
        self._remember(frames_of, layout)
        return frame

    def _latest_of(self, frames_of: tuple[Any, Any, Any]) -> Layout | None:
        try:
            return self._latest.get(frames_of)
        except TypeError:  # lists or maps instead of text: refused later, with the name of the field
            return None

    def _remember(self, frames_of: tuple[Any, Any, Any], layout: Layout) -> None:
        before = self._latest.pop(frames_of, None)
        self._latest_bytes += len(layout.packed) - (0 if before is None else len(before.packed))
        if len(self._latest) >= MAX_STREAMS or self._latest_bytes > MAX_BYTES:
            self._latest.clear()
            self._latest_bytes = len(layout.packed)
        self._latest[frames_of] = layout
        self._layouts.most = SPARE_LAYOUTS + len(self._latest)


def _values(raw: Any, layout: Layout, place: str) -> NDArray[np.float64]:
    shape = len(layout.rows), len(layout.features)
    if isinstance(raw, bytes) and len(raw) == shape[0] * shape[1] * _FLOAT64.itemsize:
        return np.ndarray(shape, _FLOAT64, raw)
    expected = f"a byte string of {shape[0]:,} rows x {shape[1]:,} features x {_FLOAT64.itemsize} bytes"
    raise RecordError(place, "values", expected, shown(raw))


def _check_version(version: Any, place: str) -> None:
    if version == _OWN_VERSION:
        return
    match version:
        case [int(major), int(minor)] if major == VERSION[0] and minor >= 0:
            return
        case [int(major), int(minor)] if major > VERSION[0] and minor >= 0:
            expected = f"{VERSION[0]}.x"
            raise RecordError(place, "v", expected, f"{major}.{minor}, which is newer: update laggard here first")
    raise RecordError(place, "v", f"a version [{VERSION[0]}, minor]", shown(version))
