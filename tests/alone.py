"""Tests that measure the machine itself run alone, though several files of tests run at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_DOOR: Final = 0
_ROOM: Final = 1


class Room:
    """Where the tests of a run are, whichever of pytest's processes they run in: many, or one alone.

    The locks are on two bytes of a file. Who wants to be alone holds the door until the others have left; who comes
    meanwhile waits before it. In a run of one process nobody waits.
    """

    def __init__(self) -> None:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        self._file = Path(tempfile.gettempdir()) / f"laggard-tests-{run}"
        self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        """Be in it: as the only one, or with others."""
        self._lock(fcntl.LOCK_EX, _DOOR)
        self._lock(fcntl.LOCK_EX if alone else fcntl.LOCK_SH, _ROOM)
        if not alone:
            self._lock(fcntl.LOCK_UN, _DOOR)
        try:
            yield
        finally:
            self._lock(fcntl.LOCK_UN, _ROOM)
            self._lock(fcntl.LOCK_UN, _DOOR)

    def close(self) -> None:
        """Leave no file behind; those who are in it still have it open."""
        os.close(self._descriptor)
        self._file.unlink(missing_ok=True)

    def _lock(self, how: int, byte: int) -> None:
        fcntl.lockf(self._descriptor, how, 1, byte)
