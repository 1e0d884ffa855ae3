"""Waiting for others' appends wakes at once, loses nothing, and does without the kernel's help."""

from __future__ import annotations

import os
import resource
import threading
import time
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.bus.watch import Watch, touch

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
    yield watch
    watch.close()


def waited(watch: Watch, timeout_s: float) -> float:
    begun = time.monotonic()
    watch.wait(timeout_s)
    return time.monotonic() - begun


def test_a_touch_wakes(watch: Watch, path: Path) -> None:
    timer = threading.Timer(0.05, touch, [path])
    timer.start()
    assert waited(watch, 10.0) < 0.4
    timer.join()


def test_a_touch_before_counts_once(watch: Watch, path: Path) -> None:
    for _ in range(300):
        touch(path)
    assert waited(watch, 10.0) < 0.05
    assert waited(watch, 0.1) > 0.09


def test_writing_and_reading_do_not_wake(watch: Watch, path: Path) -> None:
    path.write_bytes(b"content")
    path.read_bytes()
    assert waited(watch, 0.1) > 0.09


def test_it_looks_anyway(watch: Watch) -> None:
    assert 0.4 < waited(watch, 60.0) < 5.0


def test_a_file_that_is_gone_disturbs_nobody(watch: Watch, path: Path) -> None:
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
    assert 0.03 < waited(watch, 60.0) < 0.4
    assert waited(watch, 0.001) < 0.03
    watch.close()


def test_closing_gives_the_descriptor_back(path: Path) -> None:
    before = {entry.name for entry in os.scandir("/proc/self/fd")}
    watch = Watch(path)
    watch.close()
    watch.close()
    assert {entry.name for entry in os.scandir("/proc/self/fd")} == before
