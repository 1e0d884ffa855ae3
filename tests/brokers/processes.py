"""Processes that end with the one that started them."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

# The kernel tells a child the end of the *thread* that started it. This one lives as long as the process.
_starter = ThreadPoolExecutor(1, "starts processes")


def start(
    command: Sequence[str], output: IO[bytes] | int, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that is killed when this one ends, however it ends, and that does not hear its ^C."""
    if shutil.which("setpriv") is None:
        raise FileNotFoundError("setpriv is not there; on Debian: apt install util-linux")

    def popen() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    return _starter.submit(popen).result()
