"""`laggard trace`: requests of a real server, traced by the real kernel, to the topic of requests and to folders."""

from __future__ import annotations

import grp
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import BUSY, FAILED, NO_DATA, USAGE
from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.core.records import Decoder, Frame, RecordError, Request, read_line
from laggard.pipeline.core.topics import COUNTERS, REQUESTS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.probing import marker_group_of
from laggard.pipeline.settings.reading import Given
from laggard.pipeline.tracing import STATUS, Figures, Numbering, Own, Rates, Tracing, read_figures
from laggard.producers.trace.boundaries.elf import ProgramError
from laggard.producers.trace.overhead import OWN_FEATURES, SCOPE
from laggard.producers.trace.priority import NICE
from tests.brokers.ports import free_port
from tests.pipeline.methods.requests.told import normal
from tests.pipeline.waiting import until
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.brokers import Cluster

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]
TOPIC = Topics().name(REQUESTS)

SERVER = """
import sys, threading, time
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from laggard.producers.trace.middleware import TracedWSGI

class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass

def shop(environ, start_response):
    if environ["PATH_INFO"] == "/sleep":
        time.sleep(0.2)
    start_response("200 OK", [])
    return [b"here"]

server = make_server("127.0.0.1", int(sys.argv[1]), TracedWSGI(shop, service="shop"), Server, Quiet)
print("serves", flush=True)
server.serve_forever()
"""

SOMEBODY = """
import contextlib, importlib, os, pkgutil, sys
import laggard.pipeline, laggard.producers
for room in (laggard.pipeline, laggard.producers):  # while they can be read
    for found in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        with contextlib.suppress(ImportError):
            found.name.endswith("__main__") or importlib.import_module(found.name)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
from laggard.pipeline.cli import run
sys.exit(run(sys.argv[1:]))
"""

TRACEFS = Path("/sys/kernel/tracing")
may_trace = pytest.mark.skipif(
    os.geteuid() != 0 or not (TRACEFS / "instances").is_dir(), reason="it takes root and tracefs to trace"
)


