"""The meaning of SQLite's errors for the embedded bus."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.schema import PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class DamagedFile(BusError):  # noqa: N818 - named for what it is
    """The file is not an SQLite file, or its content is inconsistent: nothing in it is reliable."""


class Errors:
    """Turns SQLite's errors into those of the bus, which say what to do.

    Parameters:
        path: the file.
        max_bytes: the most bytes of the file and its write-ahead log.
        max_pages: the most pages of the file itself.
        busy_timeout_s: the time to wait for another writing process, in seconds.

    """

    def __init__(self, path: Path, max_bytes: int, max_pages: int, busy_timeout_s: float) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_pages = max_pages
        self._busy_timeout_s = busy_timeout_s

    @contextmanager
    def raised(self, asked: str) -> Iterator[None]:
        """Raise SQLite's errors as those of the bus. `asked` is for the message."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._meaning(error, asked) from error

    def _meaning(self, error: sqlite3.Error, action: str) -> BusError:
        """Return SQLite's error as one of the bus, which says what to do."""
        where = f"{self._path}: cannot {action}"
        match _code(error):
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return BusUnavailable(
                    f"{where}: another process has held the file for more than {self._busy_timeout_s:g} s; try again"
                )
            case sqlite3.SQLITE_FULL:
                return BusUnavailable(f"{where}: {self._why_full()}")
            case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_NOMEM:
                return BusUnavailable(f"{where}: {error}; {self._free()}: make room or check the disk, then try again")
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
                return BusError(f"{where}: {error}: expected a file and a folder that this user may write")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return DamagedFile(f"{where}: {error}: expected laggard's SQLite file; move it away to start a new one")
        return BusError(f"{where}: {error}")

    def _why_full(self) -> str:
        try:
            file_bytes = self._path.stat().st_size
        except OSError:
            file_bytes = 0
        if file_bytes >= (self._max_pages - 64) * PAGE_BYTES:
            return (
                f"its bound of {self._max_bytes} bytes is filled by what must stay (newest snapshots and newest "
                "records of compacted topics); raise the bound"
            )
        return f"the disk is full, {self._free()}: make room, then try again"

    def _free(self) -> str:
        try:
            disk = os.statvfs(self._path.parent)
        except OSError as error:
            return f"free space unknown ({error.strerror})"
        return f"{disk.f_bavail * disk.f_frsize} bytes free in {self._path.parent}"


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code; 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the file."""
    return _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
