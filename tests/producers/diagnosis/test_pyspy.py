"""py-spy on real Python processes, on others, and on ones that end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laggard.producers.diagnosis import pyspy
from laggard.producers.diagnosis.children import Child
from laggard.producers.diagnosis.contract import ProfilerError, Sample
from laggard.producers.diagnosis.states import thread_states
from tests.misbehaving.programs import burning_python, compiled, misbehaving
from tests.producers.diagnosis.profiled import assert_found, held, samples_of

OTHERS_UID = 65534
"""The user `nobody`."""


def take_until(profiler, until):
    while time.monotonic() < until:
        time.sleep(0.01)
        profiler.take()


@pytest.mark.slow
def test_the_busy_thread_of_a_python_program_is_first_and_in_its_function():
    before = held()
    with misbehaving(burning_python()) as program:
        assert pyspy.available(program.pid) == ""
        profiler = pyspy.attach(program.pid)
        begin = time.time()
        samples = samples_of(profiler, running=20, tid=program.tid)
        end = time.time()
    assert_found(samples, program, callers=("serve", "Thread.run"))
    assert {sample.tid for sample in samples if sample.state == "running"} == {program.tid}
    # The others wait, and where is told.
    waiting = {sample.locations[0].function for sample in samples if sample.state == "blocked"}
    assert {"wait_for_data", "wait_for_time", "Condition.wait"} <= waiting
    running = [sample.locations[0] for sample in samples if sample.state == "running"]
    hot = [each.line for each in running if each.function == "grind"]  # now and then it is between two calls
    assert {each.module for each in running if each.function == "grind"} == {str(burning_python()[1])}
    assert len(hot) > len(running) / 2
    assert set(hot) <= set(range(14, 19))
    assert all(begin <= sample.ts <= end for sample in samples)
    assert profiler.cpu_s > 0
    assert profiler.stopped_s == 0
    assert held() <= before  # what an earlier test left may go meanwhile


@pytest.mark.slow
def test_an_idle_process_waits_and_nothing_runs():
    with misbehaving(burning_python(), busy=False) as program:
        profiler = pyspy.attach(program.pid)
        profiler.start()
        samples: list[Sample] = []
        until = time.monotonic() + 60
        while profiler._runs < 2 and time.monotonic() < until:
            time.sleep(0.05)
            samples += profiler.take()
        samples += profiler.stop()
    assert {sample.state for sample in samples} == {"blocked"}
    assert program.tid in {sample.tid for sample in samples}


@pytest.mark.slow
def test_what_is_no_python_process_is_said_so():
    with misbehaving([compiled("burning")], busy=False) as program:
        assert pyspy.available(program.pid) == f"py-spy: process {program.pid} is not a Python process"
        with pytest.raises(ProfilerError, match="is not a Python process"):
            pyspy.attach(program.pid).start()
    assert pyspy.available(program.pid).endswith("it has ended")


def test_without_py_spy_it_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"run `pip --python {sys.executable} install py-spy`" in pyspy.available(os.getpid())


@pytest.mark.slow
def test_a_process_that_ends_is_no_error():
    with misbehaving(burning_python()) as program:
        profiler = pyspy.attach(program.pid)
        samples_of(profiler, running=1, tid=program.tid)
        profiler.start()
        program.process.kill()
        program.process.wait()
        time.sleep(0.3)
        for _ in range(3):
            profiler.take()
            time.sleep(0.1)
        assert profiler.stop() in ((), [])


@pytest.mark.slow
def test_a_process_that_cannot_be_read_is_a_clear_error(tmp_path):
    """It looks like Python, for it has mapped a file of that name, but there is no interpreter in it."""
    program = tmp_path / "python3.11"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "60"]) as process:
        try:
            until = time.monotonic() + 60
            while pyspy.available(process.pid) and time.monotonic() < until:
                time.sleep(0.01)
            profiler = pyspy.attach(process.pid)
            profiler.start()
            with pytest.raises(ProfilerError, match=f"py-spy: cannot read process {process.pid}: "):
                take_until(profiler, until)
        finally:
            process.kill()


@pytest.mark.slow
def test_the_python_process_runs_on_whatever_is_killed():
    """py-spy reads memory and stops nothing, so that there is nothing to let go."""
    with misbehaving(burning_python()) as program:
        profiler = pyspy.attach(program.pid)
        profiler.start()
        states = set()
        for _ in range(40):
            time.sleep(0.01)
            states |= set(thread_states(f"/proc/{program.pid}").values())
        until = time.monotonic() + 60
        while not profiler._recording:
            assert time.monotonic() < until
            profiler.take()
        assert profiler._child
        os.kill(profiler._child._process.pid, signal.SIGKILL)
        with pytest.raises(ProfilerError, match="exit code -9"):
            take_until(profiler, time.monotonic() + 60)
        assert states <= {b"R", b"S"}
        assert_found(samples_of(profiler, running=5, tid=program.tid), program)


def test_output_that_it_does_not_know_is_a_clear_error():
    profiler = pyspy.attach(os.getpid())
    profiler._child = Child(["echo", '{"profiles": []}'])
    profiler._child.wait()
    with pytest.raises(ProfilerError, match=r"expected output of version 0\.4, got b'\{\"profiles\""):
        profiler.take()


def test_a_child_is_ended_and_what_it_wrote_and_used_is_known():
    busy = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
    child = Child(["sh", "-c", f"trap 'echo interrupted; exit 3' INT; {busy}; echo no >&2; sleep 3 & wait"])
    until = time.monotonic() + 60
    while not child.error():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert not child.ended()
    child.interrupt()
    assert child.returncode == 3
    assert child.output() == b"interrupted\n"
    assert child.error() == "no"
    assert child.cpu_s > 0
    child.close()
    child = Child(["sleep", "60"])
    child.close()
    assert child.returncode == -signal.SIGKILL


def test_what_does_not_end_when_it_is_asked_is_killed(monkeypatch):
    monkeypatch.setattr("laggard.producers.diagnosis.children.GRACE_S", 0.1)
    child = Child(["sh", "-c", "trap '' INT; echo; sleep 3"])
    until = time.monotonic() + 60
    while not child.output():
        assert time.monotonic() < until
        time.sleep(0.01)
    child.interrupt()
    assert child.returncode == -signal.SIGKILL
    child.close()


def test_a_program_that_is_started_where_signals_are_blocked_hears_them() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        child = Child(["sleep", "60"])
        child.interrupt()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert child.returncode == -signal.SIGINT
    child.close()


def test_one_that_hangs_is_given_up(monkeypatch, tmp_path):
    """As where a mapped file of the process is one that hangs."""
    monkeypatch.setattr(pyspy, "LATE_S", 0.1)
    (tmp_path / "py-spy").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "py-spy").chmod(0o755)
    profiler = pyspy.attach(os.getpid())
    profiler._program = str(tmp_path / "py-spy")
    profiler._dump()
    child = profiler._child
    until = time.monotonic() + 60.0
    with pytest.raises(ProfilerError, match=r"did not finish within 0.1 s on process \d+"):  # noqa: PT012
        while time.monotonic() < until:
            profiler.take()
            time.sleep(0.01)
    assert child is not None
    assert child.returncode == -signal.SIGKILL
    assert profiler.take() == profiler.stop() == ()


def test_long_names_are_cut():
    name = "f" * 100_000
    text = json.dumps([{"os_thread_id": 1, "active": False, "frames": [{"name": name, "filename": name, "line": 1}]}])
    (sample,) = pyspy.parse_dump(text.encode(), 0.0)
    (location,) = sample.locations
    assert location.function == location.module == "f" * pyspy.LONGEST_NAME
