"""The programs do misbehave in the way that they are for, and end with their tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laggard.producers.system.proc import parse_stat
from tests.misbehaving.programs import burning_java, burning_python, compiled, memory_limit, misbehaving, write_uncached

pytestmark = pytest.mark.slow

MIB = 1 << 20


def stat_of(program):
    path = Path(f"/proc/{program.pid}/task/{program.tid}/stat")
    return parse_stat(path.read_bytes(), delays=True)


def used_s(program):
    return int(Path(f"/proc/{program.pid}/task/{program.tid}/schedstat").read_text().split()[0]) / 1e9


def wait_for_rounds(program, more, limit_s=120.0):
    begin, until = program.rounds(), time.monotonic() + limit_s
    while program.rounds() < begin + more:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    "command", [lambda: [compiled("burning")], burning_python, burning_java], ids=["C", "Python", "Java"]
)
def test_one_thread_burns_when_it_is_told_and_rests_when_it_is_told(command):
    with misbehaving(command()) as program:
        wait_for_rounds(program, 20)
        program.tell("idle")
        time.sleep(0.3)  # the round that it was in
        before = used_s(program)
        rounds = program.rounds()
        time.sleep(0.5)
        assert used_s(program) - before < 0.2
        assert program.rounds() == rounds
        program.tell("busy")
        wait_for_rounds(program, 20)
        assert used_s(program) > before


def test_one_waits_for_the_disk(disk):
    # Blocks that keep a fast disk busy, too.
    with misbehaving([compiled("writing", f"-DBLOCK={1 << 25}", "-DBLOCKS=4"), disk / "log"]) as program:
        wait_for_rounds(program, 5)
        states: list[bytes] = []
        before = used_s(program)
        begin = time.monotonic()
        while len(states) < 300:
            states.append(stat_of(program).state)
            time.sleep(0.003)
        assert used_s(program) - before < 0.5 * (time.monotonic() - begin)
    assert states.count(b"D") > 0.1 * len(states), states


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a cgroup")
def test_one_thrashes_below_a_limit_of_memory(disk):
    data = write_uncached(disk / "data", 64 * MIB)
    # Of less the kernel finds nothing to take back while the disk is busy, and kills it.
    with memory_limit(24 * MIB) as within, misbehaving([*within, compiled("thrashing"), data]) as program:
        wait_for_rounds(program, 300)  # from now on a page takes another one's place: the kernel reads some around each
        before = stat_of(program)
        wait_for_rounds(program, 100)
        after = stat_of(program)
    assert after.faults_major > before.faults_major + 40


def test_none_outlives_who_started_it():
    """Not even one that is killed and cannot clean up."""
    starter = """
import time
from tests.misbehaving.programs import compiled, misbehaving
with misbehaving([compiled("burning")]) as program:
    print(program.pid, flush=True)
    time.sleep(60)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, cwd=root, text=True) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}/exe").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
