"""The SQLite file below the embedded bus: opening it, its connections and transactions, and what its errors mean.

Durability: WAL with `synchronous=NORMAL`. A transaction that was acknowledged survives kill -9 of any process. A power
failure or a crash of the kernel may take the last few with it, but only whole ones and only from the end: records,
offsets, snapshots and outputs are in the same file and go back together, so results stay exactly-once. The price of
`FULL` is one fsync for each transaction (tests/benchmarks/bus.py prints both), and an fsync waits for everybody's disk
writes: laggard would be slowest, and would load the disk most, on just the machine that it is to diagnose.
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

APPLICATION_ID: Final = 0x6C676764  # "lggd", in the file's header: what `file` and we know it by
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
    """The file is no SQLite file, or its content contradicts itself: nothing in it can be relied on."""


class Database:
    """One SQLite file with a pool of connections, for several threads; other processes may have it open as well.

    Writes of this process queue on a lock, which is fair, and meet other processes' at SQLite's own, which polls.
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
        """A new folder and a new file are for their owner alone: command lines may be private.

        A file that is there is not opened. POSIX takes all locks of a process on a file away when it closes any
        descriptor of that file (fcntl(2)), so also those by which SQLite knows that others have it open: the next
        process to close it would take itself for the last one, and delete the write-ahead log that we write to.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            real = Path(os.path.realpath(self.path))  # a loop of links is an error below
            for folder in {self.path.parent, real.parent}:  # it may be a link
                check_folder(folder)
            for end in ("", "-wal", "-shm", "-journal"):  # SQLite believes what it finds under these names
                check_beside(real.with_name(f"{real.name}{end}"))
            with _MAKING:  # nobody here may lock the file before we have closed it
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
        """A new connection; makes the tables in a new file."""
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
        """Of the tables; 0 for a file without content. Raises BusError when the content is somebody else's."""
        alone = not connection.in_transaction
        if alone:  # somebody else may be making the tables: all of it is of one moment
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
        # Lets a file that has to become smaller give pages back; otherwise freed pages are only used again.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self._version(connection) == 0:  # nobody else was faster
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
        """Changing the mode wants the file alone and does not wait for that by itself."""
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
        """What the file itself may have, beside its write-ahead log and that one's index."""
        return (self.max_bytes - self.wal_bytes - _INDEX_BYTES) // PAGE_BYTES

    @contextmanager
    def connection(self, asked: str) -> Iterator[sqlite3.Connection]:
        """A connection of one's own for a moment; SQLite's errors come out as the bus's. `asked` is for the message."""
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
        """One consistent view. Keep it short: an old view keeps the write-ahead log from starting over."""
        with self.connection(asked) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def writing(self, asked: str) -> Iterator[sqlite3.Connection]:
        """One transaction: all that is done in it, or nothing when it raises."""
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
        """Give pages back where the bound was lowered, and cut the log.

        The transaction stands: nothing that fails here may look as if it did not, and the next one tries again.
        """
        with suppress(sqlite3.Error):
            (length,) = connection.execute("PRAGMA page_count").fetchone()
            if length > self.max_pages:
                # Not `execute`: it takes one step, and each step frees one page.
                connection.executescript(f"PRAGMA incremental_vacuum({min(length - self.max_pages, _VACUUM_PAGES)})")
                # It was not taken as long as the file was longer.
                connection.execute(f"PRAGMA max_page_count={self.max_pages}")
            if self._wal_size() > self.wal_bytes // 2:
                self._cut_wal(connection)

    def shrink(self) -> None:
        """Give free pages back to the disk, some at a time, where they are many."""
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
        """Start the log over where the checkpoints that happen by themselves could not: a reader was in the way."""
        connection.execute(f"PRAGMA busy_timeout={_CHECKPOINT_WAIT_MS}")
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute(f"PRAGMA busy_timeout={int(self._busy_timeout_s * 1000)}")

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self._close_idle()

    def close(self) -> None:
        """Close what is idle; what is in use closes itself when it is given back."""
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
        """SQLite's error as a sentence that says what to do."""
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
    """The primary result code; 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
