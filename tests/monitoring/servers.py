"""Real servers of Prometheus and Alertmanager: each on a free port, in a folder of its own, stopped with its test."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tests.brokers.ports import free_port
from tests.brokers.processes import start
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

STARTS_S = 60.0
STOPS_S = 20.0
ATTEMPTS = 5  # at a port that somebody else may take first

# What each says once the port is its own: whoever took it first may answer for it.
SERVES = {"prometheus": "Server is ready to receive web requests", "alertmanager": "Listening on"}

_running: list[Server] = []
_T = TypeVar("_T")


class ServerError(Exception):
    """A server did not do what was asked; with the end of what it said."""


class Server:
    """One process that answers over HTTP.

    Attributes:
        name: what it is.
        url: its base, without a slash at the end.
        log: what it said.

    """

    def __init__(self, name: str, command: Sequence[str], port: int, log: Path) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        with log.open("wb") as output:
            self._process = start(command, output)

    def said(self) -> str:
        """All that it said."""
        return self.log.read_text(errors="replace")

    def await_ready(self) -> bool:
        """Wait until it serves; False where its port was somebody else's. Raises `ServerError`."""
        deadline = time.monotonic() + STARTS_S
        while not self._ready():
            if self._process.poll() is not None:
                if "address already in use" in self.said():
                    return False
                raise ServerError(f"{self.name} ended with {self._process.returncode}:\n{self.said()[-4000:]}")
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name} was not ready within {STARTS_S:.0f} s:\n{self.said()[-4000:]}")
            time.sleep(0.05)
        return True

    def _ready(self) -> bool:
        if SERVES[self.name] not in self.said():
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """SIGTERM; what does not end in time is killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOPS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_prometheus(
    folder: Path, config: Mapping[str, Any], files: Mapping[str, str] | None = None, flags: Sequence[str] = ()
) -> Iterator[str]:
    """A Prometheus; gives its base URL.

    Args:
        folder: an empty one.
        config: what prometheus.yml says.
        files: name -> text of what the configuration names (rules, for one), put beside it.
        flags: further ones, as `--enable-feature=...`. Exemplars are kept, and the API may delete and reload.

    """
    # It knows its Alertmanagers only some 5 s after it began; what fired before would wait for a minute.
    sends = "--rules.alert.resend-delay=1s"
    keeps = ("--enable-feature=exemplar-storage", "--web.enable-lifecycle", "--web.enable-admin-api")
    command = [
        path_of("prometheus"),
        f"--config.file={_write(folder, 'prometheus.yml', config, files)}",
        f"--storage.tsdb.path={folder / 'data'}",
        sends,
        *keeps,
        *flags,
    ]
    with _running_server("prometheus", command, folder) as url:
        yield url


@contextmanager
def running_alertmanager(
    folder: Path, config: Mapping[str, Any], files: Mapping[str, str] | None = None, flags: Sequence[str] = ()
) -> Iterator[str]:
    """An Alertmanager that is no part of a cluster; gives its base URL. The arguments are those of Prometheus."""
    command = [
        path_of("alertmanager"),
        f"--config.file={_write(folder, 'alertmanager.yml', config, files)}",
        f"--storage.path={folder / 'data'}",
        "--cluster.listen-address=",
        *flags,
    ]
    with _running_server("alertmanager", command, folder) as url:
        yield url


def logs() -> list[tuple[str, str]]:
    """Name and end of what was said, of all servers that run in this process: for the report of a test that failed."""
    return [(f"log of {server.name} at {server.url}", server.said()[-5000:]) for server in _running]


def api(url: str, path: str, **parameters: str) -> Any:
    """What a server's HTTP API answers at a path, decoded. Raises `ServerError` with the reason of a refusal."""
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    try:
        with urllib.request.urlopen(f"{url}{path}{query}", timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise ServerError(f"{path} {parameters}: {error}: {error.read().decode(errors='replace')[:2000]}") from None


def query(url: str, expression: str, **parameters: str) -> list[dict[str, Any]]:
    """What Prometheus answers to an expression now, or at `time`: [{"metric": labels, "value": [ts, text]}, ...]."""
    result: list[dict[str, Any]] = api(url, "/api/v1/query", query=expression, **parameters)["data"]["result"]
    return result


def awaited(ask: Callable[[], _T], wanted: Callable[[_T], bool] = bool, within_s: float = 30.0) -> _T:
    """Ask until the answer is what is wanted. Raises `AssertionError` with the last answer when it never is."""
    deadline = time.monotonic() + within_s
    while not wanted(answer := ask()):
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s; the last answer: {answer!r}"
        time.sleep(0.1)
    return answer


def _write(folder: Path, name: str, config: Mapping[str, Any], files: Mapping[str, str] | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for other, text in (files or {}).items():
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_text(text, encoding="utf-8")
    path = folder / name
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")  # which is YAML as well
    return path


@contextmanager
def _running_server(name: str, command: Sequence[str], folder: Path) -> Iterator[str]:
    for _ in range(ATTEMPTS):
        port = free_port()
        server = Server(name, [*command, f"--web.listen-address=127.0.0.1:{port}"], port, folder / f"{name}.log")
        _running.append(server)
        try:
            if server.await_ready():
                yield server.url
                return
        finally:
            server.stop()
            _running.remove(server)
    raise ServerError(f"{name} found no free port in {ATTEMPTS} attempts")
