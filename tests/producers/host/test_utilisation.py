"""What processes use, twice a second: on a machine made of files, and exact against the kernel of this one."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.producers.host.utilisation import COUNT_S, LIST_S, Utilisation
from laggard.producers.system.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.producers.conftest import Machine, Time

TICKS = os.sysconf("SC_CLK_TCK")

APART = """
from laggard.producers.system.clock import Clock
from laggard.producers.host.utilisation import LIST_S, Utilisation
import time

utilisation = Utilisation(Clock())
utilisation.read()
print(flush=True)
started = int(input())
time.sleep(LIST_S)
print(started in utilisation.read().pids)
"""

BURN = """
import time
while True:
    input()
    end = time.process_time() + 0.15
    while time.process_time() < end:
        pass
    print(time.process_time_ns(), flush=True)
"""


@pytest.fixture(autouse=True)
def _idle_machine(machine: Machine) -> None:
    tell(machine, idle_s=0.0, newest=1)


@pytest.fixture
def utilisation(machine: Machine, time: Time, monkeypatch: pytest.MonkeyPatch) -> Iterator[Utilisation]:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    found = Utilisation(time.clock, str(machine.root))
    yield found
    found.close()


def tell(machine: Machine, *, idle_s: float, newest: int) -> None:
    machine.write("uptime", f"1000.00 {idle_s:.2f}\n")
    machine.write("loadavg", f"0.00 0.01 0.05 1/90 {newest}\n")


def single(utilisation: Utilisation) -> dict[int, float]:
    use = utilisation.read()
    return dict(zip(use.pids, use.single.tolist(), strict=True))


def test_use_is_user_and_kernel_time_over_time(machine: Machine, time: Time, utilisation: Utilisation) -> None:
    machine.run(7, user=1000, system=500)
    machine.run(8)
    assert all(math.isnan(value) for value in single(utilisation).values()), "there is nothing to compare with"
    time.pass_(0.5)
    machine.run(7, user=1000 + round(0.3 * TICKS), system=500 + round(0.1 * TICKS))
    assert single(utilisation) == {7: pytest.approx(0.8), 8: 0.0}


def test_a_process_that_was_not_there_before_began_at_nothing(
    machine: Machine, time: Time, utilisation: Utilisation
) -> None:
    machine.run(7)
    for _ in range(round(LIST_S / 0.5)):
        utilisation.read()
        time.pass_(0.5)
    machine.run(9, user=round(0.4 * LIST_S * TICKS))
    tell(machine, idle_s=0.0, newest=9)
    use = utilisation.read()
    assert dict(zip(use.pids, use.source.tolist(), strict=True)) == {7: 0, 9: -1}
    assert use.single[use.pids.index(9)] == pytest.approx(0.4)


def test_who_has_ended_is_not_there_any_more(machine: Machine, time: Time, utilisation: Utilisation) -> None:
    for pid in (7, 8, 9):
        machine.run(pid)
    before = utilisation.read()
    time.pass_(0.5)
    machine.end(8)
    use = utilisation.read()
    assert set(use.pids) == {7, 9}
    assert [before.pids[place] for place in use.source] == list(use.pids)
    time.pass_(0.5)
    again = utilisation.read()
    assert again.same
    assert again.source.tolist() == [0, 1]


@pytest.mark.parametrize("user_s", [1.0, 2000.0], ids=["it used less", "it used more than there was"])
def test_another_process_under_the_same_id_is_another_row(
    machine: Machine, time: Time, utilisation: Utilisation, user_s: float
) -> None:
    machine.run(7, user=round(1000 * TICKS))
    utilisation.read()
    time.pass_(0.5)
    machine.run(7, user=round(user_s * TICKS))
    use = utilisation.read()
    assert use.source.tolist() == [-1]
    assert np.isnan(use.single).all()


def test_processes_are_listed_only_when_one_was_started(machine: Machine, time: Time, utilisation: Utilisation) -> None:
    machine.run(7)
    utilisation.read()
    machine.run(8)
    time.pass_(LIST_S)
    assert set(single(utilisation)) == {7}
    tell(machine, idle_s=0.0, newest=8)
    time.pass_(LIST_S)
    assert set(single(utilisation)) == {7, 8}
    machine.run(9)
    tell(machine, idle_s=0.0, newest=9)
    time.pass_(LIST_S / 2)
    assert set(single(utilisation)) == {7, 8}, "so soon they are not listed again"


def test_in_another_pid_namespace_those_that_are_started_outside_are_seen() -> None:
    apart = ["unshare", "--pid", "--fork"]
    if os.geteuid() != 0 or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare is not possible here")
    with subprocess.Popen(
        [*apart, sys.executable, "-c", APART], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "\n"
        with subprocess.Popen(["sleep", "60"]) as started:
            told, _ = reader.communicate(f"{started.pid}\n")
            started.kill()
    assert told == "True\n"


@pytest.mark.parametrize("told", [True, False], ids=["the machine tells how idle it is", "it does not"])
def test_a_cpu_that_is_added_counts(
    machine: Machine, time: Time, monkeypatch: pytest.MonkeyPatch, *, told: bool
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    if not told:
        (machine.root / "uptime").unlink()
    utilisation = Utilisation(time.clock, str(machine.root))
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    time.pass_(COUNT_S)
    utilisation.busy_ratio()
    assert utilisation.cpus == 8
    utilisation.close()


def test_what_was_forgotten_is_not_compared_with(machine: Machine, time: Time, utilisation: Utilisation) -> None:
    machine.run(7)
    utilisation.read()
    utilisation.forget()
    time.pass_(0.5)
    use = utilisation.read()
    assert use.source.tolist() == [-1]
    assert np.isnan(use.single).all()


def test_the_host_is_busy_as_far_as_it_is_not_idle(machine: Machine, time: Time, utilisation: Utilisation) -> None:
    assert math.isnan(utilisation.busy_ratio())
    time.pass_(0.5)
    tell(machine, idle_s=0.5, newest=1)
    assert utilisation.busy_ratio() == pytest.approx(0.75)
    assert math.isnan(utilisation.busy_ratio()), "no time has passed"


def test_pressure_is_the_share_of_time_in_which_somebody_waited(
    machine: Machine, time: Time, utilisation: Utilisation
) -> None:
    assert math.isnan(utilisation.pressure_ratio("io")), "this kernel does not tell"
    for total_us, expected in ((1_000_000, math.nan), (1_450_000, 0.9)):
        machine.write("pressure/io", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\nfull total=0\n")
        assert utilisation.pressure_ratio("io") == pytest.approx(expected, nan_ok=True)
        time.pass_(0.5)


@pytest.mark.slow
def test_a_process_of_this_machine_uses_what_the_kernel_says_that_it_did() -> None:
    """Exact: against what the process itself read of its own CPU time, at both readings."""
    utilisation = Utilisation(Clock())
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        used = []
        for _ in range(2):
            print(file=child.stdin, flush=True)
            told_ns = int(child.stdout.readline())
            begun = Clock().monotonic()
            use = utilisation.read()
            used.append((told_ns, begun, use.single[use.pids.index(child.pid)]))
        child.kill()
    (first_ns, begun, _), (second_ns, again, ratio) = used
    elapsed_s = (again - begun) / 1e9
    # What it used to print and to wait is its own, too: less than a tenth of what it was told to use.
    assert ratio * elapsed_s == pytest.approx((second_ns - first_ns) / 1e9, rel=0.1)
    assert set(use.pids) >= {os.getpid(), child.pid}
    utilisation.close()
