"""The cost of tracing: for the traced program, of the recorder, and of decoding its recording. As root.

Run it: `python -m tests.benchmarks.ftrace [--pairs 8] [--seconds 1]`. A real program makes system calls as fast as it
can, in turns. A turn is without tracing, with only the events that local states need, with all but the names of files,
or with all. The turns are compared by the program's rounds per second of its own CPU time, which other programs of the
machine do not change. The CPU time of the recorder and of the decoder is per event.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.trace.ftrace import session as sessions
from laggard.producers.trace.ftrace.bpf import BpfError
from laggard.producers.trace.ftrace.pages import locate
from laggard.producers.trace.ftrace.recorder import Recorder
from laggard.producers.trace.ftrace.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

WORK = {
    "getppid": "os.getppid()",
    "stat": "os.path.exists('/etc/hostname')",
    "switch": "time.sleep(0)",
}
PROGRAM = """
import os, sys, time
for line in sys.stdin:
    what, seconds = line.split()
    what = compile({what!r}[what], "work", "exec")
    until, cpu, rounds = time.monotonic() + float(seconds), time.process_time(), 0
    while time.monotonic() < until:
        for _ in range(100):
            exec(what)
        rounds += 100
    print(rounds / (time.process_time() - cpu), flush=True)
"""
MODES = ("off", "minimal", "no names", "full")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=8)
    options.add_argument("--seconds", type=float, default=1, help="of each turn")
    arguments = options.parse_args()
    code = PROGRAM.format(what=WORK)
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as program:
        for what in WORK:
            _traced(program, what, arguments.pairs, arguments.seconds)
        _decoded(program, arguments.pairs, 3 * arguments.seconds)
        assert program.stdin
        program.stdin.close()


def _rate(program: subprocess.Popen[str], what: str, seconds: float) -> float:
    assert program.stdin
    assert program.stdout
    program.stdin.write(f"{what} {seconds}\n")
    program.stdin.flush()
    return float(program.stdout.readline())


def _traced(program: subprocess.Popen[str], what: str, pairs: int, seconds: float) -> None:
    rates: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(pairs):
        for mode in MODES:
            with _mode(mode):
                rates[mode].append(_rate(program, what, seconds))
    print(f"{what:8} untraced {1e9 / statistics.median(rates['off']):6.0f} ns a round", end="")
    for mode in MODES[1:]:
        shares = [traced / off for traced, off in zip(rates[mode], rates["off"], strict=True)]
        added = statistics.median(1e9 / on - 1e9 / off for on, off in zip(rates[mode], rates["off"], strict=True))
        print(
            f"; {mode}: {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f}), {added:+.0f} ns",
            end="",
        )
    print()


@contextmanager
def _mode(mode: str) -> Iterator[None]:
    if mode == "off":
        yield
        return
    with (
        _without_names(mode == "no names"),
        tempfile.TemporaryDirectory() as folder,
        Recorder(Path(folder, "recorded"), minimal=mode == "minimal") as recorder,
    ):
        recorder.start()
        yield


@contextmanager
def _without_names(without: bool) -> Iterator[None]:
    def refused() -> None:
        raise BpfError(0, "left out")

    original = vars(sessions)["Names"]
    try:
        if without:
            vars(sessions)["Names"] = refused
        yield
    finally:
        vars(sessions)["Names"] = original


def _decoded(program: subprocess.Popen[str], times: int, seconds: float) -> None:
    """Record for a while, and read that again and again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recorded")
        with Recorder(path) as recorder:
            recorder.start()
            assert program.stdin
            assert program.stdout
            cpu_s = 0.0
            for what in WORK:
                program.stdin.write(f"{what} {seconds / len(WORK)}\n")
                program.stdin.flush()
                until = time.monotonic() + seconds / len(WORK)
                while time.monotonic() < until:
                    time.sleep(0.2)
                    begin = time.process_time()
                    recorder.drain()
                    cpu_s += time.process_time() - begin
                program.stdout.readline()
            begin = time.process_time()
            recorder.stop()
            cpu_s += time.process_time() - begin
        pages = sum((path / f"cpu{cpu}").stat().st_size for cpu in recorder.session.instance.cpus)
        whole, located = [], []
        raw = np.frombuffer((path / "cpu0").read_bytes(), np.uint8).reshape(-1, recorder.session.instance.header.page)
        for _ in range(times):
            begin = time.process_time()
            events = sum(len(batch.events) for batch in Recording(path))
            whole.append(events / (time.process_time() - begin))
            begin = time.process_time()
            found = sum(len(locate(part, recorder.session.instance.header).at) for part in _parts(raw))
            located.append(found / (time.process_time() - begin))
        print(
            f"recorded {events:,} events, {pages / events:.0f} bytes each; {cpu_s / events * 1e9:.0f} ns of CPU time "
            f"each to write them down"
        )
        for name, rates in (
            ("decoded, as Events in the order of time", whole),
            ("found in their pages alone", located),
        ):
            told = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
            print(f"{name}: {told} events per second of CPU time")
        shutil.rmtree(path)


def _parts(raw: np.ndarray) -> Iterator[np.ndarray]:
    for begin in range(0, len(raw), 1024):
        yield raw[begin : begin + 1024]


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
