"""Where the port listens, and who may ask there: loopback freely, anything else only with a token."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import Any

MINIMUM_TOKEN = 16
"""Characters of the shortest token that is accepted."""

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<name>[^\s:\[\]/@]+)):(?P<port>[0-9]{1,5})")
_TOKEN = re.compile(r"[!-~]+")


class ListenError(Exception):
    """The port cannot be opened as configured; the message names the address and says what to do."""


@dataclass(frozen=True, slots=True)
class Listen:
    """A checked address to listen on.

    Attributes:
        host: as configured.
        port: 0 for any free one.
        addresses: what `host` resolves to, as (family, socket address).
        loopback: whether only this machine can reach all of them.
        token: what a caller must show as `Authorization: Bearer`, None for nothing.

    """

    host: str
    port: int
    addresses: tuple[tuple[socket.AddressFamily, tuple[Any, ...]], ...]
    loopback: bool
    token: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, token: str | None = None) -> Listen:
        """Read `HOST:PORT` or `[IPV6]:PORT` and resolve it.

        Raises:
            ListenError: it is no address, does not resolve, or can be reached from elsewhere without a token.

        """
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise ListenError(f"web.listen: {text!r} is no address; expected HOST:PORT, such as 127.0.0.1:9464")
        if token is not None and (len(token) < MINIMUM_TOKEN or not _TOKEN.fullmatch(token)):
            raise ListenError(
                f"web.token: expected at least {MINIMUM_TOKEN} printable ASCII characters without blanks, "
                f"got {len(token)} characters"
            )
        host, port = match["v6"] or match["name"], int(match["port"])
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ListenError(f"web.listen: {host!r} cannot be resolved ({error}); name an address of here") from error
        addresses = tuple((family, address) for family, _, _, _, address in found)
        loopback = all(_is_loopback(str(address[0])) for _, address in addresses)
        if not loopback and token is None:
            raise ListenError(
                f"web.listen: {text} can be reached from other machines, so it needs a token; "
                "set web.token, or listen on 127.0.0.1"
            )
        return cls(host, port, addresses, loopback, token)

    def bind(self) -> socket.socket:
        """Open the listening socket.

        Raises:
            ListenError: the address is taken, is not one of this machine, or may not be used.

        """
        refused = OSError(errno.EADDRNOTAVAIL, "no address")
        for family, address in self.addresses:
            try:
                opened = socket.create_server(address, family=family)
            except OSError as error:
                refused = error
            else:
                # Connections inherit it. Without, each answer waits 40 ms for the acknowledgement of its headers:
                # asyncio sets it only on sockets that were opened with the protocol named.
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return opened
        raise ListenError(f"web.listen: cannot listen on {self}: {_advice(refused, self.port)}") from refused

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


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
