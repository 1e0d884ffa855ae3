"""The ways a process goes wrong here, one for each resource of S0's Table 3, each bounded and undone at its end.

A fault works in short steps inside the process's own loop, so that it changes nothing but its resource: a process of
one thread keeps one thread.
"""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import socket
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import random
    from pathlib import Path

MIB = 1 << 20
PAGE = mmap.PAGESIZE
STEP_S = 0.05


class Fault(ABC):
    """One resource, used without need.

    Args:
        amount: how much of it, in the unit that the class names.
        chance: picks among the forms of the fault.
        data: a file of at least `Io.SIZE` bytes, to be read.

    """

    UNIT: ClassVar[tuple[str, float]]
    """In which people read the amount, and how much of the amount it is."""
    LARGE: ClassVar[tuple[float, float]]
    """From what annoys to what hurts."""
    SMALL: ClassVar[tuple[float, float]]
    """What may be noticed in a process that does not do it, and is far below what busy ones take."""
    ALL: ClassVar[tuple[float, float]]
    """What keeps a core or a disk so busy that others wait for it."""

    def __init__(self, amount: float, chance: random.Random, data: Path) -> None:
        self.amount = amount
        self.chance = chance
        self.data = data

    @abstractmethod
    def step(self) -> float:
        """Go wrong for at most about `STEP_S`. Returns the seconds until the next step."""

    def end(self) -> None:  # noqa: B027 - not every fault holds something
        """Give everything back."""


class Cpu(Fault):
    """Computes all the time; the amount is its share of a core."""

    UNIT = "of a core", 1.0
    LARGE = 0.6, 1.0
    SMALL = 0.06, 0.12
    ALL = 1.0, 1.0

    def step(self) -> float:
        end = time.monotonic() + STEP_S * self.amount
        while time.monotonic() < end:
            sum(range(1000))
        return STEP_S * (1 - self.amount)


class Memory(Fault):
    """Leaks; the amount is bytes a second."""

    UNIT = "MiB/s", MIB
    LARGE = 20.0 * MIB, 100.0 * MIB
    SMALL = 1.0 * MIB, 3.0 * MIB
    BOUND = 640 * MIB

    def __init__(self, amount: float, chance: random.Random, data: Path) -> None:
        super().__init__(amount, chance, data)
        self._leaked: list[bytes] = []
        self._bytes = 0

    def step(self) -> float:
        size = int(self.amount * STEP_S)
        if self._bytes + size <= self.BOUND:
            self._leaked.append(b"\1" * size)  # not zeros, which would not be touched
            self._bytes += size
        return STEP_S

    def end(self) -> None:
        self._leaked.clear()


class Io(Fault):
    """Reads what is not in memory, or writes and waits for the disk, or both; the amount is bytes a second."""

    UNIT = "MiB/s", MIB
    LARGE = 10.0 * MIB, 60.0 * MIB
    SMALL = 1.5 * MIB, 3.0 * MIB
    ALL = 100.0 * MIB, 150.0 * MIB
    SIZE = 128 * MIB
    BLOCK = MIB // 2

    def __init__(self, amount: float, chance: random.Random, data: Path) -> None:
        super().__init__(amount, chance, data)
        form = chance.choice(["read", "write", "both"])
        self._read = self._write = -1
        if form != "write":
            self._read = os.open(data, os.O_RDONLY)
            os.posix_fadvise(self._read, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: it would only be dropped
        if form != "read":
            own = data.with_name(f"{data.name}.{os.getpid()}")
            self._write = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            own.unlink()
        self._block = chance.randbytes(self.BLOCK)
        self._begun = time.monotonic()
        self._moved = 0

    def step(self) -> float:
        end = time.monotonic() + STEP_S
        due = (time.monotonic() - self._begun) * self.amount
        while self._moved < due and time.monotonic() < end:
            offset = self._moved % self.SIZE
            if self._read >= 0:
                os.posix_fadvise(self._read, 0, self.SIZE, os.POSIX_FADV_DONTNEED)
                self._moved += len(os.pread(self._read, self.BLOCK, offset))
            if self._write >= 0:
                self._moved += os.pwrite(self._write, self._block, offset)
                os.fdatasync(self._write)
        return STEP_S / 2

    def end(self) -> None:
        for descriptor in (self._read, self._write):
            if descriptor >= 0:
                os.close(descriptor)


class Descriptors(Fault):
    """Opens files or sockets and forgets to close them; the amount is descriptors a second."""

    UNIT = "/s", 1.0
    LARGE = 50.0, 300.0
    SMALL = 3.0, 8.0
    BOUND = 3000

    def __init__(self, amount: float, chance: random.Random, data: Path) -> None:
        super().__init__(amount, chance, data)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self.BOUND + 500
        self._limit = soft if soft >= wanted else wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._limit, hard))
        self._sockets = chance.random() < 0.5
        self._begun = time.monotonic()
        self._open: list[int] = []

    def step(self) -> float:
        due = min((time.monotonic() - self._begun) * self.amount, self.BOUND, self._limit - 200)
        while len(self._open) < due:
            if self._sockets:
                self._open += (end.detach() for end in socket.socketpair())
            else:
                self._open.append(os.open(self.data, os.O_RDONLY))
        return STEP_S

    def end(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)


