"""A line to a broker that is cut at the worst moment: when a transaction's end is asked for."""

from __future__ import annotations

import math
import socket
import struct
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Callable

END_TXN = 26
"""The number of the request that ends a transaction: https://kafka.apache.org/protocol#protocol_api_keys."""

_ANSWERED_S = 30.0
_PART_BYTES = 65536


class _Awaited:
    """The answer to one request of a connection."""

    def __init__(self) -> None:
        self._correlation: int | None = None
        self._answer = b""
        self._came = threading.Event()

    def expect(self, request: bytes) -> None:
        """Await the answer to this request."""
        (self._correlation,) = struct.unpack_from(">i", request, 4)
        self._came.clear()

    def take(self, answer: bytes) -> None:
        """Take an answer; others pass."""
        if struct.unpack_from(">i", answer) == (self._correlation,):
            self._answer = answer
            self._came.set()

    def ended(self, version: int) -> bool:
        """Whether the broker ended the transaction: it refuses an old epoch, and while it ends the one before."""
        if not self._came.wait(_ANSWERED_S):
            return False
        (error,) = struct.unpack_from(
            ">h", self._answer, 9 if version >= 3 else 8
        )  # from version 3 on, tags come first
        return bool(error == 0)


class Proxy:
    """Passes on what comes for a broker, until it is told to cut the line.

    Parameters:
        broker: its port on this machine.

    Attributes:
        port: where it listens.
        cut_at_end: what becomes of the next commit of a transaction: passed on with its answer lost, or lost itself.
            After that this is None, and nothing is passed on until `heal`. A commit that the broker refuses does not
            count.
        bytes_per_s: how fast a broker's answers come through each connection.

    """

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cut_at_end: Literal["answer", "request"] | None = None
        self.bytes_per_s = math.inf
        self._is_cut = False
        self._lock = threading.Lock()
        self._lines: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        """End all connections, and let new ones wait for an answer that never comes."""
        with self._lock:
            self._is_cut = True
            lines, self._lines = self._lines, []
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """Pass on what comes from now on."""
        self.cut_at_end = None
        self._is_cut = False

    def _start(self, run: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._is_cut:
                client.close()
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._lines += [client, broker]
            awaited = _Awaited()
            self._start(partial(self._ask, client, broker, awaited))
            self._start(partial(self._answer, broker, client, awaited))

    def _ask(self, client: socket.socket, broker: socket.socket, awaited: _Awaited) -> None:
        """Request by request."""
        with client, broker, suppress(OSError):
            while True:
                (length,) = struct.unpack(">i", _exactly(client, 4))
                request = _exactly(client, length)
                if self.cut_at_end and _commits(request):
                    if self.cut_at_end == "answer":
                        # From here on nothing comes back to any client, though the broker is asked.
                        self._is_cut = True
                        with self._lock:
                            others = [line for line in self._lines if line is not broker]
                        for line in others:
                            with suppress(OSError):
                                line.shutdown(socket.SHUT_RDWR)
                        awaited.expect(request)
                        broker.sendall(struct.pack(">i", length) + request)
                        if not awaited.ended(*struct.unpack_from(">h", request, 2)):
                            self._is_cut = False
                            return
                    self.cut_at_end = None
                    self.cut()
                    return
                broker.sendall(struct.pack(">i", length) + request)

    def _answer(self, broker: socket.socket, client: socket.socket, awaited: _Awaited) -> None:
        """Answer by answer."""
        with suppress(OSError):
            while True:
                length = _exactly(broker, 4)
                answer = _exactly(broker, *struct.unpack(">i", length))
                awaited.take(answer)
                with suppress(OSError):  # where the client is cut off already, the awaited answer still comes
                    for start in range(0, 4 + len(answer), _PART_BYTES):
                        part = (length + answer)[start : start + _PART_BYTES]
                        threading.Event().wait(len(part) / self.bytes_per_s)
                        client.sendall(part)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(5.0)


def _commits(request: bytes) -> bool:
    """Whether it ends a transaction by a commit: a member that starts over aborts first."""
    key, version = struct.unpack_from(">hh", request)
    return key == END_TXN and bool(request[-2 if version >= 3 else -1])  # from version 3 on, tags come last


def _exactly(line: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = line.recv(min(count - len(parts), _PART_BYTES))
        if not part:
            raise ConnectionResetError
        parts += part
    return bytes(parts)
