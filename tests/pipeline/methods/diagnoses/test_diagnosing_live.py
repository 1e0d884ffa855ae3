"""Real programs that misbehave on this machine: found in time, profiled, and reported on a real bus."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.cpu import Cpu, Machine
from laggard.pipeline.core.bus import Partition, TopicSpec
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis
from laggard.pipeline.core.sending.outbox import Outbox
from laggard.pipeline.methods.diagnoses.diagnosing import KILLED, STOPPED, Diagnosing
from laggard.pipeline.methods.diagnoses.unfinished import Unfinished
from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock
from laggard.producers.system.kernel import cpu_clock
from tests.misbehaving.programs import burning_python, compiled, disk_limit, memory_limit, misbehaving, write_uncached
from tests.producers.host.test_pressures import real_group as pressed_group
from tests.producers.host.test_quotas import real_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from laggard.pipeline.core.records.diagnosis import Diagnosis, Stack, ThreadUse

__all__ = ["pressed_group", "real_group"]  # fixtures

pytestmark = pytest.mark.slow

TOPIC = "laggard.diagnoses"
AGENT = """
import sys
from laggard.pipeline.cli import main
from laggard.pipeline.methods.diagnoses.samplings import Samplings
begin = Samplings._begin
Samplings._begin = lambda self, pid, *event: begin(self, pid, *event) if pid == int(sys.argv[1]) else None
main(["agent"])
"""
"""One that profiles this process alone, see `watching`."""

EAGER = {
    "LAGGARD_CPU_CONDITIONS": "single_cpu",
    "LAGGARD_CPU_THRESHOLD": "2%",
    "LAGGARD_CPU_DURATION": "1s",
    "LAGGARD_AGENT_INTERVAL": "1s",
}
"""Settings with which one busy thread is profiled at once, whatever else the machine has to do."""


@pytest.fixture
def _let_through() -> Iterator[None]:
    """Put what is started here before all else that computes on this machine, as far as that is allowed."""
    prefer(-20)
    yield
    prefer(0)


def prefer(nice: int) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        # With automatic groups (sched(7)) that counts within this session alone.
        Path("/proc/self/autogroup").write_text(str(nice))


def told(path: Path, pid: int) -> list[Diagnosis]:
    """What is on the bus of a process."""
    partition = Partition(TOPIC, 0)
    with EmbeddedBus(path) as bus:
        records = [(record, read_diagnosis(record.value, "test")) for record in bus.read(partition, 0)]
    assert all(dict(record.headers)["ce_type"] == b"laggard.diagnosis" for record, _ in records)
    assert all(record.key == found.host for record, found in records)
    return [found for _, found in records if found.pid == pid]


def await_told(
    path: Path, pid: int, enough: Callable[[list[Diagnosis]], bool], within_s: float = 200.0
) -> list[Diagnosis]:
    until = time.monotonic() + within_s
    while not enough(found := told(path, pid)):
        assert time.monotonic() < until, f"so far {[(each.progress, each.notes) for each in found]}"
        time.sleep(0.1)
    return found


def is_closed(found: list[Diagnosis]) -> bool:
    return bool(found) and found[-1].progress == "closed"


def busiest(diagnosis: Diagnosis) -> ThreadUse:
    return diagnosis.phases[0].threads[0]


def while_high(diagnosis: Diagnosis, tid: int) -> list[ThreadUse]:
    """A thread in all phases of high use: on a machine that others use too, there may be several."""
    return [thread for phase in diagnosis.phases if phase.high for thread in phase.threads if thread.tid == tid]


def running(threads: Iterable[ThreadUse]) -> list[Stack]:
    return [stack for thread in threads for stack in thread.stacks if stack.state == "running"]


def samples(stacks: Iterable[Stack]) -> int:
    return sum(stack.samples for stack in stacks)


def share_of(function: str, *threads: ThreadUse) -> float:
    """Of their running samples, the share in which a function is on the stack."""
    stacks = running(threads)
    named = [stack for stack in stacks if any(function in location.function for location in stack.locations)]
    return samples(named) / samples(stacks)


def check_closed(found: list[Diagnosis]) -> None:
    """Each was closed once: one because its agent was killed, one perhaps because it was stopped.

    A condition that was over before its first report was closed only.
    """
    ids = list(dict.fromkeys(each.id for each in found))
    assert len(ids) >= 2
    ends = []
    for one in ids:
        records = [each for each in found if each.id == one]
        *before, last = (each.progress for each in records)
        assert last == "closed"
        assert before == ["opened", *["extended"] * (len(before) - 1)][: len(before)]
        ends.append(records[-1])
    assert [each.notes[0] for each in ends if not each.complete] in ([KILLED], [KILLED, STOPPED])


@contextmanager
def watching(folder: Path, duration_s: float, **thresholds: float) -> Iterator[set[int]]:
    """What profiles processes, in its thread, with a bus in this folder: those whose ids are put into the set.

    All of this machine are watched, but others are no concern of these tests: they would take places and samples.
    """
    with EmbeddedBus(folder / "laggard.db") as bus:
        bus.create([TopicSpec(TOPIC)])
        outbox = Outbox(bus, TOPIC)
        diagnosing = Diagnosing(
            lambda diagnosis: outbox.publish([diagnosis]),
            "web-1",
            {name: Machine(threshold=threshold, duration_s=duration_s) for name, threshold in thresholds.items()},
            Unfinished(folder / "diagnoses.jsonl"),
            budget_ratio=0.05,
        )
        concerned: set[int] = set()
        begin = diagnosing._samplings._begin
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(
                diagnosing._samplings, "_begin", lambda pid, *event: begin(pid, *event) if pid in concerned else None
            )
            monkeypatch.setattr("laggard.pipeline.methods.diagnoses.samplings.FIRST_PUBLISHED_S", 0.3)
            # Others that keep a profiler from the CPU must not make this another one.
            monkeypatch.setattr("laggard.producers.diagnosis.profiling.PATIENCE_S", 60.0)
            diagnosing.start()
            until = time.monotonic() + 100.0
            while not diagnosing.delay_s() > 0.0:  # until it has seen the machine without what is to come
                assert time.monotonic() < until
                time.sleep(0.05)
            try:
                yield concerned
            finally:
                diagnosing.close()
                assert diagnosing.failures == 0


def test_a_busy_thread_among_idle_ones_and_what_it_executes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.pipeline.methods.diagnoses.samplings.PUBLISHED_EVERY_S", 1.0)
    bus = tmp_path / "laggard.db"
    with watching(tmp_path, 1.0, single_cpu=0.02) as concerned, misbehaving(burning_python()) as program:
        concerned.add(program.pid)

        def is_sampled(found: list[Diagnosis]) -> bool:
            threads = [thread for each in found[-1:] for thread in while_high(each, program.tid)]
            return samples(running(threads)) >= 20 and share_of(program.function, *threads) >= 0.9

        # A profiler that others keep from the CPU begins late, and names functions later still.
        sampled = await_told(bus, program.pid, is_sampled)[-1].id
        program.tell("idle")

        # On a busy machine it may be high again, with nothing to be sampled.
        def is_over(found: list[Diagnosis]) -> bool:
            return is_closed([each for each in found if each.id == sampled])

        found = [each for each in await_told(bus, program.pid, is_over) if each.id == sampled]
    assert found[0].progress == "opened"
    last = found[-1]
    assert (last.reason, last.host, last.complete) == ("single_cpu", "web-1", True)
    assert busiest(last).tid == program.tid
    assert share_of(program.function, *while_high(last, program.tid)) >= 0.9
    assert not last.phases[-1].high


@pytest.mark.long
@pytest.mark.usefixtures("_let_through")
def test_the_published_numbers(tmp_path: Path) -> None:
    """85 % of all CPUs for 5 s (S1): seen within a second of that; over when it was low for 5 s.

    Others may keep the program from using that much for a while. So what it used is measured here too.
    """
    cpus = os.cpu_count() or 1
    many = compiled("burning", f"-DGRINDERS={8 * cpus}")
    bus = tmp_path / "laggard.db"
    used: list[tuple[float, float]] = []  # when, and the CPU time of the program until then
    with watching(tmp_path, 5.0, cpu=0.85) as concerned, misbehaving([many], busy=False) as program:
        concerned.add(program.pid)

        def is_told(found: list[Diagnosis]) -> bool:
            used.append((time.time(), time.clock_gettime(cpu_clock(program.pid))))
            return bool(found)

        used.append((time.time() - 10.0, 0.0))
        await_told(bus, program.pid, lambda _: is_told([]) or len(used) > 20)
        program.tell("busy")
        await_told(bus, program.pid, is_told)
        time.sleep(3.0)
        ended = time.time()
        program.tell("idle")
        found = await_told(bus, program.pid, is_closed)
    last = found[-1]
    assert (last.reason, last.threshold, last.complete) == ("cpu", 0.85, True)
    assert last.value >= 0.85
    assert {thread.name for thread in last.phases[0].threads[:10]} == {"grinder"}
    assert share_of(program.function, busiest(last)) >= 0.9
    assert last.phases[-1].end_ts - last.phases[-1].begin_ts >= 4.9
    assert last.ts - ended <= 7.0

    def ratio(begin: float, end: float) -> float:
        """What the program used of all CPUs."""
        times, seconds = zip(*used, strict=True)
        return float(np.diff(np.interp([begin, end], times, seconds))[0]) / (end - begin) / cpus

    begin = last.phases[0].begin_ts
    assert ratio(begin - 5.0, begin) >= 0.83, "it was high for 5 s"
    assert min(ratio(begin - each, begin - each + 0.5) for each in np.arange(5.75, 7.0, 0.25)) < 0.87, (
        "... and not for 6"
    )


def test_who_is_held_back_by_a_quota(tmp_path: Path, real_group: Path) -> None:
    bus = tmp_path / "laggard.db"
    with misbehaving([compiled("burning")]) as program:
        (real_group / "cgroup.procs").write_text(str(program.pid))
        with watching(tmp_path, 1.0, quota=0.05) as concerned:
            concerned.add(program.pid)
            found = await_told(bus, program.pid, lambda found: len(found) >= 1)
    assert found[0].reason == "quota"
    assert 0.05 <= found[0].value <= 1.0


def test_who_writes_while_the_host_waits_for_its_disk(tmp_path: Path, disk: Path) -> None:
    bus = tmp_path / "laggard.db"
    with (
        misbehaving([compiled("writing"), disk / "written"]) as program,
        watching(tmp_path, 1.0, io_pressure=0.02) as concerned,
    ):
        concerned.add(program.pid)
        found = await_told(bus, program.pid, lambda found: len(found) >= 1)
    assert found[0].reason == "io_pressure"


@pytest.mark.long
@pytest.mark.usefixtures("_let_through")
def test_who_waits_for_the_disk_beside_busy_cpus_in_a_control_group_of_its_own(
    tmp_path: Path, disk: Path, pressed_group: Path
) -> None:
    """One thread waits, others compute on all CPUs: the host's pressure is half, no more."""
    bus, mib = tmp_path / "laggard.db", 1 << 20
    file = write_uncached(disk / "written", mib)
    operator, table = Cpu(conditions=["io_pressure"]), ProcessTable(Clock(), 0.5)
    found: list[Diagnosis] = []
    events: set[str] = set()
    with (
        disk_limit(disk, mib // 4) as within,
        misbehaving([*within, compiled("writing", "-DBLOCKS=16"), file], busy=False) as stuck,
        misbehaving([compiled("burning", f"-DGRINDERS={2 * (os.cpu_count() or 1)}")]) as busy,
        watching(tmp_path, 5.0, io_pressure=0.85) as concerned,
    ):
        concerned |= {stuck.pid, busy.pid}
        if "0::/\n" in Path(f"/proc/{stuck.pid}/cgroup").read_text():  # the limit is one of version 1
            (pressed_group / "cgroup.procs").write_text(str(stuck.pid))
        time.sleep(1.0)
        stuck.tell("busy")
        begun = time.time()
        while not (found and events) and time.time() < begun + 30.0:
            layout, values = table.read()
            rows = operator.score(time.time(), layout, values).ranking().rows
            operator.learn(time.time(), layout, values)
            events |= {row.row for row in rows if row.score > 1.0}
            found = told(bus, stuck.pid)
            time.sleep(0.5)
        beside = told(bus, busy.pid)
    table.close()
    assert found[0].reason == "io_pressure"
    assert found[0].value >= 0.85
    assert 4.9 <= found[0].phases[0].begin_ts - begun <= 7.0
    assert beside == []
    assert [row.partition("@")[0] for row in events] == [f"writing[{stuck.pid}"]


def test_who_thrashes_while_the_host_waits_for_memory(tmp_path: Path, disk: Path) -> None:
    bus, mib = tmp_path / "laggard.db", 1 << 20
    data = write_uncached(disk / "data", 36 * mib)
    with (
        memory_limit(24 * mib) as within,
        misbehaving([*within, compiled("thrashing", "-DSWEEPERS=4"), data]) as program,
        watching(tmp_path, 1.0, memory_pressure=0.02) as concerned,
    ):
        concerned.add(program.pid)
        found = await_told(bus, program.pid, lambda found: len(found) >= 1)
    assert found[0].reason == "memory_pressure"


@contextmanager
def agent(state: Path, pid: int, **settings: str) -> Iterator[subprocess.Popen[str]]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(state), "LAGGARD_STATE": str(state), **EAGER, **settings}
    command = [sys.executable, "-P", "-c", AGENT, str(pid)]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as one:
        try:
            yield one
        finally:
            if one.poll() is None:
                one.kill()


def test_an_agent_that_is_killed_or_stopped_leaves_no_diagnosis_open(tmp_path: Path) -> None:
    bus = tmp_path / "laggard.db"
    with misbehaving(burning_python()) as program:
        with agent(tmp_path, program.pid) as first:
            until = time.monotonic() + 200.0
            while not (tmp_path / "diagnoses.jsonl").exists():
                assert time.monotonic() < until
                time.sleep(0.1)
            first.kill()
        with agent(tmp_path, program.pid) as second:
            found = await_told(bus, program.pid, lambda found: len({each.id for each in found}) >= 2)
            second.send_signal(signal.SIGTERM)
            assert second.wait(100) == 0
            assert second.stderr is not None
            assert not second.stderr.read()
        found = told(bus, program.pid)
        assert program.process.poll() is None
        state = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state in {"R", "S"}, "it goes on"
    check_closed(found)
    assert not (tmp_path / "diagnoses.jsonl").exists()
