"""What goes wrong in the lab, for which requests, and what a sentence has to say that names it."""

from __future__ import annotations

import http.client
import os
import random
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import redis

from tests.evaluation.requests.lab.servers import AHEAD, database_client, process, tell

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack

    from tests.evaluation.requests.lab.servers import Server

    Once = Callable[[float], "Window"]
    """Makes the trouble happen for a number of seconds, and says when that was."""


class Window(NamedTuple):
    """When a trouble was there: seconds since the Unix epoch."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind.

    Attributes:
        name: of it.
        server: whose requests it befalls.
        title: in words.
        prepare: makes the means by which it is done.
        seconds: shortest and longest that it lasts each time.
        every_s: mean time from its end to when it comes again.
        phases: of the application's own account in which a request loses time by it; none where it can be anywhere.
        after_s: how long after its end requests may still lose time by it.
        words: a sentence names the cause where it has, of each line, one of the texts; ports in braces are filled in.

    """

    name: str
    server: Literal["blog", "shop"]
    title: str
    prepare: Callable[[Server, ExitStack], Once]
    seconds: tuple[float, float]
    every_s: float
    phases: tuple[str, ...]
    after_s: float
    words: tuple[tuple[str, ...], ...]

    def named(self, sentence: str, ports: Mapping[str, int]) -> bool:
        """Whether a sentence says what it was."""
        said = sentence.lower()
        return all(any(word.format(**ports) in said for word in line) for line in self.words)


def told(kind: str, name: str, *file: Path, priority: int = AHEAD, cpus: Sequence[int] = ()) -> Callable[..., Once]:
    """By a process that is told to (`troublemaker`)."""

    def prepare(_: Server, closing: ExitStack) -> Once:
        module = "tests.evaluation.requests.lab.troublemaker"
        command: list[str | Path] = [sys.executable, "-m", module, name, kind, *file]
        started = closing.enter_context(process(command, priority=priority))
        if cpus:
            os.sched_setaffinity(started.pid, cpus)
        return _answering(started)

    return prepare


def _answering(started: subprocess.Popen[str]) -> Once:
    assert started.stdout is not None
    answers = started.stdout
    answers.readline()

    def once(seconds: float) -> Window:
        tell(started, f"{seconds:.6f}")
        begin, end = map(float, answers.readline().split())
        return Window(begin, end)

    return once


def _asked(ask: Callable[[float], object]) -> Once:
    """By whatever takes that long."""

    def once(seconds: float) -> Window:
        begin = time.time()
        ask(seconds)
        return Window(begin, time.time())

    return once


def _hold_file(server: Server, closing: ExitStack) -> Once:
    return told("lock", "worker", server.folder / "cache/sidebar")(server, closing)


def _forget_file(server: Server, closing: ExitStack) -> Once:
    return told("forget", "restore", server.folder / "index/words")(server, closing)


def _take_cpu(server: Server, closing: ExitStack) -> Once:
    """On the core that all workers are held to."""
    core = max(os.sched_getaffinity(0))
    master = server.processes["fpm"].pid
    children = Path(f"/proc/{master}/task/{master}/children").read_text()
    for pid in (master, *map(int, children.split())):
        os.sched_setaffinity(pid, [core])
    return told("compute", "backup", priority=2 * AHEAD, cpus=[core])(server, closing)


def _recommender(what: str) -> Callable[[Server, ExitStack], Once]:
    def prepare(server: Server, _: ExitStack) -> Once:
        started = server.processes["recommender"]
        assert started.stdout is not None
        answers = started.stdout

        def ask(seconds: float) -> None:
            tell(started, f"{what} {seconds:.6f}")
            answers.readline()

        return _asked(ask)

    return prepare


def _flush(server: Server, _: ExitStack) -> Once:
    def ask(_: float) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30.0)
        connection.request("GET", "/flush.php")
        connection.getresponse().read()
        connection.close()

    return _asked(ask)


def _hold_row(server: Server, closing: ExitStack) -> Once:
    client = closing.enter_context(process([*database_client(server.folder), "blog"], priority=AHEAD))
    assert client.stdout is not None
    answers = client.stdout

    def ask(seconds: float) -> None:
        question = f"BEGIN; SELECT page FROM hits FOR UPDATE; SELECT SLEEP({seconds:.3f}); COMMIT; SELECT 'over';"
        tell(client, question)
        while answers.readline().strip() not in ("over", ""):
            pass
        answers.readline()

    return _asked(ask)


BUSY: Final = """
local function now() local ts = redis.call('TIME'); return ts[1] * 1000000 + ts[2] end
local over = now() + tonumber(ARGV[1])
while now() < over do end
return 1
"""


def _keep_redis_busy(server: Server, closing: ExitStack) -> Once:
    client = closing.enter_context(redis.Redis(port=server.ports["redis"]))
    script = client.register_script(BUSY)
    return _asked(lambda seconds: script(args=[round(seconds * 1e6)]))


