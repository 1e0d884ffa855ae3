"""What the operator `cpu` measures of real processes, beside what the kernel counts of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from laggard.operators.cpu import Cpu
from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock
from tests.producers.host.test_quotas import real_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.operators.ranking import RowScore

__all__ = ["real_group"]

# Uses a CPU in user mode, the kernel as well, with two threads, and says how much of both together it used so far.
BUSY = """
import hashlib, os, sys, threading, time
def work():
    zero = open("/dev/zero", "rb", buffering=0)
    while True:
        hashlib.sha256(zero.read(1 << 20))
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in sys.stdin:
    used = os.times()
    print(time.process_time_ns() / 1e9, used.user + used.system, flush=True)
"""


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    table = ProcessTable(Clock(), 0.5)
    yield table
    table.close()


def judged(operator: Cpu, table: ProcessTable, pid: int) -> RowScore:
    """The row of a process at this tick, taken into the operator."""
    layout, values = table.read()
    ts = time.time()
    (row,) = (row for row in operator.score(ts, layout, values).ranking().rows if f"[{pid}@" in row.row)
    operator.learn(ts, layout, values)
    return row


@pytest.mark.slow
def test_both_shares_are_those_of_the_kernels_clock(table: ProcessTable) -> None:
    cpus = os.cpu_count() or 1
    operator = Cpu(conditions=["cpu", "single_cpu"])
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        ask, answers = child.stdin, child.stdout

        def used_s() -> float:
            print(file=ask)
            return float(answers.readline().split()[0])

        try:
            used_s()
            table.read()
            time.sleep(0.1)
            # The moments are known but for a range, a narrow one on a machine that does not stall.
            before, at = used_s(), time.monotonic()
            judged(operator, table, child.pid)
            at_after, after = time.monotonic(), used_s()
            time.sleep(1.5)
            before_end, end = used_s(), time.monotonic()
            row = judged(operator, table, child.pid)
            end_after, after_end = time.monotonic(), used_s()
        finally:
            child.kill()
    found = {each.feature: each.value for each in row.features}
    single, system_wide = found["cpu_single_ratio"], found["cpu_system_wide_ratio"]
    # Of a thread on another core the clock knows what was at that core's last scheduler tick.
    stale_s = 2 * 0.01
    assert (
        (before_end - after - stale_s) / (end_after - at) <= single <= (after_end - before + stale_s) / (end - at_after)
    )
    assert single > 0.0
    assert system_wide == single / cpus


# How soon and how much depends on what else runs. `test_cpu.py` guards after how many ticks it is told, and the
# producers' `test_quotas.py` what the kernel counts of a real group.
@pytest.mark.long
def test_who_uses_its_quota_up_is_in_an_event_after_five_seconds(table: ProcessTable, real_group: Path) -> None:
    operator = Cpu(conditions=["quota"])
    with subprocess.Popen([sys.executable, "-S", "-E", "-c", "while True: pass"]) as child:
        try:
            (real_group / "cgroup.procs").write_text(str(child.pid))
            begun, row = time.time(), judged(operator, table, child.pid)
            while not row.score > 1.0 and time.time() < begun + 20.0:
                time.sleep(0.5)
                row = judged(operator, table, child.pid)
            waited_s = time.time() - begun
        finally:
            child.kill()
    assert row.features[0].feature == "cpu_quota_throttled_ratio"
    assert row.features[0].value > 0.85
    assert 4.5 <= waited_s <= 6.5
