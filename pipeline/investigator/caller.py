"""Who sent a request for data: what the guard found out, and what an end point may know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.pipeline.investigator.access import Access
    from laggard.pipeline.investigator.sessions import Sessions

CALLER: Final = "laggard.caller"
"""Where the scope of a request for data holds its `Caller`."""


@dataclass(slots=True)
class Caller:
    """Who sent a request.

    Attributes:
        access: the rules.
        sessions: those that are open.
        peer: the address that it came from.
        counted: by which the requests of one caller are counted.
        writes: whether it may change things.
        who: a person's name, where a proxy says it.
        shown: the cookie and the key of the session that it has shown, if it has.
        cookie: to be set by the answer; empty to be taken away.

    """

    access: Access
    sessions: Sessions
    peer: str
    counted: str
    writes: bool
    who: str = ""
    shown: tuple[str, str] | None = None
    cookie: str | None = None

    def open_session(self, token: str) -> str:
        """Open a session by a token. Returns its key; the cookie goes with the answer. Raises `RequestError`."""
        self.writes = self.access.writes(token, self.peer)
        told = self.sessions.open(writes=self.writes)
        self.cookie = told.cookie
        return told.key

    def end_session(self) -> None:
        """End the session that was shown, if one was."""
        if self.shown is not None:
            self.sessions.end(self.shown[0])
            self.cookie = ""

    def may_still_see(self) -> bool:
        """Whether what was shown still opens anything: for an answer that goes on for hours."""
        return self.shown is None or self.sessions.writes(*self.shown, using=False) is not None
