"""`laggard measure` for real: from programs, files and pipes to the topic of applications."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, Histogram, start_http_server

from laggard.pipeline.cli.exits import BUSY, FAILED, USAGE
from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.core.records import Decoder, Frame
from laggard.pipeline.core.topics import APPLICATIONS, POOLS, Topics
from tests.brokers.ports import free_port
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from tests.brokers.fixtures import NewCluster

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]
TOPIC = Topics().name(APPLICATIONS)


class Measures:
    """A machine with a configuration file, and the commands that run there."""

    def __init__(self, folder: Path, sources: str, location: str = "") -> None:
        self.folder = folder
        self.bus = location or str(folder / "laggard.db")
        (folder / "laggard.toml").write_text(
            f'host = "web-1"\nbus.location = "{self.bus}"\nweb.listen = "127.0.0.1:0"\nserve.listen = "127.0.0.1:0"\n'
            f'kafka.request_timeout = "2s"\n{sources}'
        )
        self._environment = {name: text for name, text in os.environ.items() if not name.startswith("LAGGARD_")}
        self._environment |= {"HOME": str(folder), "LAGGARD_STATE": str(folder / "state")}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*LAGGARD, *(words or ("measure",))],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(stdin, timeout=120)
        return process.returncode, out, err

    def stop(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()

    def has_read(self, process: subprocess.Popen[str]) -> None:
        """Wait until a measure has read its sources once."""
        before = len(self.frames("source"))
        deadline = time.monotonic() + 120
        while len(self.frames("source")) == before:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"it reads nothing: {process.communicate()}, {process.returncode}")
            time.sleep(0.1)

    def frames(self, scope: str = "performance", topic: str = TOPIC, key: str = "shop") -> list[Frame]:
        if not (self.folder / "laggard.db").exists():
            return []
        with suppress(BusError), EmbeddedBus(self.folder / "laggard.db") as bus:  # its topics may not be there yet
            return frames_on(bus, scope, topic, key)
        return []


def frames_on(bus: Bus, scope: str, topic: str = TOPIC, key: str = "shop") -> list[Frame]:
    """Those of the application, or another key, in the order of their arrival."""
    decoder = Decoder()
    partition = bus.partition_of(topic, key)
    found = [decoder.decode(each.value, "test") for each in bus.read(partition, bus.bounds(partition)[0], key=key)]
    return [each for each in found if isinstance(each, Frame) and each.scope == scope]


def by_sequence(bus: Bus) -> dict[int, Frame]:
    """The application's, each once: what a broker took, but could not say so in time, is sent again."""
    found: dict[int, Frame] = {}
    for each in frames_on(bus, "performance"):
        found.setdefault(each.sequence, each)
    return found


@pytest.fixture
def measures(tmp_path: Path) -> Iterator[Callable[..., Measures]]:
    made: list[Measures] = []

    def new(sources: str, location: str = "") -> Measures:
        made.append(Measures(tmp_path, sources, location))
        return made[-1]

    yield new
    for each in made:
        each.stop()


@pytest.fixture
def program() -> Iterator[tuple[Histogram, str]]:
    registry = CollectorRegistry()
    histogram = Histogram("http_request_duration_seconds", "x", registry=registry)
    port = free_port()
    server, thread = start_http_server(port, "127.0.0.1", registry)
    yield histogram, f"http://127.0.0.1:{port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def line(ts: float, application: str = "shop") -> str:
    return json.dumps({"ts": ts, "application": application, "performance": {"throughput_per_s": ts}}) + "\n"


def source(path: object) -> str:
    return f'[[sources]]\nkind = "lines"\napplication = "shop"\ninterval = "1s"\npath = "{path}"\n'


def features(frame: Frame) -> dict[str, float]:
    return dict(zip(frame.layout.features, frame.values[0].tolist(), strict=True))


def times(found: list[Frame]) -> list[float]:
    return [each.ts for each in found]


