"""A world with everything in it, on a bus: that of the dashboards' scene, worked through at once, at times of its own.

Three hosts, an application, two pools, a service whose requests are traced; troubles, incidents, marks, a diagnosis of
the culprit of one of them, and an unreadable record.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, Phase, Stack, ThreadUse
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from laggard.pipeline.core.topics import DIAGNOSES
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import inputs, stages
from tests.grafana.pictures import SEEDS
from tests.grafana.scene import (
    APPLICATION,
    OPERATORS,
    REPLICAS,
    SERVED_BY,
    THREADS,
    TOPICS,
    Fleet,
    Script,
    Trouble,
    happening,
    learned,
)
from tests.grafana.service import Held
from tests.pipeline.investigator.serving import Served, served
from tests.shared import shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pytest

    from laggard.pipeline.scoring.observers import Observer
    from laggard.pipeline.settings import Settings

BEGINS: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC).timestamp()
"""A Monday at ten in Berlin."""

SCRIPT: Final = Script(
    lasts_s=599.0,
    troubles=(
        Trouble("db-1", "postgres", "io", 45.0, 105.0, 1.7),
        Trouble("db-1", "postgres", "io", 480.0, 560.0, 2.5),
        Trouble("cache-1", "gunicorn", "leak", 150.0, 600.0, 1.0),
        Trouble("web-1", "nginx", "hog", 520.0, 600.0, 1.5),
        Trouble(REPLICAS, "cache-1/checkout-3", "leak", 300.0, 600.0, 0.01),
        Trouble(THREADS, "java/http-nio-8080-exec-7", "busy", 200.0, 260.0, 1.0),
        Trouble(THREADS, "java/http-nio-8080-exec-4", "stuck", 500.0, 600.0, 1.0),
    ),
    held=(Held("lock", 90.0, 150.0, 0.12), Held("refused", 480.0, 600.0, 0.05)),
    marks=((65.0, "db-1"), (560.0, "web-1")),
    junk_s=120.0,
    own=("web-1",),
)

ENDS: Final = BEGINS + SCRIPT.lasts_s

SETTINGS: Final = {"operators": OPERATORS, "applications.hosts": f"{APPLICATION}={' '.join(SERVED_BY)}"}

HOST: Final = "web-1"
HOG: Final = "nginx[38@1]"

INTERVAL_S: Final = 5.0
"""Of the ticks, for tests: as much is seen as with one a second, in a quarter of the time."""

_WORKED_S: Final = 5.0
"""As much of the scene is published before it is worked through: incidents join what comes within a short time."""


def make_world(
    path: Path,
    interval_s: float = 1.0,
    *,
    observers: Sequence[Observer] = (),
    restarted_at: float = math.inf,
    at_end: Callable[[], object] = lambda: None,
) -> None:
    """Write the bus in this file; with a tick a second it takes some 20 s, with less of them accordingly less.

    Args:
        path: of the bus.
        interval_s: between two ticks.
        observers: who sees what the worker sees.
        restarted_at: when the worker is restarted, in seconds since the Unix epoch.
        at_end: called when all is worked through, before the worker ends.

    """
    settings = _settings()
    fleet = Fleet(SCRIPT, SEEDS, BEGINS, interval_s)
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())

        def begin() -> Runner:
            return Runner(bus, stages(settings), TOPICS, pace=Pace(commit_s=0.0), observers=observers)

        runner = begin()
        for records in learned(fleet):
            bus.append(records)
            _work(runner, bus, settings)
        worked = BEGINS
        for happened in happening(SCRIPT, fleet, BEGINS):
            for records in happened.records:
                bus.append(records)
            if happened.due - worked >= _WORKED_S:
                worked = happened.due
                _work(runner, bus, settings)
            if worked >= restarted_at:
                _end(runner)
                runner, restarted_at = begin(), math.inf
        _work(runner, bus, settings)
        at_end()
        _end(runner)
        diagnosis = _diagnosis()
        bus.append([Outgoing(TOPICS.name(DIAGNOSES), HOST, write_diagnosis(diagnosis).encode(), diagnosis.ts)])


def work_on(path: Path) -> None:
    """Let a worker take what has come since."""
    settings = _settings()
    with EmbeddedBus(path) as bus:
        runner = Runner(bus, stages(settings), TOPICS, pace=Pace(commit_s=0.0))
        _work(runner, bus, settings)
        _end(runner)


def shared_world(factory: pytest.TempPathFactory) -> Path:
    """The bus of the world that all processes of a test run share. To be read only."""
    return shared(factory, "world", lambda folder: make_world(folder / "bus.db", INTERVAL_S)) / "bus.db"


@contextmanager
def served_world(path: Path) -> Iterator[Served]:
    """The page on that bus, for which it is the time of the world's end."""
    told = {name.replace(".", "_", 1): value for name, value in SETTINGS.items()}
    with served(path, **told) as page:
        page.reading.clock = lambda: ENDS
        yield page


