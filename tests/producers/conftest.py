"""A machine made of files, and its time, for the tests of the agent."""

from __future__ import annotations

import time as real_time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.producers.system.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = 1_000_000_000

CGROUPS = Path("/sys/fs/cgroup")

STAT = (
    "{pid} ({comm}) {state} {parent} 1 1 0 -1 {flags} {faults_minor} {children_faults} {faults_major} 0"
    " {user} {system} {children_user} {children_system} 20 0 {threads} 0 {start} {virtual} {rss}"
    " 18446744073709551615 1 2 3 4 5 0 0 0 0 0 0 0 17 1 0 0"
    " {delay} 0 0 1 2 3 4 5 6 7 0\n"
)
STATUS = (
    "Name:\tx\nPid:\t{pid}\nUid:\t0\t{uid}\t{uid}\t{uid}\nVmPeak:\t    9 kB\n"
    "VmRSS:\t    9 kB\nRssAnon:\t    112 kB\nRssFile:\t    {file} kB\n"
    "RssShmem:\t       {shmem} kB\nVmData:\t     360 kB\nVmSwap:\t       {swap} kB\nHugetlbPages:\t       0 kB\n"
    "Threads:\t1\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{involuntary}\n"
)
IO = (
    "rchar: {rchar}\nwchar: {wchar}\nsyscr: {syscr}\nsyscw: {syscw}\nread_bytes: {read}\nwrite_bytes: {write}\n"
    "cancelled_write_bytes: {cancelled}\n"
)
DEFAULTS = {
    "comm": "work",
    "uid": 0,
    "state": "S",
    "parent": 1,
    "flags": 4194304,
    "faults_minor": 0,
    "faults_major": 0,
    "children_faults": 0,
    "user": 0,
    "system": 0,
    "children_user": 0,
    "children_system": 0,
    "threads": 1,
    "start": 50,
    "virtual": 8192,
    "rss": 2,
    "delay": 0,
    "run_ns": 0,
    "wait_ns": 0,
    "timeslices": 0,
    "file": 4,
    "shmem": 1,
    "swap": 0,
    "voluntary": 0,
    "involuntary": 0,
    "rchar": 0,
    "wchar": 0,
    "syscr": 0,
    "syscw": 0,
    "read": 0,
    "write": 0,
    "cancelled": 0,
    "children_write": 0,
}


class Machine:
    """A tree of files that looks like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.fields: dict[int, dict[str, object]] = {}

    def run(self, pid: int, comm: bytes | None = None, **changes: object) -> Path:
        """Start a process, or let it run on: whoever changes has run."""
        fields = self.fields.setdefault(pid, {**DEFAULTS, "pid": pid})
        fields["run_ns"] = int(fields["run_ns"]) + 1  # type: ignore[call-overload]
        fields.update(changes)
        path = self.root / str(pid)
        (path / "fd").mkdir(parents=True, exist_ok=True)
        if comm is not None:
            fields["comm"] = comm
        (path / "stat").write_bytes(stat(fields))
        (path / "status").write_text(STATUS.format(**fields))
        io = IO.format(**fields)
        (path / "io").write_text(IO.format(**fields | {"write": int(fields["write"]) + int(fields["children_write"])}))  # type: ignore[call-overload]
        (path / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        (path / "task" / str(pid) / "io").write_text(io)
        (path / "schedstat").write_text("{run_ns} {wait_ns} {timeslices}\n".format(**fields))
        return path

    def thread(self, pid: int, tid: int, **changes: object) -> None:
        """Start a thread, or let it run on."""
        fields = self.fields.setdefault(tid, {**DEFAULTS, "pid": tid})
        fields["run_ns"] = int(fields["run_ns"]) + 1  # type: ignore[call-overload]
        fields.update(changes)
        path = self.root / str(pid) / "task" / str(tid)
        path.mkdir(parents=True, exist_ok=True)
        (path / "stat").write_bytes(stat(fields))
        (path / "io").write_text(IO.format(**fields))
        (path / "status").write_text(STATUS.format(**fields))
        (path / "schedstat").write_text("{run_ns} {wait_ns} {timeslices}\n".format(**fields))

    def end(self, pid: int) -> None:
        """End a process."""
        remove(self.root / str(pid))
        self.fields.pop(pid, None)

    def end_thread(self, pid: int, tid: int) -> None:
        """End a thread."""
        remove(self.root / str(pid) / "task" / str(tid))

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def stat(fields: dict[str, object]) -> bytes:
    """A name may be any bytes."""
    name = fields["comm"]
    return (
        STAT.format(**fields | {"comm": "\0"})
        .encode()
        .replace(b"\0", name if isinstance(name, bytes) else str(name).encode())
    )


def remove(path: Path) -> None:
    for each in path.iterdir():
        remove(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    path.rmdir()


@dataclass
class Time:
    """Clocks that a test moves."""

    wall: int = 1_700_000_000 * SECOND
    monotonic: int = 100 * SECOND
    boottime: int = 100 * SECOND
    cpu: int = 0

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.monotonic, lambda: self.boottime, lambda: self.cpu)

    def pass_(self, seconds: float) -> None:
        nanoseconds = round(seconds * SECOND)
        self.wall += nanoseconds
        self.monotonic += nanoseconds
        self.boottime += nanoseconds

    def suspend(self, seconds: float) -> None:
        self.wall += round(seconds * SECOND)
        self.boottime += round(seconds * SECOND)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "proc")


@pytest.fixture
def time() -> Time:
    return Time()


@contextmanager
def limited_group(controller: str, files: tuple[str, str], limit: str) -> Iterator[Path]:
    """A control group of this machine with a limit; `files` are those of it in versions 2 and 1."""
    name = f"laggard-test-{uuid.uuid4().hex[:8]}"
    controllers = CGROUPS / "cgroup.controllers"
    version_2 = controllers.exists() and controller in controllers.read_text().split()
    folder = CGROUPS / name if version_2 else CGROUPS / controller / name
    try:
        folder.mkdir()
        (folder / files[0 if version_2 else 1]).write_text(limit)
    except OSError as error:
        pytest.skip(f"no control group with a limit of {controller} can be made here: {error}")
    try:
        yield folder
    finally:
        remove_group(folder)


def remove_group(group: Path) -> None:
    """Remove a group whose processes have ended: the kernel may take a moment to know."""
    until = real_time.monotonic() + 5.0
    while (group / "cgroup.procs").read_text() and real_time.monotonic() < until:
        real_time.sleep(0.05)
    group.rmdir()
