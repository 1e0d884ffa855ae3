"""Waits for records of other processes without polling.

A writer touches the file's times after the commit; a reader sleeps in inotify(7) until then. Polling every 40 ms took
1 % of a core for each idle reader, since caches are cold each time. It delivered a record after 20 ms rather than 1 ms.
"""

from __future__ import annotations

import ctypes
import os
import select
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_IN_ATTRIB: Final = 0x4  # the file's times, among others
_CHECK_ANYWAY_S: Final = 0.5  # for an append whose process died before it touched the file
_POLL_S: Final = 0.04  # without inotify


def touch(path: Path) -> None:
    """Wake the watches of all processes, since the file has changed."""
    with suppress(OSError):  # they check anyway, a little later
        os.utime(path)


class Watch:
    """Wakes when the file is touched. Touches before a `wait` count, so that none is lost between checks.

    It is closed with the object at the latest: the kernel allows all processes of a user few, 128 by default.
    """

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = -1
        # Without this call, or with too many watches, it polls.
        if hasattr(libc, "inotify_init1"):
            self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            self._give_back = weakref.finalize(self, os.close, self._descriptor)
        if self._descriptor >= 0 and libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_ATTRIB) < 0:
            self.close()
        self._poll = select.poll()
        if self._descriptor >= 0:
            self._poll.register(self._descriptor, select.POLLIN)

    def wait(self, timeout_s: float) -> None:
        """Return when the file was touched, or when a check is due anyway; at most after `timeout_s`."""
        longest = _POLL_S if self._descriptor < 0 else _CHECK_ANYWAY_S
        if self._poll.poll(max(1.0, min(timeout_s, longest) * 1000)):
            with suppress(OSError):
                os.read(self._descriptor, 4096)

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor >= 0:
            self._give_back()
            self._descriptor = -1
