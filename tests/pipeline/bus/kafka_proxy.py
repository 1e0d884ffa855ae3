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


class Proxy:
    """Passes on what comes for a broker, until it is told to cut the line.

    Parameters:
        broker: its port on this machine.

    Attributes:
        port: where it listens.
        cut_at_end: what becomes of the next commit of a transaction: passed on with its answer lost, or lost itself.
            After that this is None, and nothing is passed on until `heal`.
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
            answered = threading.Event()
            self._start(partial(self._ask, client, broker, answered))
            self._start(partial(self._answer, broker, client, answered))

    def _ask(self, client: socket.socket, broker: socket.socket, answered: threading.Event) -> None:
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
                        answered.clear()
                        broker.sendall(struct.pack(">i", length) + request)
                        answered.wait(_ANSWERED_S)
                    self.cut_at_end = None
                    self.cut()
                    return
                broker.sendall(struct.pack(">i", length) + request)

    def _answer(self, broker: socket.socket, client: socket.socket, answered: threading.Event) -> None:
        with suppress(OSError):
            while part := broker.recv(65536):
                answered.set()
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
        part = line.recv(count - len(parts))
        if not part:
            raise ConnectionResetError
        parts += part
    return bytes(parts)
