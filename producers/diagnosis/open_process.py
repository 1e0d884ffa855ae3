"""A diagnosed process, held open so that it is never confused with another one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from laggard.producers.diagnosis.parsers import parse_namespace_ids, parse_user_id
from laggard.producers.diagnosis.program import DELETED, program_of
from laggard.producers.system import foreign
from laggard.producers.system.foreign import content
from laggard.producers.system.open_files import BUFFER
from laggard.producers.system.proc import PF_KTHREAD, ProcError, parse_stat, printable

if TYPE_CHECKING:
    from laggard.producers.diagnosis.target import Target
    from laggard.producers.system.proc import Stat


class EndedError(Exception):
    """The process ended, or it runs another program now; the message says which."""


class OpenProcess:
    """One process, open until it is closed.

    Args:
        target: the process.
        root: the mount point of procfs.

    Raises:
        OSError: it ended or is hidden.
        ProcError: its `stat` is malformed.
        EndedError: another process has its pid.

    Attributes:
        path: its folder, through an open directory.
        stat: its last `stat`.
        of_kernel: whether it is a thread of the kernel.

    """

    def __init__(self, target: Target, root: str) -> None:
        self._place = f"{root}/{target.pid}"
        self._files = [foreign.reading(self._place)]
        self.path = f"/proc/self/fd/{self._files[0]}"
        try:
            self._files.append(foreign.reading(f"{self.path}/stat"))
            self.stat = self._read()
        except (OSError, ProcError):
            self.close()
            raise
        if self.stat.start_ticks != target.start_ticks:
            self.close()
            raise EndedError(f"the process ended; its pid {target.pid} belongs to another one now")
        self.of_kernel = bool(self.stat.flags & PF_KTHREAD)
        self._program = "" if self.of_kernel else program_of(self.path)

    def properties(self) -> dict[str, str]:
        """Return a note for each unusual property, by subject."""
        if self.of_kernel:
            return {"kind": "a kernel thread: it has no program, only kernel functions"}
        notes: dict[str, str] = {}
        inner = parse_namespace_ids(content(f"{self.path}/status"))[1:]
        if inner:
            notes["namespace"] = f"its pid is {inner[-1]} in its own pid namespace; pids here are those of the host"
        if self._program.endswith(DELETED):
            notes["deleted"] = (
                f"its program {printable(self._program.removesuffix(DELETED))} was deleted or replaced after its start:"
                " names are those of the old version, which it still runs"
            )
        return notes

    def check(self) -> None:
        """Read its `stat` again.

        Raises:
            OSError: it ended.
            ProcError: its `stat` is malformed.
            EndedError: it is a zombie, or began to run another program.

        """
        before, self.stat = self.stat, self._read()
        if self.stat.state in (b"Z", b"X") and self.stat.threads <= 1:
            raise EndedError(f"the process ended: it is a zombie until its parent {self.stat.parent} reaps it")
        if self.stat.comm != before.comm:  # a new name, perhaps of a new program
            program = program_of(self.path)
            if program and program.removesuffix(DELETED) != self._program.removesuffix(DELETED):
                raise EndedError(f"the process runs another program now, {printable(program)}")

    def user(self) -> int | None:
        """Return the id of its user."""
        return parse_user_id(content(f"{self.path}/status"))

    def close(self) -> None:
        """Close it."""
        for descriptor in self._files:
            os.close(descriptor)
        self._files.clear()

    def _read(self) -> Stat:
        return parse_stat(os.pread(self._files[1], BUFFER, 0), file=f"{self._place}/stat")


def why_ended(error: Exception) -> str:
    """Return why a process is no longer sampled, given the error of its last sample."""
    if isinstance(error, EndedError):
        return str(error)
    if isinstance(error, PermissionError):
        return f"laggard may not read it: {error}"
    if isinstance(error, OSError):
        return "the process ended"
    return f"cannot parse its files below /proc: {error}"
