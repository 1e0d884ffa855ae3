"""The caller of a request for data, as the guard identified it, for the endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.pipeline.investigator.access import Access
    from laggard.pipeline.investigator.sessions import Sessions

CALLER: Final = "laggard.caller"
"""The key of the `Caller` in the scope of a request for data."""


@dataclass(slots=True)
class Caller:
    """The caller of a request.

    Attributes:
        access: the access rules.
        sessions: the open sessions.
        peer: the address that the request came from.
        counted: the key by which the requests of one caller are counted.
        writes: whether it may change things.
        who: the person's name, if a proxy names one.
        shown: the cookie and the key of its session, if it uses one.
        cookie: the cookie that the answer sets; empty to delete it; None to leave it.

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
        """Open a session by a token, and return its key; the answer sets its cookie. Raises `RequestError`."""
        self.writes = self.access.writes(token, self.peer)
        secrets = self.sessions.open(writes=self.writes)
        self.cookie = secrets.cookie
        return secrets.key

    def end_session(self) -> None:
        """End the session of the request, if it has one."""
        if self.shown is not None:
            self.sessions.end(self.shown[0])
            self.cookie = ""

    def may_still_see(self) -> bool:
        """Return whether the session of the request is still open, for an answer that continues for hours."""
        return self.shown is None or self.sessions.writes(*self.shown, using=False) is not None
