"""The I/O of a process itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.system.proc import Io, ProcError, parse_io

if TYPE_CHECKING:
    from laggard.producers.system.proc import Stat

_UNREADABLE: Final = (float("nan"),) * len(Io._fields)


class ProcessIo:
    """The I/O of a process itself: that of its only thread, or of the process, unless a child's was just added to that.

    Attributes:
        alone: whether it is read from the file of its only thread; None before the first reading.
        counters: those of `Io` since the process began; NaN if unknown.

    """

    __slots__ = ("_before", "_faults", "_last", "_reaped", "_switched", "_text", "alone", "counters")

    def __init__(self) -> None:
        self.alone: bool | None = None
        self.counters: tuple[float, ...] = _UNREADABLE
        self._last: tuple[float, ...] = (0.0,) * len(Io._fields)  # the last known ones
        self._before: tuple[float, ...] = ()  # those before the switch to the present file, if there was one
        self._faults = 0
        self._reaped = self._switched = False
        self._text = b""

    def choose(self, stat: Stat) -> bool:
        """Choose the file to read; return whether it is another one than before."""
        alone, faults = stat.threads <= 1, stat.children_faults
        self._reaped = faults != self._faults and not alone
        self._faults = faults
        self._switched = alone != self.alone and self.alone is not None
        self.alone = alone
        return self._switched

    def update(self, text: bytes, path: str) -> bool:
        """Update the counters.

        Args:
            text: the content of the chosen file; empty if it is unreadable.
            path: the folder of the process, for errors.

        Returns:
            Whether the text is malformed.

        """
        if text == self._text and not self._switched:
            return False
        self._text = text
        malformed = False
        try:
            counted: tuple[float, ...] = parse_io(text, path) if text else _UNREADABLE
        except ProcError:
            malformed = True
            counted = _UNREADABLE
        if self._switched and counted is not _UNREADABLE:  # it continues from the last values
            self._before = tuple(last - now for last, now in zip(self._last, counted, strict=True))
        self.counters = counted
        if self._before:
            self.counters = tuple(before + now for before, now in zip(self._before, counted, strict=True))
        if counted is not _UNREADABLE:
            self._last = self.counters
        if self._reaped:
            self.counters, self._text = _UNREADABLE, b""
        return malformed
