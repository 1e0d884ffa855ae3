"""The pools: two prefork servers, and thread pools of Java and Python. Each ends with its context."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.programs import kept, path_of, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.evaluation.pools.lab.load import Item

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
READY_S = 60.0
CLIENTS = 24
"""Requests of the prefork server that may be under way at once."""
CLIENT_TIMEOUT_S = 10.0
PAGE_WORDS = 4_000
"""Some 2 ms to compress."""
NGINX: Final = """
daemon off;
worker_processes {workers};
pid {folder}/pid;
events {{
    accept_mutex on;  # the default before 1.11.3: who has just taken a request is likely to take the next
}}
http {{
    access_log off;
    gzip on;
    gzip_comp_level 9;
    gzip_types text/plain;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port};
        root {folder};
    }}
}}
"""


class Pool(Protocol):
    """A pool at work.

    Attributes:
        process: name of its process, by which the agent is told to watch its threads.
        key: of its frames, below the host's name.
        pid: of the process, or of the parent of all workers.
        said: what its members said, oldest first: `pid`, `tid`, `ts`, and `fault` or `over` with the kind.

    """

    process: str
    key: str
    pid: int
    said: list[dict[str, Any]]

    def give(self, kind: str, item: Item) -> None:
        """Give an item to whichever member takes it."""

    def wait(self, what: str, timeout_s: float = 30.0) -> dict[str, Any]:
        """The first line in which a member said this. Raises TimeoutError."""


class _Program:
    """A program that says lines of JSON."""

    def __init__(self, process: str, key: str, command: list[str | Path], **popen: Any) -> None:
        self.process = process
        self.key = key
        self.said: list[dict[str, Any]] = []
        self._popen: subprocess.Popen[str] = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True, **popen
        )
        self.pid = self._popen.pid
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self, what: str, timeout_s: float = 30.0) -> dict[str, Any]:
        with self._news:
            if not self._news.wait_for(lambda: any(what in said for said in self.said), timeout_s):
                raise TimeoutError(f"{self.process}: expected {what!r} within {timeout_s:g} s, heard {self.said}")
            return next(said for said in self.said if what in said)

    def close(self) -> None:
        """End all of its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        self._reader.join()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _read(self) -> None:
        assert self._popen.stdout
        for line in self._popen.stdout:
            with self._news:
                self.said.append(json.loads(line))
                self._news.notify_all()


class _Jobs(_Program):
    """A thread pool that takes items from its standard input."""

    def __init__(self, process: str, command: list[str | Path]) -> None:
        super().__init__(process, f"{process}/worker", command, stdin=subprocess.PIPE)
        self.wait("ready", READY_S)

    def give(self, kind: str, item: Item) -> None:
        assert self._popen.stdin
        self._popen.stdin.write(f"{kind} {item.rounds} {item.wait_ms:.1f}\n")
        self._popen.stdin.flush()


class _Server(_Program):
    """A server whose workers take requests from one socket: the kernel decides who. Started by a master."""

    def __init__(self, key: str, command: list[str | Path], port: int, workers: int, page: str) -> None:
        process = key.partition("/")[0]
        super().__init__(process, key, command)
        self._port = port
        self._clients = ThreadPoolExecutor(CLIENTS)
        deadline = time.monotonic() + READY_S
        while len(self.workers()) < workers or not self._answers(page):
            if time.monotonic() > deadline or self._popen.poll() is not None:
                self.close()
                raise TimeoutError(f"{process}: expected {workers} workers within {READY_S:g} s")
            time.sleep(0.1)

    def workers(self) -> set[int]:
        """Their pids."""
        return {int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()}

    def close(self) -> None:
        super().close()
        self._clients.shutdown(cancel_futures=True)

    def _ask(self, page: str) -> None:
        """Let a client get a page."""
        self._clients.submit(self._get, page)

    def _tell(self, pid: int, ts: float, fault: str) -> None:
        """Say for a worker what happened to it."""
        with self._news:
            self.said.append({"pid": pid, "tid": pid, "ts": ts, "fault": fault})
            self._news.notify_all()

    def _lose(self, number: signal.Signals, fault: str) -> None:
        """One worker less: the oldest, which is killed, or which the master is asked to end."""
        gone, ts = min(self.workers()), time.time()
        os.kill(gone if number is signal.SIGKILL else self.pid, number)
        while gone in self.workers():
            time.sleep(0.01)
        self._tell(gone, ts, fault)

    def _answers(self, page: str) -> bool:
        try:
            return self._get(page) == http.client.OK
        except OSError:
            return False

    def _get(self, page: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=CLIENT_TIMEOUT_S)
        try:
            connection.request("GET", page, headers={"Accept-Encoding": "gzip", "Connection": "close"})
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()


