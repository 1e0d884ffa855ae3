"""kill -9 at random moments: what was acknowledged is there, and nothing is torn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "rounds", [pytest.param(40, marks=pytest.mark.slow), pytest.param(400, marks=pytest.mark.long)]
)
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, rounds: int) -> None:
    program = Path(__file__).with_name("kill_rounds.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", program, tmp_path / "bus.db", str(rounds), "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    appended, committed, trimmed = map(int, done.stdout.split())
    assert appended > 0
    assert committed > 0
    assert trimmed > 0
