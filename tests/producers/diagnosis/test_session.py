"""Sessions on real processes: those that burn, wait, end, hang, hide, or are many."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from laggard.pipeline.core.records.diagnosis import Location, Phase, ThreadUse
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis, write_diagnosis
from laggard.producers.diagnosis import profiling
from laggard.producers.diagnosis.aside import Aside
from laggard.producers.diagnosis.bounds import Budget, Limits
from laggard.producers.diagnosis.contract import Sample
from laggard.producers.diagnosis.session import Session
from laggard.producers.diagnosis.symbols import kernel_symbols
from laggard.producers.diagnosis.target import TargetError, find
from laggard.producers.diagnosis.use import beyond
from laggard.producers.system.clock import Clock
from laggard.producers.system.kernel import cpu_clock
from tests.misbehaving.programs import burning_java, burning_python, compiled, in_own_pid_namespace, misbehaving
from tests.producers.conftest import Time
from tests.producers.diagnosis.rights import SAMPLES
from tests.programs import path_of

OTHERS_UID = 65534
"""The user `nobody`."""

CALLERS_ARE_TOLD = os.uname().machine == "x86_64"

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


REAL_S = 0.02
"""This part of each pause of a session passes, for its process to run. For the session, all of it does."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Wait for answers as long as it takes: on a machine that is full even a list of mappings comes late."""
    monkeypatch.setattr(Aside.ask, "__defaults__", (60.0,))
    monkeypatch.setattr(profiling, "PATIENCE_S", 60.0)


class Leaping(Time):
    """Time that leaps over what is left of a pause. Work takes none of it; what it costs is counted where that is told.

    So a session makes as many rounds as it is meant to, however much of this machine others have.
    """

    def __init__(self, *, counted=False, real_s=REAL_S):
        super().__init__(wall=time.time_ns())
        self._real_s = real_s
        self._cpu = time.thread_time_ns if counted else lambda: 0

    @property
    def clock(self):
        return Clock(lambda: self.wall, lambda: self.monotonic, lambda: self.boottime, self._cpu)

    def pause(self, seconds):
        time.sleep(min(seconds, self._real_s))
        self.pass_(seconds)

    def seconds(self):
        return self.monotonic / 1e9


class Real:
    """The time that everybody has. Profilers know no other."""

    clock = Clock()
    pause = staticmethod(time.sleep)
    seconds = staticmethod(time.monotonic)


class Passing(Session):
    """A session that knows how its time passes."""

    def __init__(self, target, *, passing, **arguments):
        super().__init__(target, clock=passing.clock, **arguments)
        self.passing = passing


@contextlib.contextmanager
def session_of(pid, *, ratio=0.04, methods=(), passing=None, **limits):
    passing = passing or (Real() if methods is None or methods else Leaping())
    session = Passing(
        find(pid),
        passing=passing,
        id="17",
        host="atlas",
        reason="asked",
        budget=Budget(ratio),
        limits=Limits(**limits),
        methods=methods,
    )
    try:
        yield session
    finally:
        session.close()


def look(session, seconds=60.0):
    """Look until it ends by itself, or for so long."""
    passing = session.passing
    end = passing.seconds() + seconds
    while not session.ended and passing.seconds() < end:
        passing.pause(min(session.delay_s(), max(0.0, end - passing.seconds())))
        session.sample()


def look_until(session, found, seconds=0.3):
    """Look until the diagnosis has what is looked for, however long that takes on this machine; the diagnosis."""
    end = time.monotonic() + 120
    while not found(diagnosis := diagnosis_of(session)):
        assert time.monotonic() < end, diagnosis
        assert not session.ended, diagnosis
        look(session, seconds)
    return diagnosis


def diagnosis_of(session):
    """As it is for others: written and read."""
    return read_diagnosis(write_diagnosis(session.diagnosis("closed")), "")


def diagnose(pid, **arguments):
    with session_of(pid, **arguments) as session:
        look(session)
        return diagnosis_of(session)


def samples_in(function, stacks):
    """Those that were met in a function of the program, whatever of the kernel interrupted it."""
    return sum(
        stack.samples
        for stack in stacks
        if next((one.function for one in stack.locations if one.module != "[kernel]"), "") == function
    )


