"""Real programs, recorded: what they did is what is read, and nothing of the recorder itself."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import pytest

from laggard.producers.trace.events import Kind
from laggard.producers.trace.ftrace.recorder import Recorder
from laggard.producers.trace.ftrace.recording import Recording
from tests.producers.trace.ftrace.programs import TRACES, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from laggard.producers.trace.events import Events

pytestmark = TRACES


class Row(NamedTuple):
    ts: int
    cpu: int
    kind: int
    flags: int
    tid: int
    a: int
    b: int
    c: int
    text: str


def rows(batches: Iterable[Events]) -> list[Row]:
    return [Row._make([*row[:8], batch.texts[row[8]]]) for batch in batches for row in batch.events.tolist()]


def recorded(folder: Path, code: str) -> tuple[int, list[Row], str]:
    """A program's process, all events while it ran, and what it printed."""
    with waiting(code) as program, Recorder(folder) as recorder:
        recorder.start()
        told = program.go(str(recorder.session.instance.path / "trace_marker"))
        recorder.stop()
    reading = Recording(folder)
    found = rows(reading)
    assert reading.warnings == []
    assert [row.ts for row in found] == sorted(row.ts for row in found)
    return program.pid, found, told


CALLS = """
import os, socket, threading, time
before = time.monotonic_ns()
os.stat("/etc/hostname")
file = os.open("/etc/hostname", os.O_RDONLY)
os.read(file, 100)
try:
    os.open("/nonexistent/file", os.O_RDONLY)
except OSError:
    pass
os.close(file)
for blocking in (True, False):
    one = socket.socket()
    one.setblocking(blocking)
    try:
        one.connect(("127.0.0.1", 1))
    except OSError:
        pass
    if not blocking:
        print(one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
time.sleep(0.01)
thread = threading.Thread(target=time.sleep, args=(0.005,))
thread.start()
thread.join()
print(before, time.monotonic_ns(), thread.native_id)
"""


def test_what_a_program_did(tmp_path: Path) -> None:
    pid, found, told = recorded(tmp_path / "folder", CALLS)
    error, before, after, thread = map(int, told.split())
    own = [row for row in found if row.tid == pid and before <= row.ts <= after]
    calls = [(row.text, row.b) for row in own if row.kind == Kind.SYSCALL_EXIT]
    assert [result for name, result in calls if name == "connect"] == [-111, -115]
    # The error that is asked for later is what the call returns.
    assert error == 111
    assert [result for name, result in calls if name == "getsockopt" and result] == [-111]
    enters = Counter(row.text for row in own if row.kind == Kind.SYSCALL_ENTER)
    assert enters == Counter(name for name, _ in calls)
    names = [(Kind(row.kind).name, row.a, row.text) for row in own if row.kind in (Kind.PATH, Kind.OPENED)]
    file = next(a for kind, a, text in names if kind == "OPENED" and text == "/etc/hostname")
    assert names[:4] == [
        ("PATH", 0, "/etc/hostname"),
        ("PATH", 0, "/etc/hostname"),
        ("OPENED", file, "/etc/hostname"),
        ("PATH", 0, "/nonexistent/file"),
    ]
    assert [text for kind, _, text in names if kind == "OPENED"][1:] == ["127.0.0.1:1", "127.0.0.1:1"]
    forks = [row for row in own if row.kind == Kind.FORK]
    assert [(row.a, row.b) for row in forks] == [(thread, pid)]
    slept = next(row for row in own if row.kind == Kind.SYSCALL_ENTER and row.text == "clock_nanosleep")
    woken = next(row for row in own if row.kind == Kind.SYSCALL_EXIT and row.text == "clock_nanosleep")
    assert 10e6 <= woken.ts - slept.ts < 60e6
    assert [row for row in found if row.kind == Kind.WAKE and row.a == pid and slept.ts < row.ts < woken.ts]


def test_names_come_while_their_calls_last(tmp_path: Path) -> None:
    pid, found, _ = recorded(tmp_path / "folder", "import os\nfor _ in range(2000): os.path.exists('/etc/hostname')")
    inside: dict[int, bool] = {}
    counted: Counter[bool | None] = Counter()
    # Of others, names may come a little longer than calls.
    for row in (row for row in found if row.tid == pid and row.cpu >= 0):
        if row.kind in (Kind.SYSCALL_ENTER, Kind.SYSCALL_EXIT):
            inside[row.tid] = row.kind == Kind.SYSCALL_ENTER
        elif row.kind == Kind.PATH:
            counted[inside.get(row.tid)] += 1
    assert counted[True] >= 2000
    assert counted[False] == 0


def test_the_recorder_itself_is_left_out(tmp_path: Path) -> None:
    pid, found, _ = recorded(tmp_path / "folder", "import time\nfor _ in range(50): time.sleep(0.005)")
    own = [row for row in found if row.tid == os.getpid()]
    # What it takes from others, and whom it wakes, is told.
    assert {Kind(row.kind) for row in own} <= {Kind.SWITCH, Kind.WAKE}
    assert Counter(row.tid for row in found if row.kind == Kind.SYSCALL_ENTER)[pid] >= 50


def test_what_was_known_before(tmp_path: Path) -> None:
    pid, found, _ = recorded(tmp_path / "folder", "pass")
    named = [row for row in found if row.kind == Kind.NAMED and row.a == pid and row.cpu == -1]
    assert [(row.b, row.text.startswith("python")) for row in named] == [(pid, True)]
    opened = {row.a: row.text for row in found if row.kind == Kind.OPENED and row.tid == pid and row.cpu == -1}
    assert opened[0] == opened[1] == "pipe"


def test_markers(tmp_path: Path) -> None:
    code = r"""
for number in range(3):
    open(word, "w").write(f"laggard begin {number} shop\tGET /cart/{number}?x")
    open(word, "w").write(f"laggard end {number}")
"""
    pid, found, _ = recorded(tmp_path / "folder", code)
    bounds = [(Kind(row.kind).name, row.tid, row.a, row.text) for row in found if row.kind in (Kind.BEGIN, Kind.END)]
    assert bounds == [
        bound
        for number in range(3)
        for bound in (("BEGIN", pid, number, "shop\tGET /cart/*"), ("END", pid, number, ""))
    ]


def test_the_wall_clock(tmp_path: Path) -> None:
    with Recorder(tmp_path / "folder") as recorder:
        recorder.start()
        before = time.time()
    reading = Recording(tmp_path / "folder")
    begin = next(iter(reading)).events["ts"][0] / 1e9 + reading.wall_offset_s
    assert before - 5 < begin < before


def test_a_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with pytest.raises(FileExistsError, match="expected a new or empty folder"):
        Recorder(tmp_path)


def test_it_runs_until_it_is_not_wanted(tmp_path: Path) -> None:
    left = iter([True, True, False])
    with closing(Recorder(tmp_path / "folder").session) as session:
        pass
    assert not session.instance.path.exists()
    begin = time.monotonic()
    with Recorder(tmp_path / "other") as recorder:
        recorder.run(60, wanted=lambda: next(left))
    assert time.monotonic() - begin < 10
    assert recorder.bytes == sum(path.stat().st_size for path in (tmp_path / "other").glob("[cn]*"))
