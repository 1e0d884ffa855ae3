"""The checks before every request: the right host, the right caller, the right origin."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from laggard.pipeline.web.listen import Listen

HEALTH = ("/-/healthy", "/-/ready")
"""Paths without a token: an orchestrator's probe has none, and they show only a state."""

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]/@]+))(?::[0-9]{1,5})?")


class Secured(ABC):
    """ASGI wrapper that rejects requests by `check`, and adds headers to every answer, also to a rejection.

    Parameters:
        app: the wrapped application.

    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.secure(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            self.check(scope, Headers(scope=scope))
        except RequestError as error:
            await error.response()(scope, receive, send_secured)
        else:
            await self._app(scope, receive, send_secured)

    @abstractmethod
    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise `RequestError` for a request to reject."""

    @abstractmethod
    def secure(self, scope: Scope, headers: MutableHeaders) -> None:
        """Add headers to an answer."""


class Guard(Secured):
    """Guards the worker's port, whose clients are programs.

    A page in a browser of this machine can send requests to loopback. Its name may even resolve to 127.0.0.1 (DNS
    rebinding), and then it can also read the answers. But it cannot change the browser's `Host` and `Origin`. A token
    is nothing that a browser would send by itself. So with a token any `Host` is served: a scraper may use a name of
    this machine that the machine itself does not know.

    Parameters:
        app: the wrapped application.
        listen: its address; with a token, all requests except for health need it.
        page_token: the page's token, which requests that change something need if `listen` has none; empty for none.

    """

    def __init__(self, app: ASGIApp, listen: Listen, page_token: str = "") -> None:
        super().__init__(app)
        self._listen = listen
        self._token = digest(listen.token)
        self._page_token = digest(page_token) if page_token else None

    def check(self, scope: Scope, headers: Headers) -> None:
        """Check the host, the token and the origin."""
        host = headers.get("host", "")
        wanted = bool(self._listen.token)
        if not wanted and not self._serves(host):
            raise RequestError(
                403,
                f"Host {host[:100]!r} is not a name of this port: it looks like DNS rebinding",
                f"a request to {self._listen.address.host} or localhost",
            )
        if wanted and scope["path"] not in HEALTH and not same(bearer(headers), self._token):
            raise RequestError(
                401, "no valid token", "Authorization: Bearer with web.token", {"WWW-Authenticate": "Bearer"}
            )
        if scope["method"] in SAFE_METHODS:
            return
        if cross_site(headers):
            raise RequestError(403, "cross-site request", "no Origin header, or the one of this port")
        if not wanted and self._page_token is not None and not same(bearer(headers), self._page_token):
            expected = "Authorization: Bearer with the token of the page, or web.token set"
            raise RequestError(401, "no valid token", expected, {"WWW-Authenticate": "Bearer"})

    def secure(self, scope: Scope, headers: MutableHeaders) -> None:  # noqa: ARG002 - as in the base class
        """Add the same headers to every answer."""
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)

    def _serves(self, host: str) -> bool:
        name = name_of(host)
        return name == self._listen.address.host.lower() or is_loopback(name)


def name_of(host: str) -> str:
    """Return the name in a `Host` header, without its port and brackets; empty if it is malformed."""
    match = _HOST.fullmatch(host)
    return (match["v6"] or match["name"]).lower() if match else ""


def is_loopback(name: str) -> bool:
    """Return whether a name in a `Host` header is surely this machine's own, without a name server."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def digest(secret: str) -> bytes:
    """Return the digest of a secret, which is stored and compared: of one length for all."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def same(shown: str, kept: bytes) -> bool:
    """Return whether a secret has this digest, in a time that does not depend on the position of a difference."""
    return hmac.compare_digest(digest(shown), kept)


def bearer(headers: Headers) -> str:
    """Return the token in `Authorization: Bearer`; empty if there is none."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else ""


def cross_site(headers: Headers) -> bool:
    """Return whether the browser's headers show that a page of another site sent this request."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    except ValueError:
        return True
