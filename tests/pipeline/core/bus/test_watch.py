"""Waiting for others' appends wakes at once, loses nothing, and does without the kernel's help."""

from __future__ import annotations

import gc
import os
import resource
import threading
import time
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import watch as module
from laggard.pipeline.core.bus.watch import Watch, touch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


@pytest.fixture
def watch(path: Path) -> Iterator[Watch]:
    watch = Watch(path)
    assert watch._descriptor >= 0, "all that fs.inotify.max_user_instances allows are in use on this machine"
    yield watch
    watch.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not look anyway while a test runs: what wakes it is a touch."""
    monkeypatch.setattr(module, "_CHECK_ANYWAY_S", 60.0)


def waited(watch: Watch, timeout_s: float) -> float:
    begun = time.monotonic()
    watch.wait(timeout_s)
    return time.monotonic() - begun


@pytest.mark.usefixtures("patient")
def test_a_touch_wakes(watch: Watch, path: Path) -> None:
    timer = threading.Timer(0.05, touch, [path])
    timer.start()
    assert waited(watch, 60.0) < 30.0
    timer.join()


@pytest.mark.usefixtures("patient")
def test_a_touch_before_counts_once(watch: Watch, path: Path) -> None:
    for _ in range(300):
        touch(path)
    assert waited(watch, 60.0) < 30.0
    assert waited(watch, 0.1) > 0.09


def test_writing_and_reading_do_not_wake(watch: Watch, path: Path) -> None:
    path.write_bytes(b"content")
    path.read_bytes()
    assert waited(watch, 0.1) > 0.09


def test_it_looks_anyway(watch: Watch) -> None:
    assert 0.4 < waited(watch, 60.0) < 30.0


def test_a_deleted_file_does_not_disturb_the_watch(watch: Watch, path: Path) -> None:
    path.unlink()
    touch(path)
    waited(watch, 0.1)
    assert waited(watch, 0.1) > 0.09


def test_without_the_kernels_help_it_looks_often(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))  # no descriptor is left for inotify
    try:
        watch = Watch(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # Less than where the kernel tells; a machine that stands still for a moment is not what takes long five times.
    longest = min(waited(watch, 60.0) for _ in range(5))
    assert 0.03 < longest < 0.4
    assert min(waited(watch, 0.001) for _ in range(5)) < 0.03
    watch.close()


@pytest.fixture
def tidy() -> None:
    """Nothing that earlier tests left to the garbage collector is closed meanwhile."""
    gc.collect()


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("closings", [0, 1, 2], ids=["dropped", "closed", "closed twice"])
def test_closing_it_or_dropping_it_gives_the_descriptor_back(path: Path, closings: int) -> None:
    before = {entry.name for entry in os.scandir("/proc/self/fd")}
    watch = Watch(path)
    for _ in range(closings):
        watch.close()
    del watch
    assert {entry.name for entry in os.scandir("/proc/self/fd")} == before
