"""A path that does not answer is left behind, and those that wait behind it are still asked."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock
from laggard.producers.system.patience import HangingError, Patience
from tests.misbehaving.programs import compiled, needs_own_mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SHORT_S = 0.1


def until(true: Callable[[], bool], within_s: float = 30.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_all_answers_come_in_their_order() -> None:
    patience = Patience()
    assert patience.each([3, 1, 2], lambda number: number * 2) == [6, 2, 4]
    assert patience.each([], lambda number: number) == []
    patience.close()


def test_what_is_raised_is_given_and_the_next_one_is_asked() -> None:
    patience = Patience()
    first, second = patience.each([0, 1], lambda number: 1 // number)
    assert isinstance(first, ZeroDivisionError)
    assert second == 1
    patience.close()


def test_one_that_does_not_answer_is_left_behind_and_told_when_it_does() -> None:
    patience = Patience(SHORT_S, most_s=2 * SHORT_S)
    answering = threading.Event()

    def ask(number: int) -> int:
        if number == 1:
            answering.wait()
        return number

    before, hanging, after = patience.each([0, 1, 2], ask)
    assert (before, after) == (0, 2)
    assert isinstance(hanging, HangingError)
    assert patience.hanging == 1
    assert patience.late() == []
    assert patience.each([3], ask) == [3]
    again, other = patience.each([1, 4], ask)  # of the one that hangs no other thread is left behind
    assert isinstance(again, HangingError)
    assert other == 4
    assert patience.hanging == 1
    answering.set()
    found: list[int] = []

    def came() -> bool:
        found.extend(patience.late())
        return bool(found)

    until(came)
    assert found == [1]
    assert patience.hanging == 0
    patience.close()


def test_who_is_only_slow_is_waited_for() -> None:
    patience = Patience(0.01)

    def ask(number: int) -> int:
        time.sleep(0.1)
        return number

    assert patience.each([1, 2], ask) == [1, 2]
    assert patience.hanging == 0
    patience.close()


@contextmanager
def hanging_process(folder: Path) -> Iterator[int]:
    """A process whose `stat` does not answer."""
    needs_own_mounts()
    with subprocess.Popen(
        [compiled("hanging"), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            assert process.stdout.readline() == "hanging\n"
            yield pid
        finally:
            process.stdin.close()  # type: ignore[union-attr]
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to mount a file system that does not answer")
@pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="no FUSE here")
def test_a_process_whose_files_do_not_answer_has_no_row_until_they_do(tmp_path: Path) -> None:
    table = ProcessTable(Clock(), 0.5)
    table._patience = Patience(SHORT_S)
    table.read()
    here = f"[{os.getpid()}@"
    with hanging_process(tmp_path) as pid:
        layout, _ = table.read()
        assert not [row for row in layout.rows if f"[{pid}@" in row]
        assert [row for row in layout.rows if here in row]
        assert table.read_errors
        table.read()  # it is not asked again
        assert table._patience.hanging == 1

    def answers() -> bool:
        table.read()
        return not table._patience.hanging

    until(answers)
    layout, _ = table.read()
    assert [row for row in layout.rows if here in row]
    table.close()
