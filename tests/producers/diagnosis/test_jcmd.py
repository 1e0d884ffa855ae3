"""Java: methods and waiting threads of a real virtual machine, with and without the kernel's samples."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis import jcmd, jvm, perf
from laggard.producers.diagnosis.contract import ProfilerError
from laggard.producers.diagnosis.jvm import Jvm
from laggard.producers.diagnosis.symbols import symbolizer
from laggard.producers.system.kernel import cpu_clock
from tests.misbehaving.programs import HERE, burning_java, compiled, in_own_pid_namespace, misbehaving
from tests.producers.diagnosis.profiled import assert_found, samples_of
from tests.producers.diagnosis.rights import SAMPLES

if TYPE_CHECKING:
    from laggard.producers.diagnosis.contract import Sample

SILENT_S = jvm.WAIT_S


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Wait for a machine's answers as long as it takes, where others have the processors."""
    monkeypatch.setattr(jvm, "WAIT_S", 60.0)


# With the default collector loops may be stopped inside; with the serial one they may not.
COLLECTORS = pytest.mark.parametrize("collector", ["-XX:+UseG1GC", "-XX:+UseSerialGC"])

DUMP = """\
2026-11-22 10:43:36
Full thread dump OpenJDK 64-Bit Server VM (21.0.1 mixed mode, sharing):

"main" #1 [4930] prio=5 os_prio=0 cpu=48.81ms elapsed=0.62s tid=0x00007f747c017e50 nid=4930 runnable  [0x00007f74837fe000]
   java.lang.Thread.State: RUNNABLE
	at java.io.FileInputStream.readBytes(java.base@21.0.1/Native Method)
	at java.io.FileInputStream.read(java.base@21.0.1/FileInputStream.java:276)
	- locked <0x00000000fc0137a0> (a java.io.BufferedInputStream)
	at Shop$$Lambda$1/0x00007f7425000a08.run(Unknown Source)

"a \\"quoted\\" nid=1 name" #12 daemon prio=5 os_prio=0 tid=0x00007f747c0b0730 nid=0x1354 in Object.wait() [0x00007f748247d000]
   java.lang.Thread.State: WAITING (on object monitor)
	at shop.Waiter.waitForEver(Waiter.java:33)

"VM Thread" os_prio=0 cpu=1.00ms elapsed=0.61s tid=0x00007f747c047880 nid=0x1343 runnable

JNI global refs: 15, weak refs: 0
"""  # noqa: E501 - as Java writes it


def warm(program):
    """Let it run until it is compiled, however little of the machine others leave it."""
    before = time.clock_gettime(cpu_clock(program.pid))
    while time.clock_gettime(cpu_clock(program.pid)) < before + 2.0:
        time.sleep(0.05)


@SAMPLES
@pytest.mark.slow
@COLLECTORS
def test_the_busy_thread_of_a_java_program_is_first_and_in_its_method(collector):
    with misbehaving(burning_java(collector)) as program:
        assert jcmd.available(program.pid) == ""
        warm(program)
        profiler = jcmd.attach(program.pid)
        samples = samples_of(profiler, running=50, tid=program.tid)
        assert not Path(f"/tmp/perf-{program.pid}.map").exists()
        assert not list(Path("/tmp").glob(f".attach_pid{program.pid}"))
        assert program.process.poll() is None
    assert_found(samples, program)
    blocked = [sample for sample in samples if sample.state == "blocked"]
    source = (HERE / "Burning.java").read_text().splitlines()
    where = Location("Burning.waitForEver", "Burning.java", -1, source.index(" " * 20 + "lock.wait();") + 1)
    assert sum(where in sample.locations for sample in blocked) >= 4
    assert profiler.stopped_s > 0
    assert profiler.notes == []


@pytest.mark.slow
def test_what_is_compiled_while_it_is_looked_at_has_its_name():
    with misbehaving(burning_java("-XX:+UseG1GC"), busy=False) as program:
        profiler = jcmd.attach(program.pid)
        profiler.start()
        program.tell("busy")
        samples: list[Sample] = []
        running: list[Sample] = []
        until = time.monotonic() + 2
        while time.monotonic() < until or len(running) < 100:
            time.sleep(0.1)
            samples += profiler.take()
            running = [sample for sample in samples if sample.tid == program.tid and sample.state == "running"]
        samples += profiler.stop()
    named = [sample for sample in running if sample.locations[0].function or sample.locations[0].module]
    assert len(named) >= 0.9 * len(running)


