"""Browser sessions: after a person has typed a token, the browser shows a session instead of the token."""

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
"""The longest life of a session, in seconds; then the token is required again."""

IDLE_S: Final = 3600.0
"""The longest time without a request of a session, in seconds: an open page sends one whenever there is news."""

MOST_SESSIONS: Final = 1000
"""The most open sessions; a new one ends the least recently used one."""

_RANDOM_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of a session, returned once: only their digests are stored.

    Attributes:
        cookie: the cookie, which the browser hides from scripts and sends by itself.
        key: the key, which the page's script stores; no other site can make the browser send it.

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
    # Continues while a laptop sleeps, and never steps.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Sessions:
    """The open sessions, in memory: they end with the process. Safe to use from several threads.

    A session needs its cookie and its key together. A cookie that was stolen, or that the browser adds to a request of
    another site, opens nothing. Neither does a key that was read from a screen or a log.

    Parameters:
        clock: returns seconds on a clock that never steps.

    """

    def __init__(self, clock: Callable[[], float] = _now_s) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()  # by cookie digest; least recently used first
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, *, writes: bool) -> Secrets:
        """Open a session that may change things, or not."""
        opened = Secrets(secrets.token_urlsafe(_RANDOM_BYTES), secrets.token_urlsafe(_RANDOM_BYTES))
        with self._lock:
            now = self._clock()
            self._end_old(now)
            if len(self._sessions) >= MOST_SESSIONS:
                self._sessions.popitem(last=False)
            self._sessions[digest(opened.cookie)] = _Session(digest(opened.key), writes, now, now)
        return opened

    def writes(self, cookie: str, key: str, *, using: bool = True) -> bool | None:
        """Return whether the session of a cookie and a key may change things; None if there is none.

        Args:
            cookie: the cookie that the browser sent.
            key: the key that the page's script sent.
            using: whether this counts as use, which prolongs the session.

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
        """End the session of a cookie, if there is one."""
        with self._lock:
            self._sessions.pop(digest(cookie), None)

    def _end_old(self, now: float) -> None:
        for which in [which for which, session in self._sessions.items() if _over(session, now)]:
            del self._sessions[which]


def _over(session: _Session, now: float) -> bool:
    return now - session.opened_s >= LONGEST_S or now - session.used_s >= IDLE_S
