"""What ends a part: signals, its time, its supervisor; with one that would rather not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli.exits import INTERRUPTED
from tests.programs import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PART = """
import sys, time
from laggard.pipeline.cli import part
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import parse_assignment
part.STOPPING_S = float(sys.argv[5])
settings = read_settings(environ={}, flags=[parse_assignment("state=" + sys.argv[1])])
supervised, duration_s = sys.argv[2] == "supervised", float(sys.argv[3]) or None
with part.session(settings, "agent", supervised=supervised, duration_s=duration_s) as running:
    running.print_line("begun")
    running.report(begun=True)
    running.stop.wait()
    if sys.argv[4] == "stubborn":
        sys.stderr.write("stopping\\n")
        time.sleep(90)
"""


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    begun: list[subprocess.Popen[bytes]] = []

    def start(
        supervised: str = "alone", duration_s: float = 0.0, temper: str = "mild", stopping_s: float = 60.0
    ) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        arguments = [sys.executable, "-c", PART, str(tmp_path), supervised, str(duration_s), temper, str(stopping_s)]
        part = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        begun.append(part)
        assert part.stdout is not None
        first = part.stdout.readline()
        assert first == (b"begun\n" if supervised == "alone" else b'{"begun": true}\n')
        return part

    yield start
    for part in begun:
        part.kill()
        part.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, None])
def test_a_signal_or_its_time_ends_it(begin: Callable[..., subprocess.Popen[bytes]], number: int | None) -> None:
    part = begin(duration_s=0.0 if number else 0.05)
    if number:
        part.send_signal(number)
    assert part.wait(120) == 0


def test_threads_that_a_library_began_earlier_do_not_take_its_signals(tmp_path: Path) -> None:
    """numpy's begin when it is imported, one for each core, before any code of laggard could block signals in them."""
    earlier = "import threading, time\nfor _ in range(20): threading.Thread(target=time.sleep, args=(90,), daemon=True)"
    arguments = [sys.executable, "-c", f"{earlier}.start()\n{PART}", str(tmp_path), "alone", "0", "mild", "60"]
    with started(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as part:
        assert part.stdout is not None
        assert part.stdout.readline() == b"begun\n"
        part.send_signal(signal.SIGTERM)
        assert part.wait(60) == 0


def test_a_second_interrupt_does_not_wait(begin: Callable[..., subprocess.Popen[bytes]]) -> None:
    part = begin(temper="stubborn")
    assert part.stderr is not None
    part.send_signal(signal.SIGTERM)
    assert part.stderr.readline() == b"stopping\n"
    part.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert part.poll() is None
    part.send_signal(signal.SIGINT)
    assert part.wait(120) == INTERRUPTED


@pytest.mark.parametrize("temper", ["mild", "stubborn"])
def test_it_ends_with_its_supervisor(begin: Callable[..., subprocess.Popen[bytes]], temper: str) -> None:
    part = begin("supervised", temper=temper, stopping_s=0.5 if temper == "stubborn" else 60.0)
    assert part.stdin is not None
    part.stdin.close()
    part.stdin = None
    assert part.wait(120) == (0 if temper == "mild" else 1)


def test_a_supervisor_that_does_not_read_holds_nothing_up(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    code = PART.replace("running.stop.wait()", "[running.report(n=n) for n in range(20_000)]")
    arguments = [sys.executable, "-c", code, str(tmp_path), "supervised", "0", "mild", "60"]
    with started(arguments, stdin=subprocess.PIPE, stdout=writing) as part:
        os.close(writing)
        assert part.wait(120) == 0
    with os.fdopen(reading, "rb") as read:
        lines = read.read().splitlines()
    assert 100 < len(lines) < 20_000
    assert [json.loads(line) for line in lines][1]["n"] == 0, "what came was whole"
