"""Real programs that misbehave on command, so that a diagnosis of them can be checked.

Each prints one line of JSON: the thread that is going to be busy, and in which function. It misbehaves at the line
`busy` on its standard input, and stops at `idle`. At `count` it prints the number of its rounds. It ends with its
input, so none outlives its test.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.programs import kept, path_of, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
COMPILE = ("-O1", "-g", "-fno-omit-frame-pointer", "-pthread")


@dataclass
class Misbehaving:
    """A program that runs.

    Attributes:
        process: the same.
        tid: of the thread that is busy.
        function: that it is busy in.

    """

    process: subprocess.Popen[str]
    tid: int
    function: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, command: str) -> None:
        """`busy`, `idle` or `count`."""
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def rounds(self) -> int:
        """Return the number of its rounds since it began."""
        assert self.process.stdout
        self.tell("count")
        return int(self.process.stdout.readline())


@contextmanager
def misbehaving(command: Sequence[str | Path], *, busy: bool = True, **popen: object) -> Iterator[Misbehaving]:
    """A program, busy if wished; `popen` are further arguments of `subprocess.Popen`."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **popen) as process:  # type: ignore[call-overload]
        try:
            line = process.stdout.readline()
            assert line, f"{command} ended: {process.wait()}"
            program = Misbehaving(process, **json.loads(line))
            if busy:
                program.tell("busy")
            yield program
        finally:
            process.kill()


@cache
def compiled(name: str, *options: str) -> Path:
    """One of the C programs here, such as `burning`, with options of the compiler, such as `-DGRINDERS=2`."""
    sources = [HERE / f"{name}.c", HERE / "commands.h"]
    command = [path_of("cc"), *COMPILE, *options]
    # Not by the path of the checkout: all share one.
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + repr(command).encode()).hexdigest()

    def make(folder: Path) -> Path:
        # In a folder, because a process is called as its file is.
        made = folder / "made"
        made.mkdir()
        run([*command, str(sources[0]), "-o", str(made / name)])
        return made

    return kept(f"misbehaving-{version[:12]}", make) / name


class NotAllowedError(Exception):
    """This machine, or this user on it, may not set up what a test takes. The test is skipped."""


def in_own_pid_namespace(command: Sequence[str | Path]) -> list[str | Path]:
    """A command that runs another with pids of its own, as in a container. Raises `NotAllowedError`."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    _needs(apart, "no pid namespace")
    return [*apart, *command]


def needs_own_mounts() -> None:
    """Raise `NotAllowedError` where no program can have mounts of its own, as in a chroot."""
    _needs(["unshare", "--mount"], "no mounts of one's own")


def _needs(apart: Sequence[str], otherwise: str) -> None:
    tried = subprocess.run([*apart, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise NotAllowedError(f"{otherwise} can be made here: {tried.stderr.strip()}")


def burning_python() -> list[str | Path]:
    """The command of the Python program."""
    return [sys.executable, HERE / "burning.py"]


@cache
def _classes() -> Path:
    source = HERE / "Burning.java"
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]

    def make(folder: Path) -> Path:
        run([path_of("javac"), "-d", str(folder / "classes"), str(source)])
        return folder / "classes"

    return kept(f"misbehaving-java-{version}", make)


def burning_java(*flags: str) -> list[str | Path]:
    """The command of the Java program; flags are those of the virtual machine."""
    # Inlined, the busy method has no code of its own: its caller's samples would be its own.
    apart = ("-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Burning.grind")
    return [path_of("java"), "-Xmx64m", *apart, *flags, "-cp", _classes(), "Burning"]


def write_uncached(path: Path, size_bytes: int) -> Path:
    """A file that is on disk alone: what is in the page cache is held by the cgroup of who wrote it."""
    part = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(size_bytes // len(part)):
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


@contextmanager
def memory_limit(size_bytes: int) -> Iterator[list[str]]:
    """A cgroup with this limit of memory: what to put before a command that is to run in it.

    Takes root; raises `NotAllowedError` where there is no such group to be had.
    """
    with _limit("memory", (("memory.max",), ("memory.limit_in_bytes",)), str(size_bytes), str(size_bytes)) as within:
        yield within


@contextmanager
def disk_limit(folder: Path, bytes_per_s: int) -> Iterator[list[str]]:
    """A cgroup that may read and write so fast on the disk of a folder: as `memory_limit`."""
    device = folder.stat().st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    files = ("io.max",), ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")
    with _limit("io", files, f"{disk} rbps={bytes_per_s} wbps={bytes_per_s}", f"{disk} {bytes_per_s}") as within:
        yield within


@contextmanager
def _limit(controller: str, files: tuple[tuple[str, ...], tuple[str, ...]], *limits: str) -> Iterator[list[str]]:
    """A group with limits: the files of cgroups 2 and 1, and what goes into each of them."""
    name = f"laggard-test-{os.getpid()}"
    mounted = Path("/sys/fs/cgroup")
    older = mounted / {"io": "blkio"}.get(controller, controller)
    for parent, names, limit in zip((mounted, older), files, limits, strict=True):
        group = parent / name
        if not (parent / "cgroup.procs").exists():
            continue
        with suppress(OSError):
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")
        try:
            group.mkdir()
        except PermissionError:
            continue
        try:
            if (group / names[0]).exists():
                for each in names:
                    (group / each).write_text(limit)
                yield ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
                return
        finally:
            group.rmdir()
    raise NotAllowedError(f"expected the controller {controller} at {mounted}, of cgroups 2 or 1, and to be root")
