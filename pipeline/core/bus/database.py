"""The SQLite file of the embedded bus: opening it, its connections and its transactions.

Durability: WAL with `synchronous=NORMAL`. An acknowledged transaction survives kill -9 of any process. A power failure
or a kernel crash may lose the last few, but only whole ones and only from the end. Records, offsets, snapshots and
outputs are in the same file and go back together, so results stay exactly-once. `FULL` costs one fsync per transaction
(tests/benchmarks/bus.py prints both), and an fsync waits for the disk writes of all processes. So laggard would be
slowest, and would load the disk most, on exactly the machine that it must diagnose.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.file import make_file
from laggard.pipeline.core.bus.schema import PAGE_BYTES, make_tables, version_of
from laggard.pipeline.core.bus.sqlite_errors import Errors, is_busy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_INDEX_BYTES: Final = 32 << 10
_VACUUM_PAGES: Final = 256
_CHECKPOINT_WAIT_MS: Final = 100


class Database:
    """One SQLite file with a pool of connections, for several threads; other processes may have it open, too.

    Writes of this process queue on a fair lock. Writes of several processes queue on SQLite's lock, which polls.
    """

    def __init__(self, path: Path, max_bytes: int, busy_timeout_s: float) -> None:
        self.path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self.max_bytes = max_bytes
        self.wal_bytes = min(max_bytes // 8, 16 << 20)
        self._busy_timeout_s = busy_timeout_s
        self._process = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._writing = threading.Lock()
        self._closed = False
        self._errors = Errors(path, max_bytes, self.max_pages, busy_timeout_s)
        with self._errors.raised("open"):
            self._idle.append(self._connect())

    def _connect(self) -> sqlite3.Connection:
        """Return a new connection; create the tables in a new file."""
        make_file(self.path)
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            if version_of(connection, self.path) == 0:
                make_tables(connection, self.path)
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        self._enter_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute(f"PRAGMA wal_autocheckpoint={self.wal_bytes // 4 // PAGE_BYTES}")
        connection.execute(f"PRAGMA journal_size_limit={self.wal_bytes // 2}")
        connection.execute(f"PRAGMA max_page_count={self.max_pages}")

    def _enter_wal(self, connection: sqlite3.Connection) -> None:
        """Change to WAL mode, which needs exclusive access to the file, and does not wait for it by itself."""
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                raise BusError(
                    f"{self.path}: SQLite's write-ahead log does not work there (a network filesystem?); "
                    f"expected a local disk"
                )
            return

    @property
    def max_pages(self) -> int:
        """The most pages of the file itself, without its write-ahead log and the index of that."""
        return (self.max_bytes - self.wal_bytes - _INDEX_BYTES) // PAGE_BYTES

    @contextmanager
    def connection(self, asked: str) -> Iterator[sqlite3.Connection]:
        """Yield an exclusive connection, and raise SQLite's errors as those of the bus. `asked` is for the message."""
        if self._closed:
            raise BusError(f"{self.path}: cannot {asked}: the bus is closed")
        if self._process != os.getpid():
            raise BusError(f"{self.path}: cannot {asked}: opened before a fork; a child process opens its own bus")
        with self._errors.raised(asked):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.rollback()
                raise
            finally:
                self._give_back(connection)

    @contextmanager
    def reading(self, asked: str) -> Iterator[sqlite3.Connection]:
        """Yield one consistent view. Keep it short: an old view prevents the write-ahead log from restarting."""
        with self.connection(asked) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def writing(self, asked: str) -> Iterator[sqlite3.Connection]:
        """Yield one transaction, which commits everything, or nothing if it raises."""
        if not self._writing.acquire(timeout=self._busy_timeout_s):
            raise BusUnavailable(f"{self.path}: cannot {asked}: this process is still writing; try again")
        try:
            with self.connection(asked) as connection:
                if self._wal_size() > 4 * self.wal_bytes:
                    self._cut_wal(connection)
                    if self._wal_size() > 4 * self.wal_bytes:
                        raise BusUnavailable(
                            f"{self.path}: cannot {asked}: another program keeps an old view of the file open, and the "
                            "write-ahead log may not grow further; end its transaction"
                        )
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
                self._tidy(connection)
        finally:
            self._writing.release()

    def _tidy(self, connection: sqlite3.Connection) -> None:
        """Free pages if the bound was lowered, and cut the log.

        The transaction is committed: a failure here must not look like a failure of it, and the next one tries again.
        """
        with suppress(sqlite3.Error):
            (length,) = connection.execute("PRAGMA page_count").fetchone()
            if length > self.max_pages:
                # Not `execute`: it takes one step, and each step frees one page.
                connection.executescript(f"PRAGMA incremental_vacuum({min(length - self.max_pages, _VACUUM_PAGES)})")
                # SQLite did not accept it while the file was longer.
                connection.execute(f"PRAGMA max_page_count={self.max_pages}")
            if self._wal_size() > self.wal_bytes // 2:
                self._cut_wal(connection)

    def shrink(self) -> None:
        """Return free pages to the disk, some at a time, if there are many."""
        with suppress(BusError), self.connection("give pages back") as connection:
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            if free > 2 * _VACUUM_PAGES:
                connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")

    def _wal_size(self) -> int:
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0

    def _cut_wal(self, connection: sqlite3.Connection) -> None:
        """Restart the log if automatic checkpoints could not, because of a reader."""
        connection.execute(f"PRAGMA busy_timeout={_CHECKPOINT_WAIT_MS}")
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute(f"PRAGMA busy_timeout={int(self._busy_timeout_s * 1000)}")

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self._close_idle()

    def close(self) -> None:
        """Close idle connections; used ones are closed when they are returned."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._errors.raised("close"):
            while True:
                try:
                    connection = self._idle.pop()
                except IndexError:  # another thread may be closing too
                    return
                connection.close()
