"""What stands before every request: the right host, the right caller, the right origin."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from laggard.pipeline.web.listen import Listen

HEALTH = ("/-/healthy", "/-/ready")
"""Paths that need no token: an orchestrator's probe carries none, and they tell nothing but a state."""

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]/@]+))(?::[0-9]{1,5})?")


class Guard:
    """ASGI wrapper that refuses what a web page or a stranger must not do, and adds the security headers.

    A page that a user of this machine has open can send requests to loopback. Its name may even be made to resolve to
    127.0.0.1 (DNS rebinding), and then it can read the answers too; but it cannot change what the browser says in
    `Host` and `Origin`. With a token there is nothing that a browser would send by itself, so that behind one any
    `Host` is served: a scraper may know this machine by a name that it does not know itself.
    """

    def __init__(self, app: ASGIApp, listen: Listen, policy: str = "") -> None:
        self._app = app
        self._listen = listen
        self._headers = SECURITY_HEADERS | ({"Content-Security-Policy": policy} if policy else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope["method"], scope["path"], Headers(scope=scope))
        except RequestError as error:
            await error.response()(scope, receive, send_secured)
        else:
            await self._app(scope, receive, send_secured)

    def _check(self, method: str, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        token = self._listen.token
        if not token and not self._serves(host):
            raise RequestError(
                403,
                f"Host {host[:100]!r} is not a name of this port: it looks like DNS rebinding",
                f"a request to {self._listen.address.host} or localhost",
            )
        if token and path not in HEALTH and not _shows(headers.get("authorization", ""), token):
            raise RequestError(
                401, "no valid token", "Authorization: Bearer with web.token", {"WWW-Authenticate": "Bearer"}
            )
        if method not in ("GET", "HEAD", "OPTIONS") and _cross_site(headers, host):
            raise RequestError(403, "cross-site request", "no Origin header, or the one of this port")

    def _serves(self, host: str) -> bool:
        name = _name_of(host)
        if name in ("localhost", self._listen.address.host.lower()):
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _name_of(host: str) -> str:
    """The name in a `Host` header, without its port and brackets; empty where it is malformed."""
    match = _HOST.fullmatch(host)
    return (match["v6"] or match["name"]).lower() if match else ""


def _shows(authorization: str, token: str) -> bool:
    scheme, _, shown = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())


def _cross_site(headers: Headers, host: str) -> bool:
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc.lower() != host.lower()
    except ValueError:
        return True
