"""What ordinary programs do all day: small stand-ins for the processes of a machine, each seeded and of modest load.

A role works in short steps and says after each how long it sleeps. Its load drifts over minutes, and now and then it
has its usual burst: what is unusual for one role is everyday for another.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import queue
import socket
import subprocess
import threading
import time
import zlib
from abc import ABC, abstractmethod
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

MIB = 1 << 20


def spin(seconds: float) -> None:
    """Use the CPU for about so long."""
    end = time.thread_time() + seconds
    data = b"x" * 4096
    while time.thread_time() < end:
        data = hashlib.sha256(data).digest() * 128


class Role(ABC):
    """One everyday job. `folder` is its own and empty; `chance` makes it differ from others of its kind."""

    BURST_S = 4.0

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self._period_s = chance.uniform(40, 300)
        self._phase = chance.uniform(0, 2 * math.pi)
        self._burst_end = 0.0

    @abstractmethod
    def step(self) -> float:
        """Work for at most some tens of milliseconds. Returns the seconds until the next step."""

    def burst(self) -> None:
        """Begin the burst that is usual for it."""
        self._burst_end = time.monotonic() + self.BURST_S * self.chance.uniform(0.5, 1.5)

    @property
    def bursting(self) -> bool:
        return time.monotonic() < self._burst_end

    def load(self, quiet: float, burst: float) -> float:
        """How much there is to do now: it drifts around `quiet` by half, and in a burst around `burst`."""
        drift = 1 + 0.5 * math.sin(2 * math.pi * time.monotonic() / self._period_s + self._phase)
        return (burst if self.bursting else quiet) * drift * self.chance.uniform(0.7, 1.3)


class Web(Role):
    """Answers requests over a socket; some clients keep their connection for a while."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen(64)
        self._kept: list[tuple[socket.socket, socket.socket]] = []
        self._work_s = chance.uniform(0.0005, 0.002)

    def step(self) -> float:
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.folder / "socket"))
        server, _ = self._listener.accept()
        client.sendall(json.dumps({"path": "/basket", "items": list(range(self.chance.randrange(200)))}).encode())
        request = json.loads(server.recv(65536))
        spin(self._work_s * self.chance.expovariate(1))
        server.sendall(json.dumps({"sum": sum(request["items"])}).encode())
        client.recv(65536)
        self._kept.append((client, server))
        while len(self._kept) > self.chance.randrange(2, 16):
            for end in self._kept.pop(0):
                end.close()
        return self.chance.expovariate(self.load(3, 40))


class Log(Role):
    """Writes lines into a file that is rotated."""

    SIZE = 2 * MIB
    KEPT = 3

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._file = (folder / "log").open("wb")

    def step(self) -> float:
        for _ in range(int(self.load(60, 1500))):
            self._file.write(b"%f GET /item/%d 200\n" % (time.time(), self.chance.getrandbits(60)))
        self._file.flush()
        if self._file.tell() > self.SIZE:
            os.fdatasync(self._file.fileno())
            self._file.close()
            for number in range(self.KEPT, 0, -1):
                older = self.folder / f"log.{number - 1}" if number > 1 else self.folder / "log"
                if older.exists():
                    older.rename(self.folder / f"log.{number}")
            self._file = (self.folder / "log").open("wb")
        return self.chance.uniform(0.1, 0.4)


class Cache(Role):
    """Keeps values in memory; how many is a slow random walk."""

    LEAST, MOST = 8 * MIB, 48 * MIB

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._values: dict[int, bytes] = {}
        self._bytes = 0
        self._target = chance.uniform(self.LEAST, self.MOST)

    def step(self) -> float:
        self._target += self.chance.gauss(0, 1) * (4 * MIB if self.bursting else MIB / 4)
        self._target = min(max(self._target, self.LEAST), self.MOST)
        for _ in range(int(self.load(10, 60))):
            if self._bytes < self._target:
                key, size = self.chance.getrandbits(40), self.chance.randrange(1 << 10, 64 << 10)
                self._values[key] = b"\1" * size
                self._bytes += size
            elif self._values:
                self._bytes -= len(self._values.pop(next(iter(self._values))))
        return self.chance.uniform(0.05, 0.3)


class Batch(Role):
    """Sleeps, then works through a table for a second or more, and writes what it found."""

    BURST_S = 2.0

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._every_s = chance.uniform(20, 60)
        self._next = time.monotonic() + chance.uniform(0, self._every_s)
        self._table: list[int] = []

    def step(self) -> float:
        if time.monotonic() >= self._next:
            self._next += self._every_s
            self.burst()
        if not self.bursting:
            if self._table:
                (self.folder / "result").write_text("\n".join(map(str, self._table[:50_000])))
                self._table = []
            return 0.2
        self._table += (self.chance.getrandbits(30) for _ in range(8_000))
        self._table.sort()
        return 0.02


