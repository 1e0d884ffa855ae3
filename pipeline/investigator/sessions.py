"""Sessions: what a browser shows after a person has typed a token, instead of that token."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.web.guard import digest, same

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_S: Final = 12 * 3600.0
"""After so long the token is asked for again."""

IDLE_S: Final = 3600.0
"""So too where nothing was asked for so long: a page that is open asks whenever there is news."""

MOST_SESSIONS: Final = 1000
"""That are open at once; the one that was used least recently ends for a new one."""

_RANDOM_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Secrets:
    """What opens a session, told once: none of it is kept here.

    Attributes:
        cookie: which the browser keeps from scripts, and sends by itself.
        key: which the page's script keeps, and no other site can make the browser send.

    """

    cookie: str
    key: str


@dataclass(slots=True)
class _Session:
    key: bytes
    writes: bool
    opened_s: float
    used_s: float


def _now_s() -> float:
    # Goes on while a laptop sleeps, and never steps.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Sessions:
    """The open sessions, in memory: they end with the process. Safe to use from several threads.

    A session is opened by its cookie and its key together. A cookie that was stolen, or that the browser adds to a
    request of another site, opens nothing; nor does a key that was read off a screen or out of a log.

    Parameters:
        clock: seconds on a clock that never steps.

    """

    def __init__(self, clock: Callable[[], float] = _now_s) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()  # by the cookie's digest; used last is last
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, *, writes: bool) -> Secrets:
        """Begin one that may change things, or not."""
        told = Secrets(secrets.token_urlsafe(_RANDOM_BYTES), secrets.token_urlsafe(_RANDOM_BYTES))
        with self._lock:
            now = self._clock()
            self._end_old(now)
            if len(self._sessions) >= MOST_SESSIONS:
                self._sessions.popitem(last=False)
            self._sessions[digest(told.cookie)] = _Session(digest(told.key), writes, now, now)
        return told

    def writes(self, cookie: str, key: str, *, using: bool = True) -> bool | None:
        """Whether the session of a cookie and a key may change things; None where there is none.

        Args:
            cookie: as the browser sent it.
            key: as the page's script sent it.
            using: whether this counts as use, which keeps it from ending.

        """
        with self._lock:
            which, now = digest(cookie), self._clock()
            session = self._sessions.get(which)
            if session is None or not same(key, session.key) or _over(session, now):
                return None
            if using:
                session.used_s = now
                self._sessions.move_to_end(which)
            return session.writes

    def end(self, cookie: str) -> None:
        """End the one of a cookie, if there is one."""
        with self._lock:
            self._sessions.pop(digest(cookie), None)

    def _end_old(self, now: float) -> None:
        for which in [which for which, session in self._sessions.items() if _over(session, now)]:
            del self._sessions[which]


def _over(session: _Session, now: float) -> bool:
    return now - session.opened_s >= LONGEST_S or now - session.used_s >= IDLE_S
