"""What stands before every request for the page: the right host, the right caller, the right origin, not too many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.web.guard import Guard

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from laggard.pipeline.settings import Settings
    from laggard.pipeline.web.listen import Listen

MOST_CONNECTIONS: Final = 256

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html"
)


def guarded(app: ASGIApp, listen: Listen, settings: Settings) -> ASGIApp:  # noqa: ARG001
    """The application behind what says who may ask."""
    return Guard(app, listen, CONTENT_SECURITY_POLICY)
