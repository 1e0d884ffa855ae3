"""Pressure of control groups: as files, and of this machine's kernel, where that is allowed."""

from __future__ import annotations

import subprocess
import sys
import time as real_time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.producers.host.groups import MAX_GROUPS, all_members, below, members, unified
from laggard.producers.host.pressures import SEEK_S, SOON_S, Pressures
from laggard.producers.system.clock import Clock
from tests.producers.conftest import CGROUPS, remove_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.producers.conftest import Time


class Host:
    """A host made of files: its own pressure, and that of its groups."""

    def __init__(self, folder: Path) -> None:
        self.procfs = folder / "proc"
        self.root = folder / "cgroup"
        (self.procfs / "pressure").mkdir(parents=True)
        self.root.mkdir()
        (self.root / "cgroup.controllers").write_text("io memory\n")
        (self.root / "cgroup.procs").write_text("1\n")
        self.pressed(self.root)
        self.host()

    def host(self, io_us: int = 0, memory_us: int = 0) -> None:
        for resource, total_us in (("io", io_us), ("memory", memory_us)):
            (self.procfs / "pressure" / resource).write_text(pressure(total_us))

    def group(self, path: str, io_us: int = 0, memory_us: int = 0, pids: str = "") -> str:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(pids)
        self.pressed(folder, io_us, memory_us)
        groups = sum(each.is_dir() for each in self.root.rglob("*"))
        (self.root / "cgroup.stat").write_text(f"nr_descendants {groups}\nnr_dying_descendants 0\n")
        return str(folder)

    def pressed(self, folder: Path, io_us: int = 0, memory_us: int = 0) -> None:
        (folder / "io.pressure").write_text(pressure(io_us))
        (folder / "memory.pressure").write_text(pressure(memory_us))

    def pressures(self, time: Time) -> Pressures:
        return Pressures(time.clock, str(self.procfs), str(self.root))


def pressure(total_us: int) -> str:
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {averages} total={total_us}\nfull {averages} total=0\n"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_share_of_time_in_which_tasks_of_a_group_waited(host: Host, time: Time) -> None:
    stuck = host.group("system.slice/stuck.service", 5_000_000, 7, "7\n")
    calm = host.group("system.slice/calm.service", 40, 7, "8\n")
    pressures = host.pressures(time)
    first = pressures.read()
    assert set(first.groups) == {stuck, calm}, "neither the host nor a group without processes of its own"
    assert np.isnan(first.ratios["io"]).all(), "there is nothing to compare with"
    host.host(io_us=100_000)
    host.group("system.slice/stuck.service", 5_450_000, 7, "7\n")
    time.pass_(0.5)
    found = pressures.read()
    assert dict(zip(found.groups, found.ratios["io"].tolist(), strict=True)) == {stuck: 0.9, calm: 0.0}
    assert found.ratios["memory"].tolist() == [0.0, 0.0]
    host.host(io_us=200_000, memory_us=1)
    host.group("system.slice/stuck.service", 9_450_000, 500_007, "7\n")
    time.pass_(1.0)
    found = pressures.read()
    place = found.groups.index(stuck)
    assert (found.ratios["io"][place], found.ratios["memory"][place]) == (1.0, 0.5), "never more than all of it"
    pressures.close()


