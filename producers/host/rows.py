"""The rows of processes: their ids, names, command lines, users and containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.pipeline.core.records import Layout, make_layout
from laggard.producers.host.owners import Users
from laggard.producers.system.proc import PF_KTHREAD, parse_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from laggard.producers.host.process import Process


class Rows:
    """The rows of processes, one each.

    Args:
        root: the mount point of procfs.
        features: the features of each row.
        command_lines: whether to read them.

    Attributes:
        layout: the present layout; None if a row has changed since.
        slots: the slots of the rows in the last layout. Shape (rows,).

    """

    def __init__(self, root: str, features: Sequence[str], *, command_lines: bool) -> None:
        self.layout: Layout | None = None
        self.slots: NDArray[np.intp] = np.zeros(0, np.intp)
        self._features = features
        self._command_lines = command_lines
        self._users = Users(root)

    def name(self, process: Process) -> None:
        """Name the row of a process that is new, or whose name has changed or whose command line is unknown."""
        stat = process.stat
        kernel_thread = bool(stat.flags & PF_KTHREAD)
        name = parse_name(stat.comm, kernel_thread)
        if name != process.name or not process.row:
            process.name = name
            process.row = f"{name}[{process.pid}@{stat.start_ticks}]"
            process.command = ""
            process.container = "" if kernel_thread else process.read_container()
            self.layout = None
        # During an exec the name changes before the command line: an empty one is read again at the next reading.
        if self._command_lines and not kernel_thread and not process.command:
            process.command = process.read_command()
            if process.command:
                self.layout = None

    def lay_out(self, processes: Collection[Process]) -> Layout:
        """Return the layout of these processes, a new one if a row has changed."""
        if self.layout is None:
            self._users.refresh()
            self.slots = np.fromiter((process.slot for process in processes), np.intp, len(processes))
            self.layout = make_layout(
                [process.row for process in processes],
                [process.name for process in processes],
                self._features,
                [process.command for process in processes] if self._command_lines else (),
                users=["" if process.uid is None else self._users.name(process.uid) for process in processes],
                containers=[process.container for process in processes],
            )
        return self.layout
