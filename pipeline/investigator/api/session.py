"""Sessions: a person types a token once; after that the browser shows a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.investigator.endpoint import MAX_TEXT, Answer, Endpoint, Question

if TYPE_CHECKING:
    from laggard.pipeline.investigator.caller import Caller
    from laggard.pipeline.investigator.reading import Reading

OPEN: Final = "/session"
END: Final = "/session/end"


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The token that opens a session."""

    token: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_TEXT, description="the value of `serve.token` or `serve.read_token`"),
    ]


class Opened(Answer, frozen=True):
    """A session; its cookie comes with the answer."""

    key: Annotated[
        str,
        msgspec.Meta(
            description="the key of the session, for the header `X-Laggard-Session` in addition to the cookie"
        ),
    ]
    writes: Annotated[bool, msgspec.Meta(description="whether the session may change things")]


class Ending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without fields; it ends the caller's session."""


class Ended(Answer, frozen=True):
    """The end of the caller's session."""


def open_session(_: Reading, __: Question, opening: Opening, *, caller: Caller) -> Opened:
    """Open a session by a token."""
    key = caller.open_session(opening.token)
    return Opened(key, caller.writes)


def end_session(_: Reading, __: Question, ___: Ending, *, caller: Caller) -> Ended:
    """End the caller's session."""
    caller.end_session()
    return Ended()


ENDPOINTS: Final = (
    Endpoint(OPEN, "Open a session by a token.", Opened, open_session, body=Opening, asks_caller=True),
    Endpoint(END, "End the session that is shown.", Ended, end_session, body=Ending, asks_caller=True),
)