@pytest.mark.slow
def test_standard_input_to_its_end(measures: Callable[..., Measures]) -> None:
    one = measures(source("-"))
    code, out, err = one.run("measure", stdin=line(1) + line(2, "other") + line(3))
    assert code == 0
    assert re.fullmatch(r"laggard measure publishes the performance of shop to \S+\. \^C stops it\.\n", out)
    assert err == ("standard input:2: expected a frame of the application 'shop', got one of application 'other'\n")
    assert times(one.frames()) == [1, 3]
    [own] = one.frames("source")
    assert own.layout.rows == ("lines",)


@pytest.mark.slow
def test_members_of_pools_go_to_their_topic(measures: Callable[..., Measures], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "jobs")
    one = measures(source("-") + source(tmp_path / "jobs").replace('application = "shop"', 'pool = "jobs"'))
    process = one.start("measure", "--duration", "20s")
    rows = {"worker-1": {"cpu_ratio": 0.4}, "worker-2": {"cpu_ratio": 0.1}}
    with (tmp_path / "jobs").open("w") as jobs:
        assert process.stdin
        for ts in (1, 2):
            jobs.write(json.dumps({"ts": ts, "pool": "jobs", "rows": rows}) + "\n")
        jobs.flush()
        process.stdin.write(line(3))
        process.stdin.flush()
        topic = Topics().name(POOLS)
        until(lambda: len(one.frames("member", topic, "jobs")) == 2 and bool(one.frames() and one.frames("source")))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    published = "the performance of shop and the members of jobs"
    assert re.fullmatch(rf"laggard measure publishes {published} to \S+\. \^C stops it\.\n", out)
    assert times(one.frames("member", topic, "jobs")) == [1, 2]
    assert {each.layout.rows for each in one.frames("member", topic, "jobs")} == {("worker-1", "worker-2")}
    assert {each.layout.rows for each in one.frames("source", topic, "jobs")} == {("lines",)}
    assert times(one.frames()) == [3]


@pytest.mark.parametrize(
    ("sources", "command", "said"),
    [
        ("", "measure", "default: there are no sources; expected tables [[sources]] in the config"),
        (source("-"), "up", "laggard.toml:10: source lines: `laggard up` has no standard input to read; expected "),
    ],
)
def test_sources_that_cannot_be_read_are_told_with_what_to_do(
    measures: Callable[..., Measures], sources: str, command: str, said: str
) -> None:
    code, out, err = measures(sources).run(command)
    assert (code, out) == (USAGE, "")
    assert err.startswith(f"laggard: {said}")


@pytest.mark.slow
def test_the_doctor_looks_at_each_source(measures: Callable[..., Measures], program: tuple[Histogram, str]) -> None:
    down = f"http://127.0.0.1:{free_port()}/"
    one = measures(
        f'[[sources]]\nkind = "prometheus"\napplication = "shop"\ntargets = ["{program[1]}"]\n'
        f'[[sources]]\nkind = "prometheus"\napplication = "cart"\ntargets = ["{program[1]}", "{down}"]\n'
        + source("/nowhere/shop.jsonl").replace("shop", "other", 1)
    )
    code, out, _ = one.run("doctor", "--json")
    found = [each for each in json.loads(out)["findings"] if each["check"] in {"source", "measure"}]
    assert code == FAILED
    assert [(each["level"], each["found"]) for each in found] == [
        ("ok", "prometheus of shop can be read"),
        ("problem", f"prometheus of cart: {down}: cannot be reached: Connection refused"),
        ("problem", "lines of other: /nowhere/shop.jsonl: there is no such file or named pipe"),
        ("warning", "no known host serves shop: a model of it needs counters"),
        ("warning", "no known host serves cart: a model of it needs counters"),
        ("warning", "does not run on this bus"),
    ]


