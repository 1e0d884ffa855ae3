"""The address of a port, and access to it: loopback freely, any other address only with a token."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from laggard.pipeline.web.settings import WebSettings

if TYPE_CHECKING:
    from laggard.pipeline.settings import Address, Settings

MINIMUM_TOKEN = 16
"""The fewest characters of a token."""

_TOKEN = re.compile(r"[!-~]+")


class ListenError(Exception):
    """The port cannot be opened as configured; the message names the setting and the remedy."""


def check_token(token: str, setting: str) -> None:
    """Raise `ListenError` for a token that is too short, or that no header can carry; an empty one is fine."""
    if token and (len(token) < MINIMUM_TOKEN or not _TOKEN.fullmatch(token)):
        raise ListenError(
            f"{setting}: expected at least {MINIMUM_TOKEN} printable ASCII characters without blanks, "
            f"got {len(token)} characters"
        )


@dataclass(frozen=True, slots=True)
class Listen:
    """A checked address to listen on.

    Attributes:
        address: the configured address.
        resolved: its resolved addresses, as (family, socket address).
        loopback: whether only this machine can reach all of them.
        token: the token that callers need as `Authorization: Bearer`; empty for none.
        setting: the name of the setting of the address.

    """

    address: Address
    resolved: tuple[tuple[socket.AddressFamily, tuple[Any, ...]], ...]
    loopback: bool
    token: str = field(default="", repr=False)
    setting: str = "web.listen"

    @classmethod
    def resolve(cls, address: Address, token: str = "") -> Listen:
        """Resolve the worker's address, and check it and its token, settings `web.listen` and `web.token`.

        Raises:
            ListenError: it does not resolve, can be reached from elsewhere without a token, or the token is weak.

        """
        check_token(token, "web.token")
        resolved, loopback = _resolve(address, "web.listen", () if token else ("web.token",))
        return cls(address, resolved, loopback, token)

    @classmethod
    def resolve_page(cls, address: Address, *, asks: bool) -> Listen:
        """Resolve the page's address and check it, setting `serve.listen`.

        Args:
            address: the page's address.
            asks: whether callers must authenticate.

        Raises:
            ListenError: it does not resolve, or can be reached from elsewhere without authentication.

        """
        keys = () if asks else ("serve.token", "serve.proxies")
        resolved, loopback = _resolve(address, "serve.listen", keys)
        return cls(address, resolved, loopback, setting="serve.listen")

    def bind(self) -> socket.socket:
        """Open the listening socket.

        Raises:
            ListenError: the address is taken, is not one of this machine, or may not be used.

        """
        refused = OSError(errno.EADDRNOTAVAIL, "no address")
        for family, where in self.resolved:
            try:
                opened = socket.create_server(where, family=family)
            except OSError as error:
                refused = error
            else:
                # Connections inherit it. Without it each answer waits 40 ms for the acknowledgement of its headers:
                # asyncio sets it only on sockets that were opened with an explicit protocol.
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return opened
        raise ListenError(
            f"{self.setting}: cannot listen on {self.address}: {_advice(refused, self.address.port, self.setting)}"
        ) from refused


def worker_listen(settings: Settings) -> Listen:
    """Return the worker's address. Raises `ListenError` if it does not resolve, or is open to everyone."""
    return Listen.resolve(settings[WebSettings].listen, settings[WebSettings].token)


def _resolve(
    address: Address, setting: str, wanted: tuple[str, ...]
) -> tuple[tuple[tuple[socket.AddressFamily, tuple[Any, ...]], ...], bool]:
    """Return the resolved addresses, and whether all are loopback; `wanted` are the settings to suggest if not."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ListenError(
            f"{setting}: {address.host!r} cannot be resolved ({error}); set it to an address of this machine"
        ) from error
    resolved = tuple((family, where) for family, _, _, _, where in found)
    loopback = all(ipaddress.ip_address(where[0]).is_loopback for _, where in resolved)
    if not loopback and wanted:
        raise ListenError(
            f"{setting}: {address} can be reached from other machines, so it needs a token; "
            f"set {' or '.join(wanted)}, or listen on 127.0.0.1"
        )
    return resolved, loopback


def _advice(error: OSError, port: int, setting: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            free = port + 10 if port <= 65525 else port - 10  # not the next one: page and metrics have adjacent ports
            return (
                "another program, perhaps another laggard, has it; "
                f"stop that one or set {setting} to another port, such as {free}, or to 0 for any free one"
            )
        case errno.EACCES:
            return f"not permitted; set {setting} to a port above 1023"
        case errno.EADDRNOTAVAIL:
            return f"no address of this machine; set {setting} to one, such as 127.0.0.1"
        case _:
            return f"{error.strerror or error}; set {setting} to another address"
