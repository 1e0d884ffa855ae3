"""Where the port listens, and who may ask there: loopback freely, anything else only with a token."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laggard.pipeline.settings import Address

MINIMUM_TOKEN = 16
"""Characters of the shortest token that is accepted."""

_TOKEN = re.compile(r"[!-~]+")


class ListenError(Exception):
    """The port cannot be opened as configured; the message names the address and says what to do."""


@dataclass(frozen=True, slots=True)
class Listen:
    """A checked address to listen on.

    Attributes:
        address: as configured.
        resolved: what its host resolves to, as (family, socket address).
        loopback: whether only this machine can reach all of them.
        token: what a caller must show as `Authorization: Bearer`; empty for nothing.

    """

    address: Address
    resolved: tuple[tuple[socket.AddressFamily, tuple[Any, ...]], ...]
    loopback: bool
    token: str = field(default="", repr=False)

    @classmethod
    def resolve(cls, address: Address, token: str = "") -> Listen:
        """Look the address up and check it.

        Raises:
            ListenError: it does not resolve, can be reached from elsewhere without a token, or the token is weak.

        """
        if token and (len(token) < MINIMUM_TOKEN or not _TOKEN.fullmatch(token)):
            raise ListenError(
                f"web.token: expected at least {MINIMUM_TOKEN} printable ASCII characters without blanks, "
                f"got {len(token)} characters"
            )
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ListenError(
                f"web.listen: {address.host!r} cannot be resolved ({error}); set it to an address of this machine"
            ) from error
        resolved = tuple((family, where) for family, _, _, _, where in found)
        loopback = all(ipaddress.ip_address(where[0]).is_loopback for _, where in resolved)
        if not loopback and not token:
            raise ListenError(
                f"web.listen: {address} can be reached from other machines, so it needs a token; "
                "set web.token, or listen on 127.0.0.1"
            )
        return cls(address, resolved, loopback, token)

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
                # Connections inherit it. Without, each answer waits 40 ms for the acknowledgement of its headers:
                # asyncio sets it only on sockets that were opened with the protocol named.
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return opened
        raise ListenError(
            f"web.listen: cannot listen on {self.address}: {_advice(refused, self.address.port)}"
        ) from refused


def _advice(error: OSError, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            free = port + 1 if port < 65535 else port - 1
            return (
                "another program, perhaps another laggard, has it; "
                f"stop that one or set web.listen to another port, such as {free}, or to 0 for any free one"
            )
        case errno.EACCES:
            return "not permitted; set web.listen to a port above 1023"
        case errno.EADDRNOTAVAIL:
            return "no address of this machine; set web.listen to one, such as 127.0.0.1"
        case _:
            return f"{error.strerror or error}; set web.listen to another address"
