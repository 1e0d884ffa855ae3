from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

KILL = Path(__file__).parents[1] / "evaluation/kill.py"


@pytest.mark.slow
def test_killed_parts_leave_what_undisturbed_ones_leave() -> None:
    """The short form of tests/evaluation/kill.py."""
    done = subprocess.run(
        [sys.executable, KILL, "--frames", "2500", "--seconds", "5", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kills = int(done.stdout.split()[0])
    assert kills >= 3, done.stdout
