"""`laggard serve`, the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from laggard.pipeline.claims import holder_of
from laggard.pipeline.cli.exits import BUSY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


def serving(folder: Path, *more: str, token: str = "") -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    return subprocess.Popen(
        [*LAGGARD, "serve", "--bus", str(folder / "laggard.db"), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment
        | {"LAGGARD_STATE": str(folder), "LAGGARD_SERVE_LISTEN": "127.0.0.1:0", "LAGGARD_SERVE_TOKEN": token},
    )


def test_it_serves_until_it_is_stopped(tmp_path: Path) -> None:
    with serving(tmp_path, token="correct-horse-battery") as process:
        try:
            assert process.stdout is not None
            said = re.fullmatch(
                r"laggard serves its page at (http://127\.0\.0\.1:\d+)\. \^C stops it\.\n", process.stdout.readline()
            )
            assert said
            empty = process.stdout.readline()
            assert empty.startswith(f"It is still empty: nothing is recorded at {tmp_path / 'laggard.db'}; start ")
            holder = holder_of(str(tmp_path / "laggard.db"), tmp_path, "serve")
            assert holder is not None
            assert (holder.pid, holder.url) == (process.pid, said[1])
            assert httpx.get(f"{said[1]}/-/healthy").json() == {"healthy": True}
            assert httpx.get(f"{said[1]}/api/v1/cluster").status_code == 401
            with serving(tmp_path) as second:
                _, err = second.communicate(timeout=120)
            assert second.returncode == BUSY
            assert "`laggard serve` runs already" in err
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "", "")


def test_it_does_not_start_where_anybody_could_come(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0.0.0.0:0") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (BUSY, "")
    assert err == (
        "laggard: serve.listen: 0.0.0.0:0 can be reached from other machines, so it needs a token; "
        "set serve.token or serve.proxies, or listen on 127.0.0.1\n"
    )
