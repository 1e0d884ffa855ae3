"""Waiting for what another process appended, without looking again and again.

Who appends touches the file's times after the commit; who waits sleeps in inotify(7) until then. Looking every 40 ms
instead took 1 % of a core here for each reader that had nothing to do, as the caches are cold each time, and brought a
record after 20 ms rather than 1 ms.
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
_LOOK_ANYWAY_S: Final = 0.5  # for an append whose process died just before it could touch the file
_LOOK_BLINDLY_S: Final = 0.04  # where the kernel does not tell


def touch(path: Path) -> None:
    """Tell the watches of all processes that there is something new in the file."""
    with suppress(OSError):  # they look anyway, a little later
        os.utime(path)


class Watch:
    """Wakes when the file is touched. Touches from before a `wait` count, so that none is lost between looks.

    It ends with the object at the latest, closed or not: the kernel gives all processes of a user few, 128 by default.
    """

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = -1
        # No such call, too many watches: then by looking.
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
        """Return when the file was touched, or when it is time to look all the same; at most after `timeout_s`."""
        longest = _LOOK_BLINDLY_S if self._descriptor < 0 else _LOOK_ANYWAY_S
        if self._poll.poll(max(1.0, min(timeout_s, longest) * 1000)):
            with suppress(OSError):
                os.read(self._descriptor, 4096)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            self._give_back()
            self._descriptor = -1
