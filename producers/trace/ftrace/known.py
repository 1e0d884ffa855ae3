"""The threads and descriptors from before the start of a trace, read from /proc.

Parsers of texts are separate from the code that reads them. Source of the forms: proc(5).
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.system.foreign import head, lines, link, names
from laggard.producers.trace.events import EVENT, NO_TEXT, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from laggard.producers.trace.events import Texts

_LISTENING: Final = 0x0A  # TCP_LISTEN
# <linux/netlink.h>, <linux/sock_diag.h>, <linux/unix_diag.h>
_HEADER_BYTES, _REQUEST, _DUMP, _SOCK_DIAG, _BY_FAMILY, _SHOW_PEER, _PEER = 16, 1, 0x300, 4, 20, 4, 2
_TABLE_BYTES: Final = 16 << 20  # of a table of sockets: 100,000 of them
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


class Thread(NamedTuple):
    """A thread: its id, the id of its process, its name."""

    thread: int
    process: int
    name: str


class Descriptor(NamedTuple):
    """An open descriptor of a process, and its target in the form of `Kind.OPENED`."""

    process: int
    number: int
    text: str


class Known(NamedTuple):
    """The threads and descriptors at the start."""

    threads: list[Thread]
    descriptors: list[Descriptor]

    def rows(self, ts: int, texts: Texts) -> NDArray[np.void]:
        """Return them as events of that time: `NAMED` and `OPENED`."""
        rows = np.zeros(len(self.threads) + len(self.descriptors), EVENT)
        rows["ts"], rows["cpu"], rows["host"] = ts, -1, NO_TEXT
        if len(self.threads):
            named = rows[: len(self.threads)]
            named["kind"] = Kind.NAMED
            named["tid"] = named["a"] = [thread.thread for thread in self.threads]
            named["b"] = [thread.process for thread in self.threads]
            named["text"] = [texts.place(thread.name) for thread in self.threads]
        if len(self.descriptors):
            opened = rows[len(self.threads) :]
            opened["kind"] = Kind.OPENED
            opened["tid"] = [descriptor.process for descriptor in self.descriptors]
            opened["a"] = [descriptor.number for descriptor in self.descriptors]
            opened["text"] = [texts.place(descriptor.text) for descriptor in self.descriptors]
        return rows

    def processes(self) -> dict[int, int]:
        """Return the process of each thread."""
        return {thread.thread: thread.process for thread in self.threads}


def read_known(root: str = "/proc", *, without: int = 0) -> Known:
    """Read all visible threads and descriptors.

    Args:
        root: the mount point of procfs.
        without: a process to leave out: the recorder.

    """
    threads: list[Thread] = []
    descriptors: list[Descriptor] = []
    sockets: dict[str, Mapping[int, str]] = {}
    for process in sorted(int(name) for name in names(root) if name.isdigit()):
        if process == without:
            continue
        # Processes may end meanwhile.
        with contextlib.suppress(OSError):
            threads.extend(_threads(root, process))
        with contextlib.suppress(OSError):
            descriptors.extend(_descriptors(root, process, sockets))
    return Known(threads, descriptors)


def _threads(root: str, process: int) -> Iterable[Thread]:
    for name in names(f"{root}/{process}/task"):
        with contextlib.suppress(OSError):
            comm = head(f"{root}/{process}/task/{name}/comm")
            yield Thread(int(name), process, comm.rstrip(b"\n").decode(errors="replace"))


def _descriptors(root: str, process: int, sockets: dict[str, Mapping[int, str]]) -> Iterable[Descriptor]:
    folder = f"{root}/{process}/fd"
    for name in names(folder):
        with contextlib.suppress(OSError):
            leads = link(f"{folder}/{name}")
            found = _SOCKET.fullmatch(leads)
            if found is None:
                text = plain_target(leads)
            else:
                space = link(f"{root}/{process}/ns/net")
                if space not in sockets:
                    own = space == link("/proc/self/ns/net")
                    tables = _sockets("/proc/self/net" if own else f"{root}/{process}/net", own=own)
                    link(f"{root}/{process}/ns/net")  # raises if it has ended meanwhile: the next one has the tables
                    sockets[space] = tables
                text = sockets[space].get(int(found[1]), "socket")
            yield Descriptor(process, int(name), text)


def _sockets(folder: str, *, own: bool) -> Mapping[int, str]:
    """Read the addresses of one network namespace, by inode.

    Args:
        folder: the folder of the namespace.
        own: whether it is laggard's own: then the kernel also reports the peers of Unix sockets.

    """
    found: dict[int, str] = {}
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError):
            found |= parse_internet_sockets(lines(f"{folder}/{protocol}", _TABLE_BYTES).decode(errors="replace"))
    with contextlib.suppress(OSError):
        found |= parse_unix_sockets(lines(f"{folder}/unix", _TABLE_BYTES).decode(errors="replace"))
    if own:
        with contextlib.suppress(OSError):
            peers = _unix_peers()
            found |= {one: found[peer] for one, peer in peers.items() if one not in found and peer in found}
    return found


def _unix_peers() -> dict[int, int]:
    """Return the peers of connected Unix sockets by inode, from sock_diag(7): those of clients have no path."""
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_PEER, 0xFFFFFFFF, 0xFFFFFFFF)
    header = struct.pack("=IHHII", _HEADER_BYTES + len(request), _BY_FAMILY, _REQUEST | _DUMP, 0, 0)
    peers: dict[int, int] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.send(header + request)
        while parse_unix_peers(kernel.recv(1 << 16), peers):
            pass
    return peers


def parse_unix_peers(answer: bytes, peers: dict[int, int]) -> bool:
    """Add the peers in a part of the kernel's answer, and return whether more parts follow."""
    at = 0
    while at + _HEADER_BYTES <= len(answer):
        length, kind = struct.unpack_from("=IH", answer, at)
        if kind != _BY_FAMILY or length < _HEADER_BYTES:  # the end, or an error
            return False
        inode = struct.unpack_from("=4xI", answer, at + _HEADER_BYTES)[0]
        attribute, end = at + _HEADER_BYTES + 16, at + length
        while attribute + 4 <= end:
            size, name = struct.unpack_from("=HH", answer, attribute)
            if name == _PEER and size == 8:
                peers[inode] = struct.unpack_from("=I", answer, attribute + 4)[0]
            attribute += max(-(-size // 4) * 4, 4)
        at += -(-length // 4) * 4
    return True


def plain_target(text: str) -> str:
    """Return the target of a link in `/proc/PID/fd`, without numbers that mean nothing elsewhere.

    >>> plain_target("pipe:[4711]"), plain_target("anon_inode:[eventpoll]"), plain_target("/var/a (deleted)")
    ('pipe', 'eventpoll', '/var/a')
    """
    if text.startswith("/"):
        return text.removesuffix(" (deleted)")
    kind, _, inner = text.partition(":")
    return inner.strip("[]") if kind == "anon_inode" else kind


def parse_internet_sockets(text: str) -> dict[int, str]:
    """Parse `/proc/net/{tcp,tcp6,udp,udp6}`: by inode, a socket's remote address, or the local one of a server.

    A server's socket listens, or was accepted.
    """
    rows = []
    for line in text.splitlines()[1:]:
        parts = line.split()
        if len(parts) > 9:
            rows.append((parts[1], parts[2], int(parts[3], 16), int(parts[9])))
    listening = {_port(local) for local, _, state, _ in rows if state == _LISTENING}
    found = {}
    for local, remote, _, inode in rows:
        here = _port(local) in listening or not _port(remote)
        if inode:
            found[inode] = _address(local if here else remote)
    return found


def parse_unix_sockets(text: str) -> dict[int, str]:
    """Parse `/proc/net/unix`: paths by inode, of the sockets that have one."""
    rows = (line.split(maxsplit=7) for line in text.splitlines()[1:])
    return {int(parts[6]): f"unix:{parts[7]}" for parts in rows if len(parts) == 8}


def socket_text(address: bytes) -> str:
    """Format a `sockaddr`: `127.0.0.1:3306`, `[::1]:80`, `unix:/run/x.sock`; empty for other families."""
    if len(address) < 2:
        return ""
    family = int.from_bytes(address[:2], sys.byteorder)
    if family == 1:
        path = address[2:]
        if path[:1] == b"\0":
            return "unix:@" + path[1:].split(b"\0", 1)[0].decode(errors="replace")
        return "unix:" + path.split(b"\0", 1)[0].decode(errors="replace")
    port = int.from_bytes(address[2:4], "big")
    if family == 2 and len(address) >= 8:
        return internet_text(address[4:8], port)
    if family == 10 and len(address) >= 24:
        return internet_text(address[8:24], port)
    return ""


def internet_text(packed: bytes, port: int) -> str:
    """Format an address and a port in the usual notation."""
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return f"[{address}]:{port}"
        address = address.ipv4_mapped
    return f"{address}:{port}"


def _port(text: str) -> int:
    return int(text.rpartition(":")[2], 16)


def _address(text: str) -> str:
    """Parse an address of /proc/net: words of 4 bytes in the machine's order."""
    words = bytes.fromhex(text.rpartition(":")[0])
    packed = words if sys.byteorder == "big" else np.frombuffer(words, ">u4").astype("<u4").tobytes()
    return internet_text(packed, _port(text))
