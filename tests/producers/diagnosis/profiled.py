"""How the tests of profilers drive one, and what they expect of all of them."""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.producers.diagnosis.symbols import symbolizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.producers.diagnosis.contract import Profiler, Sample
    from tests.misbehaving.programs import Misbehaving


def held() -> int:
    """How many files this process has open, with the connection to the child that reads for all."""
    symbolizer().helper()
    gc.collect()  # what an earlier test left is not of this one
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def samples_of(profiler: Profiler, *, running: int, tid: int, limit_s: float = 120.0) -> list[Sample]:
    """Start, take samples until there are enough of a thread that runs, and stop."""
    profiler.start()
    samples: list[Sample] = []
    until = time.monotonic() + limit_s
    while sum(sample.tid == tid and sample.state == "running" for sample in samples) < running:
        assert time.monotonic() < until, (profiler.notes, Counter((sample.tid, sample.state) for sample in samples))
        time.sleep(0.05)
        samples += profiler.take()
    samples += profiler.stop()
    return samples


def assert_found(samples: Sequence[Sample], program: Misbehaving, *, callers: tuple[str, ...] = ()) -> None:
    """The busy thread is met most, and in its function in at least 90 % of the samples; its callers are behind it.

    Work of the kernel in between, such as an interrupt, is no function of the program.
    """
    running = [sample for sample in samples if sample.state == "running"]
    threads = Counter(sample.tid for sample in running)
    assert threads.most_common(1)[0][0] == program.tid, threads
    of_it = [sample.locations for sample in running if sample.tid == program.tid]
    stacks = Counter(tuple(each.function for each in at if each.module != "[kernel]") for at in of_it)
    hot = sum(count for stack, count in stacks.items() if stack[:1] == (program.function,))
    # Less by two standard deviations: of a few samples one more is by chance where the function begins or ends.
    least = 0.9 * stacks.total() - 2.0 * math.sqrt(0.09 * stacks.total())
    assert hot >= least, stacks
    behind = sum(count for stack, count in stacks.items() if set(callers) <= set(stack[1:]))
    assert behind >= least, stacks
