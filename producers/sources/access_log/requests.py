"""What a piece of an access log says: requests as arrays, and the lines that could not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from laggard.producers.system.redaction import LONGEST, redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TOLD: Final = 3
"""Of how many unreadable lines of one block it is told what was wrong."""


class Unreadable(NamedTuple):
    """A line that is no request: where it begins in its block, in bytes, and what was expected."""

    offset: int
    reason: str


class Requests(NamedTuple):
    """The requests of a block of lines, in its order.

    Attributes:
        ts: float64, shape (requests,): when each ended, in seconds since the Unix epoch.
        duration_s: float64, shape (requests,): how long each took; NaN where the line does not say it.
        status: int16, shape (requests,): of HTTP; 0 where the line says none.
        unreadable: how many lines are no requests.
        told: the first few of them.

    """

    ts: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    status: NDArray[np.int16]
    unreadable: int
    told: tuple[Unreadable, ...]


class Parser(Protocol):
    """One form of access logs. It keeps nothing but what makes it faster."""

    timed: bool
    """Whether its lines can say how long requests took."""

    statuses: bool
    """Whether they can say a status."""

    def parse(self, block: bytes) -> Requests:
        """The requests of whole lines, each with its end. Never raises; blank lines are passed over."""


class Gathered:
    """Requests and unreadable lines of one block, one by one."""

    def __init__(self) -> None:
        self._ts: list[float] = []
        self._duration_s: list[float] = []
        self._status: list[int] = []
        self._unreadable = 0
        self._told: list[Unreadable] = []

    def add(self, ts: float, duration_s: float, status: int) -> None:
        """One request."""
        self._ts.append(ts)
        self._duration_s.append(duration_s)
        self._status.append(status)

    def refuse(self, offset: int, reason: str) -> None:
        """One line that is none."""
        self._unreadable += 1
        if len(self._told) < TOLD:
            self._told.append(Unreadable(offset, reason))

    def requests(self) -> Requests:
        """All of them."""
        return Requests(
            np.array(self._ts, dtype=np.float64),
            np.array(self._duration_s, dtype=np.float64),
            np.array(self._status, dtype=np.int16),
            self._unreadable,
            tuple(self._told),
        )


def lines_of(block: bytes) -> Sequence[tuple[int, bytes]]:
    """Offset and text of each line that is not blank, without its end."""
    found, offset = [], 0
    for line in block.split(b"\n"):
        text = line.removesuffix(b"\r")
        if text and not text.isspace():
            found.append((offset, text))
        offset += len(line) + 1
    return found


def shown(line: bytes, limit: int = 80) -> str:
    """The beginning of a line, for a person, without secrets such as `?token=...`."""
    # More than is shown, so that a secret is known as one where it is cut.
    text = redact(line[: limit + LONGEST].decode("utf-8", "backslashreplace"))
    return repr(text[:limit]) + ("..." if len(text) > limit else "")
