from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("case", ["applications_kill", "pools_kill", "requests_kill"])
def test_killed_parts_leave_what_undisturbed_ones_leave(case: str) -> None:
    """The short form of tests/evaluation/applications_kill.py, and of those for pools and requests."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.evaluation.{case}", "--frames", "1500", "--seconds", "5", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kills = int(done.stdout.split()[0])
    assert kills >= 3, done.stdout
