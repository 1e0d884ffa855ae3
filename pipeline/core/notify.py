"""Reports to a service manager by the protocol of sd_notify(3), for units with `Type=notify` and `WatchdogSec=`.

Each message is one datagram of text, so no library is needed.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXTENSION_S: Final = 30.0
"""The extra time that each request to the manager adds to a long start, in seconds."""

_BEAT_S: Final = 1.0
_EXTEND_EVERY_S: Final = 10.0


class Notifier:
    """The service manager of `NOTIFY_SOCKET`; without one, or if it does not listen, nothing happens.

    `laggard up` is the manager of its parts: it sets `fd:N`, a connected socket that the part inherits.

    Args:
        environ: the environment with the manager's variables.

    Attributes:
        watchdog_s: the manager's time limit between two signs of life, None without one.

    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.watchdog_s: float | None = None
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address if address.startswith("/") else ""
        self._status = ""
        self._descriptor: int | None = None
        if address.startswith("fd:"):
            with suppress(ValueError, OSError):
                os.set_blocking(descriptor := int(address.removeprefix("fd:")), False)
                os.set_inheritable(descriptor, False)
                self._descriptor = descriptor
        enabled = self._address or self._descriptor is not None
        if enabled and environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with suppress(ValueError):
                self.watchdog_s = int(environ.get("WATCHDOG_USEC", "")) / 1e6 or None

    def ready(self) -> None:
        """Report that the service is up."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that it begins to stop."""
        self._send("STOPPING=1")

    def status(self, line: str) -> None:
        """Report its status, in one line for people."""
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def alive(self) -> None:
        """Give a sign of life."""
        if self.watchdog_s is not None:
            self._send("WATCHDOG=1")

    def extend(self, seconds: float = EXTENSION_S) -> None:
        """Request this much more time for starting or stopping."""
        self._send(f"EXTEND_TIMEOUT_USEC={seconds * 1e6:.0f}")

    def _send(self, message: str) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.write(self._descriptor, message.encode(errors="replace"))
            return
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
            opened.setblocking(False)  # a manager that does not read must not block the service
            opened.sendto(message.encode(errors="replace"), self._address)


class Heartbeat(threading.Event):
    """The event that stops a part. Each check of it in the main thread gives the part's sign of life.

    So the manager's watchdog detects a main loop that hangs, and no other thread hides it. It must be created in the
    main thread. For a part that works in other threads the loops of these count, see `turns`.

    Args:
        notifier: the connection to the manager.

    Attributes:
        progress: returns whether the part is up; called in the main thread about once a second.
        turns: returns the number of turns of the loops that do the part's work, if these run in other threads; called
            likewise. There is no sign of life while the number stays the same.

    """

    def __init__(self, notifier: Notifier) -> None:
        super().__init__()
        self.progress: Callable[[], bool] | None = None
        self.turns: Callable[[], int] | None = None
        self._turns = -1
        self._notifier = notifier
        self._main = threading.get_ident()
        self._beat_s = min(_BEAT_S, (notifier.watchdog_s or 2 * _BEAT_S) / 2)
        self._next = 0.0
        self._extend_at = 0.0
        self._ready = False

    def is_set(self) -> bool:
        """Return whether to stop now."""
        self._beat()
        return super().is_set()

    def set(self) -> None:
        """Stop the part."""
        if not super().is_set():
            self._notifier.stopping()
        super().set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds for the stop, and return whether to stop."""
        if threading.get_ident() != self._main:
            return super().wait(timeout)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self._beat()
            left = self._beat_s if until is None else min(self._beat_s, until - time.monotonic())
            if super().wait(max(0.0, left)):
                return True
            if until is not None and time.monotonic() >= until:
                return False

    def _beat(self) -> None:
        now = time.monotonic()
        if now < self._next or threading.get_ident() != self._main:
            return
        self._next = now + self._beat_s
        turns = self._turns + 1 if self.turns is None else self.turns()
        if turns != self._turns:
            self._turns = turns
            self._notifier.alive()
        if self.progress is None or super().is_set():
            return
        up = self.progress()
        if up and not self._ready:
            self._ready = True
            self._notifier.ready()
        elif not self._ready and now >= self._extend_at:
            self._extend_at = now + _EXTEND_EVERY_S
            self._notifier.extend()
