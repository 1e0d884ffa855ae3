"""A real nginx under load, whose logs are rotated while `laggard measure` follows them and is killed now and then."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Decoder, Frame
from laggard.producers.sources.performance import ERRORS, MEAN, PERFORMANCE, QUANTILES, STANDARD_DEVIATION, THROUGHPUT
from tests.brokers.ports import free_port
from tests.brokers.processes import start
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTERVAL_S = 1.0
VISITORS = 4
CONFIGURATION = """
daemon off; master_process on; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log; user root;
events {{ worker_connections 256; }}
http {{
    log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" '
                     '"$http_user_agent" $msec $request_time';
    log_format object escape=json '{{"msec":"$msec","request":"$request","status":$status,"request_time":$request_time,'
                                  '"agent":"$http_user_agent"}}';
    access_log {folder}/access.log timed;
    access_log {folder}/object.log object;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    upstream shop {{ server 127.0.0.1:{application}; keepalive 16; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://shop; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    }}
}}
"""
MEASURE = """
host = "here"
state = "{folder}/state"
[bus]
location = "{folder}/laggard.db"
[[sources]]
kind = "log"
application = "shop"
paths = ["{folder}/access.log"]
interval = "1s"
format = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" \
"$http_user_agent" $msec $request_time'
[[sources]]
kind = "log"
application = "objects"
paths = ["{folder}/object.log*"]
interval = "1s"
format = "json"
"""


class Done(NamedTuple):
    """One request, as its visitor saw it."""

    ts: float
    duration_s: float
    slept_s: float
    status: int


class _Application(BaseHTTPRequestHandler):
    """Sleeps and fails as the path says: `/SECONDS/STATUS`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        _, seconds, status, *_ = self.path.split("?")[0].split("/")
        time.sleep(float(seconds))
        self.send_response(int(status))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def visit(port: int, seed: int, stop: threading.Event, done: list[Done]) -> None:
    """Ask for pages with pauses between, and with whatever a browser may call itself."""
    draw = random.Random(seed)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        while not stop.is_set():
            sleeps = draw.choice([0.0, 0.0, 0.01, 0.05, 0.2])
            status = draw.choice([200] * 9 + [503])
            agent = draw.choice(['say "hello"', "back\\slash", "tab\tand [brackets] - -", "Mozilla/5.0 (X11)", "é€"])
            began = time.time()
            connection.request("GET", f'/{sleeps}/{status}?q="x', headers={"User-Agent": agent.encode()})
            answer = connection.getresponse()
            answer.read()
            ended = time.time()
            done.append(Done(ended, ended - began, sleeps, answer.status))
            stop.wait(draw.expovariate(1 / 0.02))


@contextmanager
def load(port: int) -> Iterator[list[Done]]:
    """Visitors, until the block is left."""
    stop, done = threading.Event(), list[Done]()
    visitors = [threading.Thread(target=visit, args=(port, seed, stop, done)) for seed in range(VISITORS)]
    for each in visitors:
        each.start()
    try:
        yield done
    finally:
        stop.set()
        for each in visitors:
            each.join()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """nginx before an application; gives its port and its process."""
    with _Server(("127.0.0.1", 0), _Application) as application:
        threading.Thread(target=application.serve_forever, daemon=True).start()
        port = free_port()
        configuration = CONFIGURATION.format(folder=folder, port=port, application=application.server_address[1])
        (folder / "nginx.conf").write_text(configuration)
        with (folder / "nginx.out").open("wb") as output:
            process = start([path_of("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)], output)
        try:
            _await(lambda: (folder / "nginx.pid").exists() and _listens(port), process)
            yield port, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            application.shutdown()


def _listens(port: int) -> bool:
    """Whether it takes connections. Send no request: nginx writes its line after the answer, at any time."""
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def _await(asked: object, process: subprocess.Popen[bytes], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    assert callable(asked)
    while not asked():
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s"
        time.sleep(0.05)


def measuring(folder: Path) -> subprocess.Popen[bytes]:
    """`laggard measure`, once it has looked at both logs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    with (folder / "measure.out").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "laggard.pipeline.cli", "measure", "--config", str(folder / "laggard.toml")],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    _await(lambda: len(list((folder / "state/sources").glob("*.json"))) == 2, process)
    return process


def told(folder: Path, application: str) -> dict[float, dict[str, float]]:
    """The features of each interval, by its end: of frames with one sequence the first, as readers have it."""
    found: dict[int, Frame] = {}
    with EmbeddedBus(folder / "laggard.db") as bus:
        for partition in bus.partitions("laggard.applications"):
            for record in bus.read(partition, 0):
                frame = Decoder().decode(record.value, "")
                if isinstance(frame, Frame) and frame.scope == PERFORMANCE and frame.key == application:
                    found.setdefault(frame.sequence, frame)
    return {
        frame.ts: dict(zip(frame.layout.features, map(float, frame.values[0]), strict=True)) for frame in found.values()
    }


def requests_told(folder: Path, application: str) -> float:
    return sum(features[THROUGHPUT] for features in told(folder, application).values()) * INTERVAL_S


def counted(folder: Path) -> dict[float, list[tuple[float, int]]]:
    """By the end of its interval, the duration and status of each request, by the plainest reading of all logs."""
    found: dict[float, list[tuple[float, int]]] = defaultdict(list)
    for path in folder.glob("object.log*"):
        for line in path.read_bytes().splitlines():
            one = json.loads(line)
            end = (float(one["msec"]) // INTERVAL_S + 1) * INTERVAL_S
            found[end].append((one["request_time"], one["status"]))
    return found


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_request_is_told_once_whatever_is_rotated_and_killed(tmp_path: Path) -> None:
    (tmp_path / "laggard.toml").write_text(MEASURE.format(folder=tmp_path))
    with serving(tmp_path) as (port, server):
        measure = measuring(tmp_path)
        time.sleep(1.1 * INTERVAL_S)  # later requests are in an interval that is reported
        with load(port) as done:
            for number in range(4):
                time.sleep(1.0)
                if number % 2:
                    measure.kill()  # SIGKILL
                    measure.wait()
                for name in ("access.log", "object.log"):
                    (tmp_path / name).rename(tmp_path / f"{name}.{9 - number}")
                server.send_signal(signal.SIGUSR1)
                time.sleep(0.3)
                if number % 2:
                    measure = measuring(tmp_path)
        for application in ("shop", "objects"):
            _await(lambda application=application: requests_told(tmp_path, application) >= len(done) - 0.5, measure)
        measure.send_signal(signal.SIGINT)
        assert measure.wait(30) == 0, (tmp_path / "measure.out").read_text()
    logged = counted(tmp_path)
    assert sum(map(len, logged.values())) == len(done) > 100
    for application in ("shop", "objects"):
        frames = told(tmp_path, application)
        assert requests_told(tmp_path, application) == pytest.approx(len(done))
        failed = sum(features[ERRORS] for features in frames.values()) * INTERVAL_S
        assert failed == pytest.approx(sum(each.status == 503 for each in done)) != 0
        # Each feature of each interval is that of the lines that the server wrote for it.
        for ts, requests in logged.items():
            took = np.array([duration_s for duration_s, _ in requests])
            assert frames[ts][THROUGHPUT] == len(requests) / INTERVAL_S
            assert frames[ts][ERRORS] == sum(status >= 500 for _, status in requests) / INTERVAL_S
            assert frames[ts][MEAN] == pytest.approx(took.mean())
            assert frames[ts][STANDARD_DEVIATION] == pytest.approx(took.std(), abs=1e-9)
            for name, quantile in QUANTILES.items():
                assert frames[ts][name] == pytest.approx(np.quantile(took, quantile))
        # A request takes at least as long as the application slept, and at most as long as its visitor waited. The
        # clock of nginx counts in ms, and is set once for all pending events.
        took_s = sum(features[MEAN] * features[THROUGHPUT] for features in frames.values() if features[THROUGHPUT])
        slept_s, waited_s = sum(each.slept_s for each in done), sum(each.duration_s for each in done)
        assert slept_s - 0.001 * len(done) <= took_s * INTERVAL_S <= waited_s + 0.002 * len(done)
