"""The cost of diagnoses to a busy server: its throughput with and without, in pairs.

Both halves of a pair have the same server, and an agent that ticks. In one of them, and the order is random, that looks
into the server.
"""

from __future__ import annotations

import math
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scipy.stats import t as student

from tests.evaluation.watched import agent, middle, put_first, table
from tests.misbehaving.programs import HERE, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CONNECTIONS: Final = 4
"""Each has one request under way at any time: a closed loop."""

NOTICED_S: Final = 30.0
SETTLE_S: Final = 1.0

WATCHING: Final = {"cpu_conditions": "single_cpu", "cpu_threshold": "30%", "cpu_duration": "1s"}
"""With these a server that is busy is always profiled; whoever sends it requests uses less."""

CASES: Final = (
    ("C", "perf"),
    ("Python", "proc"),
    ("Python", "py-spy"),
)
"""Servers, and what profiles them."""


@dataclass(frozen=True)
class Half:
    """Half of a pair.

    Attributes:
        per_s: requests a second.
        per_cpu_s: requests a second of the server's CPU time, which others on the machine do not change.
        sampler: CPU time of the sampler per time, of one core; NaN where there was none.
        stopped: the share of time for which the server was stopped.
        rounds_per_s: of the sampler.
        methods: what looked.

    """

    per_s: float
    per_cpu_s: float
    sampler: float = math.nan
    stopped: float = math.nan
    rounds_per_s: float = math.nan
    methods: tuple[str, ...] = ()


class Load:
    """Requests over some connections, each behind the answer to the one before. Ends with the server."""

    def __init__(self, port: int) -> None:
        self.counts = [0] * CONNECTIONS
        for number in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._ask, args=(number, connection), daemon=True).start()

    def _ask(self, number: int, connection: socket.socket) -> None:
        with connection:
            try:
                while True:
                    connection.sendall(b"?")
                    if not connection.recv(1):
                        return
                    self.counts[number] += 1
            except OSError:  # the server has ended
                return


@contextmanager
def _server(language: str) -> Iterator[tuple[int, Load]]:
    """One at work: its process, and what asks it."""
    command: list[str | Path] = [sys.executable, HERE / "serving.py"] if language == "Python" else [compiled("serving")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout
            load = Load(int(process.stdout.readline()))
            time.sleep(SETTLE_S)
            put_first(process.pid)
            yield process.pid, load
        finally:
            process.kill()


def _half(pid: int, load: Load, settings: Mapping[str, str], seconds: float, *, looked_into: bool) -> Half:
    with (
        tempfile.TemporaryDirectory(prefix="laggard-", dir="/var/tmp") as folder,
        agent(Path(folder), **settings) as watching,
    ):
        if looked_into and watching.wait_for(pid, "opened", 0.0, NOTICED_S) is None:
            raise RuntimeError(f"expected the server to be looked into within {NOTICED_S:g} s; it was not")
        time.sleep(SETTLE_S)
        begun, asked, used_s = time.monotonic(), sum(load.counts), _used_s(pid)
        time.sleep(seconds)
        lasted_s, asked, used_s = time.monotonic() - begun, sum(load.counts) - asked, _used_s(pid) - used_s
        rates = asked / lasted_s, asked / used_s
        if not looked_into:
            return Half(*rates)
        # What is told every ten seconds; the longer the better.
        last = watching.diagnoses(pid)[-1]
        until = time.monotonic() + NOTICED_S
        while last.progress == "opened" and time.monotonic() < until:
            time.sleep(0.5)
            last = watching.diagnoses(pid)[-1]
    (phase, *_) = last.phases
    looked_s = last.ts - phase.begin_ts
    return Half(
        *rates, last.sampler_cpu_s / looked_s, last.stopped_s / looked_s, phase.samples / looked_s, last.methods
    )


def measured(pairs: int, seconds: float, seed: int) -> str:
    """Measure a number of pairs of each case; the table."""
    chance = random.Random(seed)
    rows: list[Sequence[object]] = []
    for language, method in CASES:
        halves: dict[bool, list[Half]] = {True: [], False: []}
        for pair in range(pairs):
            with _server(language) as (pid, load):
                for looked_into in chance.sample((True, False), 2):
                    settings = (
                        {"diagnosis_method": method, **WATCHING} if looked_into else {"diagnosis_enabled": "false"}
                    )
                    halves[looked_into].append(_half(pid, load, settings, seconds, looked_into=looked_into))
            on, off = halves[True][-1], halves[False][-1]
            print(
                f"{language}, {method}, pair {pair + 1}: {on.per_s / off.per_s:.3f} {on.per_cpu_s / off.per_cpu_s:.3f}",
                file=sys.stderr,
                flush=True,
            )
        rows.append(_row(language, halves[True], halves[False]))
    head = ["server", "looked into by", "requests/s without", "with / without", "... per CPU time of the server"]
    return table([*head, "sampler, of a core", "rounds/s", "stopped"], rows)


def _row(language: str, on: Sequence[Half], off: Sequence[Half]) -> list[object]:
    return [
        language,
        ", ".join(dict.fromkeys(method for each in on for method in each.methods)),
        f"{statistics.median(each.per_s for each in off):,.0f}",
        _interval([one.per_s / other.per_s for one, other in zip(on, off, strict=True)]),
        _interval([one.per_cpu_s / other.per_cpu_s for one, other in zip(on, off, strict=True)]),
        middle([each.sampler for each in on], ".1%"),
        middle([each.rounds_per_s for each in on], ".1f"),
        middle([each.stopped for each in on], ".2%"),
    ]


def _interval(ratios: Sequence[float]) -> str:
    """The geometric mean and its 95 % interval, of Student's t on logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.3f}"
    reach = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.3f} ({math.exp(mean - reach):.3f} to {math.exp(mean + reach):.3f})"


def _used_s(pid: int) -> float:
    """CPU time of a process, in seconds."""
    return time.clock_gettime(~pid << 3 | 2)
