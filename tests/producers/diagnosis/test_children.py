"""Programs that look at a process for laggard are bounded: they parse what that process controls."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from laggard.producers.diagnosis import children
from laggard.producers.diagnosis.children import Child

if TYPE_CHECKING:
    import pytest


def test_one_that_writes_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "OUTPUT_BYTES", 1 << 20)
    child = Child(["cat", "/dev/zero"])
    child.wait()
    assert child.returncode
    assert len(child.output()) == 1 << 20
    child.close()


def test_one_that_takes_memory_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "MEMORY_BYTES", 512 << 20)
    child = Child([sys.executable, "-c", "bytearray(1 << 30)"])
    child.wait()
    assert child.returncode == 1
    child.close()


def test_one_that_computes_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "CPU_S", 1)
    child = Child([sys.executable, "-c", "while True: pass"])
    child.wait()
    assert child.returncode is not None
    assert child.returncode < 0
    assert child.cpu_s < 2.0
    child.close()
