"""The supervisor with real child processes: they die, hang or cannot start, and none outlives it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core import supervisor, watchdog
from laggard.pipeline.core.supervisor import Supervisor
from laggard.pipeline.core.watchdog import MemoryLimit
from tests.pipeline.waiting import alive, until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


GOOD = """
import json, os, signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
# As a part has it: a thread that took the signal would not wake the main one.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
print(json.dumps({"pid": os.getpid()}), flush=True)
stop.wait()
"""

STUBBORN = GOOD.replace("lambda *_: stop.set())", "signal.SIG_IGN)")

BEATING = """
import json, os, signal, sys, threading, time
from laggard.pipeline.core.notify import Heartbeat, Notifier
stop = Heartbeat(Notifier(os.environ))
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print(json.dumps({"pid": os.getpid()}), flush=True)
def other():
    while not stop.wait(0.1):
        print(json.dumps({"pid": os.getpid()}), flush=True)
threading.Thread(target=other, daemon=True).start()
while not (len(sys.argv) > 1 and os.path.exists(sys.argv[1])):
    stop.wait(0.05)
threading.Event().wait()
"""
"""Its main loop hangs once a file is there; another thread goes on."""


class Heard:
    """Keeps what a supervisor says."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.reports: list[dict[str, Any]] = []
        self.looks = 0

    def announce(self, line: str) -> None:
        self.lines.append(line)

    def show(self, reports: Mapping[str, Mapping[str, Any]]) -> None:
        self.reports.append({name: dict(report) for name, report in reports.items()})

    def alive(self) -> None:
        self.looks += 1


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


class Running:
    """A supervisor that runs in a thread."""

    def __init__(
        self,
        parts: Mapping[str, list[str]],
        *,
        final: tuple[int, ...] = (),
        pause_s: float = 0.5,
        memory: Mapping[str, MemoryLimit] | None = None,
    ) -> None:
        self.heard = Heard()
        self.supervisor = Supervisor(parts, self.heard, final, memory)
        for child in self.supervisor._children:
            child.pause_s = pause_s
        self.code: int | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.code = self.supervisor.run()

    def pid(self, part: str) -> int:
        until(lambda: bool(self.heard.reports) and part in self.heard.reports[-1])
        return int(self.heard.reports[-1][part]["pid"])

    def stop(self) -> int | None:
        self.supervisor.stop()
        self.thread.join(60)
        return self.code


def test_parts_report_and_stop() -> None:
    running = Running({"one": python(GOOD), "two": python(GOOD)})
    pids = [running.pid("one"), running.pid("two")]
    assert running.stop() == 0
    assert not any(map(alive, pids))
    assert running.heard.lines == []
    assert running.supervisor.restarts == 0


def test_a_killed_part_starts_again() -> None:
    running = Running({"one": python(GOOD), "two": python(GOOD)})
    first, other = running.pid("one"), running.pid("two")
    os.kill(first, signal.SIGKILL)
    until(lambda: running.pid("one") != first)
    second = running.pid("one")
    assert running.pid("two") == other, "the other part was left alone"
    assert running.stop() == 0
    assert not alive(second)
    assert running.heard.lines == ["one was killed by SIGKILL; it starts again in 0.5 s"]
    assert running.supervisor.restarts == 1


def test_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE_S", 0.05)
    running = Running({"one": python("raise SystemExit(7)")}, pause_s=0.02)
    until(lambda: len(running.heard.lines) >= 4)
    assert running.stop() == 0
    pauses = [line.split()[-2] for line in running.heard.lines]
    assert pauses[:4] == ["0.02", "0.04", "0.05", "0.05"]
    assert running.heard.lines[0].startswith("one ended with exit code 7; ")
    assert running.supervisor.restarts == len(running.heard.lines)


def test_no_use_in_starting_again(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    refused = f"""
import os, sys, time
while not os.path.exists({str(taken)!r}): time.sleep(0.01)
sys.stderr.write('port taken')
raise SystemExit(4)
"""
    running = Running({"good": python(GOOD), "bad": python(refused)}, final=(2, 4))
    good = running.pid("good")
    taken.touch()
    running.thread.join(60)
    assert running.code == 4
    assert running.heard.lines == ["bad: port taken"]
    assert not alive(good)


def test_a_final_code_after_a_report_is_a_death_like_others() -> None:
    running = Running({"one": python("print('{}', flush=True); raise SystemExit(4)")}, final=(4,), pause_s=60.0)
    until(lambda: bool(running.heard.lines))
    assert running.stop() == 0
    assert running.heard.lines == ["one ended with exit code 4; it starts again in 60 s"]


def test_a_program_that_is_not_there() -> None:
    heard = Heard()
    assert Supervisor({"one": ["/nowhere/laggard"]}, heard).run(0.1) == 0
    assert heard.lines[0] == "one cannot be started (No such file or directory); it starts again in 0.5 s"


def test_a_part_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STOPPING_S", 0.3)
    running = Running({"one": python(STUBBORN)})
    pid = running.pid("one")
    assert running.stop() == 1
    assert not alive(pid)
    assert running.heard.lines == ["one did not stop and was killed"]


def test_stop_said_twice_kills_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STOPPING_S", 60.0)
    running = Running({"one": python(STUBBORN)})
    running.pid("one")
    began = time.monotonic()
    running.supervisor.stop()
    assert running.stop() == 1
    assert time.monotonic() - began < 30


def test_what_parts_write_besides_reports_is_passed_on() -> None:
    noisy = r"""
import sys
sys.stdout.write('plain\n{"n": 1}\n[2]\n{"n": 3}')
sys.stderr.write('\x1b[31mred\x1b[0m\n\n' + 'x' * 100_000)
"""
    running = Running({"one": python(noisy)}, pause_s=60.0)
    heard = running.heard
    until(lambda: heard.lines[-1:] == ["one ended with exit code 0; it starts again in 60 s"])
    assert running.stop() == 0
    assert {"one: plain", "one: [2]", "one:  [31mred [0m"} <= set(heard.lines)
    assert [report["one"]["n"] for report in heard.reports] == [1, 3]
    assert sum(line.count("x") for line in heard.lines) >= 100_000


def test_parts_end_with_a_supervisor_that_was_killed() -> None:
    code = f"""
import sys
from laggard.pipeline.core.supervisor import Supervisor
class Said:
    def announce(self, line): pass
    def show(self, reports): print(reports["one"]["pid"], flush=True)
    def alive(self): pass
Supervisor({{"one": {python(GOOD)!r}}}, Said()).run()
"""
    outer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert outer.stdout is not None
    with outer.stdout:
        pid = int(outer.stdout.readline())
        assert alive(pid)
        outer.kill()
        outer.wait()
    until(lambda: not alive(pid))


def test_a_stopped_part_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "STOPPED_S", 2.0)
    running = Running({"one": python(GOOD), "two": python(GOOD)})
    first, other = running.pid("one"), running.pid("two")
    os.kill(first, signal.SIGSTOP)
    until(lambda: running.pid("one") != first)
    assert running.pid("two") == other
    assert running.stop() == 0
    assert not alive(first)
    assert running.heard.lines == ["one was stopped (SIGSTOP) for 2 s and was killed; it starts again in 0.5 s"]


