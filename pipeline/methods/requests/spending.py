"""The uses of more time than in normal requests: durations, counts, causes and objects, as parts of sentences."""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.explaining.explain import printable, shortened
from laggard.pipeline.explaining.units import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.requests.results import Difference, Evidence

REPEATED: Final = 2.0
"""Repeated things have at least this many times the usual count, and at least this many more."""

MOST: Final = 0.8
"""The share that counts as all: of similar requests, or of the time lost by one cause or on one file."""

LONGEST_NAME: Final = 40
LONGEST_OBJECT: Final = 60

TALKS: Final = frozenset({"recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "accept", "accept4"})
"""Calls on sockets only."""

_ROUNDING: Final = 1e-6

_SOCKET: Final = re.compile(r"^\[?[^/]*\]?:(\d+|\*)$|^unix:|^@|\.sock(et)?$")


class Spending(NamedTuple):
    """A use of time: a difference of kind `spent`, with names for its parts."""

    state: str
    syscall: str
    on: str
    by: str
    result: str
    found: Difference

    @property
    def usual_s(self) -> float:
        """The seconds in a normal request; 0 if unknown."""
        return known(self.found.usual_time_s)

    @property
    def lost_s(self) -> float:
        """The lost time, in seconds a request."""
        return self.found.time_s - self.usual_s

    @property
    def socket(self) -> bool:
        """Whether its object is a socket."""
        return bool(_SOCKET.search(self.on)) or self.syscall in TALKS


@dataclass(frozen=True, slots=True)
class Alike:
    """A group of uses of time that is reported together.

    Attributes:
        evidence: the evidence on the requests.
        parts: these uses, those with most lost time first; empty if only the state is known.
        time_s: the mean seconds a request.
        usual_s: those of normal requests.
        sleeps: the sleeps between failing tries; both times include them.
        whole: whether both times are those of a whole state, of which the parts may be only some.

    """

    evidence: Evidence
    parts: Sequence[Spending]
    time_s: float
    usual_s: float
    sleeps: Sequence[Spending] = ()
    whole: bool = False

    @property
    def syscall(self) -> str:
        """The system call with most lost time."""
        return self.parts[0].syscall if self.parts else ""

    @property
    def lost_s(self) -> float:
        """The lost time, in seconds a request."""
        return self.time_s - self.usual_s

    @property
    def count(self) -> float:
        """The mean count in a request."""
        return sum(each.found.count for each in self.parts)

    @property
    def usual_count(self) -> float:
        """The mean count in a normal request."""
        return sum(known(each.found.usual_count) for each in self.parts)

    @property
    def repeated(self) -> bool:
        """Whether it happens much more often than usual."""
        return more_often(self.count, self.usual_count)

    @property
    def figures(self) -> str:
        """The time, the whole duration and the usual time: `480 ms of 510 ms, usually 0`."""
        text = f"{seconds(self.time_s)} of {seconds(self.evidence.duration_s)}{self.usually}"
        share = min(sum(each.found.share for each in self.parts), 1.0) if self.parts else 1.0
        if self.evidence.requests > 1 and share < MOST:
            text += f" (in {readable('_ratio', round(share, 2))} of these requests)"
        return text

    @property
    def usually(self) -> str:
        """The usual time as text; empty if unknown."""
        return "" if math.isnan(self.evidence.usual_duration_s) else f", usually {seconds(self.usual_s)}"

    @property
    def often(self) -> str:
        """The count as text if it is repeated: `, 57 times a request, usually never`; otherwise empty."""
        return f", {times(self.evidence, self.count, self.usual_count)}" if self.repeated else ""

    @property
    def who(self) -> str:
        """The causes: `` `worker` (pid 812) ``, `` `a` and others ``; empty if those of most lost time are unknown."""
        names, pid = self._by()
        return f"{names} (pid {pid})" if pid else names

    @property
    def aside(self) -> str:
        """The same for use in brackets: `` `worker`, pid 812 ``; or empty."""
        names, pid = self._by()
        return f"{names}, pid {pid}" if pid else names

    @property
    def culprit(self) -> str:
        """The name of the process that caused nearly all of it; empty without one."""
        ranked = self._ranked()
        return ranked[0][0] if ranked and ranked[0][1] >= MOST else ""

    def _by(self) -> tuple[str, int]:
        """Return the names of the causes, and the pid of a single one."""
        named = [(name, share) for name, share in self._ranked() if name]
        known_share = sum(share for _, share in named)
        if known_share < 0.5 or named[0][1] < 1.0 - known_share - _ROUNDING:
            return "", 0
        first = quoted(named[0][0])
        if self.culprit:
            return first, next((each.found.pid for each in self.parts if each.by == self.culprit and each.found.pid), 0)
        if len(named) > 1 and named[0][1] + named[1][1] >= MOST:
            return f"{first} and {quoted(named[1][0])}", 0
        return f"{first} and others", 0

    def _ranked(self) -> list[tuple[str, float]]:
        """Return the causes with their shares of the lost time; the name of unknown ones is empty.

        The shares of a state's time sum to less than 1 where some of it has no known use.
        """
        by: Counter[str] = Counter()
        for each in self.parts:
            by[each.by] += round(1e9 * max(each.lost_s, 0.0))
        total = max(by.total(), round(1e9 * self.lost_s)) if self.whole else by.total()
        return [(name, count / total) for name, count in by.most_common() if count]

    @property
    def where(self) -> str:
        """The object: a file, the common folder of several, a socket, or a disk; empty if unknown."""
        named = [each for each in self.parts if each.on]
        files = [each for each in named if each.on.startswith("/")]
        if not files:
            return shown(named[0].on) if named else ""
        if files[0].lost_s < MOST * sum(each.lost_s for each in files):
            folder = posixpath.commonpath([each.on for each in files])
            if folder != "/":
                return shown(folder)
        return shown(files[0].on)


def known(value: float) -> float:
    """Return the value; 0 for NaN."""
    return 0.0 if math.isnan(value) else value


def more_often(count: float, usual_count: float) -> bool:
    """Return whether something happens much more often than usual; the usual count may be 0."""
    return count >= REPEATED * usual_count and count - usual_count >= REPEATED


def seconds(time_s: float) -> str:
    """Return a duration as text: `480 ms`; below a nanosecond `0`."""
    return "0" if abs(time_s) < 1e-9 else readable("_s", time_s)


def times(evidence: Evidence, count: float, usual_count: float) -> str:
    """Return a count as text: `57 times a request, usually 12`, `once, usually never`."""
    number = _often(count)
    often = number if number in {"never", "once"} else f"{number} times"
    if evidence.requests > 1 and number != "never":
        often += " a request"
    return often if math.isnan(evidence.usual_duration_s) else f"{often}, usually {_often(known(usual_count))}"


def _often(count: float) -> str:
    number = readable("", round(count, 2))
    return {"0": "never", "1": "once"}.get(number, number)


def quoted(name: str) -> str:
    """Return the name of a process or a system call in quotes."""
    return f"`{shortened(printable(name), LONGEST_NAME)}`"


def shown(what: str) -> str:
    """Return a path, a socket or a device. A long one has both ends, since the ends of paths are most distinctive."""
    text = printable(what)
    if len(text) <= LONGEST_OBJECT:
        return text
    begin = LONGEST_OBJECT // 3
    return f"{text[:begin]}...{text[begin + 3 - LONGEST_OBJECT :]}"
