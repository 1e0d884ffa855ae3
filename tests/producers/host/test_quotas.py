"""CPU quotas of control groups: of both versions, as files; and of this machine's kernel, where that is allowed."""

from __future__ import annotations

import math
import subprocess
import sys
import time as real_time
from typing import TYPE_CHECKING

import pytest

from laggard.producers.host.groups import all_members
from laggard.producers.host.quotas import SEEK_S, Quotas, parse_cpu_stat
from laggard.producers.system.clock import Clock
from tests.producers.conftest import limited_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.producers.conftest import Time


def group(root: Path, path: str, limit: str, *, periods: int = 0, throttled: int = 0, pids: str = "") -> Path:
    """A group of version 2."""
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(f"{limit} 100000\n")
    count(folder, periods, throttled)
    (folder / "cgroup.procs").write_text(pids)
    return folder


def count(folder: Path, periods: int, throttled: int) -> None:
    (folder / "cpu.stat").write_text(
        f"usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 7\n"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return tmp_path


def test_the_share_of_periods_in_which_the_quota_was_used_up(root: Path, time: Time) -> None:
    held_back = group(root, "system.slice/hog.service", "50000", periods=10, throttled=4)
    group(root, "system.slice/free.service", "max")
    quotas = Quotas(time.clock, str(root))
    first = quotas.read()
    assert first.groups == (str(held_back),)
    assert math.isnan(first.ratios[0]), "there is nothing to compare with"
    count(held_back, 15, 8)
    time.pass_(0.5)
    assert quotas.read().ratios.tolist() == [0.8]
    time.pass_(0.5)
    assert quotas.read().ratios.tolist() == [0.0], "a group that is idle has no periods"
    quotas.close()


def test_groups_are_looked_for_now_and_then(root: Path, time: Time) -> None:
    first = group(root, "a", "50000")
    quotas = Quotas(time.clock, str(root))
    assert quotas.read().groups == (str(first),)
    second = group(root, "b/c", "20000")
    time.pass_(SEEK_S - 1.0)
    assert quotas.read().groups == (str(first),)
    time.pass_(1.0)
    found = quotas.read()
    assert set(found.groups) == {str(first), str(second)}
    assert dict(zip(found.groups, found.source.tolist(), strict=True)) == {str(first): 0, str(second): -1}
    (first / "cpu.max").write_text("max 100000\n")
    time.pass_(SEEK_S)
    assert quotas.read().groups == (str(second),)
    quotas.close()


def test_a_group_that_is_removed_has_no_ratio(root: Path, time: Time) -> None:
    folder = group(root, "a", "50000", periods=10)
    quotas = Quotas(time.clock, str(root))
    quotas.read()
    quotas.close()
    (folder / "cpu.stat").unlink()
    time.pass_(0.5)
    assert math.isnan(quotas.read().ratios[0])


@pytest.mark.parametrize("controller", ["cpu", "cpu,cpuacct"])
def test_groups_of_version_1(tmp_path: Path, time: Time, controller: str) -> None:
    for path, quota_us in (("", "-1"), ("docker/a", "50000"), ("docker/b", "-1")):
        folder = tmp_path / controller / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
        (folder / "cpu.stat").write_text("nr_periods 3\nnr_throttled 1\nthrottled_time 5\n")
    quotas = Quotas(time.clock, str(tmp_path))
    assert quotas.read().groups == (str(tmp_path / controller / "docker/a"),)
    quotas.close()


def test_a_machine_without_control_groups_has_none(tmp_path: Path, time: Time) -> None:
    assert Quotas(time.clock, str(tmp_path / "nothing")).read().groups == ()


@pytest.mark.parametrize("text", [b"", b"nr_periods", b"nr_periods x\nnr_throttled 1\n", b"usage_usec 5\n"])
def test_a_text_without_these_counters_gives_none(text: bytes) -> None:
    assert parse_cpu_stat(text) is None


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A group of this machine that may use a twentieth of a CPU."""
    with limited_group("cpu", ("cpu.max", "cpu.cfs_quota_us"), "5000") as group:
        yield group


def test_the_kernel_of_this_machine_holds_back_who_has_used_up_a_quota(real_group: Path) -> None:
    quotas = Quotas(Clock())
    with subprocess.Popen([sys.executable, "-S", "-E", "-c", "while True: pass"]) as child:
        (real_group / "cgroup.procs").write_text(str(child.pid))
        place = quotas.read().groups.index(str(real_group))
        ratio, until = 0.0, real_time.monotonic() + 60.0
        while not ratio > 0.5 and real_time.monotonic() < until:  # others may keep it from using up even that
            real_time.sleep(0.5)
            ratio = quotas.read().ratios[place]
        assert all_members(str(real_group)) == [child.pid]
        child.kill()
    quotas.close()
    assert 0.5 < ratio <= 1.0
