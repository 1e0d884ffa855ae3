"""eu-stack on real processes: whole stacks, and a process that runs on whatever is killed in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from laggard.producers.diagnosis import eustack
from laggard.producers.diagnosis.contract import ProfilerError
from laggard.producers.diagnosis.states import thread_states
from laggard.producers.system.clock import Clock
from tests.misbehaving.programs import compiled, misbehaving
from tests.producers.diagnosis.profiled import assert_found, samples_of
from tests.programs import path_of

DRIVER = """
import sys
from laggard.producers.diagnosis import eustack
eustack.STOPPED_SHARE = 1.0
eustack.EVERY_S = 0.0
profiler = eustack.attach(int(sys.argv[1]))
profiler.start()
print(flush=True)
while True:
    profiler.take()
"""


@pytest.fixture(autouse=True)
def program(monkeypatch):
    """eu-stack is on the path."""
    monkeypatch.setenv("PATH", str(Path(path_of("eu-stack")).parent), prepend=os.pathsep)


@pytest.fixture
def burning():
    with misbehaving([compiled("burning")]) as program:
        yield program


def wait_for_line(process):
    """Until it says that it has begun."""
    assert process.stdout
    assert process.stdout.readline()


def tracer_of(pid):
    """The process that traces it; 0 where none does."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("TracerPid:\t")[2].split("\n")[0])


def stopped(pid):
    """What keeps threads from running: stops, or a tracer."""
    states = {state.decode() for state in thread_states(f"/proc/{pid}").values()}
    tracer = tracer_of(pid)
    return states & {"T", "t"} | ({f"traced by {tracer}"} if tracer else set())


def used_s(program):
    return int(Path(f"/proc/{program.pid}/task/{program.tid}/schedstat").read_text().split()[0]) / 1e9


def tools(pid):
    """Those that are set on a process, also one that has only just begun."""
    return [
        one.info["cmdline"]
        for one in psutil.process_iter(["cmdline"])
        if str(pid) in (line := one.info["cmdline"] or []) and "eu-stack" in " ".join(line)
    ]


def assert_runs_on(program, within_s=60.0):
    """The tool ends, and the process is let go, stays so, and its busy thread goes on."""
    until = time.monotonic() + within_s
    while tools(program.pid) or stopped(program.pid):
        assert time.monotonic() < until, (tools(program.pid), stopped(program.pid))
        time.sleep(0.01)
    before = used_s(program)
    time.sleep(0.05)
    while used_s(program) <= before:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert not stopped(program.pid)


@pytest.mark.slow
def test_whole_stacks_of_all_threads_running_or_waiting(burning, monkeypatch):
    monkeypatch.setattr(eustack, "STOPPED_SHARE", 0.5)
    monkeypatch.setattr(eustack, "EVERY_S", 0.02)
    monkeypatch.setattr(eustack, "LIMIT_S", 60)
    assert eustack.available(burning.pid) == ""
    before = used_s(burning)
    begin = time.monotonic()
    profiler = eustack.attach(burning.pid)
    samples = samples_of(profiler, running=10, tid=burning.tid)
    elapsed_s = time.monotonic() - begin
    assert_found(samples, burning, callers=("serve", "grinder"))
    waiting = {tuple(at.function for at in sample.locations[:2]) for sample in samples if sample.state == "blocked"}
    assert ("pause", "waiter") in waiting or ("__libc_pause", "waiter") in waiting
    assert 0 < profiler.stopped_s < elapsed_s
    assert profiler.cpu_s > 0
    assert used_s(burning) > before
    assert_runs_on(burning)
    assert profiler.notes == []


@pytest.mark.slow
def test_it_is_stopped_for_a_small_share_of_the_time(burning):
    """Also if it is started again and again, as phases of high use begin. The last look is paid off after it."""
    leapt_ns = 0  # time goes on as it does, and leaps between two looks

    def now():
        return time.monotonic_ns() + leapt_ns

    profiler = eustack.EuStack(burning.pid, clock=Clock(monotonic=now))
    looks: list[float] = []
    begin = now()
    while len(looks) < 4:
        profiler.start()
        before = profiler.stopped_s
        profiler.take()
        if profiler.stopped_s > before:
            looks.append(profiler.stopped_s - before)
        leapt_ns += 20_000_000
        profiler.stop()
    assert sum(looks[:-1]) <= eustack.STOPPED_SHARE * (now() - begin) / 1e9