class _Gunicorn(_Server):
    """Whose workers are all woken by a request, and take turns."""

    def __init__(self, workers: int) -> None:
        port = _free_port()
        command: list[str | Path] = [
            Path(sys.executable).with_name("gunicorn"),
            f"--workers={workers}",
            f"--bind=127.0.0.1:{port}",
            "--timeout=0",  # it would kill a worker that is stuck: the fault would be over after half a minute
            "--log-level=critical",
            "tests.evaluation.pools.lab.shop:application",
        ]
        super().__init__("gunicorn", command, port, workers, "/serve/10/1")

    def give(self, kind: str, item: Item) -> None:
        if kind == "left":
            self._lose(signal.SIGTTOU, kind)
        elif kind == "replaced":
            self._lose(signal.SIGKILL, kind)
        else:
            self._ask(f"/{kind}/{item.rounds}/{item.wait_ms:.1f}")


class _Nginx(_Server):
    """Whose workers take requests as they get hold of a lock: at any time most of the work goes to few."""

    def __init__(self, workers: int, folder: Path) -> None:
        port = _free_port()
        words = random.Random(1)
        page = " ".join(str(words.randrange(10_000)) for _ in range(PAGE_WORDS))
        (folder / "page.txt").write_text(page)
        configuration = folder / "nginx.conf"
        configuration.write_text(NGINX.format(workers=workers, port=port, folder=folder))
        command: list[str | Path] = [path_of("nginx"), "-c", configuration, "-p", folder, "-e", "/dev/null"]
        super().__init__("nginx/worker process", command, port, workers, "/page.txt")

    def give(self, kind: str, item: Item) -> None:
        if kind == "replaced":
            self._lose(signal.SIGKILL, kind)
        else:
            self._ask("/page.txt")


@contextmanager
def prefork(members: int) -> Iterator[Pool]:
    """gunicorn with a number of workers of the class sync."""
    yield from _used(_Gunicorn(members))


@contextmanager
def nginx_workers(members: int) -> Iterator[Pool]:
    """nginx with a number of workers, which compress a page for each item."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _used(_Nginx(members, Path(folder)))


@contextmanager
def python(members: int) -> Iterator[Pool]:
    """A `concurrent.futures.ThreadPoolExecutor`."""
    command: list[str | Path] = [sys.executable, "-m", "tests.evaluation.pools.lab.jobs", "orders-py", str(members)]
    yield from _used(_Jobs("orders-py", command))


@contextmanager
def java(members: int) -> Iterator[Pool]:
    """A `java.util.concurrent.ThreadPoolExecutor`."""
    flags = ("-Xmx64m", "-XX:MaxDirectMemorySize=1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    yield from _used(_Jobs("java", [path_of("java"), *flags, "-cp", _classes(), "Jobs", str(members)]))


POOLS: Final = {"prefork": prefork, "nginx": nginx_workers, "java": java, "python": python}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _used(pool: Any) -> Iterator[Pool]:
    try:
        yield pool
    finally:
        pool.close()


@cache
def _classes() -> Path:
    source = HERE / "Jobs.java"
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]

    def make(folder: Path) -> Path:
        run([path_of("javac"), "-d", str(folder / "classes"), str(source)])
        return folder / "classes"

    return kept(f"pools-java-{version}", make)