def _chore(chore: str) -> Callable[[Server, ExitStack], Once]:
    """By a thread of the application itself, which writes down when it was."""

    def prepare(server: Server, closing: ExitStack) -> Once:
        chores = closing.enter_context((server.folder / "chores").open("w"))
        log = closing.enter_context((server.folder / "chores.log").open())
        log.seek(0, os.SEEK_END)

        def once(seconds: float) -> Window:
            chores.write(f"{chore} {seconds:.6f}\n")
            chores.flush()
            line = ""
            while not line.endswith("\n"):
                time.sleep(0.01)
                line += log.readline()
            begin, end, _ = line.split()
            return Window(float(begin), float(end))

        return once

    return prepare


def _be_late(server: Server, _: ExitStack) -> Once:
    started = server.processes["names"]
    assert started.stdout is not None
    answers = started.stdout

    def ask(seconds: float) -> None:
        tell(started, f"late {seconds:.6f}")
        answers.readline()

    return _asked(ask)


TROUBLES: Final = {
    trouble.name: trouble
    for trouble in (
        Trouble(
            "lock",
            "blog",
            "another process holds the lock of a cache's file",
            _hold_file,
            (0.06, 0.16),
            3.5,
            ("cache",),
            0.05,
            (("lock held by",), ("cache/sidebar",), ("worker",)),
        ),
        Trouble(
            "refused",
            "blog",
            "a service is away, and its connection is tried again",
            _recommender("away"),
            (0.06, 0.16),
            1.0,
            ("recommend",),
            0.05,
            (("connect",), ("refused", "repeats"), ("127.0.0.1:{recommender}",)),
        ),
        Trouble(
            "connect",
            "blog",
            "a service does not take connections, its queue is full",
            _recommender("deaf"),
            (0.15, 0.3),
            2.5,
            ("recommend",),
            2.5,
            (("connect",), ("waits",), ("127.0.0.1:{recommender}",)),
        ),
        Trouble(
            "opcache",
            "blog",
            "what is kept of compiled programs is thrown away",
            _flush,
            (0.0, 0.0),
            2.5,
            ("include",),
            1.5,
            (("computes", "fcntl"), ("repeats", "more system calls")),
        ),
        Trouble(
            "cpu", "blog", "a neighbour takes the CPU", _take_cpu, (0.1, 0.3), 2.5, (), 0.0, (("cpu",), ("backup",))
        ),
        Trouble(
            "disk",
            "blog",
            "a file is no longer in memory",
            _forget_file,
            (0.3, 0.5),
            1.5,
            ("search",),
            0.1,
            (("disk",), ("index/words",)),
        ),
        Trouble(
            "row",
            "blog",
            "another client holds the lock of a row of the database",
            _hold_row,
            (0.06, 0.16),
            2.0,
            ("query",),
            0.05,
            (("waits for the answer of",), ("127.0.0.1:{mariadb}", "mariadbd")),
        ),
        Trouble(
            "redis",
            "shop",
            "a script keeps redis from answering",
            _keep_redis_busy,
            (0.06, 0.16),
            3.5,
            ("redis",),
            0.05,
            (("waits for the answer of",), ("127.0.0.1:{redis}", "redis-server")),
        ),
        Trouble(
            "pause",
            "shop",
            "the garbage of a process is collected, and all of its threads wait",
            _chore("collect"),
            (0.0, 0.0),
            1.2,
            (),
            0.05,
            (("another thread",), ("futex",)),
        ),
        Trouble(
            "mutex",
            "shop",
            "another thread holds a lock of the process",
            _chore("stocktaking"),
            (0.06, 0.16),
            1.0,
            ("stock",),
            0.05,
            (("another thread",), ("futex",)),
        ),
        Trouble(
            "names",
            "shop",
            "a name server is late",
            _be_late,
            (0.06, 0.16),
            1.0,
            ("names",),
            0.05,
            (("names",), ("127.0.0.79",)),
        ),
    )
}


class Injector(threading.Thread):
    """Makes a trouble happen again and again, at random times, until it is told to stop.

    Attributes:
        windows: when it was there.

    """

    def __init__(self, trouble: Trouble, once: Once, seed: int) -> None:
        super().__init__(name=trouble.name)
        self.windows: list[Window] = []
        self._trouble = trouble
        self._once = once
        self._chance = random.Random(f"{trouble.name} {seed}")
        self._over = threading.Event()

    def run(self) -> None:
        """Until it is told to stop."""
        rest_s = self._trouble.every_s
        while not self._over.wait(rest_s / 3 + self._chance.expovariate(1.5 / rest_s)):
            self.windows.append(self._once(self._chance.uniform(*self._trouble.seconds)))

    def stop(self) -> list[Window]:
        """Returns when it was there."""
        self._over.set()
        self.join()
        return self.windows