def test_groups_are_not_read_while_no_task_on_the_host_waits(
    host: Host, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.group("a", 10, 10, "7\n")
    pressures = host.pressures(time)
    pressures.read()
    asked: list[str] = []
    read = pressures._read

    def counted(resource: str) -> np.ndarray:
        asked.append(resource)
        return read(resource)

    monkeypatch.setattr(pressures, "_read", counted)
    for _ in range(3):
        time.pass_(0.5)
        assert pressures.read().ratios["io"].tolist() == [0.0]
    assert not asked
    host.host(io_us=9)
    host.group("a", 250_010, 10, "7\n")
    time.pass_(0.5)
    assert pressures.read().ratios["io"].tolist() == [0.5], (
        "of the time since the last look, not since the last reading"
    )
    assert asked == ["io"]
    pressures.close()


def test_a_group_that_is_made_is_followed_soon_and_one_that_is_removed_no_more(host: Host, time: Time) -> None:
    first = host.group("a", pids="7\n")
    pressures = host.pressures(time)
    pressures.read()
    second = host.group("b", pids="8\n")
    host.host(io_us=1)
    time.pass_(SOON_S)
    found = pressures.read()
    assert set(found.groups) == {first, second}
    assert dict(zip(found.groups, found.source.tolist(), strict=True)) == {first: 0, second: -1}
    host.host(io_us=2)
    time.pass_(SOON_S)
    assert pressures.read().ratios["io"].tolist() == [0.0, 0.0]
    pressures.close()  # files that are held open would stay readable here; the kernel's answer ENODEV
    for file in Path(first).iterdir():
        file.unlink()
    Path(first).rmdir()
    host.host(io_us=3)
    time.pass_(0.1)
    found = pressures.read()
    assert np.isnan(found.ratios["io"][found.groups.index(first)]), "it is not looked for yet"
    host.host(io_us=4)
    time.pass_(SEEK_S)
    assert pressures.read().groups == (second,)
    pressures.close()


def test_the_outermost_group_counts_where_it_is_a_containers(host: Host, time: Time) -> None:
    host.group("inner", pids="9\n")
    (host.root / "cgroup.type").write_text("domain\n")
    pressures = host.pressures(time)
    assert set(pressures.read().groups) == {str(host.root), str(host.root / "inner")}
    pressures.close()


def test_groups_beside_those_of_version_1_are_found(host: Host, tmp_path: Path, time: Time) -> None:
    mounted = tmp_path / "hybrid"
    mounted.mkdir()
    (mounted / "cpu").mkdir()
    host.group("a", pids="7\n")
    host.root.rename(mounted / "unified")
    pressures = Pressures(time.clock, str(host.procfs), str(mounted))
    assert pressures.read().groups == (str(mounted / "unified" / "a"),)
    pressures.close()


def _version_1(host: Host) -> None:
    (host.root / "cgroup.controllers").unlink()


def _no_pressure(host: Host) -> None:
    for file in (host.procfs / "pressure").iterdir():
        file.unlink()


def _nothing(host: Host) -> None:
    host.root.rename(host.root.with_name("elsewhere"))


@pytest.mark.parametrize("without", [_version_1, _no_pressure, _nothing])
def test_a_machine_without_it_has_none(host: Host, time: Time, without: Callable[[Host], None]) -> None:
    host.group("a", pids="7\n")
    without(host)
    pressures = host.pressures(time)
    for _ in range(2):
        found = pressures.read()
        assert found.groups == ()
        assert found.ratios["io"].shape == found.ratios["memory"].shape == (0,)
        time.pass_(1.0)


def test_a_group_whose_pressure_is_switched_off_or_unknown_has_none(host: Host, time: Time) -> None:
    folder = Path(host.group("a", pids="7\n"))
    (folder / "io.pressure").write_text("")
    (folder / "memory.pressure").write_text("some total=many\n")
    pressures = host.pressures(time)
    for tick in range(1, 3):
        host.host(tick, tick)
        found = pressures.read()
        assert found.groups == (str(folder),)
        assert np.isnan(found.ratios["io"]).all()
        assert np.isnan(found.ratios["memory"]).all()
        time.pass_(1.0)
    pressures.close()


def test_processes_of_a_group_and_of_those_below_it(host: Host) -> None:
    inner = host.group("a/b/c", pids="9\n0\n")
    outer = host.group("a", pids="7\n8\n")
    host.group("other", pids="10\n")
    assert members(outer) == [7, 8], "0 is one that our pid namespace does not have"
    assert all_members(outer) == [7, 8, 9]
    assert members(inner) == [9]
    assert members(str(host.root / "gone")) == all_members(str(host.root / "gone")) == []


def test_groups_beyond_the_limit_are_left_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.producers.host.groups.MAX_GROUPS", 3)
    for number in range(9):
        host.group(f"{number}")
    assert len(list(below(str(host.root)))) == 3
    assert MAX_GROUPS > 3


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A group of this machine."""
    base = unified(str(CGROUPS))
    folder = Path(base or CGROUPS) / f"laggard-test-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        if not (folder / "io.pressure").exists():
            pytest.skip("this kernel has no pressure of control groups")
        yield folder
    finally:
        if folder.exists():
            remove_group(folder)


SYNCING = """
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_DSYNC, 0o600)
while True:
    os.pwrite(file, b'x' * 4096, 0)
"""


def test_the_kernel_of_this_machine_counts_who_waits_for_the_disk(real_group: Path, disk: Path) -> None:
    pressures = Pressures(Clock())
    command = [sys.executable, "-S", "-E", "-c", SYNCING, str(disk / "synced")]
    with subprocess.Popen(command) as child:
        (real_group / "cgroup.procs").write_text(str(child.pid))
        waited = 0.0
        until = real_time.monotonic() + 30.0
        while not waited > 0.0 and real_time.monotonic() < until:
            real_time.sleep(SOON_S)
            found = pressures.read()
            if str(real_group) in found.groups:
                place = found.groups.index(str(real_group))
                waited = float(np.nan_to_num(found.ratios["io"][place]))
        assert members(str(real_group)) == [child.pid]
        child.kill()
    assert 0.0 < waited <= 1.0
    remove_group(real_group)
    found = pressures.read()
    if str(real_group) in found.groups:  # it was not looked for since
        assert not found.ratios["io"][found.groups.index(str(real_group))] > 0.0
    pressures.close()
