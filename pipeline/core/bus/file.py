"""The file of the embedded bus, made for its owner alone."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Final

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.trusted import Untrusted, check_beside, check_folder

_PASSING: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR}
_MAKING: Final = threading.Lock()


def make_file(path: Path) -> None:
    """Create a missing folder and file for their owner alone: command lines may be private.

    An existing file is not opened. When a process closes any descriptor of a file, POSIX releases all of its locks
    on that file (fcntl(2)). These include the locks by which SQLite detects that others have it open. The next
    process to close it would assume to be the last one, and delete the write-ahead log that is still written to.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        real = Path(os.path.realpath(path))  # a loop of links is an error below
        for folder in {path.parent, real.parent}:  # it may be a link
            check_folder(folder)
        for end in ("", "-wal", "-shm", "-journal"):  # SQLite trusts files with these names
            check_beside(real.with_name(f"{real.name}{end}"))
        with _MAKING:  # no thread may lock the file before it is closed here
            try:
                os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            except FileExistsError:
                _check_file(path)
    except Untrusted as error:
        raise BusError(f"{error.filename}: the bus cannot be used: {error.strerror}") from error
    except OSError as error:
        kind = BusUnavailable if error.errno in _PASSING else BusError
        raise kind(f"{path}: expected a file that this user may write: {error}") from error


def _check_file(path: Path) -> None:
    """Raise the `OSError` that opening the file would."""
    if stat.S_ISDIR(path.stat().st_mode):  # a loop of links is an error here
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