class Traced:
    """A machine with a server, and the commands that run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bus = folder / "laggard.db"
        self.marker = folder / "marker"
        self._environment = {name: text for name, text in os.environ.items() if not name.startswith("LAGGARD_")}
        self._environment |= {
            "HOME": str(folder),
            "LAGGARD_STATE": str(folder),
            "LAGGARD_HOST": "web-1",
            "LAGGARD_TRACE_MARKER": str(self.marker),
            "LAGGARD_WEB_LISTEN": "127.0.0.1:0",
            "LAGGARD_SERVE_LISTEN": "127.0.0.1:0",
        }
        self._started: list[subprocess.Popen[str]] = []
        self.port = 0

    def popen(self, *words: str, **more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            words, cwd=self.folder, env=self._environment | more, stdout=pipe, stderr=pipe, text=True
        )
        self._started.append(process)
        return process

    def run(self, *words: str, **more: str) -> tuple[int, str, str]:
        process = self.popen(*LAGGARD, *words, **more)
        out, err = process.communicate(timeout=90)
        return process.returncode, out, err

    def serve(self) -> None:
        self.port = free_port()
        server = self.popen(sys.executable, "-c", SERVER, str(self.port))
        assert server.stdout is not None
        assert server.stdout.readline() == "serves\n"

    def ask(self, times: int, path: str = "/cart/17?x=1") -> None:
        for _ in range(times):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                assert answer.read() == b"here"

    def status(self) -> dict[str, object]:
        _, out, _ = self.run("trace", "status", "--json")
        read = json.loads(out)
        assert isinstance(read, dict)
        return read

    def pid(self) -> int:
        holder = holder_of(str(self.bus), self.folder, "trace")
        return holder.pid if holder else 0

    def requests(self) -> list[Request]:
        return [each for each in self._received(TOPIC) if isinstance(each, Request)]

    def own(self) -> list[Frame]:
        return [each for each in self._received(Topics().name(COUNTERS)) if isinstance(each, Frame)]

    def _received(self, topic: str) -> list[object]:
        decoder = Decoder()
        with EmbeddedBus(self.bus) as bus:
            (partition,) = bus.partitions(topic)
            return [decoder.decode(each.value, "test") for each in bus.read(partition, 0)]

    def end(self) -> None:
        if pid := self.pid():
            os.kill(pid, signal.SIGTERM)
            until(lambda: not self.pid())
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    machine = Traced(tmp_path)
    yield machine
    machine.end()


# For real.


@may_trace
def test_from_start_to_stop(traced: Traced) -> None:
    traced.serve()
    code, out, err = traced.run("trace", "start")
    assert (code, err) == (0, "")
    pid = traced.pid()
    log = traced.folder / "trace.log"
    first, note, second = out.splitlines()
    assert note.startswith(f"Note: no worker runs on {traced.bus} to score them: `laggard up")
    assert first == f"laggard traces programs that mark their requests, as process {pid}; its log is {log}."
    assert second.startswith("Next: `laggard requests` in a minute; ")
    assert Path(f"/proc/{pid}/comm").read_text() == "laggard-trace\n"
    code, _, err = traced.run("trace", "start")
    assert (code, err.startswith("laggard: `laggard trace` runs already on ")) == (BUSY, True)
    traced.ask(20)
    traced.ask(2, "/sleep")
    until(lambda: traced.status()["requests"])
    status = traced.status()
    assert (status["running"], status["pid"], status["services"]) == (True, pid, {"shop": status["requests"]})
    code, out, _ = traced.run("trace", "status")
    assert code == 0
    assert re.search(r"^  events    [\d,]+/s, [\d,]+ so far; [\d.]+ % of the time is recorded$", out, re.MULTILINE)
    assert re.search(r"^  lag       [\d.]+ m?s", out, re.MULTILINE)
    assert re.search(r"^  requests  [\d.]+/s, \d+ so far: shop \d+$", out, re.MULTILINE)
    assert re.search(r"^  cost      [\d.]+ % of one core, nice -?\d+", out, re.MULTILINE)
    threads = [path.name for path in Path(f"/proc/{pid}/task").iterdir()]
    nice = os.getpriority(os.PRIO_PROCESS, 0) or NICE
    assert {os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in threads} == {nice}
    code, out, err = traced.run("trace", "stop")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"Stopped: 22 requests out of [\d,]+ events over \d+ s\.\n", out), out
    assert not traced.marker.exists()
    assert traced.run("trace", "status")[0] == NO_DATA
    code, out, _ = traced.run("trace", "stop")
    assert code == 0
    assert out.startswith("No tracing runs here")  # it may remove what another test's recorder has just made

    found = traced.requests()
    assert len(found) == 22
    assert {(each.service, each.host) for each in found} == {("shop", "web-1")}
    assert {each.name for each in found} == {"GET /cart/*", "GET /sleep"}
    sequences = [each.sequence for each in found]
    assert sequences == sorted(set(sequences))
    for each in found:
        assert sum(round(time_s * 1e9) for time_s in each.times_s.values()) == round(each.duration_s * 1e9)
        assert abs(time.time() - each.ts) < 120.0
    told = traced.own()
    assert {(each.key, each.scope, each.layout.features) for each in told} == {("web-1", SCOPE, OWN_FEATURES)}
    values = dict(zip(OWN_FEATURES, told[-1].values[0].tolist(), strict=True))
    assert 0.0 < values["trace_recorded_ratio"] <= 1.0
    assert values["trace_cpu_s"] > 0.0
    assert values["trace_lag_s"] > 0.0
    slept = [each for each in found if each.name == "GET /sleep"]
    assert all(each.times_s["BS"] >= 0.1 for each in slept)

    code, out, _ = traced.run("requests", "--json")
    assert (code, json.loads(out)["normal"]["requests"]) == (0, 22)
    code, out, _ = traced.run("requests", "path", slept[0].request)
    assert code == 0
    assert re.search(r"BS +waits for a timer +\d{3} ms .* clock_nanosleep", out)


@may_trace
def test_to_a_folder_and_from_it(traced: Traced) -> None:
    traced.serve()
    folder = traced.folder / "recorded"
    code, out, err = traced.run("trace", "start", "--output", str(folder))
    assert (code, err) == (0, "")
    assert f" to {folder}, as process " in out
    traced.ask(10)
    code, out, _ = traced.run("trace", "stop")
    assert code == 0
    assert re.fullmatch(rf"Stopped: [\d.]+ [kM]B recorded over \d+ s to {folder}\.\n", out), out
    assert not traced.bus.exists()
    code, _, err = traced.run("trace", "start", "--output", str(folder))
    assert (code, err) == (
        FAILED,
        f"laggard: {folder}: expected a new or empty folder, it is not empty\n",
    )

    code, out, _ = traced.run("trace", "read", str(folder), "--json")
    assert code == 0
    lines = [read_line(line, "test") for line in out.splitlines()]
    assert [getattr(each, "name", "") for each in lines] == ["GET /cart/*"] * 10
    code, out, _ = traced.run("trace", "read", str(folder))
    assert code == 0
    assert out.startswith("Published 10 requests.\nNext: `laggard requests --since 365d")
    assert [each.request for each in traced.requests()] == [getattr(each, "request", "") for each in lines]


@may_trace
def test_connections_to_a_port_and_calls_of_a_function(traced: Traced) -> None:
    traced.serve()
    library = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    code, out, err = traced.run(
        *("trace", "start", "--port", f"api={traced.port}", "--uprobe", f"sleeps={library}:clock_nanosleep"),
        LAGGARD_TRACE_MARKER="",
    )
    assert (code, err) == (0, "")
    assert f"laggard traces {library}:clock_nanosleep as sleeps, port {traced.port} as api, as process " in out
    traced.ask(5)
    traced.ask(3, "/sleep")
    sleeper = traced.popen(sys.executable, "-c", "import time\nfor _ in range(3): time.sleep(0.2)")
    assert sleeper.wait(60) == 0
    assert traced.run("trace", "stop")[0] == 0
    found = traced.requests()
    connections = [each for each in found if each.service == "api"]
    assert len(connections) == 8, (traced.folder / "trace.json").read_text()
    assert sum(each.duration_s >= 0.1 for each in connections) >= 3
    # What is called within a request is a part of it: those of the server are none of their own.
    slept = [
        each for each in found if each.threads[:1] and each.threads[0] == f"{Path(sys.executable).name}[{sleeper.pid}]"
    ]
    assert len(slept) == 3
    assert {each.name for each in slept} == {"clock_nanosleep"}
    assert all(each.times_s["BS"] >= 0.1 for each in slept), slept


@may_trace
def test_php(traced: Traced) -> None:
    (traced.folder / "page.php").write_text("<?php usleep(200000); echo 'here';")
    traced.port = free_port()
    traced.popen(path_of("php"), "-S", f"127.0.0.1:{traced.port}", "-t", str(traced.folder))

    def serves() -> bool:
        try:
            traced.ask(1, "/page.php")
        except OSError:
            return False
        return True

    until(serves)
    code, _, err = traced.run("trace", "start", "--php", "--service", "blog", LAGGARD_TRACE_MARKER="")
    assert (code, err) == (0, "")
    traced.ask(5, "/page.php?secret=1")
    assert traced.run("trace", "stop")[0] == 0
    found = [each for each in traced.requests() if each.name == "GET /page.php"]
    assert len(found) == 5
    assert {each.service for each in found} == {"blog"}
    assert all(each.times_s["BS"] >= 0.1 for each in found)


@pytest.mark.slow
def test_spans_are_read_too(traced: Traced) -> None:
    begin = int(time.time() - 60.0) * 1_000_000_000

    def span(ids: tuple[str, str], kind: int, name: str, since_ms: int, until_ms: int) -> dict[str, object]:
        times = {"startTimeUnixNano": str(begin + since_ms * 10**6), "endTimeUnixNano": str(begin + until_ms * 10**6)}
        named = dict(zip(("spanId", "parentSpanId"), ids, strict=True))
        return {"traceId": "5b8aa5a2d2c872e8321cf37308d69df2"} | named | times | {"name": name, "kind": kind}

    spans = [
        span(("051581bf3cb55c13", ""), 2, "POST /checkout", 0, 500),
        span(("6f9b1c0de2f1a6aa", "051581bf3cb55c13"), 3, "charge", 100, 450),
    ]
    service = {"key": "service.name", "value": {"stringValue": "shop"}}
    path = traced.folder / "spans.json"
    path.write_text(
        json.dumps({"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [{"spans": spans}]}]})
    )
    code, out, _ = traced.run("trace", "read", str(path), "--json")
    assert code == 0
    request = read_line(out, "test")
    assert isinstance(request, Request)
    assert (request.service, request.name, request.duration_s) == ("shop", "POST /checkout", 0.5)
    assert not traced.bus.exists()
    code, out, _ = traced.run("trace", "read", str(path))
    assert (code, out.splitlines()[0]) == (0, "Published 1 request.")
    code, out, _ = traced.run("requests", "path", request.request)
    assert code == 0
    assert out.startswith(f"POST /checkout ({request.request}) of shop at ")
    assert re.search(r" 350 ms +70 %", out)
    path.write_text('{"resourceSpans": []}')
    assert traced.run("trace", "read", str(path))[0] in {NO_DATA, FAILED}, "there is no request in it"


@may_trace
def test_one_that_is_killed_leaves_nothing_in_the_way_and_stop_removes_what_it_left(traced: Traced) -> None:
    def kill() -> None:
        os.kill(traced.pid(), signal.SIGKILL)
        until(lambda: not traced.pid())
        assert os.path.ismount(traced.marker)

    traced.serve()
    assert traced.run("trace", "start")[0] == 0
    kill()
    assert traced.run("trace", "status", "--json") == (NO_DATA, '{"running": false}\n', "")
    assert traced.run("trace", "start")[::2] == (0, "")
    traced.ask(5)
    assert "Stopped: 5 requests out of " in traced.run("trace", "stop")[1]
    assert traced.run("trace", "start")[0] == 0
    kill()
    traced.run("trace", "stop")
    assert not traced.marker.exists()


@may_trace
def test_a_folder_that_becomes_full(traced: Traced) -> None:
    limited = 'ulimit -f 512; exec "$@"'  # blocks of 512 bytes
    folder = traced.folder / "recorded"
    ended = traced.popen("sh", "-c", limited, "sh", *LAGGARD, "trace", "start", "--output", str(folder))
    ended.communicate(timeout=60)
    until(lambda: not traced.pid())
    code, out, _ = traced.run("trace", "status")
    assert code == NO_DATA
    assert out.endswith(f"The last start failed: {folder}: File too large\n")


@may_trace
def test_its_time(traced: Traced) -> None:
    for duration in ("2s", "10ms"):
        assert traced.run("trace", "start", "--duration", duration)[::2] == (0, "")
        until(lambda: not traced.pid())
    code, out, err = traced.run("trace", "run", "--duration", "1s")
    assert (code, out, err) == (0, "laggard trace follows programs that mark their requests. ^C stops it.\n", "")


@may_trace
@pytest.mark.slow
def test_on_kafka(traced: Traced, broker: Cluster) -> None:
    topics = Topics("trace-command.")
    traced.serve()
    where = ("--bus", f"kafka://{broker.bootstrap}", "--set", f"topics.prefix={topics.prefix}")
    with KafkaBus(KafkaOptions((broker.bootstrap,))) as bus:
        bus.create(topics.specs())
        code, out, err = traced.run("trace", "start", *where)
        assert (code, err) == (0, "")
        assert "no worker runs" not in out  # that may be anywhere
        traced.ask(5)
        assert "Stopped: 5 requests out of " in traced.run("trace", "stop", *where)[1]
        (partition,) = bus.partitions(topics.name(REQUESTS))
        decoder = Decoder()
        found = [decoder.decode(each.value, "test") for each in bus.read(partition, 0)]
    assert [getattr(each, "name", "") for each in found] == ["GET /cart/*"] * 5


@may_trace
@pytest.mark.slow
def test_up_traces_where_the_settings_say_so(traced: Traced) -> None:
    traced.serve()
    up = traced.popen(*LAGGARD, "up", "--interval", "500ms")
    until(lambda: traced.status().get("recording"))
    traced.ask(5)
    until(lambda: traced.status()["requests"] == 5)
    assert traced.status()["supervised"] is True
    code, _, err = traced.run("trace", "stop")
    assert code == BUSY
    assert "`laggard up` runs it (process " in err
    killed = traced.pid()
    os.kill(killed, signal.SIGKILL)
    until(lambda: traced.pid() not in {0, killed})
    up.send_signal(signal.SIGINT)  # while the new one starts, so that it removes nothing of the killed one
    out, err = up.communicate(timeout=60)
    assert up.returncode == 0
    assert "  traces   requests of programs that mark their requests\n" in out
    assert err.startswith("laggard: trace was killed by SIGKILL; it starts again in 0.5 s\n")
    assert not traced.pid()
    assert not traced.marker.exists()
    assert len(traced.requests()) == 5


@pytest.mark.slow
def test_up_goes_on_where_nothing_can_be_traced(traced: Traced) -> None:
    up = traced.popen(
        *LAGGARD, "up", "--interval", "500ms", "--set", "trace.functions=x=/bin/none:f", LAGGARD_TRACE_MARKER=""
    )
    assert up.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("^C"):
        lines.append(up.stdout.readline())
        assert lines[-1], up.communicate()
    assert traced.status()["recording"] is False
    up.send_signal(signal.SIGINT)
    _, err = up.communicate(timeout=120)
    assert up.returncode == 0, err
    assert re.fullmatch(r"laggard: trace: not tracing: /bin/none: .*; retrying every 60 s\n", err), err


@pytest.mark.slow
def test_who_may_not_trace_is_told_why(traced: Traced) -> None:
    traced.folder.chmod(0o1777)
    for parent in takewhile(lambda each: each != Path(tempfile.gettempdir()), traced.folder.parents):
        parent.chmod(parent.stat().st_mode | 0o055)
    ended = traced.popen(sys.executable, "-c", SOMEBODY, "trace", "run", "--port", "shop=80", LAGGARD_TRACE_MARKER="")
    out, err = ended.communicate(timeout=60)
    assert (ended.returncode, out) == (FAILED, "")
    why = "only root may trace" if TRACEFS.is_mount() else "tracefs is not mounted there"
    assert re.fullmatch(rf"laggard: {TRACEFS}: .*: {why}.*\n", err), err
    for left in traced.folder.glob("*.lock"):  # root does not believe what it says of who traces
        left.unlink()


# What goes wrong.


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("start",), USAGE, "there is nothing to trace; expected --php, --marker, --uprobe or --port, or settings"),
        (("run",), USAGE, "there is nothing to trace"),
        (("start", "--service", "shop"), USAGE, "--service names PHP's requests; expected --php with it"),
        (("start", "--port", "80"), USAGE, 'trace.ports is "80"; expected names with values, in a text NAME=VALUE'),
        (("start", "--port", "a=80", "--port", "b=80"), USAGE, "expected each port once"),
        (("start", "--port", "shop=http"), USAGE, "expected for 'shop' a port from 1 to 65535"),
        (("start", "--uprobe", "shop=main"), USAGE, "expected for 'shop' BINARY:FUNCTION, with the whole path of"),
        (("start", "--uprobe", "shop=/bin/true:main", "--events-per-second", "3"), USAGE, "of at least 1000"),
        (("read", "none"), FAILED, "none: "),
        (("read",), USAGE, "Missing argument 'PATH...'"),
        (
            ("start", "--marker", "--bus", "kafka://b1", "--set", "host=localhost"),
            USAGE,
            "expected a name that is unique",
        ),
        (("stert",), USAGE, "No such command 'stert'"),
    ],
)
def test_a_wrong_command_line(
    words: Sequence[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        patched.setenv("HOME", str(tmp_path))
        patched.setenv("LAGGARD_STATE", str(tmp_path))
        assert run(["trace", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_the_group_of_the_marker() -> None:
    def group(name: str) -> int:
        return marker_group_of(read_settings(environ={}, flags=[Given("trace.marker_group", name, "--set")]))

    assert group("") == 0
    assert group("mail") == grp.getgrnam("mail").gr_gid
    with pytest.raises(ProgramError, match="there is no group no-such; expected the name of one on this machine"):
        group("no-such")


@may_trace
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--uprobe", "shop=/bin/none:main"), "/bin/none: "),
        (("--uprobe", "shop=/bin/sh:main"), "/bin/sh: has no symbol table: it was stripped"),
        (("--output", "/proc/none"), "laggard: /proc/none: No such file or directory\n"),
    ],
)
def test_what_cannot_be_traced(traced: Traced, words: Sequence[str], said: str) -> None:
    code, out, err = traced.run("trace", "start", *words)
    assert (code, out) == (FAILED, "")
    assert said in err
    assert not traced.pid()


# What it is made of.


def test_numbers_grow_over_restarts_and_at_any_rate() -> None:
    now = 1700000000.0
    first, second = Numbering("web-1", lambda: now), Numbering("web-1", lambda: now + 0.001)
    requests = list(normal(requests=300))
    numbers = [numbering.number(each).sequence for numbering in (first, second) for each in requests]
    assert numbers == sorted(set(numbers))
    assert {first.number(each).host for each in requests} == {"web-1"}


def test_rates_are_those_of_late() -> None:
    rates = Rates()
    assert rates.of(0.0, 0) == [0.0]
    assert [rates.of(float(second), 100 * second)[0] for second in range(1, 20)] == [100.0] * 19
    assert rates.of(30.0, 1900)[0] < 100.0
    assert rates.of(40.0, 1900) == [0.0]


def test_figures_are_of_the_process_that_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / STATUS
    assert read_figures(path, 7) is None
    figures = Figures(7, 1.0, 2.0, "PHP as blog", services={"blog": 3})
    figures.write(path)
    assert read_figures(path, 7) == figures
    assert read_figures(path, 8) is None
    path.write_text("{")
    assert read_figures(path, 7) is None
    assert [each.name for each in tmp_path.iterdir()] == [STATUS]


class _Full:
    """A bus's outbox that takes nothing, or not everything."""

    waiting = dropped = 0

    def __init__(self, refused: str = "", error: Exception | None = None) -> None:
        self.taken: list[str] = []
        self._refused, self._error = refused, error

    def publish(self, requests: Sequence[Request]) -> None:
        if self._error is not None:
            raise self._error
        if any(each.request == self._refused for each in requests):
            raise RecordError("test", "request", "something else", self._refused)
        self.taken += [each.request for each in requests]