@pytest.mark.slow
def test_a_real_program_until_it_is_stopped(measures: Callable[..., Measures], program: tuple[Histogram, str]) -> None:
    histogram, url = program
    down = f"http://127.0.0.1:{free_port()}/metrics"
    one = measures(
        f'[[sources]]\nkind = "prometheus"\napplication = "shop"\ninterval = "1s"\ntargets = ["{url}", "{down}"]\n'
    )
    process = one.start()
    one.has_read(process)
    for _ in range(50):
        histogram.observe(0.2)
    until(lambda: len(one.frames()) > 2)
    second = one.run("measure")
    assert second[0] == BUSY
    assert second[2].startswith("laggard: `laggard measure` runs already on ")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, f"{down}: cannot be reached: Connection refused\n")
    found = one.frames()
    busy = [each for each in map(features, found) if each["throughput_per_s"] > 0]
    assert 1 <= len(busy) <= 2, "they were counted within two intervals, and once"
    # A mean of what was counted: exact, however late a busy machine lets the looks be.
    assert [each["response_time_mean_s"] for each in busy] == pytest.approx([0.2] * len(busy))
    assert times(found) == sorted(set(times(found)))


@pytest.mark.slow
def test_killed_it_loses_no_line_and_tells_none_as_new_twice(measures: Callable[..., Measures]) -> None:
    one = measures(source("shop.jsonl"))
    log = one.folder / "shop.jsonl"
    log.write_text("")
    written = 0
    for _ in range(3):
        process = one.start()
        one.has_read(process)
        for _ in range(20):
            written += 1
            with log.open("a") as file:
                file.write(line(written))
            time.sleep(0.02)
        process.kill()
        process.communicate()
    process = one.start()
    until(lambda: one.frames()[-1].ts == written)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 0
    found = one.frames()
    first = {each.sequence: each for each in reversed(found)}
    assert sorted(times(list(first.values()))) == list(range(1, written + 1)), "by the sequence each is there once"


@pytest.mark.slow
def test_up_starts_it_beside_the_others(measures: Callable[..., Measures]) -> None:
    one = measures(source("shop.jsonl"))
    (one.folder / "shop.jsonl").write_text("")
    process = one.start("up", "--interval", "500ms")
    assert process.stdout is not None
    introduction = [process.stdout.readline()]
    while not introduction[-1].startswith("^C"):
        introduction.append(process.stdout.readline())
        assert introduction[-1], process.communicate()
    assert "  sources  of the performance of shop\n" in introduction
    with (one.folder / "shop.jsonl").open("a") as file:
        file.write(line(time.time()))
    until(lambda: len(one.frames()) == 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nothing_is_lost_while_the_brokers_are_away(measures: Callable[..., Measures], new_cluster: NewCluster) -> None:
    cluster = new_cluster(start=False)
    one = measures(source("shop.jsonl"), cluster.location)
    log = one.folder / "shop.jsonl"
    log.write_text("")
    state = one.folder / "state/sources/shop lines.json"
    written = 0

    def write(count: int) -> None:
        nonlocal written
        with log.open("a") as file:
            for _ in range(count):
                written += 1
                file.write(line(written))

    def read() -> int:
        """How far the file was read, as the source remembers it."""
        return int(json.loads(state.read_text())["files"][0]["offset"]) if state.exists() else -1

    killed = one.start()
    until(lambda: read() == 0)
    write(20)
    until(lambda: read() == log.stat().st_size)
    killed.kill()
    killed.communicate()
    write(10)
    process = one.start()
    until(lambda: read() == log.stat().st_size)
    cluster.start()
    with KafkaBus(KafkaOptions(bootstrap=servers_of(cluster.location))) as bus:
        bus.create(Topics().specs((APPLICATIONS,), 3))
        until(lambda: len(by_sequence(bus)) >= written, 120.0)
        write(5)
        until(lambda: len(by_sequence(bus)) >= written)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        assert process.returncode == 0
        assert times(list(by_sequence(bus).values())) == list(range(1, written + 1))