@pytest.mark.slow
def test_where_the_kernel_does_not_sample_dumps_tell_whole_stacks(monkeypatch):
    monkeypatch.setattr(perf, "_permitted", lambda pid: (False, "perf: no permission to sample"))
    monkeypatch.setattr(jcmd, "STOPPED_SHARE", 0.3)  # how it is kept is another test's
    with misbehaving(burning_java("-XX:+UseG1GC")) as program:
        warm(program)
        profiler = jcmd.attach(program.pid)
        begin = time.monotonic()
        samples = samples_of(profiler, running=10, tid=program.tid)
        elapsed_s = time.monotonic() - begin
    assert_found(samples, program, callers=("Burning.serve", "Burning.work", "java.lang.Thread.run"))
    assert {sample.locations[0].line for sample in samples if sample.tid == program.tid} <= set(range(12, 20))
    assert 0 < profiler.stopped_s < elapsed_s
    assert profiler.notes[0] == "perf: no permission to sample"
    assert "they may name a caller" in profiler.notes[1]


@SAMPLES
@pytest.mark.slow
def test_dumps_become_rarer_as_they_take_longer():
    """The serial collector's safepoints wait for the end of loops: 20 to 70 ms a dump were measured."""
    with misbehaving(burning_java("-XX:+UseSerialGC")) as program:
        time.sleep(1)
        profiler = jcmd.attach(program.pid)
        profiler.start()
        begin = time.monotonic_ns()
        profiler.take()
        end = time.monotonic_ns()
        took_s = profiler.stopped_s
        due_ns = profiler._dump_ns
        profiler.stop()
    assert took_s > 0
    wait_s = max(jcmd.DUMP_EVERY_S, took_s / jcmd.STOPPED_SHARE)
    assert begin / 1e9 <= due_ns / 1e9 - wait_s + 1e-3  # from when the dump began
    assert due_ns / 1e9 - wait_s - 1e-3 <= end / 1e9


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_in_its_own_pid_namespace_and_as_another_user():
    other = ("setpriv", "--reuid=65534", "--clear-groups")
    *java, classes, main = burning_java("-XX:+UseG1GC")
    with tempfile.TemporaryDirectory() as folder:
        readable = shutil.copytree(classes, f"{folder}/classes")
        Path(folder).chmod(0o755)
        with misbehaving(in_own_pid_namespace([*other, *java, readable, main]), cwd="/") as shell:
            pid = int(Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text())
            (tid,) = (int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if _inner(task) == shell.tid)
            while _used_s(pid, tid) < 1.0:  # until then it is compiled
                time.sleep(0.1)
            profiler = jcmd.attach(pid)
            samples = samples_of(profiler, running=30, tid=tid)
    assert tid != shell.tid
    hot = [sample for sample in samples if sample.tid == tid and sample.state == "running"]
    assert sum(sample.locations[0].function == "Burning.grind" for sample in hot) >= 0.9 * len(hot)
    assert any("Burning.waitForEver" in {at.function for at in sample.locations} for sample in samples)


def _used_s(pid, tid):
    ticks = Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _inner(task):
    return int(re.findall(r"^NSpid:.*?(\d+)$", (task / "status").read_text(), re.MULTILINE)[0])


def _write_settled(path, pid):
    """Have the map written, once the machine has compiled the hot function for good: on a busy one that takes long."""
    deadline, before = time.monotonic() + 60.0, None
    while time.monotonic() < deadline:
        time.sleep(1)
        Jvm(pid).ask("jcmd", "Compiler.perfmap")
        now = [line for line in path.read_text().splitlines() if "grind" in line]
        if now and now == before:
            return
        before = now
    raise AssertionError(f"the hot function is still being compiled: {before}")


@SAMPLES
@pytest.mark.slow
def test_a_map_that_somebody_else_has_written_is_used_and_left():
    with misbehaving(burning_java("-XX:+UseG1GC")) as program:
        path = Path(f"/tmp/perf-{program.pid}.map")
        try:
            _write_settled(path, program.pid)
            before = path.stat().st_mtime_ns
            profiler = jcmd.attach(program.pid)
            assert_found(samples_of(profiler, running=30, tid=program.tid), program)
            (note,) = profiler.notes
            assert note.startswith(f"jcmd: /proc/{program.pid}/root{path} already exists, so the virtual machine ")
            assert note.endswith("; methods that were compiled later have no names")
            assert path.stat().st_mtime_ns == before
        finally:
            path.unlink()


