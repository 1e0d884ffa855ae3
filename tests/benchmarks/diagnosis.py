"""What a diagnosis costs the process that it is of, and itself: in pairs with and without one, and by its threads.

Run it: `python -m tests.benchmarks.diagnosis [--pairs 10] [--seconds 4]`. A real program, in which eight threads wake
each other after 20 us of work, counts its rounds; in turns of some seconds it is diagnosed and left alone. Compared
are rounds per second of its CPU time, which other programs of the machine hardly change, and per second. Then single
looks are timed at a program of 5,000 threads that nearly all sleep.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

from laggard.producers.diagnosis.bounds import Budget, Limits
from laggard.producers.diagnosis.session import Session
from laggard.producers.diagnosis.target import find
from laggard.producers.system.kernel import cpu_clock
from tests.misbehaving.programs import compiled, misbehaving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from tests.misbehaving.programs import Misbehaving

METHODS: dict[str, tuple[str, ...] | None] = {"proc alone": (), "what suits": None}
LOOKS = 20
WITHOUT_BOUND = 1000.0
"""Of a core."""


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=10)
    options.add_argument("--seconds", type=float, default=4, help="of each half of a pair")
    arguments = options.parse_args()
    print("with / without: median (least to most) of the pairs")
    for name, methods in METHODS.items():
        with misbehaving([compiled("trading")]) as program:
            print(f"{name:12}{_compared(program, methods, arguments.pairs, arguments.seconds)}")
    with misbehaving([compiled("crowd")]) as program:
        print(f"5,000 threads: {_looks(program)}")


def _compared(program: Misbehaving, methods: Sequence[str] | None, pairs: int, seconds: float) -> str:
    by_cpu, by_time, shares, looks = [], [], [], []
    for number in range(pairs):
        rates = {}
        for looked_at in (True, False) if number % 2 else (False, True):
            begun, rounds, used = time.monotonic(), program.rounds(), time.clock_gettime(cpu_clock(program.pid))
            diagnosis = None
            if looked_at:
                diagnosis = _diagnose(program, methods, seconds)
            else:
                time.sleep(seconds)
            used, lasted = time.clock_gettime(cpu_clock(program.pid)) - used, time.monotonic() - begun
            done = program.rounds() - rounds
            rates[looked_at] = done / used, done / lasted
            if diagnosis is not None:
                shares.append(diagnosis.sampler_cpu_s / lasted)
                looks.append(diagnosis.phases[0].samples / lasted)
        by_cpu.append(rates[True][0] / rates[False][0])
        by_time.append(rates[True][1] / rates[False][1])
    return (
        f"  by CPU time {_told(by_cpu)}  by time {_told(by_time)}  {statistics.median(looks):.1f} looks/s"
        f"  {statistics.median(shares):.2%} of a core, at most {max(shares):.2%}"
    )


def _diagnose(program: Misbehaving, methods: Sequence[str] | None, seconds: float) -> Diagnosis:
    session = _session(program, Budget(), methods)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(session.delay_s(), left))
        session.sample()
    session.close()
    return session.diagnosis("closed")


def _looks(program: Misbehaving) -> str:
    session = _session(program, Budget(WITHOUT_BOUND), ())
    took = []
    for _ in range(LOOKS):
        begun = time.thread_time()
        session.sample()
        took.append(time.thread_time() - begun)
    session.close()
    first, *others = took
    return (
        f"the first look {first * 1e3:.0f} ms of CPU time, the others {statistics.median(others) * 1e3:.1f} ms (median)"
    )


def _session(program: Misbehaving, budget: Budget, methods: Sequence[str] | None) -> Session:
    target = find(program.pid)
    return Session(target, id="1", host="here", reason="asked", budget=budget, limits=Limits(), methods=methods)


def _told(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


if __name__ == "__main__":
    main()