class _Analysis:
    """Gives what it was made with."""

    def __init__(self, *batches: Sequence[Request]) -> None:
        self._batches = list(batches)

    def feed(self, _: object) -> Sequence[Request]:
        return self._batches.pop(0)

    def finish(self) -> Sequence[Request]:
        return []


def test_a_request_that_cannot_be_written_takes_no_others_with_it(caplog: pytest.LogCaptureFixture) -> None:
    requests, queue = list(normal(requests=5)), _Full("n-2")
    tracing = Tracing(queue.publish, queue, "web-1", _Analysis(requests))  # type: ignore[arg-type]
    tracing.run([None], lambda: None)  # type: ignore[list-item]
    assert queue.taken == ["n-0", "n-1", "n-3", "n-4"]
    assert (tracing.requests, tracing.dropped) == (5, 1)
    assert "request n-2 cannot be published" in caplog.text


@pytest.mark.parametrize("error", [BusError("no such topic"), BusUnavailable("locked")])
def test_a_bus_that_refuses_does_not_end_it(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    queue = _Full(error=error)
    batches = [list(normal(requests=5)), list(normal(requests=5))]
    tracing = Tracing(queue.publish, queue, "web-1", _Analysis(*batches))  # type: ignore[arg-type]
    tracing.run([None, None], lambda: None)  # type: ignore[list-item]
    assert tracing.requests == 10
    assert caplog.text.count(str(error)) == 2


def test_tracing_publishes_its_own_state_every_10_s_and_survives_a_failure_to_publish(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Frame] = []
    own = Own(told.extend, "web-1")
    figures = Figures(7, 0.0, 1000.0, "PHP as blog", events=500, requests=20, discarded={"lost": 2, "open": 1}, lost=9)
    for second in range(25):
        figures.ts, figures.lag_s = 1000.0 + second, 8.0 if second == 7 else 0.5
        own.publish(figures)
    assert [frame.ts for frame in told] == [1000.0, 1010.0, 1020.0]
    values = dict(zip(OWN_FEATURES, told[0].values[0].tolist(), strict=True))
    assert (values["trace_events"], values["trace_requests"], values["trace_discarded_requests"]) == (500, 20, 3)
    assert values["trace_lost_events"] == 9
    lags = [dict(zip(OWN_FEATURES, frame.values[0].tolist(), strict=True))["trace_lag_s"] for frame in told]
    assert lags == [0.5, 8.0, 0.5]  # the longest delay since the frame before

    def refuse(_: Sequence[Frame]) -> None:
        raise BusUnavailable("locked")

    Own(refuse, "web-1").publish(figures)
    assert "locked; the state of tracing is not published" in caplog.text
