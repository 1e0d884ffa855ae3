"""Files of a log on disk: the one that is written, its rotated ones, and their copies."""

from __future__ import annotations

import glob
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.sources.access_log.positions import Position, digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_LINE: Final = 256 << 10
"""The longest line in bytes, with its end; longer ones are skipped. It is also the size of a read."""

FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # otherwise opening a named pipe would wait
_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z", ".zip")
_ROTATION: Final = r"[.\-_]\d[\d.\-_T]*"


def compressed(name: str) -> bool:
    """Return whether a file is compressed, by its name."""
    return name.endswith(_COMPRESSED)


def matching(path: str) -> Sequence[str]:
    """Return the uncompressed files that match a pattern, or a name, whether it exists or not."""
    names = sorted(glob.glob(path)) if glob.has_magic(path) else [path]  # noqa: PTH207 - names as they are given
    return [name for name in names if not compressed(name)]


def beside(path: str) -> Iterator[os.DirEntry[str]]:
    """Yield the other uncompressed files in the folder of a file."""
    with suppress(OSError), os.scandir(Path(path).parent) as entries:
        for entry in entries:
            if entry.name != Path(path).name and not compressed(entry.name):
                yield entry


def copies_of(position: Position) -> Iterator[str]:
    """Yield files that begin like the one that was read, of those next to it whose names begin like its own.

    Other files are not even opened: closing a file drops all locks of this process on it, and the embedded bus may be
    next to a log.
    """
    named = Path(position.path).stem
    for entry in beside(position.path) if position.head_bytes else ():
        if entry.name.startswith(named) and begins_as(entry.path, position):
            yield entry.path


def begins_as(path: str, position: Position) -> bool:
    """Return whether a file has the known first bytes."""
    try:
        descriptor = os.open(path, FLAGS)
    except OSError:
        return False
    try:
        head = os.pread(descriptor, position.head_bytes, 0) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return len(head) == position.head_bytes and digest(head) == position.head


def is_at(path: str, position: Position) -> bool:
    """Return whether a file is the one that was read, whatever its name now."""
    try:
        now = Path(path).stat()
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == (position.device, position.inode) and begins_as(path, position)


def rotated(path: str) -> Iterator[str]:
    """Yield the names of a file after rotation by logrotate and others, such as `access.log.1`."""
    name, stem, extension = (re.escape(part) for part in (Path(path).name, Path(path).stem, Path(path).suffix))
    pattern = re.compile(f"{name}{_ROTATION}|{stem}{_ROTATION}{extension}")
    return (entry.path for entry in beside(path) if pattern.fullmatch(entry.name))


def last_line_end(descriptor: int) -> int:
    """Return the end of the last whole line of a file; the end of the file if a line is too long to find it."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - LONGEST_LINE)
    found = os.pread(descriptor, LONGEST_LINE, begin).rfind(b"\n") + 1
    return begin + found if found or not begin else size
