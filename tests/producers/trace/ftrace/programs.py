"""Whether this machine can trace, and programs to be traced: the recorder's own children are left out of a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from laggard.producers.trace.ftrace.instance import Instance
from laggard.producers.trace.ftrace.tracefs import TracingError

if TYPE_CHECKING:
    from collections.abc import Iterator


def _refusal() -> str:
    if os.geteuid() != 0:
        return "only root may trace"
    try:
        with Instance(buffer_kib=64):
            return ""
    except TracingError as error:
        return f"the kernel's tracer cannot be used: {error}"


REFUSAL = _refusal()
TRACES = pytest.mark.skipif(bool(REFUSAL), reason=REFUSAL)


class Waiting:
    """A Python program that waits, before it was traced, until it is told to go.

    Attributes:
        pid: its process.

    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def go(self, word: str = "") -> str:
        """Let it go on, `word` is what it reads; what it prints until it ends."""
        told, _ = self._process.communicate(word + "\n", timeout=60)
        assert self._process.returncode == 0
        return told


@contextmanager
def waiting(code: str) -> Iterator[Waiting]:
    """A program whose first line reads `word`."""
    command = [sys.executable, "-c", f"word = input()\n{code}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Waiting(process)
        finally:
            process.kill()
