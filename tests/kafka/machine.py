"""A machine that runs laggard's commands with settings of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING
from unittest import mock

from laggard.pipeline import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


class Machine:
    """One machine.

    Parameters:
        folder: its own: configuration file, home and state directory.
        settings: what its configuration file says, by the names of the settings.

    """

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        told = {"web.listen": "127.0.0.1:0", **settings}
        (folder / "laggard.toml").write_text("".join(f"{name} = {json.dumps(str(at))}\n" for name, at in told.items()))
        self._environment = {name: text for name, text in os.environ.items() if not name.startswith("LAGGARD_")}
        self._environment |= {"HOME": str(folder), "LAGGARD_STATE": str(folder / "state"), "LAGGARD_HOST": "web-1"}

    def call(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A command in this process: several times as quick as in one of its own."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self._environment, clear=True),
            chdir(self._folder),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = cli.run(words)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def run(self, words: Sequence[str], timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return subprocess.run(
            [*LAGGARD, *words],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def run_until(
        self, words: Sequence[str], done: Callable[[str], bool], timeout_s: float = 240.0
    ) -> subprocess.CompletedProcess[str]:
        """A command that runs until it is stopped: when `done` says so of what it said, or when it takes too long."""
        log = self._folder / "said"
        command, nothing = [*LAGGARD, *words], subprocess.DEVNULL
        with (
            log.open("w") as out,
            subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdin=nothing, stdout=out, stderr=out
            ) as process,
        ):
            try:
                deadline = time.monotonic() + timeout_s
                while process.poll() is None and time.monotonic() < deadline and not done(log.read_text()):
                    time.sleep(0.1)
                process.terminate()
                process.wait(timeout_s)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, log.read_text(), "")

    def written(self) -> bytes:
        """All that laggard keeps in its state directory."""
        return b"".join(path.read_bytes() for path in (self._folder / "state").rglob("*") if path.is_file())
