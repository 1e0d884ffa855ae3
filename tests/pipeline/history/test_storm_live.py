"""A real storm on this machine: a shell that runs short programs, a live agent, and what `laggard why` says of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]
CALM_S, WITHIN_S = 40, 90.0
PROGRAM = "stormy"
LOOP = 'while read -r times; do while [ "$times" -gt 0 ]; do "$1" "$2"; times=$((times - 1)); done; done'


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell that runs a program as often as each line says: for some 50 ms of CPU time each.

    Where it may, it goes before others, so that it is a storm on a busy machine too.
    """
    program, data = tmp_path / PROGRAM, tmp_path / "data"
    shutil.copy("/usr/bin/sha256sum", program)
    data.write_bytes(bytes(24 << 20))
    with subprocess.Popen(
        ["nice", "-n", "-15", "sh", "-c", LOOP, "sh", str(program), str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield process
        process.kill()


def order(shell: subprocess.Popen[str], times: int) -> None:
    assert shell.stdin is not None
    shell.stdin.write(f"{times}\n")
    shell.stdin.flush()


# The time until a machine's own agent sees a storm depends on the machine. That a storm is reported is guarded by
# `test_short_lived.py`, and the counter that shows it by the tests of the producers.
@pytest.mark.long
def test_the_children_of_a_storm_are_named(shell: subprocess.Popen[str], tmp_path: Path) -> None:
    bus = str(tmp_path / "laggard.db")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}

    def why() -> dict[str, Any]:
        asked = [*LAGGARD, "why", "--bus", bus, "--json", "--rows", "100", "--features", "25"]
        answered = subprocess.run(asked, check=True, capture_output=True, text=True, env=environment)
        found: dict[str, Any] = json.loads(answered.stdout)
        return found

    up = subprocess.Popen(
        [
            *(*LAGGARD, "up", "--bus", bus, "--interval", "500ms"),
            *("--set", "web.listen=127.0.0.1:0", "--set", "serve.listen=127.0.0.1:0"),
        ],
        stdout=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**environment, "LAGGARD_STATE": str(tmp_path)},
    )
    try:
        for second in range(CALM_S):
            if second % 4 == 0:
                order(shell, 1)
            time.sleep(1.0)
        order(shell, 1_000_000)
        deadline = time.monotonic() + WITHIN_S
        # Another sentence may name them first, where few of them ran: that of the storm is waited for.
        while "its short-lived child processes use" not in (told := why())["sentence"]:
            assert time.monotonic() < deadline, told
            time.sleep(1.0)
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(timeout=120)
    sentence = told["sentence"]
    assert f"sh` (pid {shell.pid}, " in sentence
    assert "its short-lived child processes use" in sentence
    assert f"`{PROGRAM}` (" in sentence.partition("Short-lived processes seen meanwhile: ")[2]
    (row,) = [row for row in told["rows"] if f"[{shell.pid}@" in row["row"]]
    assert row["features"][0]["feature"] == "cpu_children_ratio"
