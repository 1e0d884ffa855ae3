"""Read the fields of many events of one class at once from the bytes of a packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.producers.trace.ctf.types import Array, Integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.producers.trace.ctf.decoding import Group
    from laggard.producers.trace.events import Texts

_WORD: Final = 8


class Window:
    """A packet as 64-bit words that begin at every one of its bytes.

    Parameters:
        data: the packet, with at least 16 bytes after the bytes that are read.

    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._words = {
            little: np.ndarray((len(data) - _WORD + 1,), "<u8" if little else ">u8", data, strides=(1,))
            for little in (True, False)
        }

    def integers(self, positions: NDArray[np.int64], bit: int, kind: Integer) -> NDArray[np.int64]:
        """Return the integer at a bit offset from each position. An unsigned one of 64 bits wraps around."""
        words = self._words[kind.little]
        at = positions + (bit >> 3)
        inner, size = bit & 7, kind.size
        word = words[at].astype(np.uint64, copy=False)
        if inner + size > 64:
            following = words[at + 1].astype(np.uint64, copy=False)
            if kind.little:
                value = (word >> np.uint64(inner)) | (following >> np.uint64(56) << np.uint64(64 - inner))
            else:
                value = (word << np.uint64(inner)) | ((following & np.uint64(0xFF)) >> np.uint64(8 - inner))
                value >>= np.uint64(64 - size)
        else:
            value = word >> np.uint64(inner if kind.little else 64 - inner - size)
        if size < 64:
            value = value << np.uint64(64 - size)
            return (
                value.view(np.int64) >> (64 - size) if kind.signed else (value >> np.uint64(64 - size)).view(np.int64)
            )
        return value.view(np.int64)

    def texts(self, positions: NDArray[np.int64], byte: int, length: int) -> list[bytes]:
        """Return the bytes at an offset from each position, up to the first zero."""
        if not length or not len(positions):
            return [b""] * len(positions)
        view = np.ndarray((len(self._data) - length + 1,), f"V{length}", self._data, strides=(1,))
        return [text.split(b"\0", 1)[0] for text in view[positions + byte].tolist()]


class Columns:
    """The fields of the events of one class in one packet, by name.

    Parameters:
        group: the events.
        window: their packet.
        texts: the table to which texts are added.

    """

    def __init__(self, group: Group, window: Window, texts: Texts) -> None:
        self.count = len(group.positions)
        self.name = group.event.name
        self.table = texts
        self._group = group
        self._window = window

    def integers(self, *names: str) -> NDArray[np.int64] | None:
        """Return the first of these fields that the class has; None without any."""
        for name in names:
            column = self._group.layout.columns.get(name)
            if column is not None and isinstance(column.kind, Integer):
                return self._window.integers(self._group.positions, column.bit, column.kind)
            walked = self._walked(name, int)
            if walked is not None:
                return np.array([(value or 0) & 0xFFFF_FFFF_FFFF_FFFF for value in walked], np.uint64).view(np.int64)
        return None

    def bytes(self, *names: str) -> Sequence[bytes] | None:
        """Return the first of these text fields that the class has; None without any."""
        for name in names:
            column = self._group.layout.columns.get(name)
            if column is not None and isinstance(column.kind, Array):
                return self._window.texts(self._group.positions, column.bit >> 3, int(column.kind.length))
            walked = self._walked(name, bytes)
            if walked is not None:
                return [(value or b"").split(b"\0", 1)[0] for value in walked]
        return None

    def texts(self, *names: str) -> NDArray[np.int32] | None:
        """Return the places of the first of these text fields in the table of texts."""
        found = self.bytes(*names)
        if found is None:
            return None
        places = {text: self.table.place(text.decode(errors="replace")) for text in set(found)}
        return np.array([places[text] for text in found], np.int32)

    def _walked(self, name: str, kind: type) -> list[Any] | None:
        """Return the values after the fields at known places; None if none has this type."""
        prefix, _, inner = name.rpartition(".")
        if not self._group.walked or (prefix and inner in self.fields()):
            return None
        values = [each.get(inner) for each in self._group.walked]
        return values if any(isinstance(value, kind) for value in values) else None

    def fields(self) -> Sequence[str]:
        """Return the names of the event's own fields, in their order."""
        return [name for name, _ in self._group.event.fields.fields]

    def walked(self) -> Sequence[dict[str, object]]:
        """Return the fields after those at known places, event by event."""
        return self._group.walked
