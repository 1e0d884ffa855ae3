"""The cost of the host agent: microseconds per process and tick, and its share of a core, beside a psutil loop.

Run it: `python tests/benchmarks/agent.py [--processes 200 285] [--intervals 1 5 60] [--seconds 20]`. It starts
processes until the machine has as many as asked for, kernel threads included: they sleep, but one in ten wakes four
times a second. The agent and a loop over psutil's `Process.oneshot()`, with all attributes of the agent's that psutil
knows, tick in turns on the same processes. CPU time is that of all threads, in the kernel and out of it.

It also measures the watch for processes to diagnose, with two checks a second, as on a busy host. On an idle host the
watch does not read processes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psutil

from laggard.operators.cpu import Machine
from laggard.pipeline.methods.diagnoses import triggers
from laggard.producers.host.agent import Agent
from laggard.producers.system.clock import Clock, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records import Frame, Mark


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--processes", type=int, nargs="+", default=[200, 285])
    options.add_argument("--intervals", type=float, nargs="+", default=[1, 5, 60])
    options.add_argument("--seconds", type=float, default=20, help="of each measurement, but at least two ticks")
    chosen = options.parse_args()
    print(f"{'processes':>9} {'interval':>8} {'agent':>17} {'psutil':>18} {'ratio':>6} {'RSS':>8} {'watch':>8}")
    for processes in chosen.processes:
        with population(processes):
            for interval in chosen.intervals:
                print(measure(interval, max(2, round(chosen.seconds / interval))), flush=True)


def measure(interval: float, ticks: int) -> str:
    """One line of the table."""
    rows: list[int] = []

    def count(records: Sequence[Frame | Mark]) -> None:
        rows.append(len(records[0].values))  # type: ignore[union-attr] # the first is the frame of the processes

    agent = Agent(count, "benchmark", interval)
    known: dict[int, psutil.Process] = {}
    clock = Clock()
    conditions = {name: Machine(threshold=2.0) for name in triggers.CONDITIONS}
    triggers.IDLE_RATIO = -1.0  # type: ignore[misc] # as if the host were never idle
    watch = triggers.Triggers(conditions, clock, Timeline(clock), "/proc", "/sys/fs/cgroup")
    watch.check()
    agent.tick()
    psutil_tick(known)
    rows.clear()
    agent_s = psutil_s = watch_s = 0.0
    for _ in range(ticks):
        for _ in range(round(interval / triggers.CHECK_S)):
            time.sleep(triggers.CHECK_S)
            begun = time.process_time()
            watch.check()
            watch_s += time.process_time() - begun
        begun = time.process_time()
        agent.tick()
        done = time.process_time()
        psutil_tick(known)
        agent_s += done - begun
        psutil_s += time.process_time() - done
    agent.close()
    watch.close()
    count_rows = sum(rows) / ticks
    ours, theirs = agent_s / sum(rows) * 1e6, psutil_s / sum(rows) * 1e6
    rss = psutil.Process().memory_info().rss / 2**20
    return (
        f"{count_rows:9.0f} {interval:6.0f} s {ours:5.1f} us {agent_s / ticks / interval:7.3%} "
        f"{theirs:7.1f} us {psutil_s / ticks / interval:7.3%} {theirs / ours:5.1f}x {rss:5.1f} MB "
        f"{watch_s / ticks / interval:8.3%}"
    )


def psutil_tick(known: dict[int, psutil.Process]) -> None:
    """Read what psutil knows of every process."""
    pids = psutil.pids()
    for pid in known.keys() - set(pids):
        del known[pid]
    for pid in pids:
        with suppress(psutil.Error):
            process = known.get(pid) or known.setdefault(pid, psutil.Process(pid))
            with process.oneshot():
                process.name()
                process.ppid()
                process.status()
                process.create_time()
                process.cpu_times()
                process.memory_info()
                process.num_threads()
                process.num_ctx_switches()
                process.num_fds()
                process.io_counters()


@contextmanager
def population(processes: int) -> Iterator[None]:
    """Start sleepers until the machine has this many processes."""
    waking = "import time\nwhile True:\n    time.sleep(0.25)\n    open('/proc/self/stat').close()\n"
    children: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(max(0, processes - len(psutil.pids()))):
            command = [sys.executable, "-S", "-E", "-c", waking] if number % 10 == 0 else ["sleep", "1000000"]
            children.append(subprocess.Popen(command))
        time.sleep(1)
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


if __name__ == "__main__":
    main()