class PageFaults(Fault):
    """Maps memory, touches it and gives it back, again and again; the amount is page faults a second."""

    UNIT = "/s", 1.0
    LARGE = 20_000.0, 200_000.0
    SMALL = 1_000.0, 4_000.0
    MOST_PAGES = 8 * MIB // PAGE

    def __init__(self, amount: float, chance: random.Random, data: Path) -> None:
        super().__init__(amount, chance, data)
        self._pages = min(self.MOST_PAGES, max(1, int(amount * STEP_S)))
        self._begun = time.monotonic()
        self._faults = 0

    def step(self) -> float:
        end = time.monotonic() + STEP_S
        due = (time.monotonic() - self._begun) * self.amount
        while self._faults < due and time.monotonic() < end:
            with mmap.mmap(-1, self._pages * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
                pages.madvise(mmap.MADV_NOHUGEPAGE)
                pages[::PAGE] = b"\1" * self._pages
            self._faults += self._pages
        return STEP_S / 2


class Threads(Fault):
    """Starts threads that do next to nothing; the amount is how many."""

    UNIT = "threads", 1.0
    LARGE = 50.0, 400.0
    SMALL = 4.0, 12.0

    def __init__(self, amount: float, chance: random.Random, data: Path) -> None:
        super().__init__(amount, chance, data)
        self._over = threading.Event()
        self._pause_s = chance.uniform(0.5, 2.0)
        self._threads: list[threading.Thread] = []

    def _idle(self) -> None:
        while not self._over.wait(self._pause_s):
            pass

    def step(self) -> float:
        for _ in range(min(int(self.amount) - len(self._threads), 10)):
            self._threads.append(threading.Thread(target=self._idle, daemon=True))
            self._threads[-1].start()
        return STEP_S

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class Storm(Fault):
    """Starts a small program again and again, one after the other; the amount is programs a second."""

    UNIT = "children/s", 1.0
    LARGE = 60.0, 300.0
    PROGRAMS = ("date", "expr", "id", "ls", "sort", "true", "uname", "wc")
    """Each lives for a millisecond or two."""

    def __init__(self, amount: float, chance: random.Random, data: Path, program: str) -> None:
        super().__init__(amount, chance, data)
        path = shutil.which(program)
        if path is None:
            raise FileNotFoundError(f"{program}: expected such a program in {os.environ.get('PATH', 'PATH')}")
        self._path = path
        self._arguments = [program]
        quiet = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        self._actions = [*quiet, *((os.POSIX_SPAWN_OPEN, end, os.devnull, os.O_WRONLY, 0) for end in (1, 2))]
        self._begun = time.monotonic()
        self._started = 0

    def step(self) -> float:
        end = time.monotonic() + STEP_S
        due = (time.monotonic() - self._begun) * self.amount
        while self._started < due and time.monotonic() < end:
            os.waitpid(os.posix_spawn(self._path, self._arguments, os.environ, file_actions=self._actions), 0)
            self._started += 1
        return STEP_S / 2


FAULTS: dict[str, type[Fault]] = {
    "cpu": Cpu,
    "memory": Memory,
    "io": Io,
    "descriptors": Descriptors,
    "page_faults": PageFaults,
    "threads": Threads,
}
"""One for each resource of S0's Table 3; a `Storm` uses the CPU, but not in its own name."""
