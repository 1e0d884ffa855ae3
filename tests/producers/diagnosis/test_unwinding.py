"""Stacks of blocked threads that go unstopped: of real programs, with and without frame pointers, beside eu-stack's."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from laggard.producers.diagnosis import elf, unwinding
from laggard.producers.diagnosis.addresses import AddressSpace
from laggard.producers.diagnosis.elf import SymbolTable
from laggard.producers.diagnosis.eustack import parse_stacks
from laggard.producers.diagnosis.frames import Frames, FramesError
from laggard.producers.diagnosis.parsers import Blocked, parse_syscall
from laggard.producers.diagnosis.states import thread_states
from laggard.producers.diagnosis.symbols import SymbolFiles
from laggard.producers.diagnosis.unwinding import Unwinder, frame_size
from laggard.producers.system.clock import Clock
from tests.misbehaving.programs import compiled, misbehaving
from tests.programs import path_of

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are told for x86-64 alone")

PUSHED = b"\x55\x48\x89\xe5\x41\x55\x41\x54\x53"  # push rbp; mov rbp, rsp; push r13; push r12; push rbx


@contextmanager
def unwinder_of(pid):
    with SymbolFiles() as files:
        space = AddressSpace(pid, clock=Clock(), files=files)
        yield Unwinder(f"/proc/{pid}", space), space


def blocked(pid, tid=None):
    """Where a thread is blocked that stays so."""
    until = time.monotonic() + 30.0
    path = Path(f"/proc/{pid}/task/{tid or pid}/syscall")
    while (found := parse_syscall(path.read_bytes())) is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def names(space, blocked, found):
    return [space.locate(blocked.address).function, *[each.function for each in found]]


KINDS = {
    "frame pointers": lambda _: [compiled("burning")],
    "frame pointers, optimised": lambda _: [compiled("burning", "-O2")],
    "frame pointers, stack protected": lambda _: [compiled("burning", "-fstack-protector-all", "-fcf-protection=full")],
    "no frame pointers": lambda _: [compiled("burning", "-O2", "-fomit-frame-pointer")],
    "a large frame": lambda folder: [compiled("writing"), folder / "written"],
    "not optimised": lambda _: [compiled("burning", "-O0")],
    "python": lambda _: [sys.executable, "-S", "-E", "-c", "import time; time.sleep(99)"],
    "shell": lambda _: ["sh", "-c", "sleep 99; true"],
}
"""Programs that wait, as other compilers' settings make them."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_stacks_are_those_that_eu_stack_tells(kind, tmp_path):
    """It stops the process for it, and is told all registers."""
    eu_stack = path_of("eu-stack")
    with subprocess.Popen(KINDS[kind](tmp_path), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            time.sleep(1.0)  # they all wait, but for one thread that works now and then
            with unwinder_of(process.pid) as (unwinder, _):
                found = {}
                for tid in thread_states(f"/proc/{process.pid}"):
                    place = parse_syscall(Path(f"/proc/{process.pid}/task/{tid}/syscall").read_bytes())
                    if place is not None:
                        found[tid] = [place.address, *unwinder.returns(place)]
            text = subprocess.run([eu_stack, "-q", "-p", str(process.pid)], capture_output=True, check=False).stdout
        finally:
            process.kill()
            for child in re.findall(r"\d+", _children(process.pid)):
                os.kill(int(child), 9)
    theirs = dict(parse_stacks(text))
    # Those that went on in between, but for one, wait in the same way: only the innermost may be elsewhere.
    same = [tid for tid in found if tid in theirs and theirs[tid][0] == found[tid][0]]
    assert len(same) >= len(found) - 2
    assert same
    # The thread that works now and then may wait at the same place, on another stack.
    assert sum(found[tid] != theirs[tid] for tid in same) <= 1
    for tid in same:
        assert len(found[tid]) >= 3


def _children(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
def test_callers_of_who_waits_are_named():
    with misbehaving([compiled("burning", "-O2", "-fomit-frame-pointer")], busy=False) as program:
        place = blocked(program.pid)
        with unwinder_of(program.pid) as (unwinder, space):
            told = names(space, place, unwinder.callers(place))
    assert told[0].endswith("read")
    assert "main" in told
    assert told[-1] == "_start"


@pytest.mark.slow
def test_who_is_called_in_a_register_is_known():
    """vfork(2) of the C library keeps its return address in a register, as the child uses the same stack."""
    with misbehaving([compiled("stuck")]) as program:
        until = time.monotonic() + 30.0
        while (place := blocked(program.pid)).number != 58:
            assert time.monotonic() < until
        with unwinder_of(program.pid) as (unwinder, space):
            told = names(space, place, unwinder.callers(place))
    assert told[1] == "main"


@pytest.mark.slow
def test_a_stack_that_makes_no_sense_ends():
    with misbehaving([compiled("burning")], busy=False) as program, unwinder_of(program.pid) as (unwinder, _):
        place = blocked(program.pid)
        whole = unwinder.returns(place)
        assert whole
        for stack in (0, 8, (1 << 64) - 8, place.address, place.stack + 8, place.stack + 3):
            assert len(unwinder.returns(place._replace(stack=stack))) < len(whole)
        for address in (0, 1, (1 << 64) - 1, place.stack):
            assert unwinder.returns(place._replace(address=address)) == []
        assert unwinder.returns(Blocked(None, 0, 0, ())) == []


@pytest.mark.slow
def test_a_stack_ends_at_the_maximum_number_of_functions(monkeypatch):
    monkeypatch.setattr(unwinding, "FRAMES", 3)
    with misbehaving([compiled("burning")], busy=False) as program, unwinder_of(program.pid) as (unwinder, _):
        assert len(unwinder.returns(blocked(program.pid))) == 2


@pytest.mark.slow
def test_a_process_that_has_ended_has_no_stack():
    with misbehaving([compiled("burning")], busy=False) as program:
        place = blocked(program.pid)
        with unwinder_of(program.pid) as (unwinder, _):
            program.process.kill()
            program.process.wait()
            with pytest.raises(OSError, match="No such"):
                unwinder.returns(place)


@pytest.mark.parametrize(
    ("code", "size"),
    [
        (PUSHED, 40),
        (PUSHED + b"\x48\x83\xec\x18\x89\xfb", 40 + 0x18),
        (PUSHED + b"\x89\xfb\x48\x81\xec\x08\x10\x00\x00", 40 + 0x1008),
        (PUSHED + b"\x48\x83\xe4\xe0", None),  # aligned
        (PUSHED + b"\x4c\x8d\x9c\x24\x00\xf0\xff\xff", None),  # by a loop that touches each page
        (PUSHED + b"\x48\x29\xc4", None),  # as large as a value says
        (PUSHED + b"\x48\x83\xec\x18\x90\x48\x83\xec\x08", None),  # twice
        (b"", 40),
    ],
)
def test_the_size_of_a_frame_is_told_by_how_its_function_begins(code, size):
    assert frame_size(code, 40) == size


class Damaged(Frames):
    """The call frame information of a file, some of whose bytes are others."""

    random = random.Random(1)
    share = 0.0

    def _read(self, address, size):
        text = bytearray(super()._read(address, size))
        for at in range(len(text)):
            if self.random.random() < self.share:
                text[at] = self.random.randrange(256)
        return bytes(text)


def test_damaged_information_tells_nothing_or_something_and_nothing_worse(monkeypatch):
    monkeypatch.setattr(elf, "Frames", Damaged)
    library = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    table = SymbolTable(os.open(library, os.O_RDONLY))
    try:
        frames = table.frames
        offsets = Damaged.random.sample(range(0x30000, 0x150000), 400)
        whole = [_asked(frames, offset) for offset in offsets]
        assert sum(isinstance(each, tuple) for each in whole) > 300
        monkeypatch.setattr(Damaged, "share", 0.1)
        damaged = [_asked(frames, offset) for offset in offsets]
    finally:
        table.close()
    assert sum(isinstance(each, FramesError) for each in damaged) > 50


def _asked(frames, offset):
    try:
        return frames.rule(offset)
    except FramesError as error:
        return error


def test_a_file_without_such_information_has_none(tmp_path):
    (tmp_path / "table").write_bytes(b"\x02" * 64)
    descriptor = os.open(tmp_path / "table", os.O_RDONLY)
    try:
        with pytest.raises(FramesError, match="a table of version 2"):
            Frames(descriptor, (0, 0, 64), [])
        with pytest.raises(FramesError, match="a damaged table"):
            Frames(descriptor, (64, 0, 64), [])
    finally:
        os.close(descriptor)
