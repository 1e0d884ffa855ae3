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

from laggard.pipeline.cli.exits import BUSY
from laggard.pipeline.core.claims import holder_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


def serving(folder: Path, *more: str, token: str = "", require: str = "never") -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    return subprocess.Popen(
        [*LAGGARD, "serve", "--bus", str(folder / "laggard.db"), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment
        | {"LAGGARD_STATE": str(folder), "LAGGARD_SERVE_LISTEN": "127.0.0.1:0", "LAGGARD_SERVE_TOKEN": token}
        | {"LAGGARD_SERVE_REQUIRE_TOKEN": require},
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
            assert empty.startswith(f"It is still empty: there are no records at {tmp_path / 'laggard.db'}; start ")
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


def test_it_does_not_start_on_a_public_address_without_a_token(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0.0.0.0:0") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (BUSY, "")
    assert err == (
        "laggard: serve.listen: 0.0.0.0:0 can be reached from other machines, so it needs a token; "
        "set serve.token or serve.proxies, or listen on 127.0.0.1\n"
    )


def test_other_local_processes_see_and_mark_nothing_without_the_generated_token(tmp_path: Path) -> None:
    """Any process of this machine reaches loopback."""
    mark = {"host": "web-1", "note": "by nobody"}
    kept = tmp_path / "serve.token"
    tokens: list[str] = []
    for told in ("link", "file"):
        with serving(tmp_path, require="always") as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().split()[5].rstrip(".")
                asks = process.stdout.readline()
                assert asks.startswith(f"It asks for a token, because serve.require_token says so: the one in {kept}")
                assert httpx.get(f"{url}/api/v1/moment").status_code == 401
                assert httpx.post(f"{url}/api/v1/marks", json=mark).status_code == 401
                tokens.append(kept.read_text().strip())
                assert ("#token" in asks) == (told == "link"), "the link is told once"
                assert asks.rstrip().endswith(f"{url}/#token={tokens[0]}") or told == "file"
                assert kept.stat().st_mode & 0o777 == 0o600
                shown = {"Authorization": f"Bearer {tokens[0]}"}
                assert httpx.get(f"{url}/api/v1/cluster", headers=shown).status_code == 200
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=120)
    assert tokens[0] == tokens[1]
    assert len(tokens[0]) == 32


def test_a_log_that_others_may_read_has_no_link(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as output:
        log.chmod(0o644)
        command = [*LAGGARD, "serve", "--bus", str(tmp_path / "laggard.db"), "--duration", "1s"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        environment |= {"LAGGARD_STATE": str(tmp_path)}
        environment |= {"LAGGARD_SERVE_REQUIRE_TOKEN": "always", "LAGGARD_SERVE_LISTEN": "127.0.0.1:0"}
        assert subprocess.run(command, stdout=output, env=environment, check=False).returncode == 0
    assert "It asks for a token" in log.read_text()
    assert (tmp_path / "serve.token").read_text().strip() not in log.read_text()
