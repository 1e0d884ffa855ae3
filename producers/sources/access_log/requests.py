"""The content of a part of an access log: requests as arrays, and unreadable lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from laggard.producers.system.redaction import LONGEST, redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_REPORTED: Final = 3
"""The most unreadable lines of one block that are reported with the reason."""


class Unreadable(NamedTuple):
    """An unreadable line: its offset in its block, in bytes, and what was expected."""

    offset: int
    reason: str


class Requests(NamedTuple):
    """The requests of a block of lines, in its order.

    Attributes:
        ts: float64, shape (requests,): the end of each, in seconds since the Unix epoch.
        duration_s: float64, shape (requests,): the duration of each; NaN if the line has none.
        status: int16, shape (requests,): the status of HTTP; 0 if the line has none.
        unreadable: the number of unreadable lines.
        reported: the first few of them.

    """

    ts: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    status: NDArray[np.int16]
    unreadable: int
    reported: tuple[Unreadable, ...]


class Parser(Protocol):
    """One form of access logs. Its only state is what makes it faster."""

    timed: bool
    """Whether its lines can have the duration of requests."""

    statuses: bool
    """Whether its lines can have a status."""

    def parse(self, block: bytes) -> Requests:
        """Return the requests of whole lines, each with its end. Never raises; blank lines are skipped."""


class Gathered:
    """Collects requests and unreadable lines of one block."""

    def __init__(self) -> None:
        self._ts: list[float] = []
        self._duration_s: list[float] = []
        self._status: list[int] = []
        self._unreadable = 0
        self._told: list[Unreadable] = []

    def add(self, ts: float, duration_s: float, status: int) -> None:
        """Add a request."""
        self._ts.append(ts)
        self._duration_s.append(duration_s)
        self._status.append(status)

    def refuse(self, offset: int, reason: str) -> None:
        """Add an unreadable line."""
        self._unreadable += 1
        if len(self._told) < MOST_REPORTED:
            self._told.append(Unreadable(offset, reason))

    def requests(self) -> Requests:
        """Return all of them."""
        return Requests(
            np.array(self._ts, dtype=np.float64),
            np.array(self._duration_s, dtype=np.float64),
            np.array(self._status, dtype=np.int16),
            self._unreadable,
            tuple(self._told),
        )


def lines_of(block: bytes) -> Sequence[tuple[int, bytes]]:
    """Return the offset and the text of each line that is not blank, without its end."""
    found, offset = [], 0
    for line in block.split(b"\n"):
        text = line.removesuffix(b"\r")
        if text and not text.isspace():
            found.append((offset, text))
        offset += len(line) + 1
    return found


def shown(line: bytes, limit: int = 80) -> str:
    """Return the beginning of a line, for a person, without secrets such as `?token=...`."""
    # More than is shown, so that a secret is recognized even where it is cut.
    text = redact(line[: limit + LONGEST].decode("utf-8", "backslashreplace"))
    return repr(text[:limit]) + ("..." if len(text) > limit else "")
