"""The descriptors of a process, and the sockets among them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.host.tasks import FILES
from laggard.producers.system.foreign import link, names

if TYPE_CHECKING:
    from laggard.producers.system.open_files import FileBudget

MAX_SOCKET_SCAN: Final = 256
"""Processes with more descriptors have no sockets (NaN), since the link of each descriptor must be read."""

_FOLDER: Final = len(FILES)  # among the files of a process
_NAN: Final = float("nan")
_LONG_LISTING: Final = 4096  # descriptors: if they must be listed to be counted, longer lists are read at retries only


class Descriptors:
    """The descriptors of a process.

    Args:
        process: the folder of the process.
        files: the budget of the open folder.
        denied: the unreadable files of the process: its folder of descriptors is added if it may not be listed.

    Attributes:
        count: the number of descriptors; NaN if unknown.
        sockets: the number of sockets among them; NaN if unknown.

    """

    __slots__ = ("_denied", "_files", "_folder", "_held", "_process", "count", "sockets")

    def __init__(self, process: str, files: FileBudget, denied: set[int]) -> None:
        self.count = self.sockets = 0.0
        self._process = process
        self._folder = f"{process}/fd"
        self._files = files
        self._denied = denied
        self._held = [-1]

    def update(self, *, sized: bool, retry: bool) -> None:
        """Count the descriptors, and the sockets among them if their number changed.

        Args:
            sized: whether the size of the folder is their number.
            retry: whether to list them in any case.

        Raises:
            OSError: the process is gone, or its descriptors cannot be counted.

        """
        if sized:
            descriptor = self._held[0]
            count = os.fstat(descriptor).st_size if descriptor >= 0 else self._files.size(self._held, 0, self._folder)
            if count == self.count and not retry:
                return
            self.count = count
        elif self.count > _LONG_LISTING and not retry:
            return
        self.sockets = _NAN
        if _FOLDER not in self._denied and (not sized or self.count <= MAX_SOCKET_SCAN):
            self._list(sized=sized)

    def release(self) -> None:
        """Close the folder."""
        self._files.release(self._held)

    def _list(self, *, sized: bool) -> None:
        try:
            numbers = names(self._folder)
        except OSError:
            Path(self._process).stat()  # raises if it is gone
            self._denied.add(_FOLDER)
            if not sized:
                self.count = _NAN
            return
        if not sized:
            self.count = len(numbers)
        if len(numbers) <= MAX_SOCKET_SCAN:
            self.sockets = _count_sockets(self._folder, numbers)


def _count_sockets(path: str, numbers: list[str]) -> float:
    count = 0
    for number in numbers:
        try:
            count += link(f"{path}/{number}").startswith("socket:")
        except FileNotFoundError:
            continue  # closed since the listing
        except PermissionError:
            return _NAN
    return count
