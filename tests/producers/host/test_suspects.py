"""Who is looked at while a host waits: who waits most and who takes most, by turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.producers.host.suspects import Suspects
from laggard.producers.system.proc import PF_KTHREAD

if TYPE_CHECKING:
    from tests.producers.conftest import Machine


@pytest.fixture
def suspects(machine: Machine) -> Suspects:
    return Suspects(str(machine.root))


def thread(machine: Machine, pid: int, tid: int, state: str) -> None:
    path = machine.root / str(pid) / "task" / str(tid)
    path.mkdir(parents=True, exist_ok=True)
    (path / "stat").write_text(f"{tid} (a ) b) {state} 1 1 1\n")


def test_who_waits_and_who_takes_come_by_turns(machine: Machine, suspects: Suspects) -> None:
    for pid in range(2, 9):
        machine.run(pid, read=5_000_000, write=0)
    machine.run(3, state="D")
    suspects.sample()
    machine.run(3, state="D")
    machine.run(4, state="D", read=5_000_100)
    machine.run(5, read=6_000_000)
    machine.run(6, write=3_000_000)
    suspects.sample()
    assert suspects.worst("io", 3) == (3, 6, 4)
    assert suspects.worst("io", 99) == (3, 6, 4, 5), "who does neither is none"
    assert suspects.worst("io", 99, among=[2, 4, 5, 99]) == (4, 5)


def test_for_memory_they_wait_for_pages_and_take_pages(machine: Machine, suspects: Suspects) -> None:
    for pid in (2, 3, 4, 5):
        machine.run(pid, faults_major=1000, rss=50_000)
    suspects.sample()
    machine.run(2, faults_major=1100)
    machine.run(3, rss=90_000)
    machine.run(4, faults_major=1500, rss=40_000)
    suspects.sample()
    assert suspects.worst("memory", 99) == (4, 3, 2)


def test_threads_that_wait_are_counted(machine: Machine, suspects: Suspects) -> None:
    machine.run(2, state="D")
    machine.run(3, threads=3)
    for tid, state in ((3, "S"), (30, "D"), (31, "D")):
        thread(machine, 3, tid, state)
    suspects.sample()
    assert suspects.worst("io", 2) == (3, 2)


def test_kernel_threads_are_none(machine: Machine, suspects: Suspects) -> None:
    machine.run(2, state="D", flags=PF_KTHREAD)
    suspects.sample()
    assert suspects.worst("io", 2) == ()


def test_who_has_ended_is_none_and_another_under_its_id_begins_anew(machine: Machine, suspects: Suspects) -> None:
    machine.run(2, state="D")
    machine.run(3, read=0)
    suspects.sample()
    machine.end(2)
    machine.run(3, read=9_000_000, start=99)
    suspects.sample()
    assert suspects.worst("io", 2) == ()
