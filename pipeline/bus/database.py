"""The SQLite file of the embedded bus: opening it, its connections and transactions, and the meaning of its errors.

Durability: WAL with `synchronous=NORMAL`. An acknowledged transaction survives kill -9 of any process. A power failure
or a kernel crash may lose the last few, but only whole ones and only from the end. Records, offsets, snapshots and
outputs are in the same file and go back together, so results stay exactly-once. `FULL` costs one fsync per transaction
(tests/benchmarks/bus.py prints both), and an fsync waits for the disk writes of all processes. So laggard would be
slowest, and would load the disk most, on exactly the machine that it must diagnose.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.pipeline.bus import BusError, BusUnavailable
from laggard.pipeline.trusted import Untrusted, check_beside, check_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION_ID: Final = 0x6C676764  # "lggd" in the file's header, by which `file` and laggard identify it
SCHEMA_VERSION: Final = 1

SCHEMA: Final = """
CREATE TABLE topics (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL, retention_s REAL,
    compacted INTEGER NOT NULL);
-- `newest_ts` is the greatest time of any record that ever was in the partition.
CREATE TABLE partitions (
    id INTEGER PRIMARY KEY, topic INTEGER NOT NULL, number INTEGER NOT NULL, next_offset INTEGER NOT NULL DEFAULT 0,
    newest_ts REAL, UNIQUE (topic, number));
CREATE TABLE keys (
    id INTEGER PRIMARY KEY, partition INTEGER NOT NULL, key TEXT NOT NULL, UNIQUE (partition, key));
-- `id` is partition << 40 | offset: a partition is one stretch of the tree, in order, without a second index.
-- `newest_ts` is the greatest time up to this record: it never falls, so that times can be searched by halving.
-- `size` is the value's own, before it was compressed.
CREATE TABLE records (
    id INTEGER PRIMARY KEY, key INTEGER NOT NULL, ts REAL NOT NULL, newest_ts REAL NOT NULL, appended REAL NOT NULL,
    size INTEGER NOT NULL, headers BLOB, value BLOB NOT NULL);
CREATE INDEX records_by_key ON records (key);
CREATE TABLE progress (
    consumers TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL DEFAULT 0, member TEXT,
    PRIMARY KEY (consumers, partition)) WITHOUT ROWID;
CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY, operator TEXT NOT NULL, partition INTEGER NOT NULL, key TEXT NOT NULL,
    next_offset INTEGER NOT NULL, ts REAL NOT NULL, appended REAL NOT NULL, size INTEGER NOT NULL, value BLOB NOT NULL);
CREATE UNIQUE INDEX snapshots_by_key ON snapshots (operator, partition, key, next_offset);
"""

PAGE_BYTES: Final = 4096

_INDEX_BYTES: Final = 32 << 10
_VACUUM_PAGES: Final = 256
_CHECKPOINT_WAIT_MS: Final = 100
_PASSING: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR}
_MAKING: Final = threading.Lock()


class DamagedFile(BusError):  # noqa: N818 - named for what it is
    """The file is not an SQLite file, or its content is inconsistent: nothing in it is reliable."""


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
        with self._errors("open"):
            self._idle.append(self._connect())

    def _make_file(self) -> None:
        """Create a missing folder and file for their owner alone: command lines may be private.

        An existing file is not opened. When a process closes any descriptor of a file, POSIX releases all of its locks
        on that file (fcntl(2)). These include the locks by which SQLite detects that others have it open. The next
        process to close it would assume to be the last one, and delete the write-ahead log that is still written to.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            real = Path(os.path.realpath(self.path))  # a loop of links is an error below
            for folder in {self.path.parent, real.parent}:  # it may be a link
                check_folder(folder)
            for end in ("", "-wal", "-shm", "-journal"):  # SQLite trusts files with these names
                check_beside(real.with_name(f"{real.name}{end}"))
            with _MAKING:  # no thread may lock the file before it is closed here
                try:
                    os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                except FileExistsError:
                    self._check_file()
        except Untrusted as error:
            raise BusError(f"{error.filename}: the bus cannot be used: {error.strerror}") from error
        except OSError as error:
            kind = BusUnavailable if error.errno in _PASSING else BusError
            raise kind(f"{self.path}: expected a file that this user may write: {error}") from error

    def _check_file(self) -> None:
        """Raise the `OSError` that opening the file would."""
        if stat.S_ISDIR(self.path.stat().st_mode):  # a loop of links is an error here
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
        if not os.access(self.path, os.R_OK | os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))

    def _connect(self) -> sqlite3.Connection:
        """Return a new connection; create the tables in a new file."""
        self._make_file()
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            if self._version(connection) == 0:
                self._make_tables(connection)
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the tables; 0 for an empty file. Raises BusError for the content of others."""
        alone = not connection.in_transaction
        if alone:  # another process may be creating the tables: read one consistent view
            connection.execute("BEGIN")
        try:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        finally:
            if alone:
                connection.rollback()
        if application != APPLICATION_ID and (tables or application or version):
            raise BusError(f"{self.path}: is another program's SQLite file; expected laggard's, or none")
        if version not in {0, SCHEMA_VERSION}:
            raise BusError(
                f"{self.path}: has form {version}, expected {SCHEMA_VERSION}: another version of laggard wrote it; "
                "use that one, or name another file"
            )
        return int(version)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        # Allows the file to shrink; otherwise freed pages are only reused.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self._version(connection) == 0:  # no other process was faster
                for statement in SCHEMA.split(";\n"):
                    if statement:
                        connection.execute(statement)
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

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
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                raise BusError(
                    f"{self.path}: SQLite's write-ahead log does not work there (a network file system?); "
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
        with self._errors(asked):
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
        with self._errors("close"):
            while True:
                try:
                    connection = self._idle.pop()
                except IndexError:  # another thread may be closing too
                    return
                connection.close()

    @contextmanager
    def _errors(self, asked: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._meaning(error, asked) from error

    def _meaning(self, error: sqlite3.Error, asked: str) -> BusError:
        """Return SQLite's error as one of the bus, which says what to do."""
        where = f"{self.path}: cannot {asked}"
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
            held = self.path.stat().st_size
        except OSError:
            held = 0
        if held >= (self.max_pages - 64) * PAGE_BYTES:
            return (
                f"its bound of {self.max_bytes} bytes is filled by what must stay (newest snapshots and newest records "
                "of compacted topics); raise the bound"
            )
        return f"the disk is full, {self._free()}: make room, then try again"

    def _free(self) -> str:
        try:
            disk = os.statvfs(self.path.parent)
        except OSError as error:
            return f"free space unknown ({error.strerror})"
        return f"{disk.f_bavail * disk.f_frsize} bytes free in {self.path.parent}"


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code; 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