def kill_tracer(program, delay_s):
    """Kill its tracer, `delay_s` after that was seen to begin. Threads that it has stopped would stay stopped."""
    until = time.monotonic() + 60
    while not (tracer := tracer_of(program.pid)):
        assert time.monotonic() < until
    time.sleep(delay_s)
    with suppress(ProcessLookupError):  # it has ended by itself
        os.kill(tracer, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
def test_the_tool_is_killed_in_between_and_the_process_runs_on(burning, kills):
    """Without the supervisor's signal 17 of 60 such kills left it stopped, with it none."""
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(burning.pid)], stdout=subprocess.PIPE) as driver:
        try:
            wait_for_line(driver)
            for number in range(kills):
                kill_tracer(burning, number * 0.005 / kills)
                before = used_s(burning)
                until = time.monotonic() + 60
                while used_s(burning) == before:
                    assert time.monotonic() < until, stopped(burning.pid)
                    time.sleep(0.01)
            driver.kill()
            assert_runs_on(burning)
        finally:
            driver.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delay_s", "kills"),
    [(0, 1), (0.001, 1), *(pytest.param(each, 3, marks=pytest.mark.long) for each in (0, 0.0005, 0.001, 0.002))],
)
def test_laggard_and_the_tool_are_killed_in_between_and_the_process_runs_on(burning, delay_s, kills):
    for _ in range(kills):
        with subprocess.Popen([sys.executable, "-c", DRIVER, str(burning.pid)], stdout=subprocess.PIPE) as driver:
            try:
                wait_for_line(driver)
                kill_tracer(burning, delay_s)
            finally:
                driver.kill()
        assert_runs_on(burning)


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0, 0.01, *(pytest.param(each, marks=pytest.mark.long) for each in (0.005, 0.015))])
def test_laggard_is_killed_in_between_and_the_process_runs_on(burning, delay_s):
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(burning.pid)], stdout=subprocess.PIPE) as driver:
        try:
            wait_for_line(driver)
            until = time.monotonic() + 60
            while not tracer_of(burning.pid):
                assert time.monotonic() < until
            time.sleep(delay_s)
        finally:
            driver.kill()
    assert_runs_on(burning)


@pytest.mark.slow
def test_a_tool_that_hangs_is_ended_and_the_process_let_go(burning, monkeypatch, tmp_path):
    """It hangs as it would for a thread that does not stop: with others stopped."""
    hanging = tmp_path / "eu-stack"
    hanging.write_text(
        f"#!{sys.executable}\n"
        "import ctypes, sys, time\n"
        "ctypes.CDLL(None).ptrace(16, int(sys.argv[-1]), None, None)\n"  # PTRACE_ATTACH
        "time.sleep(60)\n"
    )
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    profiler = eustack.attach(burning.pid)
    profiler.start()
    assert profiler.take() == []  # it would hang for a minute
    assert_runs_on(burning)
    assert "a sample was killed" in profiler.notes[0]
    assert eustack.LIMIT_S <= profiler.stopped_s < 50


@pytest.mark.slow
def test_a_tool_that_cannot_be_ended_holds_nothing_up(burning, monkeypatch, tmp_path):
    """As one that waits for a filesystem in the kernel: no signal ends it."""
    let_go = tmp_path / "let_go"
    unending = tmp_path / "timeout"
    waits = f"import os, time\nwhile not os.path.exists({str(let_go)!r}): time.sleep(0.05)\n"
    unending.write_text(f"#!{sys.executable} -S\n{waits}")  # one that starts no other, which would look like a second
    unending.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(eustack, "HUNG_S", 0.5)
    threading.Timer(60.0, let_go.touch).start()
    profiler = eustack.attach(burning.pid)
    profiler.start()
    assert profiler.take() == []
    assert not let_go.exists(), "it was not waited for"
    assert profiler.notes == ["eu-stack: a sample did not end within 0.5 s; sampling resumes when it does"]
    profiler._due_ns = 0
    assert profiler.take() == ()
    assert len(tools(burning.pid)) == 2, "the shell that lets the process go, and no other look"
    let_go.touch()
    until = time.monotonic() + 60
    while profiler._hangs():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert_runs_on(burning)