def _settings() -> Settings:
    return read_settings(None, environ={}, flags=[Given(*each, "the world") for each in SETTINGS.items()])


def _end(runner: Runner) -> None:
    stopped = threading.Event()
    stopped.set()
    runner.run(stopped)


def _work(runner: Runner, bus: EmbeddedBus, settings: Settings) -> None:
    never = threading.Event()
    reads = [
        (TOPICS.group(name), partition)
        for name, topic in inputs(settings).items()
        for partition in bus.partitions(TOPICS.name(topic))
    ]
    while runner.recovering() or any(bus.committed(group, each) < bus.bounds(each)[1] for group, each in reads):
        runner.step(never)


def _diagnosis() -> Diagnosis:
    """What the hog did: an expression that takes long to match, but for a dip in which it waited for its upstream."""
    program, library = "/usr/sbin/nginx", "/usr/lib/x86_64-linux-gnu/libpcre2-8.so.0"

    def stack(samples: int, *functions: str) -> Stack:
        """The innermost function first."""
        beyond = ("ngx_http_core_run_phases", "ngx_http_process_request", "ngx_epoll_process_events", "main")
        modules = {"match": library, "pcre2_match_8": library, "writev": "/usr/lib/x86_64-linux-gnu/libc.so.6"}
        names = (*functions, *beyond)
        return Stack(tuple(Location(name, modules.get(name, program), 64 * len(name)) for name in names), samples)

    regex = ("ngx_regex_exec", "ngx_http_script_regex_start_code", "ngx_http_rewrite_handler")
    busy = (
        stack(331, "match", "pcre2_match_8", *regex),
        stack(48, "pcre2_match_8", *regex),
        stack(12, "ngx_http_gzip_body_filter", "ngx_http_output_filter", "ngx_http_proxy_handler"),
        stack(9, "writev", "ngx_writev", "ngx_http_write_filter", "ngx_http_proxy_handler"),
    )
    waits = Stack(
        (Location("epoll_wait", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0x10D), Location("main", program, 0x40)),
        40,
        "blocked",
        "ep_poll",
        "epoll_wait",
    )
    began = BEGINS + 521.0

    def thread(tid: int, name: str, used: float, phase: tuple[float, float], *stacks: Stack) -> ThreadUse:
        first, last = phase
        lasted, samples = last - first, sum(each.samples for each in stacks)
        entry = Location("main", program, 0x40)
        return ThreadUse(tid, name, entry, first, last, used * lasted, 0.05 * used * lasted, samples, stacks)

    def phase(high: bool, begin_s: float, end_s: float, used: float, *stacks: Stack) -> Phase:
        lasted = began + begin_s, began + end_s
        threads = (
            thread(38, "nginx", used, lasted, *stacks),
            thread(39, "pool-0", 0.02, lasted, waits),
            thread(40, "pool-1", 0.01, lasted, waits),
        )
        return Phase(high, *lasted, threads[0].samples, threads)

    return Diagnosis(
        id="5a0a0c5e-0000-5000-8000-000000000001",
        progress="closed",
        host=HOST,
        ts=began + 60.0,
        row=HOG,
        name="nginx",
        pid=38,
        command="nginx: worker process",
        reason="single_cpu",
        value=0.99,
        threshold=0.85,
        methods=("proc", "perf"),
        phases=(phase(True, 0, 32, 0.99, *busy), phase(False, 32, 36, 0.2, waits), phase(True, 36, 60, 0.98, *busy)),
        sampler_cpu_s=0.31,
    )
