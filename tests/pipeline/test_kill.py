from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "frames"), [("kill", 2500), ("applications_kill", 1500), ("pools_kill", 1500), ("requests_kill", 1500)]
)
def test_killed_parts_leave_what_undisturbed_ones_leave(case: str, frames: int) -> None:
    """The short forms of tests/evaluation/kill.py and its like."""
    words = ("--frames", f"{frames}", "--seconds", "5", "--seed", "3")
    done = subprocess.run(
        [sys.executable, "-m", f"tests.evaluation.{case}", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kills = int(done.stdout.split()[0])
    assert kills >= 3, done.stdout


@pytest.mark.slow
def test_parts_of_up_that_are_killed_or_stopped_come_back_and_lose_nothing() -> None:
    """The short form of tests/evaluation/up_kill.py; how late they are back says only there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluation.up_kill", "--seconds", "30", "--seed", "3", "--patient"],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGSTOP" in done.stdout
