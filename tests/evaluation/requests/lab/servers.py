"""The web servers of the lab, and the shop among them (threads of Python, redis). `sites` has those in PHP.

Each runs on ports and in a folder of its own, and ends with its context. Needs root: servers take users of their own.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.middleware import VARIABLE
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[3]
START_S: Final = 60.0
END_S: Final = 10.0
AHEAD: Final = 10
"""Priority among real-time processes: other work of the machine must not disturb the lab."""
THREADS: Final = 8
"""Of the shop."""
NAME: Final = "prices.shop.test"
"""Which only the lab's own name server knows."""


@dataclass(slots=True)
class Server:
    """A server at work.

    Attributes:
        name: of the service.
        port: where visitors come in.
        folder: its files.
        paths: pages and how often each is asked for, as `visitors` take them.
        php: the program whose probes tell where requests begin and end; None where the application itself tells.
        ports: of what stands behind it, by name.
        processes: by name.
        think_s: mean time for which a visitor reads a page, in seconds.
        numbers: how many numbers there are for `{}` in a path.
        calm_s: time at the beginning of a recording before the trouble comes for the first time, in seconds.

    """

    name: str
    port: int
    folder: Path
    paths: Mapping[str, float]
    php: Path | None = None
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    think_s: float = 0.2
    numbers: int = 500
    calm_s: float = 8.0

    @property
    def marker(self) -> Path:
        """The path at which an application that reports its requests looks for the tracer's file."""
        return self.folder / "marker"


def need() -> None:
    """Raises MissingPartError where a server cannot be had."""
    for program in ("nginx", "php-fpm", "mariadbd", "redis-server"):
        path_of(program)


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def process(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    priority: int = 0,
) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, which ends with all that it started; it is told by lines, and says lines.

    With a priority it has a CPU before all that have none, or a lower one.
    """
    if priority:
        command = ["chrt", "--rr", str(priority), *command]
    with ExitStack() as closing:
        output = closing.enter_context(log.open("a")) if log else subprocess.PIPE
        started = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT if log else None,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield started
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(started.pid, number)
            with suppress(subprocess.TimeoutExpired):
                started.wait(END_S)
        started.wait()
        for stream in (started.stdin, started.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def tell(started: subprocess.Popen[str], line: str) -> None:
    """Say a line to a process."""
    assert started.stdin is not None
    started.stdin.write(line + "\n")
    started.stdin.flush()


def wait_for(place: int | Path, started: subprocess.Popen[str], name: str) -> None:
    """Wait until it takes connections at a port, or a Unix socket.

    Raises OSError where it ends, TimeoutError where that takes too long.
    """
    family = socket.AF_UNIX if isinstance(place, Path) else socket.AF_INET
    deadline = time.monotonic() + START_S
    while True:
        if started.poll() is not None:
            raise OSError(f"{name} ended with {started.returncode} before it took a connection")
        try:
            with socket.socket(family) as tried:
                tried.settimeout(1.0)
                tried.connect(str(place) if isinstance(place, Path) else ("127.0.0.1", place))
        except OSError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name}: expected it to take connections within {START_S:g} s") from None
            time.sleep(0.05)
        else:
            return


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts the processes of a server, which end with `closing`."""

    server: Server
    closing: ExitStack
    environment: Mapping[str, str]
    priority: int

    def __call__(
        self, name: str, command: Sequence[str | Path], place: int | Path | None = None, *, said: bool = False
    ) -> None:
        """Start one, and wait until it takes connections at a port, or a Unix socket, if it has one.

        Its output goes into a file, or with `said` into a pipe that the caller reads.
        """
        log = None if said else self.server.folder / f"{name}.out"
        started = self.closing.enter_context(
            process(command, environment=self.environment, log=log, priority=self.priority)
        )
        self.server.processes[name] = started
        if place is not None:
            wait_for(place, started, name)


@contextmanager
def shop(folder: Path, priority: int = 0) -> Iterator[Server]:
    """Pages in Python, made by threads; likewise."""
    open_to_all(folder)
    paths = {"/list?number={}": 0.5, "/buy?number={}": 0.3, "/price?number={}": 0.2}
    server = Server("shop", free_port(), folder, paths, ports={"redis": free_port()})
    os.mkfifo(folder / "chores")
    (folder / "chores.log").touch()
    # The resolver asks the name server of this file, which a mount of its own puts in the place of the machine's.
    (folder / "resolv.conf").write_text("nameserver 127.0.0.79\noptions timeout:5 attempts:1\n")
    environment = {
        VARIABLE: str(server.marker),
        "SHOP_REDIS_PORT": str(server.ports["redis"]),
        "SHOP_CHORES": str(folder / "chores"),
        "SHOP_CHORES_LOG": str(folder / "chores.log"),
    }
    with ExitStack() as closing:
        start = Starter(server, closing, environment, priority)
        port = server.ports["redis"]
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder), "--hz", "100"]
        start("redis", [path_of("redis-server"), "--port", str(port), *options], port)
        module = "tests.evaluation.requests.lab"
        filling = f"from {module}.shop import fill; fill()"
        subprocess.run([sys.executable, "-c", filling], cwd=ROOT, env={**os.environ, **environment}, check=True)
        start("names", [sys.executable, "-m", f"{module}.names", "127.0.0.79", NAME], said=True)
        gunicorn = [
            str(Path(sys.executable).with_name("gunicorn")),
            "--worker-class=gthread",
            f"--threads={THREADS}",
            "--keep-alive=0",
            "--timeout=0",
            f"--bind=127.0.0.1:{server.port}",
            f"{module}.shop:application",
        ]
        mount = f"mount --bind {folder}/resolv.conf /etc/resolv.conf"
        start(
            "gunicorn",
            ["unshare", "--mount", "sh", "-c", f"{mount} && exec {' '.join(gunicorn)}"],
            server.port,
        )
        yield server


def open_to_all(folder: Path) -> None:
    """Servers that have given up root have to get in. Raises PermissionError where they cannot."""
    folder.chmod(0o755)
    for parent in folder.parents:
        if not parent.stat().st_mode & 0o001:
            raise PermissionError(f"{parent}: expected a folder that all users may enter, for {folder}")