class Poll(Role):
    """Looks at files and sends datagrams; opens what it needs each time."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._peers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(chance.randrange(1, 6))]
        for peer in self._peers:
            peer.bind(("127.0.0.1", 0))
            peer.setblocking(False)
        self._held: list[int] = []

    def step(self) -> float:
        for descriptor in self._held:
            os.close(descriptor)
        self._held = [os.open("/proc/stat", os.O_RDONLY) for _ in range(int(self.load(4, 25)))]
        for descriptor in self._held:
            os.read(descriptor, 4096)
            sender, receiver = self.chance.choice(self._peers), self.chance.choice(self._peers)
            sender.sendto(b"ping", receiver.getsockname())
            receiver.recv(64)
        return self.chance.uniform(0.3, 1.0)


class Pool(Role):
    """Hands jobs to threads, of which there are more when there is more to do."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._jobs: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def _work(self) -> None:
        while (seconds := self._jobs.get()) is not None:
            spin(seconds)

    def step(self) -> float:
        jobs = int(self.load(4, 25))
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        wanted = min(max(2, jobs), 16)
        for _ in range(wanted - len(self._threads)):
            self._threads.append(threading.Thread(target=self._work, daemon=True))
            self._threads[-1].start()
        for _ in range(min(1, len(self._threads) - wanted)):
            self._jobs.put(None)
        for _ in range(jobs):
            self._jobs.put(self.chance.expovariate(1000))
        return self.chance.uniform(0.3, 0.8)


class Sleep(Role):
    """Hardly ever does anything."""

    def step(self) -> float:
        spin(self.load(0.001, 0.03))
        (self.folder / "heartbeat").write_text(str(time.time()))
        return self.chance.uniform(0.2, 1) if self.bursting else self.chance.uniform(8, 40)


class Compress(Role):
    """Compresses a piece of data now and then, and stores it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._text = b" ".join(b"%d" % chance.getrandbits(20) for _ in range(60_000))

    def step(self) -> float:
        start = self.chance.randrange(len(self._text) // 2)
        packed = zlib.compress(self._text[start : start + int(self.load(50_000, 200_000))])
        (self.folder / f"piece-{self.chance.randrange(8)}").write_bytes(packed)
        return self.chance.uniform(0.05, 0.15) if self.bursting else self.chance.uniform(0.5, 3)


class Scan(Role):
    """Walks through directories and asks for the size of files."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._walk = os.walk("/usr")

    def step(self) -> float:
        for path, _, files in islice(self._walk, int(self.load(3, 15)) + 1):
            for file in files[:20]:
                (Path(path) / file).lstat()
            if self.chance.random() < 0.1:
                self._walk = os.walk(self.chance.choice(["/usr", "/etc", "/var/lib"]))
        return self.chance.uniform(0.2, 1)


class Database(Role):
    """Writes pages of a mapped file at random, each change first into a log that it makes durable in groups."""

    SIZE = 16 * MIB

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        with (folder / "pages").open("w+b") as file:
            file.truncate(self.SIZE)
            self._pages = mmap.mmap(file.fileno(), self.SIZE)
        self._log = (folder / "wal").open("wb")
        self._changes = 0

    def step(self) -> float:
        for _ in range(int(self.load(8, 60))):
            page = self.chance.randrange(self.SIZE >> 12) << 12
            self._pages[page : page + 64] = self.chance.randbytes(64)
            self._log.write(self.chance.randbytes(512))
            self._changes += 1
        if self._changes > 200:
            self._log.flush()
            os.fdatasync(self._log.fileno())
            self._log.seek(0)
            self._changes = 0
        return self.chance.uniform(0.2, 0.6)


class Build(Role):
    """Starts short-lived programs."""

    def step(self) -> float:
        subprocess.run(["/bin/true"], check=True)
        return self.chance.uniform(0.1, 0.3) if self.bursting else self.chance.uniform(3, 12)


ROLES: dict[str, type[Role]] = {
    "web": Web,
    "log": Log,
    "cache": Cache,
    "batch": Batch,
    "poll": Poll,
    "pool": Pool,
    "sleep": Sleep,
    "compress": Compress,
    "scan": Scan,
    "database": Database,
    "build": Build,
}
