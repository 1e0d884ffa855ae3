"""The fields of the kernel's binary events, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.producers.trace.ftrace.formats import Field, Format


class Fields:
    """The events of one kind, with their fields as columns.

    Attributes:
        rows: their places among all events of the batch.
        number: the number of the kind.

    """

    def __init__(
        self,
        form: Format | None,
        words: NDArray[np.uint32],
        at: NDArray[np.int64],
        length: NDArray[np.int32],
        rows: NDArray[np.int64],
    ) -> None:
        self.rows = rows
        self.number = form.number if form else -1
        self._fields: Mapping[str, Field] = form.fields if form else {}
        self._words, self._at, self._length = words, at, length

    def has(self, name: str) -> bool:
        """Return whether the events have a field."""
        return name in self._fields

    def column(self, name: str, further: int = 0) -> NDArray[np.int64]:
        """Return a number, or (`further` bytes on) another number of 8 bytes in an array."""
        field = self._fields[name]
        size = min(field.size, 8)
        offset = field.offset + further
        low = self._words[self._at + offset // 4].astype(np.int64)
        if size == 8:
            return low | (self._words[self._at + offset // 4 + 1].astype(np.int64) << 32)
        bits = size * 8
        low = (low >> (offset % 4 * 8)) & ((1 << bits) - 1)
        return low - ((low >> (bits - 1)) << bits) if field.signed else low

    def comm(self, name: str) -> NDArray[np.uint32]:
        """Return the 16 bytes of a thread's name, shape (n, 4)."""
        field = self._fields[name]
        columns: NDArray[np.uint32] = self._words[self._at[:, None] + (field.offset // 4 + np.arange(4))]
        return columns

    def texts(self, name: str) -> list[str]:
        """Return the texts of all events, see `text`."""
        return [self.text(index, name) for index in range(len(self._at))]

    def text(self, index: int, name: str) -> str:
        """Return a text whose place and length are in the event."""
        field = self._fields[name]
        at = int(self._at[index])
        where = int(self._words[at + field.offset // 4])
        begin = at * 4 + (where & 0xFFFF)
        end = min(begin + (where >> 16), at * 4 + int(self._length[index]))
        return text_of(self._words[begin // 4 : (end + 3) // 4].tobytes()[begin % 4 : begin % 4 + end - begin])

    def rest(self, index: int, name: str) -> str:
        """Return a text that extends to the event's end."""
        at = int(self._at[index])
        raw = self._words[at : at + int(self._length[index]) // 4].tobytes()
        return text_of(raw[self._fields[name].offset :])


def text_of(raw: bytes) -> str:
    """Return the text that ends at the first zero byte."""
    return raw.split(b"\0", 1)[0].decode(errors="replace")
