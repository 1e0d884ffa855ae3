"""The access rules of the page, from the settings: who may view it, and who may change things."""

from __future__ import annotations

import ipaddress
import re
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.web.errors import RequestError, too_often
from laggard.pipeline.web.guard import digest, name_of, same
from laggard.pipeline.web.limits import Bucket, Buckets, client_of
from laggard.pipeline.web.listen import Listen, ListenError, check_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers

    from laggard.pipeline.settings import Settings

WRONG_AT_ONCE: Final = 10
WRONG_PER_S: Final = 0.1
"""The most wrong tokens of one address: at once, and per second in the long run."""

ALL_WRONG_AT_ONCE: Final = 100
ALL_WRONG_PER_S: Final = 1.0
"""The same for all addresses together."""

MAX_NAME: Final = 256
"""The most characters of a person's name from a proxy."""

_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110, section 5.6.2


class Access:
    """The access rules. Raises `ListenError` naming an invalid setting. Safe to use from several threads.

    Parameters:
        settings: the settings `serve.*`.
        clock: returns seconds on a clock that never steps.
        generated: the generated token if `serve.token` is empty; empty for none.

    Attributes:
        hosts: further names of the page, in lower case.
        takes_tokens: whether there is a token.

    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic, *, generated: str = "") -> None:
        serve = settings[ServeSettings]
        token, read_token = serve.token or generated, serve.read_token
        check_token(token, "serve.token")
        check_token(read_token, "serve.read_token")
        if token and token == read_token:
            raise ListenError("serve.read_token: expected another one than serve.token, which may change things")
        self._tokens = [(digest(each), writes) for each, writes in ((token, True), (read_token, False)) if each]
        self.takes_tokens = bool(self._tokens)
        self.hosts = tuple(_host(word) for word in serve.hosts)
        self._proxies = tuple(_network(word) for word in serve.proxies)
        self._header = serve.proxy_header
        if not _HEADER.fullmatch(self._header):
            raise ListenError(f"serve.proxy_header: expected the name of a header, got {self._header!r}")
        self._editors = serve.editors
        self._wrong = Buckets(WRONG_AT_ONCE, WRONG_PER_S, clock)
        self._all_wrong = Bucket(ALL_WRONG_AT_ONCE, ALL_WRONG_PER_S, clock)

    @property
    def asks(self) -> bool:
        """Whether callers must authenticate; otherwise everyone who reaches the port may do everything."""
        return bool(self._tokens or self._proxies)

    def trusts(self, peer: str) -> bool:
        """Return whether an address is that of a trusted proxy, which may name the person."""
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self._proxies)

    def named(self, headers: Headers) -> str:
        """Return the person that a trusted proxy names; empty for none. Raises `RequestError` for an invalid name."""
        names = headers.getlist(self._header)
        if len(names) > 1:
            raise RequestError(401, f"the header {self._header} is there twice", "a proxy that replaces it")
        # Headers sent as UTF-8 arrive as Latin-1.
        name = names[0].encode("latin-1").decode("utf-8", "replace").strip() if names else ""
        if len(name) > MAX_NAME:
            raise RequestError(401, f"the name in {self._header} is too long", f"at most {MAX_NAME} characters")
        return name

    def edits(self, name: str) -> bool:
        """Return whether a person that a proxy names may change things."""
        return any(fnmatchcase(name, pattern) for pattern in self._editors)

    def writes(self, token: str, peer: str) -> bool:
        """Return whether a token also allows changes.

        Args:
            token: the token of the caller.
            peer: the address of the caller.

        Raises:
            RequestError: the token is wrong. The right one is accepted after any number of wrong ones: other callers
                may share the address, and a token of `MINIMUM_TOKEN` characters cannot be guessed.

        """
        # All tokens are compared, so that the time does not reveal a near match.
        found = [writes for valid, writes in self._tokens if same(token, valid)]
        if found:
            return found[0]
        if wait_s := max(self._wrong.of(client_of(peer)).take(), self._all_wrong.take()):
            raise too_often("too many wrong tokens", "the right one", wait_s)
        raise self.refusal("the token is wrong")

    def refusal(self, error: str) -> RequestError:
        """Return an error of status 401 with the expected credentials; it requests a token only if there is one."""
        expected = [] if self.asks else ["nothing: who reaches this port may ask"]
        if self.takes_tokens:
            expected.append("Authorization: Bearer with serve.token or serve.read_token, or a session opened by one")
        if self._proxies:
            expected.append(f"a proxy of serve.proxies that names who asks in {self._header}")
        challenge = {"WWW-Authenticate": "Bearer"} if self.takes_tokens else {}
        return RequestError(401, error, "; or ".join(expected), challenge)


def page_listen(settings: Settings) -> Listen:
    """Return the address of the page. Raises `ListenError` if it does not resolve, or is open to everyone."""
    return Listen.resolve_page(settings[ServeSettings].listen, asks=Access(settings).asks)


def _host(word: str) -> str:
    if name_of(word) != word.lower():
        raise ListenError(f"serve.hosts: expected names without port such as laggard.example.com, got {word!r}")
    return word.lower()


def _network(word: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(word)
    except ValueError as error:
        raise ListenError(f"serve.proxies: expected addresses or networks such as 10.0.0.0/24, {error}") from None