STOP_THREAD = """
import ctypes, os, sys, time
assert ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), None, None) == 0  # PTRACE_ATTACH
os.waitpid(int(sys.argv[1]), 0x40000000)  # __WALL
print(flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seen", [True, False], ids=["before", "while it is looked at"])
@pytest.mark.parametrize("main", [True, False])
def test_a_thread_that_another_tracer_has_stopped_holds_nothing_up(burning, monkeypatch, main, seen):
    monkeypatch.setattr(eustack, "LIMIT_S", 60)
    profiler = eustack.attach(burning.pid)
    profiler.start()
    tid = burning.pid if main else burning.tid
    with subprocess.Popen([sys.executable, "-c", STOP_THREAD, str(tid)], stdout=subprocess.PIPE) as tracer:
        wait_for_line(tracer)
        try:
            if not seen:
                others = dict.fromkeys(thread_states(f"/proc/{burning.pid}"), b"S")
                monkeypatch.setattr(eustack, "thread_states", lambda path: others)
            found = {each.tid for each in profiler.take()}
            monkeypatch.undo()
            assert thread_states(f"/proc/{burning.pid}")[tid] == b"t", "it is left to its tracer"
            if seen:
                assert not found
                assert profiler.notes == ["eu-stack: skipped samples while a thread was stopped (state t)"]
            else:
                assert tid not in found
                assert found, "the others were looked at"
        finally:
            tracer.kill()
    assert_runs_on(burning)


@pytest.mark.slow
def test_where_a_thread_sleeps_uninterruptibly_it_is_not_asked(burning, monkeypatch):
    monkeypatch.setattr(eustack, "thread_states", lambda path: {burning.pid: b"S", burning.tid: b"D"})
    profiler = eustack.attach(burning.pid)
    profiler.start()
    assert profiler.take() == ()
    assert profiler.stopped_s == 0
    assert "uninterruptible" in profiler.notes[0]


@pytest.mark.slow
def test_a_process_that_is_stopped_stays_so(burning):
    profiler = eustack.attach(burning.pid)
    profiler.start()
    os.kill(burning.pid, signal.SIGSTOP)
    until = time.monotonic() + 60
    while set(thread_states(f"/proc/{burning.pid}").values()) != {b"T"}:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert profiler.take() == ()
    assert (
        eustack.available(burning.pid) == f"eu-stack: process {burning.pid} is stopped, and sampling would continue it"
    )
    with pytest.raises(ProfilerError, match="is stopped"):
        eustack.attach(burning.pid).start()
    assert set(thread_states(f"/proc/{burning.pid}").values()) == {b"T"}


@pytest.mark.slow
def test_a_process_that_is_traced_is_left_to_its_tracer(burning):
    seize = (
        "import ctypes, sys, time\n"
        "ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None)\n"  # PTRACE_SEIZE
        "print(flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", seize, str(burning.pid)], stdout=subprocess.PIPE) as tracer:
        wait_for_line(tracer)
        assert eustack.available(burning.pid).endswith(f"is already traced by process {tracer.pid}")
        tracer.kill()


@pytest.mark.slow
def test_a_process_that_ends_is_no_error_and_what_is_none_is_a_clear_one(burning):
    profiler = eustack.attach(burning.pid)
    profiler.start()
    burning.process.kill()
    burning.process.wait()
    assert profiler.take() in ((), [])
    assert profiler.stop() == ()
    assert eustack.available(burning.pid) == f"eu-stack: process {burning.pid} has ended"
    assert "is a kernel thread or a zombie" in eustack.available(2)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_a_process_that_could_not_be_let_go_is_not_stopped():
    """Root without CAP_KILL may trace another user's process, but not send it the signal that lets it go on."""
    with subprocess.Popen(["sleep", "60"], user=65534) as process:
        try:
            ask = f"from laggard.producers.diagnosis import eustack; print(eustack.available({process.pid}))"
            python = [sys.executable, "-c", ask]
            without = ["setpriv", "--bounding-set=-kill", *python]
            assert (
                "continuing it after a kill"
                in subprocess.run(without, capture_output=True, text=True, check=True).stdout
            )
            assert subprocess.run(python, capture_output=True, text=True, check=True).stdout == "\n"
        finally:
            process.kill()


def test_without_eu_stack_it_says_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install the package elfutils" in eustack.available(os.getpid())


def test_what_it_writes_is_parsed():
    text = b"PID 7 - process\nTID 7:\n#0  0x00007fd3401fe2ec\n#1  0x00007fd34018816e main\nTID 8:\n#0  0x10\nTID 9:\n"
    assert list(eustack.parse_stacks(text)) == [(7, [0x7FD3401FE2EC, 0x7FD34018816E]), (8, [0x10]), (9, [])]
