"""A question that hangs delays no other: a FIFO without a writer is the filesystem that does not answer."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from laggard.producers.diagnosis.aside import Aside


@pytest.fixture
def fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def aside():
    aside = Aside()
    yield aside
    aside.close()


def test_an_answer_comes_back_and_an_error_is_raised(aside):
    assert aside.ask(lambda: 3 * 14) == 42
    with pytest.raises(FileNotFoundError, match="nowhere"):
        aside.ask(lambda: Path("/nowhere").read_bytes())


def test_a_question_that_hangs_is_given_up_and_the_next_ones_are_not_asked_until_it_is_answered(aside, fifo):
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        aside.ask(fifo.read_text, 0.1)
    asked = []
    with pytest.raises(TimeoutError, match="earlier"):
        aside.ask(lambda: asked.append(1))
    assert time.monotonic() - begun < 5
    fifo.write_text("late")  # waits until somebody reads
    for _ in range(500):
        try:
            assert aside.ask(lambda: "next") == "next"
            break
        except TimeoutError:
            time.sleep(0.01)
    assert not asked


def test_what_is_told_is_done_behind_what_hangs(aside, fifo):
    done = threading.Event()
    with pytest.raises(TimeoutError):
        aside.ask(fifo.read_text, 0.1)
    aside.submit(done.set)
    assert not done.wait(0.1)
    fifo.write_text("late")
    assert done.wait(10)


def test_its_cpu_time_is_counted(aside):
    def spin():
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    aside.ask(spin, 60)
    assert 0.05 <= aside.cpu_s < 0.06