def busiest(diagnosis):
    """Its first thread, and of that the stacks in which it ran; nothing before there is any."""
    first = next(iter(diagnosis.phases[0].threads), None)
    return first, [stack for stack in first.stacks if stack.state == "running"] if first else []


def burns(program, least=10):
    """Whether a diagnosis tells first of the thread that burns, and where, a number of times."""

    def found(diagnosis):
        first, running = busiest(diagnosis)
        return first is not None and first.tid == program.tid and samples_in(program.function, running) >= least

    return found


def noted(diagnosis, text):
    assert any(text in note for note in diagnosis.notes), diagnosis.notes


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def tell(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def all_wait(pid, name):
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return all(state(task.name) == "S" for task in tasks if (task / "comm").read_text() == f"{name}\n")


def wait_for_state(pid, wanted):
    wait_for(lambda: state(pid) == wanted, f"process {pid} is not in state {wanted}")


@pytest.mark.slow
def test_the_thread_that_burns_comes_first_and_the_others_wait_where_they_say():
    with misbehaving([compiled("burning")]) as program:
        wait_for(lambda: all_wait(program.pid, "waiter"), "its waiters do not wait")
        found = diagnose(program.pid, samples=30)
    (phase,) = found.phases
    assert phase.samples == 30
    assert phase.high
    first, *others = phase.threads
    assert (first.tid, first.name) == (program.tid, "grinder")
    assert first.samples == 30
    running = sum(stack.samples for stack in first.stacks if stack.state == "running")
    assert running >= 25
    waiters = [thread for thread in others if thread.name == "waiter"]
    assert len(waiters) == 8
    for waiter in waiters:
        (stack,) = waiter.stacks
        assert (stack.state, stack.system_call, stack.samples) == ("blocked", "pause", 30)
        assert stack.wait_channel
        place, *callers = stack.locations
        assert "libc" in place.module
        if CALLERS_ARE_TOLD:
            assert callers[0].function == waiter.entry.function == "waiter"
        assert place.offset > 0
        assert waiter.user_s + waiter.system_s == 0
    assert found.methods == ("proc",)
    assert found.stopped_s == 0
    assert not found.complete
    noted(found, "it reached the limit of 30 samples")


@SAMPLES
@pytest.mark.slow
def test_running_threads_are_told_by_the_profiler_that_suits_the_program():
    with misbehaving([compiled("burning")]) as program:
        with session_of(program.pid, methods=None, ratio=0.5) as session:
            found = look_until(session, burns(program, 20))
        asked = diagnose(program.pid, methods=("py-spy",), samples=2)
    assert found.methods == ("proc", "perf")
    first, running = busiest(found)
    with_place = [stack for stack in running if stack.locations]
    assert samples_in(program.function, running) >= 0.9 * sum(stack.samples for stack in with_place)
    assert first.entry.function == "grinder"
    # That it is no Python process is news only for who asked for what looks at those.
    assert not any("Python" in note for note in found.notes)
    noted(asked, "is not a Python process")


class Scripted:
    """A profiler and its method: it finds every thread that it knows of running in `found`, at each look."""

    STOPS = False
    cpu_s = stopped_s = covered_s = 0.0
    notes = ()

    def __init__(self, name, passing, *tids):
        self.name = self.NAME = name
        self._passing = passing
        self._tids = tids

    def available(self, pid):
        return ""

    def attach(self, pid):
        return self

    def start(self):
        self._taken_s = self._passing.seconds()

    def take(self):
        self.covered_s += self._passing.seconds() - self._taken_s
        self._taken_s = self._passing.seconds()
        return [Sample(self._passing.wall / 1e9, tid, (Location("found"),), "running") for tid in self._tids]

    def stop(self):
        return ()


@pytest.mark.slow
def test_where_a_profiler_tells_nothing_of_the_busiest_thread_the_next_one_looks(monkeypatch):
    passing = Leaping()
    with misbehaving([compiled("burning")]) as program:
        methods = (Scripted("blind", passing, program.pid), Scripted("seeing", passing, program.pid, program.tid))
        monkeypatch.setattr(profiling, "METHODS", methods)
        with session_of(program.pid, methods=None, passing=passing) as session:
            look(session, 2.9)
            assert diagnosis_of(session).methods == ("proc", "blind"), "it has some time"
            look_until(session, lambda found: "seeing" in found.methods)
            found = look_until(session, lambda found: samples_in("found", busiest(found)[1]) >= 10)
            look(session, 10)
            assert diagnosis_of(session).methods == ("proc", "blind", "seeing"), "who sees it stays"
    noted(found, f"blind: replaced, since it has no samples of the busiest thread {program.tid}")
    assert found.phases[0].threads[0].tid == program.tid


class Slow(Scripted):
    """One that takes a minute to start, and uses much CPU time for that."""

    cost_s = 0.06

    def start(self):
        super().start()
        self.cpu_s += self.cost_s
        self._ready_s = self._taken_s + 60.0

    def take(self):
        if self._passing.seconds() < self._ready_s:
            return ()
        return super().take()


@pytest.mark.slow
def test_a_profiler_that_starts_slowly_is_not_given_up_and_its_start_is_paid_back(monkeypatch):
    """On a busy machine the start alone may cost more than a burst: it would never have results."""
    passing = Leaping(real_s=0.001)  # the profiler is scripted
    with misbehaving([compiled("burning")]) as program:
        begun_s = passing.seconds()
        slow = Slow("slow", passing, program.pid, program.tid)
        monkeypatch.setattr(profiling, "METHODS", (slow, Scripted("other", passing, program.pid)))
        limits = {"samples": 100_000, "duration_s": 1000.0}
        with session_of(program.pid, methods=None, passing=passing, ratio=0.02, **limits) as session:
            look_until(session, lambda found: samples_in("found", busiest(found)[1]) >= 1, 20)
            look(session, 300)
            assert diagnosis_of(session).methods == ("proc", "slow")
    assert slow.cpu_s <= 0.5 * 0.02 * (passing.seconds() - begun_s) + slow.cost_s


@pytest.mark.long
def test_py_spy_does_not_know_a_thread_that_a_library_began_and_perf_looks():
    library = compiled("burning", "-shared", "-fPIC")
    command: list[str | Path] = [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).main()", library]
    # More than the usual share, so that what a profiler costs on a busy machine is soon paid for.
    with (
        misbehaving(command) as program,
        session_of(program.pid, methods=None, ratio=0.5, samples=10_000) as session,
    ):
        found = look_until(session, burns(program))
    assert found.methods == ("proc", "py-spy", "perf")
    noted(found, f"py-spy: replaced, since it has no samples of the busiest thread {program.tid}")


@pytest.mark.slow
def test_cpu_time_is_that_of_the_kernel():
    with misbehaving([compiled("burning")], busy=False) as program, session_of(program.pid) as session:
        session.sample()
        before = time.clock_gettime(cpu_clock(program.pid))
        program.tell("busy")
        while program.rounds() < 300:
            look(session, 1)
        program.tell("idle")
        wait_for_rest(program)
        session.sample()
        used_s = time.clock_gettime(cpu_clock(program.pid)) - before
        (phase,) = diagnosis_of(session).phases
    assert used_s > 0.1
    # The kernel knows the time of a thread that runs as of its core's last tick, up to 10 ms ago.
    assert sum(thread.user_s + thread.system_s for thread in phase.threads) == pytest.approx(used_s, abs=0.03)


def wait_for_rest(program):
    """Wait until a program that was told to be idle is so."""
    before = -1
    while before != (before := program.rounds()):
        time.sleep(0.05)


@pytest.mark.slow
def test_one_event_keeps_what_ran_before_a_dip_from_what_ran_after():
    def burn():
        begin = program.rounds()
        while program.rounds() < begin + 200:
            look(session, 1)

    with misbehaving([compiled("burning")]) as program, session_of(program.pid) as session:
        burn()
        program.tell("idle")
        wait_for_rest(program)
        session.phase(high=False)
        look(session, 2)
        session.phase(high=True)
        program.tell("busy")
        burn()
        found = diagnosis_of(session)
    assert [phase.high for phase in found.phases] == [True, False, True]
    before, dip, after = found.phases
    assert before.end_ts == dip.begin_ts
    assert dip.end_ts == after.begin_ts
    used = [
        sum(thread.user_s + thread.system_s for thread in phase.threads if thread.tid == program.tid)
        for phase in found.phases
    ]
    assert used[1] < 0.2 * min(used[0], used[2])
    assert found.complete
    assert found.progress == "closed"


def test_a_phase_ends_when_its_threads_were_looked_at_however_late_that_is(monkeypatch):
    """Else a dip of 0.5 s was told with 214 % of one core on two: what the look was late by was in its use alone."""
    look_at, late_s, looked_ts, passing = Session._sample, 0.0, 0.0, Leaping()

    def late(session, *sampled):  # as where others have the processors
        nonlocal looked_ts
        passing.pass_(late_s)
        looked = look_at(session, *sampled)
        looked_ts = passing.wall / 1e9
        return looked

    with misbehaving([compiled("burning")]) as program, session_of(program.pid, passing=passing) as session:
        monkeypatch.setattr(Session, "_sample", late)
        ends = []
        for high in (False, True, False):
            look(session, 0.3)
            late_s = 0.5 * high
            session.phase(high=high)
            late_s = 0.0
            ends.append(looked_ts)
        found = diagnosis_of(session)
    # A phase ends in the middle of a look that is late in its begin.
    assert [phase.end_ts for phase in found.phases[:3]] == pytest.approx(ends, abs=0.251)
    assert [phase.begin_ts for phase in found.phases[1:]] == [phase.end_ts for phase in found.phases[:3]]


def test_more_than_there_is_is_told_to_be():
    thread = ThreadUse(7, "hog", Location(), 0.0, 0.5, 1.0, 0.07, 5, ())
    phase = Phase(False, 0.0, 0.5, 5, (thread,))
    (note,) = beyond([phase, replace(phase, end_ts=0.6), replace(phase, end_ts=0.0)], cpus=2)
    assert note.startswith(
        "214 % of one core in 0.5 s exceeds the 2 CPUs: the kernel updates CPU time once per tick, and "
    )


def test_too_many_phases_are_told_by_their_kind():
    with misbehaving([compiled("burning")]) as program, session_of(program.pid, phases=2) as session:
        for number in range(6):
            session.sample()
            session.phase(high=number % 2 == 1)
        found = diagnosis_of(session)
    assert [phase.high for phase in found.phases] == [True, False]
    assert sum(phase.samples for phase in found.phases) == 12
    noted(found, "only 2 phases are recorded")


def test_a_process_that_ends_leaves_what_was_seen_of_it():
    with misbehaving([compiled("burning")]) as program, session_of(program.pid, methods=None) as session:
        look_until(session, lambda found: busiest(found)[0] and busiest(found)[0].tid == program.tid)
        program.process.kill()
        program.process.wait()
        look(session)
        assert session.ended == "the process ended"
        found = diagnosis_of(session)
    assert not found.complete
    assert found.phases[0].threads[0].tid == program.tid
    noted(found, "sampling stopped: the process ended")


def test_a_zombie_is_called_one():
    with misbehaving([compiled("burning")]) as program:
        program.process.send_signal(signal.SIGKILL)
        # Its first thread is a zombie before the others have ended.
        wait_for(lambda: list(states(program.pid)) == ["Z"], "it lives on")
        found = diagnose(program.pid)
    noted(found, f"it is a zombie until its parent {os.getpid()}")
    assert found.phases[0].threads == ()
    assert not found.complete


@SAMPLES
def test_a_process_that_lost_its_first_thread_is_no_zombie():
    with misbehaving([compiled("headless")]) as program:
        wait_for_state(program.pid, "Z")
        with session_of(program.pid, methods=None, ratio=0.5) as session:
            found = look_until(session, burns(program, 1))
    noted(found, "its first thread ended before the others")
    assert next(thread for thread in found.phases[0].threads if thread.name == "obeyer").stacks[0].locations[0].module


def test_a_thread_is_found_as_its_process_and_none_once_that_has_ended():
    with misbehaving([compiled("burning")]) as program:
        assert program.tid != program.pid
        assert find(program.tid) == find(program.pid)
        program.process.kill()
        program.process.wait()
        with pytest.raises(TargetError, match=f"no process has the pid {program.pid}, or /proc hides it"):
            find(program.pid)


def test_a_process_that_becomes_another_program_is_not_mixed_with_it():
    command = ["sh", "-c", "echo; read line; exec sleep 60"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            wait_for_state(process.pid, "S")
            with session_of(process.pid) as session:
                look(session, 0.5)
                assert not session.ended
                tell(process)
                look(session)
                found = diagnosis_of(session)
        finally:
            process.kill()
    assert session.ended.startswith("the process runs another program now, /")
    assert session.ended.endswith("sleep")
    assert {stack.system_call for stack in found.phases[0].threads[0].stacks} == {"read"}


def test_a_process_that_only_changes_its_name_is_looked_at_further():
    program = """
import sys
print(flush=True)
sys.stdin.readline()
with open("/proc/self/comm", "w") as file:
    file.write("renamed")
sys.stdin.readline()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            with session_of(process.pid) as session:
                look(session, 0.3)
                tell(process)
                wait_for(
                    lambda: diagnosis_of(session).phases[0].threads[0].name == "renamed" or session.sample(), "name"
                )
                assert not session.ended
        finally:
            process.kill()


def test_another_process_with_its_pid_is_never_looked_at():
    with misbehaving([compiled("burning")]) as program:
        earlier = find(program.pid)._replace(start_ticks=1)
        session = Session(earlier, id="17", host="atlas", reason="asked", budget=Budget())
        assert session.ended == f"the process ended; its pid {program.pid} belongs to another one now"
        session.sample()
        assert session.diagnosis("closed").phases[0].threads == ()
        session.close()


@AS_ROOT
def test_a_pid_that_is_reused_while_it_is_looked_at_is_not_followed():
    last = Path("/proc/sys/kernel/ns_last_pid")
    with misbehaving([compiled("burning")]) as program, session_of(program.pid) as session:
        look(session, 0.5)
        program.process.kill()
        program.process.wait()
        for _ in range(500):  # others begin processes, too
            last.write_text(str(program.pid - 1))
            heir = subprocess.Popen(["sleep", "60"])
            try:
                if heir.pid == program.pid:
                    look(session)
                    assert session.ended == "the process ended"
                    assert all(thread.name != "sleep" for thread in diagnosis_of(session).phases[0].threads)
                    return
            finally:
                heir.kill()
                heir.wait()
        pytest.fail(f"no process got the pid {program.pid} again")


ALONE = """
import os, resource, sys, time
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from laggard.producers.diagnosis import session, target, bounds
session.Aside.ask.__defaults__ = (60.0,)
# here
looking = session.Session(
    target.find({pid}), id="17", host="atlas", reason="asked", budget=bounds.Budget(1), limits=bounds.Limits(
        interval_s=0.02
    )
)
samples, used_s = 0, 0.0
while not looking.ended and (samples < 20 or used_s < 0.06):
    time.sleep(looking.delay_s())
    looking.sample()
    samples += 1
    phase = looking.diagnosis("extended").phases[0]
    used_s = max((thread.user_s for thread in phase.threads), default=0.0)
print(write_diagnosis(looking.diagnosis("closed")))
looking.close()
"""


def alone(pid, begin="pass", *before):
    """What a program of its own says of this process; what it does first, and what it is started by."""
    program = ALONE.format(pid=pid).replace("# here", begin)
    command = [*before, sys.executable, "-c", program]
    return read_diagnosis(subprocess.run(command, capture_output=True, text=True, check=True).stdout, "")


@pytest.mark.slow
@AS_ROOT
def test_of_another_users_process_the_use_of_its_threads_is_told_and_what_they_wait_in_is_not():
    with misbehaving([compiled("burning")]) as program:
        found = alone(program.pid, f"os.setgid({OTHERS_UID})\nos.setuid({OTHERS_UID})")
    noted(found, f"it belongs to user 0, and laggard runs as user {OTHERS_UID} without CAP_SYS_PTRACE")
    noted(found, "perf: no permission to sample process")
    assert found.methods == ("proc",)
    first, *others = found.phases[0].threads
    assert (first.tid, first.name) == (program.tid, "grinder")
    assert first.user_s > 0.05
    assert {stack.locations for thread in others for stack in thread.stacks} == {()}


@SAMPLES
@AS_ROOT
def test_in_its_own_pid_namespace_it_is_told_by_the_hosts_ids():
    with misbehaving(in_own_pid_namespace([compiled("burning")])) as program:
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
        pid = int(children.read_text())
        with session_of(pid, methods=None, ratio=0.5) as session:
            found = look_until(session, lambda found: samples_in(program.function, busiest(found)[1]) >= 1)
        threads = {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    noted(found, "its pid is 1 in its own pid namespace;")
    first = found.phases[0].threads[0]
    assert first.name == "grinder"
    assert first.tid != program.tid  # as it knows itself
    assert {thread.tid for thread in found.phases[0].threads} == threads


@pytest.mark.slow
@AS_ROOT
def test_from_a_pid_namespace_where_it_has_another_pid_no_profiler_is_set_on_it():
    with misbehaving([compiled("burning")]) as program:
        found = alone(program.pid, "pass", "unshare", "--pid", "--fork")
    assert found.methods == ("proc",)
    noted(found, "/proc belongs to another pid namespace than laggard;")
    assert found.phases[0].threads[0].tid == program.tid


@SAMPLES
@pytest.mark.slow
def test_of_a_deleted_program_functions_have_their_names(tmp_path):
    path = tmp_path / "burning"
    shutil.copy(compiled("burning"), path)
    with misbehaving([path]) as program:
        path.unlink()
        with session_of(program.pid, methods=None, ratio=0.5) as session:
            found = look_until(session, burns(program, 1))
    noted(found, f"its program {path} was deleted or replaced after its start")
    assert any(
        (location.function, location.module) == (program.function, str(path))
        for stack in busiest(found)[1]
        for location in stack.locations
    )


def test_of_a_thread_of_the_kernel_its_functions_are_told():
    found = diagnose(2, samples=5)
    noted(found, "a kernel thread")
    (thread,) = found.phases[0].threads
    assert thread.name == "kthreadd"
    if os.geteuid() == 0:
        assert thread.entry.function == "kthreadd"
        assert {location.module for location in thread.stacks[0].locations} == {"[kernel]"}
        assert thread.stacks[0].wait_channel == "kthreadd"


def test_in_uninterruptible_sleep_the_kernels_stack_is_told():
    with misbehaving([compiled("stuck")], busy=False) as program:
        wait_for_state(program.pid, "D")
        found = diagnose(program.pid, methods=None, passing=Leaping(), samples=20)
    (thread,) = found.phases[0].threads
    (stack,) = thread.stacks
    assert stack.state == "blocked"
    assert stack.system_call == "vfork"
    assert stack.samples == 20
    if os.geteuid() == 0:
        functions = [location.function for location in stack.locations if location.module == "[kernel]"]
        assert any("vfork" in function or "clone" in function for function in functions)
    place, *callers = (location for location in stack.locations if location.module != "[kernel]")
    assert "libc" in place.module
    if CALLERS_ARE_TOLD:
        assert callers[0].function == thread.entry.function == "main"


@pytest.mark.slow
@AS_ROOT
def test_of_a_thread_that_waits_for_the_disk_call_and_kernel_stack_belong_together(disk):
    def deep():
        stacks = diagnosis_of(session).phases[0].threads[0].stacks
        return [stack for stack in stacks if stack.locations and stack.locations[0].module == "[kernel]"]

    with (
        # Blocks that keep a fast disk busy for longer than a look takes, else call and stack are of two waits.
        misbehaving([compiled("writing", f"-DBLOCK={1 << 25}", "-DBLOCKS=4"), disk / "log"]) as program,
        session_of(program.pid, ratio=1, passing=Real()) as session,
    ):
        look(session, 2)
        wait_for(
            lambda: sum(stack.samples for stack in deep()) >= 5 or look(session, 2), "it never waited for the disk"
        )
        first = diagnosis_of(session).phases[0].threads[0]
        assert (first.tid, first.name) == (program.tid, "writer")
    for stack in deep():
        assert stack.system_call in {"fdatasync", "pwrite64"}
        inside = " ".join(location.function for location in stack.locations if location.module == "[kernel]")
        assert ("fdatasync" in inside) == (stack.system_call == "fdatasync"), stack
        assert stack.wait_channel == stack.locations[0].function
        if CALLERS_ARE_TOLD:
            _, *callers = (location.function for location in stack.locations if location.module != "[kernel]")
            assert callers[:2] == ["append", "writer"]


def test_a_stopped_process_is_called_so_and_stays_stopped():
    with misbehaving([compiled("burning")]) as program:
        program.process.send_signal(signal.SIGSTOP)
        wait_for_state(program.pid, "T")
        found = diagnose(program.pid, methods=None, passing=Leaping(), samples=5)
        assert state(program.pid) == "T"
    noted(found, "it was stopped by a signal or a debugger, not by laggard")


PASSING = pytest.mark.parametrize(
    "passing",
    [
        pytest.param(lambda: Leaping(counted=True), marks=pytest.mark.slow, id="time leaps"),
        pytest.param(Real, marks=pytest.mark.long, id="time really passes"),
    ],
)


@PASSING
def test_of_5000_threads_the_one_that_burns_is_found_within_the_budget(passing):
    passing = passing()
    kernel_symbols()  # a program reads them once
    with misbehaving([compiled("crowd")]) as program:
        begun = passing.seconds()
        limits = {"size_bytes": 50_000, "duration_s": 15}
        with session_of(program.pid, methods=None, passing=passing, **limits) as session:
            look(session)
            text = write_diagnosis(session.diagnosis("closed"))
            looked_s = passing.seconds() - begun
    found = read_diagnosis(text, "")
    noted(found, "threads: each round sampled at most 256")
    (phase,) = found.phases
    assert phase.threads[0].tid == program.tid
    assert phase.threads[0].samples >= phase.samples / 2
    assert len(text) <= 50_000
    assert phase.left_out > 0
    assert found.sampler_cpu_s < 0.05 * looked_s


@pytest.mark.slow
@SAMPLES
def test_threads_that_come_and_go_are_met():
    def is_the_mothers_work(found):
        most = max(found.phases[0].threads, key=lambda thread: thread.system_s, default=None)
        return most is not None and most.name == "mother" and most.system_s > 0

    with misbehaving([compiled("crowd")], busy=False) as program, session_of(program.pid, threads=6000) as session:
        # Others have a tick now and then, and the mother of all has one with each.
        look_until(session, is_the_mothers_work, 1)
        assert not session.ended


@PASSING
def test_three_sessions_together_stay_below_5_percent_of_a_core(passing):
    passing = passing()
    kernel_symbols()  # a program reads them once
    budget = Budget()
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(misbehaving([compiled(name)])) for name in ("burning", "burning", "crowd")]
        targets = [find(program.pid) for program in programs]
        begun, before = passing.seconds(), time.process_time()
        sessions = [
            Session(target, id="17", host="atlas", reason="asked", budget=budget, clock=passing.clock)
            for target in targets
        ]
        while (elapsed := passing.seconds() - begun) < 10:
            first = min(sessions, key=lambda each: each.delay_s())
            passing.pause(min(first.delay_s(), max(0.0, begun + 10 - passing.seconds())))
            first.sample()
        for each in sessions:
            each.diagnosis("closed")
            each.close()
        used = time.process_time() - before
    assert budget.spent_s / elapsed < 0.05
    assert min(each.diagnosis("closed").sampler_cpu_s for each in sessions) > 0
    if isinstance(passing, Real):
        # What it says of itself is what the kernel says, but for the loop of the test.
        assert budget.spent_s == pytest.approx(used, rel=0.25)


DRIVEN = """
import faulthandler, os, sys, time
from laggard.producers.diagnosis import bounds, jvm, profiling, session, symbols, target

session.Aside.ask.__defaults__ = (60.0,)
profiling.PATIENCE_S = jvm.WAIT_S = 60.0
symbols.kernel_symbols()
while sys.stdin.readline():
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    faulthandler.dump_traceback_later(60.0)
    looking = session.Session(
        target.find(int(sys.argv[1])),
        id="17",
        host="atlas",
        reason="asked",
        budget=bounds.Budget(10),
        limits=bounds.Limits(duration_s=120.0),
        methods=sys.argv[2:],
    )
    told = False
    while not looking.ended:
        time.sleep(looking.delay_s())
        looking.sample()
        if not told and looking.diagnosis("extended").methods != ("proc",):
            told = True
            print(os.getpid(), flush=True)
    print(looking.diagnosis("closed"), flush=True)
    break
"""


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [3, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("command", "method"),
    [
        pytest.param(lambda: [compiled("burning")], "perf", marks=SAMPLES),
        (lambda: [compiled("burning")], "eu-stack"),
        (burning_python, "py-spy"),
        (burning_java, "jcmd"),
    ],
    ids=["perf", "eu-stack", "py-spy", "jcmd"],
)
def test_a_process_runs_on_whenever_laggard_is_killed(command, method, rounds):
    path = f"{Path(path_of('eu-stack')).parent}:{os.environ['PATH']}"
    with misbehaving(command()) as program:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVEN, str(program.pid), method],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PATH": path},
            start_new_session=True,
        )
        assert driver.stdout
        with driver:
            try:
                for number in range(rounds):
                    tell(driver)
                    looking = int(driver.stdout.readline())
                    time.sleep(0.37 * number / rounds)
                    os.kill(looking, signal.SIGKILL)
            except BaseException:
                os.killpg(driver.pid, signal.SIGKILL)  # whoever looks, too
                raise
        # What is left of the last one ends by itself.
        wait_for(lambda: not [one for one in psutil.process_iter(["cmdline"]) if looks_at(one, program.pid)], "remains")
        before = time.clock_gettime(cpu_clock(program.pid))
        wait_for(lambda: time.clock_gettime(cpu_clock(program.pid)) > before + 0.05, f"state {state(program.pid)}")
        wait_for(lambda: set(states(program.pid)) <= {"R", "S"}, f"states {set(states(program.pid))}")


def states(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it ended
            yield state(f"{pid}/task/{task.name}")


def looks_at(process, pid):
    line = process.info["cmdline"] or []
    return str(pid) in line and any(name in " ".join(line) for name in ("py-spy", "eu-stack", "jcmd"))


@pytest.mark.slow
def test_out_of_descriptors_it_goes_on_without_holding_files():
    with misbehaving([compiled("burning")]) as program:
        found = alone(program.pid, "resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))")
    assert found.phases[0].threads[0].tid == program.tid
    assert found.phases[0].samples >= 10  # of 20 looks at least: now and then there is nothing to be seen


def test_asked_after_its_end_it_does_nothing_and_still_tells():
    with misbehaving([compiled("burning")]) as program:
        with session_of(program.pid, samples=3) as session:
            look(session)
            before = diagnosis_of(session)
            session.sample()
            session.phase(high=False)
        session.close()
        after = diagnosis_of(session)
    assert after.phases == before.phases
    assert session.delay_s() == float("inf")


def test_closed_it_looks_no_more_and_is_complete():
    with misbehaving([compiled("burning")]) as program, session_of(program.pid) as session:
        look(session, 0.5)
        session.close()
        samples = diagnosis_of(session).phases[0].samples
        session.sample()
        assert session.delay_s() == float("inf")
        found = diagnosis_of(session)
    assert found.phases[0].samples == samples
    assert found.complete


def test_a_session_that_has_ended_leaves_its_share_to_the_others():
    budget = Budget(0.04)
    with misbehaving([compiled("burning")]) as program:
        sessions = [
            Session(find(program.pid), id=str(number), host="atlas", reason="asked", budget=budget, methods=())
            for number in range(2)
        ]
        assert budget.share == pytest.approx(0.02)
        program.process.kill()
        program.process.wait()
        sessions[0].sample()
        assert budget.share == pytest.approx(0.04)
        for session in sessions:
            session.close()
        sessions[0].close()
    assert budget.sessions == 0
    assert budget.files.held == 0


def test_a_method_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"methods: expected some of .*perf.*, got 'gdb'"):
        Session(find(os.getpid()), id="17", host="atlas", reason="asked", budget=Budget(), methods=["gdb"])
