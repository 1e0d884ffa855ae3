"""What pools cost the host agent: microseconds a tick, with and without them, in turns on the same processes.

Run it: `python -m tests.benchmarks.pools [--processes 200] [--workers 40] [--threads 200 1000 5000] [--ticks 60]`. It
starts processes until the machine has as many as asked for: they sleep, but one in ten wakes four times a second.
- without pools: an agent that looks for prefork workers beside one that does not; the benchmark has none to be found.
- with a program that forked many workers, one in ten of which wakes likewise.
- with a program of many threads, one in ten of which wakes likewise: an agent that watches them beside one that does
  not. Per thread: all that the watching takes, of idle and busy ones together.
CPU time is that of the one thread, in the kernel and out of it, medians over the ticks; what the pools' frames take to
be encoded stands beside. Files are those that both hold, half of what the machine allows each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from laggard.pipeline.core.records import Frame, encode
from laggard.producers.host.agent import Agent
from laggard.producers.host.pools.pools import Pools
from laggard.producers.system.clock import Clock
from laggard.producers.system.open_files import raise_descriptor_limit
from tests.benchmarks.agent import population

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records import Mark

_FORKED = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
for number in range({workers}):
    if os.fork() == 0:
        while True: time.sleep(0.25 if number % 10 == 0 else 1e6)
time.sleep(1e6)
"""
_THREADS = """
import threading, time
open('/proc/self/comm', 'w').write('benched')
threading.stack_size(1 << 16)
def wake():
    while True: time.sleep(0.25)
for number in range({threads}):
    work = dict(target=wake) if number % 10 == 0 else dict(target=time.sleep, args=(1e6,))
    threading.Thread(**work, daemon=True).start()
time.sleep(1e6)
"""


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--processes", type=int, default=200)
    options.add_argument("--workers", type=int, nargs="+", default=[40])
    options.add_argument("--threads", type=int, nargs="+", default=[200, 1000, 5000])
    options.add_argument("--ticks", type=int, default=60, help="one a second")
    chosen = options.parse_args()
    print(f"{'':>14} {'without':>10} {'with':>10} {'more':>18} {'encoding':>10} {'files':>7}")
    with population(chosen.processes):
        print(f"{'no pools':>14} {measure(chosen.ticks, (), 0)}", flush=True)
        for workers in chosen.workers:
            with program(_FORKED.format(workers=workers)):
                print(f"{f'{workers} workers':>14} {measure(chosen.ticks, (), workers)}", flush=True)
        for threads in chosen.threads:
            with program(_THREADS.format(threads=threads)) as name:
                print(f"{f'{threads} threads':>14} {measure(chosen.ticks, (name,), threads)}", flush=True)


def measure(ticks: int, threads: Sequence[str], members: int) -> str:
    """One line of the table."""
    pools = Pools(Clock(), "benchmark", threads=threads, discover=not threads, settled_s=0.0)
    frames: list[Frame] = []

    def keep(records: Sequence[Frame | Mark]) -> None:
        frames[:] = [each for each in records if isinstance(each, Frame) and each.keyed_by == "pool"]

    limit = raise_descriptor_limit() // 2
    agents = {
        which: Agent(keep, "benchmark", 1.0, descriptor_limit=limit, pools=each)
        for which, each in (("without", None), ("with", pools))
    }
    spent: dict[str, list[float]] = {"without": [], "with": [], "encoding": []}
    for tick in range(ticks + 3):
        time.sleep(1.0)
        for which in sorted(agents, reverse=bool(tick % 2)):
            begun = time.thread_time()
            agents[which].tick()
            done = time.thread_time()
            if tick >= 3:
                spent[which].append(done - begun)
            if which == "with" and tick >= 3:
                begun = time.thread_time()
                for frame in frames:
                    encode(frame)
                spent["encoding"].append(time.thread_time() - begun)
                found = sum(len(frame.values) for frame in frames)
                held = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names
    for agent in agents.values():
        agent.close()
    assert found >= members, f"{found} members are found"
    without, with_pools, encoding = (median(each) * 1e6 for each in spent.values())
    more = with_pools - without
    each_one = f"{more / members:5.1f} us each" if members else " " * 13
    return f"{without:7.0f} us {with_pools:7.0f} us {more:6.0f} {each_one} {encoding:7.0f} us {held:7}"


@contextmanager
def program(text: str) -> Iterator[str]:
    """Run a program of Python; gives its name."""
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", text], start_new_session=True)
    try:
        time.sleep(3)
        yield Path(f"/proc/{process.pid}/comm").read_text().strip()
    finally:
        os.killpg(process.pid, 9)
        process.wait()


if __name__ == "__main__":
    main()
