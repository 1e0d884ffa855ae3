"""How what goes wrong in the lab is made to happen, and when it did."""

from __future__ import annotations

import http.client
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import redis

from tests.evaluation.requests.lab.servers import AHEAD, process, tell
from tests.evaluation.requests.lab.sites import database_client

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from tests.evaluation.requests.lab.servers import Server
    from tests.evaluation.requests.lab.troubles import Trouble

    Once = Callable[[float], "Window"]
    """Makes the trouble happen for a number of seconds, and says when that was."""


class Window(NamedTuple):
    """When a trouble was there: seconds since the Unix epoch."""

    begin: float
    end: float


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


def hold_file(server: Server, closing: ExitStack) -> Once:
    """By a process that holds the lock of the cache."""
    return told("lock", "worker", server.folder / "cache/sidebar")(server, closing)


def forget_file(server: Server, closing: ExitStack) -> Once:
    """By a process that drops the index from memory."""
    return told("forget", "restore", server.folder / "index/words")(server, closing)


def take_cpu(server: Server, closing: ExitStack) -> Once:
    """On the core that all workers are held to."""
    core = max(os.sched_getaffinity(0))
    master = server.processes["fpm"].pid
    children = Path(f"/proc/{master}/task/{master}/children").read_text()
    for pid in (master, *map(int, children.split())):
        os.sched_setaffinity(pid, [core])
    return told("compute", "backup", priority=2 * AHEAD, cpus=[core])(server, closing)


def recommender(what: str) -> Callable[[Server, ExitStack], Once]:
    """By the service that pages ask: see its `main`."""

    def prepare(server: Server, _: ExitStack) -> Once:
        started = server.processes["recommender"]
        assert started.stdout is not None
        answers = started.stdout

        def ask(seconds: float) -> None:
            tell(started, f"{what} {seconds:.6f}")
            answers.readline()

        return _asked(ask)

    return prepare


def flush(server: Server, _: ExitStack) -> Once:
    """By a page that throws away what is kept of compiled programs."""

    def ask(_: float) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30.0)
        connection.request("GET", "/flush.php")
        connection.getresponse().read()
        connection.close()

    return _asked(ask)


def hold(lock: str, unlock: str) -> Callable[[Server, ExitStack], Once]:
    """By another client of the database, which locks something for a while."""

    def prepare(server: Server, closing: ExitStack) -> Once:
        client = closing.enter_context(process([*database_client(server.folder), "blog"], priority=AHEAD))
        assert client.stdout is not None
        answers = client.stdout

        def ask(seconds: float) -> None:
            tell(client, f"{lock}; SELECT SLEEP({seconds:.3f}); {unlock}; SELECT 'over';")
            while answers.readline().strip() not in ("over", ""):
                pass
            answers.readline()

        return _asked(ask)

    return prepare


def switch(name: str) -> Callable[[Server, ExitStack], Once]:
    """By the pages themselves, while a file is there."""

    def prepare(server: Server, _: ExitStack) -> Once:
        switch = server.folder / "switches" / name
        switch.parent.mkdir(exist_ok=True)

        def ask(seconds: float) -> None:
            switch.touch()
            time.sleep(seconds)
            switch.unlink()

        return _asked(ask)

    return prepare


HOLD_ROW: Final = hold("BEGIN; SELECT page FROM hits FOR UPDATE", "COMMIT")
HOLD_TABLES: Final = hold("LOCK TABLES wp_posts WRITE, wp_options WRITE, wp_terms WRITE", "UNLOCK TABLES")

BUSY: Final = """
local function now() local ts = redis.call('TIME'); return ts[1] * 1000000 + ts[2] end
local over = now() + tonumber(ARGV[1])
while now() < over do end
return 1
"""


def keep_redis_busy(server: Server, closing: ExitStack) -> Once:
    """By a script that computes in redis."""
    client = closing.enter_context(redis.Redis(port=server.ports["redis"]))
    script = client.register_script(BUSY)
    return _asked(lambda seconds: script(args=[round(seconds * 1e6)]))


def chore(chore: str) -> Callable[[Server, ExitStack], Once]:
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


def be_late(server: Server, _: ExitStack) -> Once:
    """By the name server."""
    started = server.processes["names"]
    assert started.stdout is not None
    answers = started.stdout

    def ask(seconds: float) -> None:
        tell(started, f"late {seconds:.6f}")
        answers.readline()

    return _asked(ask)


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
