"""An own instance of the tracer: nothing of others is touched, and nothing is left."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.producers.trace.boundaries.probes import Probe
from laggard.producers.trace.events import Kind
from laggard.producers.trace.ftrace.instance import Instance
from laggard.producers.trace.ftrace.remains import remove_stale
from laggard.producers.trace.ftrace.tracefs import PREFIX, TRACEFS, TracingError
from tests.producers.trace.ftrace.programs import TRACES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = TRACES

PROBE = Probe("test_begin", "/bin/sh:0x1000", Kind.BEGIN, "shop")


def ours() -> set[str]:
    return {path.name for path in (TRACEFS / "instances").iterdir() if path.name.startswith(PREFIX)}


def probes(group: str) -> list[str]:
    return [line for line in (TRACEFS / "dynamic_events").read_text().splitlines() if group in line]


def test_it_is_there_and_gone() -> None:
    with Instance(buffer_kib=64) as instance:
        assert instance.name in ours()
        assert "[mono]" in (instance.path / "trace_clock").read_text()
        assert set(instance.enable(["sched/sched_switch", "nothing/nothing"])) == {"sched/sched_switch"}
        assert (instance.path / "events/sched/sched_switch/enable").read_text() == "1\n"
        assert (TRACEFS / "events/sched/sched_switch/enable").read_text() == "0\n"
        instance.define([PROBE])
        assert len(probes(instance.group)) == 1
        instance.enable([instance.event(PROBE)])
    assert instance.name not in ours()
    assert probes(instance.group) == []


def test_a_probe_that_is_refused_leaves_nothing() -> None:
    refused = pytest.raises(TracingError, match=r"dynamic_events: rejects `p:laggard_\w+/test_begin /nowhere:0x1`")
    with refused, Instance(buffer_kib=64) as instance:
        instance.define([PROBE, Probe("test_begin", "/nowhere:0x1", Kind.BEGIN, "shop")])
    assert instance.name not in ours()
    assert probes(instance.group) == []


MANY = """
from laggard.producers.trace.ftrace.instance import Instance
for _ in range(8):
    with Instance(buffer_kib=64) as instance:
        instance.write("tracing_on", "0")
"""


def test_several_recorders_begin_at_once() -> None:
    """Each removes what a killed one has left, and must not stumble over an instance that another has removed."""
    many = [subprocess.Popen([sys.executable, "-c", MANY], stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[1] for process in many] == [""] * len(many)


KILLED = """
import sys, time
from laggard.producers.trace.boundaries.probes import Probe
from laggard.producers.trace.events import Kind
from laggard.producers.trace.ftrace.instance import Instance
from pathlib import Path
instance = Instance(buffer_kib=64)
instance.define([Probe("test_begin", "/bin/sh:0x1000", Kind.BEGIN, "shop")])
instance.enable([f"{instance.group}/test_begin", "sched/sched_switch"])
instance.switch(on=True)
instance.publish_marker(Path(sys.argv[1]))
print(instance.name, flush=True)
time.sleep(600)
"""


def test_what_a_killed_one_leaves_is_removed(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(marker)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        name = process.stdout.readline().strip()
        try:
            group = name.replace("-", "_")
            assert name not in remove_stale()
            assert name in ours()
            refused = pytest.raises(TracingError, match="another recorder offers its marker file there")
            with refused, Instance(buffer_kib=64) as instance:
                instance.publish_marker(marker)
        finally:
            process.kill()
    # What it cost ends with it, before it is removed: unless another test's recorder was as quick.
    with contextlib.suppress(FileNotFoundError):
        assert (TRACEFS / "instances" / name / "tracing_on").read_text() == "0\n"
        assert int((TRACEFS / "instances" / name / "buffer_size_kb").read_text().split()[0]) < 64
    until = time.monotonic() + 10
    while name in ours() and time.monotonic() < until:
        remove_stale()
    assert name not in ours()
    remove_stale()
    assert probes(group) == []
    assert not marker.exists()
    with Instance(buffer_kib=64) as instance:
        instance.publish_marker(marker)
        assert marker.stat().st_nlink == 1
    assert not marker.exists()


def test_a_program_that_holds_the_marker_of_a_killed_one(tmp_path: Path) -> None:
    """It keeps the instance, but neither its events nor its marker: a program would be slowed down until it ends."""
    marker = tmp_path / "marker"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(marker)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        name = process.stdout.readline().strip()
        enabled = TRACEFS / "instances" / name / "events/sched/sched_switch/enable"
        with marker.open("wb", buffering=0):
            remove_stale()
            assert enabled.read_text() == "1\n"
            assert os.path.ismount(marker)
            process.kill()
            process.wait()
            remove_stale()
            assert name in ours()
            assert enabled.read_text() == "0\n"
            assert probes(name.replace("-", "_")) == []
            assert not marker.exists()
    until = time.monotonic() + 10
    while name in ours() and time.monotonic() < until:
        remove_stale()
    assert name not in ours()


def test_only_the_group_may_mark() -> None:
    """Others could make up requests of any service."""
    marker = Path("/run") / f"laggard-test-{os.getpid()}" / "marker"

    def marks(text: str, group: str) -> bool:
        command = ["sh", "-c", f"echo {text} > {marker}"]
        return not subprocess.run(
            command, check=False, user="nobody", group=group, extra_groups=[], stderr=subprocess.DEVNULL
        ).returncode

    try:
        with Instance(buffer_kib=64) as instance:
            instance.publish_marker(marker, grp.getgrnam("mail").gr_gid)
            instance.switch(on=True)
            assert marks("hello", "mail")
            assert not marks("forged", "nogroup")
            written = (instance.path / "trace").read_text()
            assert "hello" in written
            assert "forged" not in written
            instance.switch(on=False)
            assert not marks("late", "mail")
        with Instance(buffer_kib=64) as instance:
            instance.publish_marker(marker)
            instance.switch(on=True)
            assert not marks("forged", "mail")
        assert not marker.exists()
    finally:
        marker.parent.rmdir()


def test_a_cpu_that_was_never_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(code: int) -> Callable[[int, object], int]:
        def refused(pipe: int, into: object) -> int:
            raise OSError(code, os.strerror(code))

        return refused

    with Instance(buffer_kib=64) as instance:
        into = memoryview(bytearray(8192))
        assert instance.read(0, into) == 0
        monkeypatch.setattr(os, "readv", refuses(errno.ENODEV))
        assert instance.read(0, into) == 0
        monkeypatch.setattr(os, "readv", refuses(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            instance.read(0, into)


def test_a_program_that_holds_it_is_waited_for() -> None:
    with Instance(buffer_kib=64) as instance:
        holder = subprocess.Popen(
            ["sh", "-c", f"exec 9> {instance.path / 'trace_marker'}; echo; exec sleep 0.5"], stdout=-1
        )
        assert holder.stdout
        holder.stdout.readline()
        begin = time.monotonic()
    assert time.monotonic() - begin > 0.2
    holder.send_signal(signal.SIGTERM)
    holder.communicate()
    assert instance.name not in ours()


def test_no_tracefs(tmp_path: Path) -> None:
    with pytest.raises(TracingError, match="tracefs is not mounted there"):
        Instance(buffer_kib=64, root=tmp_path)


def test_only_root() -> None:
    child = os.fork()
    if not child:
        os.setgid(65534)
        os.setuid(65534)
        try:
            Instance(buffer_kib=64)
        except TracingError as error:
            os._exit(0 if "only root may trace" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