def test_a_stopped_part_still_stops() -> None:
    running = Running({"one": python(GOOD)})
    os.kill(running.pid("one"), signal.SIGSTOP)
    assert running.stop() == 0
    assert running.heard.lines == []


@pytest.mark.slow
def test_a_part_whose_main_loop_hangs_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SILENT_S", 4.0)
    hang = tmp_path / "hang"
    running = Running({"one": [sys.executable, "-c", BEATING, str(hang)]})
    first = running.pid("one")
    looks = running.heard.looks
    until(lambda: running.heard.looks > looks + 8)
    assert running.pid("one") == first, "it shows that it lives"
    hang.touch()
    until(lambda: running.pid("one") != first)
    hang.unlink()
    assert running.stop() == 0
    (line,) = running.heard.lines
    said = r"one gave no sign of life for 4 s(, asleep in \w+,)? and was killed; it starts again in 0.5 s"
    assert re.fullmatch(said, line)
    assert running.supervisor._children[0].watchdog._patience_s == 8.0


def test_a_part_that_holds_too_much_starts_again(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    greedy = (
        f"import os\nif not os.path.exists({str(taken)!r}):\n    open({str(taken)!r}, 'w'); held = b'x' * (100 << 20)\n"
    )
    memory = {"one": MemoryLimit(64 << 20, "one.memory_bytes")}
    running = Running(
        {"one": python(greedy + GOOD), "two": python("held = b'x' * (100 << 20)\n" + GOOD)}, memory=memory
    )
    first, other = running.pid("one"), running.pid("two")
    until(lambda: running.pid("one") != first)
    assert running.pid("two") == other, "nobody limits it"
    assert running.stop() == 0
    (line,) = running.heard.lines
    held = r"one held 1\d\d MiB of memory, 64 MiB are allowed \(setting one.memory_bytes\) and was killed; "
    assert re.fullmatch(held + "it starts again in 0.5 s", line)


def test_a_part_that_fails_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MOST_FAILURES", 3)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE_S", 0.05)
    running = Running({"good": python(GOOD), "bad": python("raise SystemExit(7)")}, pause_s=0.02)
    good = running.pid("good")
    until(lambda: len(running.heard.lines) == 3)
    looks = running.heard.looks
    until(lambda: running.heard.looks > looks + 1)
    assert alive(good)
    assert running.stop() == 1
    again, last = running.heard.lines[1:]
    assert again == "bad ended with exit code 7; it starts again in 0.04 s"
    assert last.startswith(
        "bad ended with exit code 7, 3 times in a row, and is not started again; the other parts go on"
    )
    assert running.supervisor.restarts == 2


def test_it_ends_when_no_part_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MOST_FAILURES", 1)
    assert Supervisor({"one": python("raise SystemExit(7)")}, Heard()).run() == 1


@pytest.mark.slow
def test_a_machine_that_slept_kills_nothing() -> None:
    """All were stopped, as a container that is paused or a machine that is suspended: none hangs."""
    code = f"""
import sys
from laggard.pipeline.core import watchdog
watchdog.STOPPED_S = watchdog.SILENT_S = 4.0
from laggard.pipeline.core.supervisor import Supervisor
class Said:
    looks = 0
    def announce(self, line): print(line, flush=True)
    def show(self, reports):
        if not self.looks: print(reports["one"]["pid"], flush=True)
    def alive(self):
        self.looks += 1
        if self.looks > 2: print("look", flush=True)
Supervisor({{"one": [sys.executable, "-c", {BEATING!r}]}}, Said()).run()
"""
    outer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert outer.stdout is not None
    with outer.stdout:
        pid = int(outer.stdout.readline())
        try:
            for _ in range(2):
                until(lambda: outer.stdout is not None and outer.stdout.readline() == "look\n")
                for stopped in (outer.pid, pid):
                    os.kill(stopped, signal.SIGSTOP)
                time.sleep(6.0)
                for stopped in (pid, outer.pid):
                    os.kill(stopped, signal.SIGCONT)
            lines = [outer.stdout.readline() for _ in range(8)]
        finally:
            outer.kill()
            outer.wait()
            os.kill(pid, signal.SIGKILL)
    assert set(lines) <= {"look\n", f"{pid}\n"}