@pytest.mark.slow
@SAMPLES
def test_where_a_link_lies_no_map_is_asked_for(tmp_path):
    """Else the machine would write where the link leads."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    with misbehaving(burning_java("-XX:+UseG1GC")) as program:
        path = Path(f"/tmp/perf-{program.pid}.map")
        path.symlink_to(victim)
        try:
            profiler = jcmd.attach(program.pid)
            samples_of(profiler, running=5, tid=program.tid)
        finally:
            path.unlink()
    assert victim.read_text() == "mine"
    (note,) = profiler.notes
    assert note.endswith("; it is not a regular file, so compiled methods have no names; remove it and profile again")


@pytest.mark.slow
@SAMPLES
@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_a_map_of_another_user_is_rejected_and_reported():
    with misbehaving(burning_java("-XX:+UseG1GC")) as program:
        path = Path(f"/tmp/perf-{program.pid}.map")
        path.write_text("0 ffffffffffffffff liar\n")
        os.chown(path, 65534, 65534)
        try:
            profiler = jcmd.attach(program.pid)
            samples = samples_of(profiler, running=5, tid=program.tid)
        finally:
            path.unlink()
    assert all(at.function != "liar" for sample in samples for at in sample.locations)
    (note,) = profiler.notes
    assert "; it belongs to user 65534, so compiled methods have no names" in note


def test_a_machine_that_does_not_listen_is_left_alone():
    for flag in ("-Xrs", "-XX:+DisableAttachMechanism"):
        with misbehaving(burning_java(flag)) as program:
            assert f"({flag})" in jcmd.available(program.pid)
            with pytest.raises(ProfilerError, match="jcmd: process"):
                jcmd.attach(program.pid).start()
            assert program.process.poll() is None


def test_what_is_no_java_is_said_so():
    with misbehaving([compiled("burning")], busy=False) as program:
        assert "is not an OpenJDK virtual machine" in jcmd.available(program.pid)
        assert program.process.poll() is None
    assert jcmd.available(program.pid) == f"jcmd: process {program.pid} has ended"


def test_an_unknown_command_is_a_clear_error():
    with (
        misbehaving(burning_java("-XX:+UseG1GC"), busy=False) as program,
        pytest.raises(ProfilerError, match=r"answered to 'jcmd' with '-?1': .*Unknown diagnostic command"),
    ):
        Jvm(program.pid).ask("jcmd", "No.such")


@pytest.mark.slow
@SAMPLES
def test_a_machine_that_ends_leaves_what_was_seen_of_it():
    with misbehaving(burning_java("-XX:+UseG1GC")) as program:
        profiler = jcmd.attach(program.pid)
        profiler.start()
        before = time.clock_gettime(cpu_clock(program.pid))
        while time.clock_gettime(cpu_clock(program.pid)) < before + 0.5:
            time.sleep(0.05)
        program.process.kill()
        program.process.wait()
        samples = [*profiler.take(), *profiler.take(), *profiler.stop()]
    assert program.tid in {sample.tid for sample in samples}


@pytest.mark.slow
@SAMPLES
def test_a_stopped_machine_is_no_hang(monkeypatch):
    with misbehaving(burning_java("-XX:+UseG1GC")) as program:
        profiler = jcmd.attach(program.pid)
        profiler.start()
        profiler.take()
        os.kill(program.pid, signal.SIGSTOP)
        try:
            profiler._dump_ns = 0
            monkeypatch.setattr(jvm, "WAIT_S", SILENT_S)
            begin = time.monotonic()
            profiler.take()
            assert time.monotonic() - begin < 30
            profiler.stop()
        finally:
            os.kill(program.pid, signal.SIGCONT)
        assert "did not answer to 'threaddump'" in profiler.notes[-1]


def test_dumps_of_several_versions_are_parsed():
    assert symbolizer().stacks(DUMP.encode()) == [
        (
            4930,
            (
                Location("java.io.FileInputStream.readBytes"),
                Location("java.io.FileInputStream.read", "FileInputStream.java", -1, 276),
                Location("Shop$$Lambda$1.run"),
            ),
        ),
        (0x1354, (Location("shop.Waiter.waitForEver", "Waiter.java", -1, 33),)),
        (0x1343, ()),
    ]
