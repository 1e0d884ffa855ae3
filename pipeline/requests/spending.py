"""What requests spend more time on than normal ones: how long, how often, with whom and on what, ready to be told."""

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
"""What is done so many times as often as usual, and at least so many times more, is repeated."""

MOST: Final = 0.8
"""What this share of requests that are alike have is told of all."""

LONGEST_NAME: Final = 40
LONGEST_OBJECT: Final = 60

TALKS: Final = frozenset({"recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "accept", "accept4"})
"""These are made on sockets only."""

_SOCKET: Final = re.compile(r"^\[?[^/]*\]?:(\d+|\*)$|^unix:|^@|\.sock(et)?$")


class Spending(NamedTuple):
    """Something that time was spent on: a difference of kind `spent`, with names for its parts."""

    state: str
    syscall: str
    on: str
    by: str
    result: str
    found: Difference

    @property
    def usual_s(self) -> float:
        """Seconds in a normal request; 0 where none is known."""
        return known(self.found.usual_time_s)

    @property
    def lost_s(self) -> float:
        """Seconds a request, more than usual."""
        return self.found.time_s - self.usual_s

    @property
    def socket(self) -> bool:
        """Whether it is about a socket."""
        return bool(_SOCKET.search(self.on)) or self.syscall in TALKS


@dataclass(frozen=True, slots=True)
class Alike:
    """What is told together.

    Attributes:
        evidence: of the requests.
        parts: those that took most first; empty where no more is known than the state.
        time_s: mean seconds a request.
        usual_s: that of normal requests.
        sleeps: between one vain try and the next; both times have them in.

    """

    evidence: Evidence
    parts: Sequence[Spending]
    time_s: float
    usual_s: float
    sleeps: Sequence[Spending] = ()

    @property
    def syscall(self) -> str:
        """The system call that took most."""
        return self.parts[0].syscall if self.parts else ""

    @property
    def lost_s(self) -> float:
        """Seconds a request, more than usual."""
        return self.time_s - self.usual_s

    @property
    def count(self) -> float:
        """How often a request does it."""
        return sum(each.found.count for each in self.parts)

    @property
    def usual_count(self) -> float:
        """How often a normal one does."""
        return sum(known(each.found.usual_count) for each in self.parts)

    @property
    def repeated(self) -> bool:
        """Whether it is done much more often than usual."""
        return more_often(self.count, self.usual_count)

    @property
    def figures(self) -> str:
        """How long, of how long, and what is usual: `480 ms of 510 ms, usually 0`."""
        told = f"{seconds(self.time_s)} of {seconds(self.evidence.duration_s)}{self.usually}"
        share = min(sum(each.found.share for each in self.parts), 1.0) if self.parts else 1.0
        if self.evidence.requests > 1 and share < MOST:
            told += f" (in {readable('_ratio', round(share, 2))} of these requests)"
        return told

    @property
    def usually(self) -> str:
        """What is usual; empty where that is not known."""
        return "" if math.isnan(self.evidence.usual_duration_s) else f", usually {seconds(self.usual_s)}"

    @property
    def often(self) -> str:
        """How often, where that is much more often than usual: `, 57 times a request, usually never`; else empty."""
        return f", {times(self.evidence, self.count, self.usual_count)}" if self.repeated else ""

    @property
    def who(self) -> str:
        """Who did it: `` `worker` (pid 812) ``, `` `a` and others ``; empty where most is by nobody known."""
        names, pid = self._by()
        return f"{names} (pid {pid})" if pid else names

    @property
    def aside(self) -> str:
        """The same for a remark in brackets: `` `worker`, pid 812 ``; or empty."""
        names, pid = self._by()
        return f"{names}, pid {pid}" if pid else names

    @property
    def culprit(self) -> str:
        """The name of the one who did nearly all of it; empty where there is none."""
        ranked = self._ranked()
        return ranked[0][0] if ranked and ranked[0][1] >= MOST else ""

    def _by(self) -> tuple[str, int]:
        """Names, and the process of a single one."""
        named = [(name, share) for name, share in self._ranked() if name]
        if sum(share for _, share in named) < 0.5:
            return "", 0
        first = quoted(named[0][0])
        if self.culprit:
            return first, next((each.found.pid for each in self.parts if each.by == self.culprit and each.found.pid), 0)
        if len(named) > 1 and named[0][1] + named[1][1] >= MOST:
            return f"{first} and {quoted(named[1][0])}", 0
        return f"{first} and others", 0

    def _ranked(self) -> list[tuple[str, float]]:
        """Who did it, and what share; an empty name for nobody known."""
        by: Counter[str] = Counter()
        for each in self.parts:
            by[each.by] += round(1e9 * max(each.lost_s, 0.0))
        return [(name, count / by.total()) for name, count in by.most_common() if count]

    @property
    def where(self) -> str:
        """On what: a file, the folder of several, a socket, or a disk; empty where it is not known."""
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
    """The value; 0 where it is not there."""
    return 0.0 if math.isnan(value) else value


def more_often(count: float, usual_count: float) -> bool:
    """Whether something is done much more often than usual; it may be usual not to do it."""
    return count >= REPEATED * usual_count and count - usual_count >= REPEATED


def seconds(time_s: float) -> str:
    """A length of time: `480 ms`; below a nanosecond `0`."""
    return "0" if abs(time_s) < 1e-9 else readable("_s", time_s)


def times(evidence: Evidence, count: float, usual_count: float) -> str:
    """How often: `57 times a request, usually 12`, `once, usually never`."""
    told = _often(count)
    often = told if told in {"never", "once"} else f"{told} times"
    if evidence.requests > 1 and told != "never":
        often += " a request"
    return often if math.isnan(evidence.usual_duration_s) else f"{often}, usually {_often(known(usual_count))}"


def _often(count: float) -> str:
    told = readable("", round(count, 2))
    return {"0": "never", "1": "once"}.get(told, told)


def quoted(name: str) -> str:
    """The name of a process or a system call."""
    return f"`{shortened(printable(name), LONGEST_NAME)}`"


def shown(what: str) -> str:
    """A path, a socket or a device; of what is too long both ends, since paths end with what tells them apart."""
    text = printable(what)
    if len(text) <= LONGEST_OBJECT:
        return text
    begin = LONGEST_OBJECT // 3
    return f"{text[:begin]}...{text[begin + 3 - LONGEST_OBJECT :]}"
