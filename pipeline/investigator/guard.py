"""The checks before every request for the page: the right host, the right caller, the right origin, the rate."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

from starlette.requests import cookie_parser

from laggard.pipeline.investigator.access import Access
from laggard.pipeline.investigator.api.session import END, OPEN
from laggard.pipeline.investigator.app import ASSETS_PATH, HEALTH, VIEWS
from laggard.pipeline.investigator.caller import CALLER, Caller
from laggard.pipeline.investigator.openapi import KEY_HEADER, PREFIX
from laggard.pipeline.investigator.sessions import Sessions
from laggard.pipeline.web.errors import RequestError, too_often
from laggard.pipeline.web.guard import (
    SAFE_METHODS,
    SECURITY_HEADERS,
    Secured,
    bearer,
    cross_site,
    digest,
    is_loopback,
    name_of,
)
from laggard.pipeline.web.limits import Buckets

if TYPE_CHECKING:
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.types import ASGIApp, Scope

    from laggard.pipeline.settings import Settings
    from laggard.pipeline.web.listen import Listen

MOST_REQUESTS: Final = 256
"""The most requests that are answered at once; each open page has one that lasts."""

MAX_QUERY_BYTES: Final = 8 * 1024
MAX_HEADER_BYTES: Final = 16 * 1024
"""The most bytes of all headers together."""

REQUESTS_AT_ONCE: Final = 200
REQUESTS_PER_S: Final = 50.0
"""The most requests for data by one caller: at once, and per second in the long run. A page sends a few per second."""

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html"
)

PAGE_HEADERS: Final = SECURITY_HEADERS | {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
}

_SESSIONS: Final = (PREFIX + OPEN, PREFIX + END)


def guarded(app: ASGIApp, listen: Listen, settings: Settings, token: str = "") -> ASGIApp:
    """Return the application behind its access control. Raises `ListenError` for invalid settings.

    Args:
        app: the application to guard.
        listen: its address.
        settings: the settings `serve.*`.
        token: the generated token if `serve.token` is empty; empty for none.

    """
    access = Access(settings, generated=token)
    return PageGuard(app, listen, access, Sessions(), Buckets(REQUESTS_AT_ONCE, REQUESTS_PER_S))


class PageGuard(Secured):
    """ASGI wrapper that guards the page and its API.

    The page, its assets and its health contain no data: they are for everyone who uses a name of the page. Everything
    else needs a known caller, if the rules require authentication; only opening and ending a session do not.

    Parameters:
        app: the application to guard.
        listen: its address.
        access: the access rules.
        sessions: the open sessions.
        asked: the rate limits of callers.

    """

    def __init__(self, app: ASGIApp, listen: Listen, access: Access, sessions: Sessions, asked: Buckets) -> None:
        super().__init__(app)
        self._access = access
        self._sessions = sessions
        self._asked = asked
        self._loopback = listen.loopback
        self._hosts = {listen.address.host.lower(), *access.hosts}
        if not listen.loopback:
            self._hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def check(self, scope: Scope, headers: Headers) -> None:
        """Check everything that is known before the body, and put the caller into the scope."""
        host, path = headers.get("host", ""), scope["path"]
        if not self._serves(name_of(host)):
            raise RequestError(
                403,
                f"Host {host[:100]!r} is not a name of this page: it looks like DNS rebinding",
                "a name of this machine, or one of serve.hosts",
            )
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            raise RequestError(414, "the query is too long", f"at most {MAX_QUERY_BYTES} bytes")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            raise RequestError(431, "the headers are too long", f"at most {MAX_HEADER_BYTES} bytes")
        if cross_site(headers) and not _follows_link(scope, headers):
            raise RequestError(
                403, "cross-site request", "one of this page; a proxy has to pass on the Host that the browser sends"
            )
        if path in VIEWS or path == HEALTH or path.startswith(ASSETS_PATH):
            return
        caller = self._caller(scope, headers)
        if wait_s := self._asked.of(caller.counted).take():
            expected = f"at most {REQUESTS_AT_ONCE} at once, and {REQUESTS_PER_S:g} a second"
            raise too_often("too many requests", expected, wait_s)
        if scope["method"] not in SAFE_METHODS and path not in _SESSIONS and not caller.writes:
            raise RequestError(403, "a reader changes nothing", "serve.token, or a name among serve.editors")
        scope[CALLER] = caller

    def secure(self, scope: Scope, headers: MutableHeaders) -> None:
        """Add the same headers to every answer, except for the caching of assets and the cookie of a session."""
        for name, value in PAGE_HEADERS.items():
            headers.setdefault(name, value)
        if scope["path"].startswith(ASSETS_PATH):
            headers["Cache-Control"] = "no-cache"  # they contain no data, and an update of laggard shows at once
        caller: Caller | None = scope.get(CALLER)
        if caller is not None and caller.cookie is not None:
            attributes = ["Path=/", "HttpOnly", "SameSite=Strict"]
            attributes += ["Secure"] if self._is_https(scope) else []
            attributes += [] if caller.cookie else ["Max-Age=0"]
            headers.append("Set-Cookie", "; ".join([f"{_cookie_name(scope)}={caller.cookie}", *attributes]))

    def _serves(self, name: str) -> bool:
        if name in self._hosts or is_loopback(name):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return not self._loopback  # no name server can redirect an address to another machine

    def _caller(self, scope: Scope, headers: Headers) -> Caller:
        """Return the caller. Raises `RequestError` if authentication is required and fails."""
        peer = _peer(scope)

        def caller(counted: str, *, writes: bool, who: str = "", shown: tuple[str, str] | None = None) -> Caller:
            return Caller(self._access, self._sessions, peer, counted, writes, who, shown)

        if not self._access.asks:
            return caller(peer, writes=True)
        if self._access.trusts(peer) and (who := self._access.named(headers)):
            return caller(f"person {who}", writes=self._access.edits(who), who=who)
        if token := bearer(headers):
            # Counted apart from callers at the same address that show no token.
            return caller(f"token at {peer}", writes=self._access.writes(token, peer))
        if key := headers.get(KEY_HEADER, ""):
            shown = _cookie(scope, headers), key
            writes = self._sessions.writes(*shown)
            if writes is not None:
                return caller(f"session {digest(shown[0]).hex()}", writes=writes, shown=shown)
        if scope["path"] in _SESSIONS:
            return caller(peer, writes=False)
        raise self._access.refusal("the request is not authenticated")

    def _is_https(self, scope: Scope) -> bool:
        if scope["scheme"] == "https":
            return True
        protocol = dict(scope["headers"]).get(b"x-forwarded-proto", b"")
        return self._access.trusts(_peer(scope)) and protocol.strip().lower() == b"https"


def _peer(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _follows_link(scope: Scope, headers: Headers) -> bool:
    """Return whether a person opens the page by a link of another site, such as an alert, in its own window."""
    return (
        scope["path"] in VIEWS
        and scope["method"] == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def _cookie_name(scope: Scope) -> str:
    # Browsers send cookies to every port of a host: two pages on one machine must not share a name.
    return f"laggard-{scope['server'][1]}"


def _cookie(scope: Scope, headers: Headers) -> str:
    return cookie_parser(headers.get("cookie", "")).get(_cookie_name(scope), "")
