"""The tables of the embedded bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

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


def version_of(connection: sqlite3.Connection, path: Path) -> int:
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
        raise BusError(f"{path}: is another program's SQLite file; expected laggard's, or none")
    if version not in {0, SCHEMA_VERSION}:
        raise BusError(
            f"{path}: has form {version}, expected {SCHEMA_VERSION}: another version of laggard wrote it; "
            "use that one, or name another file"
        )
    return int(version)


def make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file."""
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
    # Allows the file to shrink; otherwise freed pages are only reused.
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if version_of(connection, path) == 0:  # no other process was faster
            for statement in SCHEMA.split(";\n"):
                if statement:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
