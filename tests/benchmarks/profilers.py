"""What each profiler costs the process that it looks at, and itself: in pairs with and without it.

Run it: `python -m tests.benchmarks.profilers [--pairs 10] [--seconds 2] [--method NAME ...]`. A real program burns CPU
time in one thread and counts its rounds; in turns of some seconds it is looked at and left alone. Compared are
rounds per second of the thread's CPU time, which other programs of the machine do not change, and per second. What the
profiler takes is CPU time of the thread that drives it and of the programs that it starts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.producers.diagnosis import eustack, jcmd, perf, pyspy
from tests.misbehaving.programs import burning_java, burning_python, compiled, misbehaving
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.producers.diagnosis.contract import Method, Profiler
    from tests.misbehaving.programs import Misbehaving

TAKE_S = 0.2
WARM_S = 3.0

CASES: dict[str, tuple[Method, Sequence[str | Path]]] = {
    "perf, native": (perf, [compiled("burning")]),
    "py-spy, Python": (pyspy, burning_python()),
    "jcmd, Java, G1": (jcmd, burning_java("-XX:+UseG1GC")),
    "jcmd, Java, serial": (jcmd, burning_java("-XX:+UseSerialGC")),
    "eu-stack, native": (eustack, [compiled("burning")]),
}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=10)
    options.add_argument("--seconds", type=float, default=2, help="of each half of a pair")
    options.add_argument("--method", nargs="+", choices=CASES, default=list(CASES))
    arguments = options.parse_args()
    os.environ["PATH"] = f"{Path(path_of('eu-stack')).parent}{os.pathsep}{os.environ['PATH']}"
    print("with / without: median (least to most) of the pairs; start and per sample: CPU time of the profiler")
    for name in arguments.method:
        method, command = CASES[name]
        with misbehaving(command) as program:
            time.sleep(WARM_S)
            print(f"{name:20}{_compared(program, method.attach(program.pid), arguments.pairs, arguments.seconds)}")


def _compared(program: Misbehaving, profiler: Profiler, pairs: int, seconds: float) -> str:
    by_cpu, by_time, samples, took_s = [], [], 0, 0.0
    elapsed_s = 0.0
    for number in range(pairs):
        rates = {}
        for looked_at in (True, False) if number % 2 else (False, True):
            begun, rounds, used = time.monotonic(), program.rounds(), _used_s(program)
            if looked_at:
                count, took = _look(profiler, seconds)
                samples, took_s = samples + count, took_s + took
            else:
                time.sleep(seconds)
            lasted = time.monotonic() - begun
            done = program.rounds() - rounds
            rates[looked_at] = done / (_used_s(program) - used), done / lasted
            elapsed_s += lasted * looked_at
        by_cpu.append(rates[True][0] / rates[False][0])
        by_time.append(rates[True][1] / rates[False][1])
    took_s += profiler.cpu_s
    return (
        f"  by CPU time {_told(by_cpu)}  by time {_told(by_time)}  {samples / elapsed_s:5.1f} samples/s"
        f"  {took_s / elapsed_s:6.2%} of a core  {took_s / max(1, samples) * 1e6:6.0f} us a sample"
        f"  stopped at most {profiler.stopped_s / elapsed_s:.2%}"
    )


def _look(profiler: Profiler, seconds: float) -> tuple[int, float]:
    """Samples, and CPU time of this thread, in seconds."""
    begun, cpu = time.monotonic(), time.thread_time()
    profiler.start()
    samples = 0
    while (left := begun + seconds - time.monotonic()) > 0:
        time.sleep(min(TAKE_S, left))
        samples += len(profiler.take())
    samples += len(profiler.stop())
    return samples, time.thread_time() - cpu


def _used_s(program: Misbehaving) -> float:
    """CPU time of the busy thread, in seconds."""
    return int(Path(f"/proc/{program.pid}/task/{program.tid}/schedstat").read_text().split()[0]) / 1e9


def _told(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


if __name__ == "__main__":
    main()
