"""Limits of control groups and processes: as files of both versions, and as this machine's kernel has them."""

from __future__ import annotations

import errno
import math
import os
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.producers.host.groups import some_members
from laggard.producers.host.limits import MAX_OF_KIND, MAX_OF_NAME, SEARCH_S, Limits, cache_bytes, open_files
from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock
from tests.producers.conftest import limited_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.producers.conftest import Machine, Time

GIB = 1 << 30
LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n"


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return tmp_path


def group(root: Path, path: str, pids: str = "", **files: str) -> Path:
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text(pids)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{text}\n")
    return folder


def read(table: ProcessTable, limits: Limits) -> Mapping[str, tuple[str, float, float]] | None:
    """What is told, by row: its name, the share in use, what is left."""
    found = limits.read(*table.read())
    if found is None:
        return None
    layout, values = found
    assert layout.features == ("used_ratio", "unused_bytes")
    assert not values.flags.writeable
    return {row: (name, *told) for row, name, told in zip(layout.rows, layout.names, values.tolist(), strict=True)}


def test_the_memory_and_the_tasks_of_groups(machine: Machine, time: Time, groups: Path) -> None:
    for pid, comm, rss, threads in ((7, b"java", 90_000, 12), (8, b"sh", 5, 9), (9, b"sh", 6, 10)):
        machine.run(pid, comm, rss=rss, threads=threads)
    cache = f"anon 5\ninactive_file {GIB // 8}\nactive_file {GIB // 16}\nslab_reclaimable {GIB // 16}\nfile 9"
    group(
        groups, "web.service", "7\n8\n9\n",
        memory_max=str(GIB), memory_current=str(GIB * 3 // 4), memory_stat=cache,
        pids_max="100", pids_current="40",
    )  # fmt: skip
    group(groups, "free.service", memory_max="max", memory_current=str(GIB), pids_max="max", pids_current="1000")
    group(groups, "small.service", "8\n", memory_max=str(GIB), memory_current=str(GIB // 10))
    group(groups, "cache", memory_max=str(GIB), memory_current=str(GIB - 1), memory_stat=f"active_file {GIB - 9}")
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    limits = Limits(table, time.clock)
    found = read(table, limits)
    assert found is not None
    assert found["memory /web.service"] == ("java[7@50]", 0.5, GIB / 2)
    name, used, unused = found["pids /web.service"]
    assert (name, used, math.isnan(unused)) == ("sh[9@50]", 0.4, True), "of the name with most threads"
    assert len(found) == 2
    (groups / "web.service" / "memory.current").write_text(f"{GIB // 8}\n")
    (groups / "web.service" / "pids.current").write_text("1\n")
    time.pass_(5.0)
    assert read(table, limits) == {}, "that they are gone is told ..."
    time.pass_(SEARCH_S - 1.0)
    assert read(table, limits) is None
    time.pass_(1.0)
    assert read(table, limits) == {}, "... and again: somebody may have missed it"
    table.close()


def test_new_groups_and_limits_are_found_within_a_minute(machine: Machine, time: Time, groups: Path) -> None:
    machine.run(7)
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    limits = Limits(table, time.clock)
    assert read(table, limits) == {}, "what was near before the agent began anew is told to be over"
    folder = group(groups, "a/b", "7\n", memory_max=str(GIB), memory_current=str(GIB // 2))
    time.pass_(SEARCH_S - 1.0)
    assert read(table, limits) is None
    time.pass_(1.0)
    assert read(table, limits) == {"memory /a/b": ("memory /a/b", 0.5, GIB / 2)}, "no process holds much of it"
    (folder / "memory.max").write_text("max\n")
    time.pass_(SEARCH_S)
    assert read(table, limits) == {}
    table.close()


def test_the_memory_of_groups_of_version_1(machine: Machine, time: Time, tmp_path: Path) -> None:
    machine.run(7, rss=50_000, threads=8)
    group(
        tmp_path, "memory/docker/a", "7\n",
        memory_limit_in_bytes=str(GIB), memory_usage_in_bytes=str(GIB),
        memory_stat=f"inactive_file 9\ntotal_inactive_file {GIB // 4}\ntotal_active_file {GIB // 8}",
    )  # fmt: skip
    group(tmp_path, "memory/docker/b", memory_limit_in_bytes=str(2**63 - 4096), memory_usage_in_bytes=str(2**62))
    group(tmp_path, "pids/docker/a", "7\n", pids_max="20", pids_current="16")
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(tmp_path))
    found = read(table, Limits(table, time.clock))
    assert found is not None
    assert found["memory /docker/a"] == ("work[7@50]", 0.625, GIB * 0.375)
    assert found["pids /docker/a"][:2] == ("work[7@50]", 0.8)
    assert len(found) == 2
    table.close()


def test_the_open_files_of_processes(machine: Machine, time: Time, groups: Path) -> None:
    opened = {7: 512, 8: 512, 9: 20, 10: 200}
    soft = {7: "1024", 8: "unlimited", 9: "30", 10: "100000"}
    for pid, count in opened.items():
        path = machine.run(pid)
        for number in range(count):
            (path / "fd" / str(number)).write_text("")
        (path / "limits").write_text(f"{LIMITS}Max open files            {soft[pid]}        524288       files\n")
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    found = read(table, Limits(table, time.clock))
    assert found is not None
    ((row, (name, used, unused)),) = found.items()
    assert (row, name, used, math.isnan(unused)) == ("descriptors work[7@50]", "work[7@50]", 0.5, True)
    table.close()


def test_of_many_the_nearest_to_their_limits_are_told(machine: Machine, time: Time, groups: Path) -> None:
    machine.run(7)
    for number in range(2 * MAX_OF_KIND):
        group(groups, f"g{number:03}", memory_max=str(GIB), memory_current=str(GIB // 2 + number))
    group(groups, "busy", pids_max="100", pids_current="30")
    group(groups, f"{'x' * 120}/{'x' * 120}", memory_max=str(GIB), memory_current=str(GIB - 1))
    group(groups, "a\nb", memory_max=str(GIB), memory_current=str(GIB - 1))
    group(groups, "tiny", memory_max="1000", memory_current="999", pids_max="9", pids_current="9")
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    found = read(table, Limits(table, time.clock))
    assert found is not None
    nearest = [f"memory /g{number:03}" for number in range(MAX_OF_KIND, 2 * MAX_OF_KIND)]
    assert list(found) == [*nearest, "pids /busy"]
    assert all(name == row for row, (name, _, _) in found.items()), "of groups without processes nobody is to blame"
    table.close()


def test_many_little_processes_do_not_displace_others(machine: Machine, time: Time, groups: Path) -> None:
    opens(machine, 5, 130, 300, b"db")
    for pid in range(7, 9 + MAX_OF_NAME):
        opens(machine, pid, 280, 300, b"little")
    opens(machine, 6, 130, 140, b"tiny")
    opens(machine, os.getpid(), 290, 300, b"agent")
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    found = read(table, Limits(table, time.clock))
    assert found is not None
    counts = Counter(row.removeprefix("descriptors ").partition("[")[0] for row in found)
    assert counts == {"db": 1, "little": MAX_OF_NAME}, "nor is a tiny limit told, or that of the agent itself"
    table.close()


def opens(machine: Machine, pid: int, count: int, soft: int, comm: bytes) -> Path:
    path = machine.run(pid, comm)
    for number in range(count):
        (path / "fd" / str(number)).symlink_to("/dev/null")
    (path / "limits").write_text(f"{LIMITS}Max open files            {soft}        524288       files\n")
    return path


def test_a_limit_that_is_raised_is_read_again(machine: Machine, time: Time, groups: Path) -> None:
    path = opens(machine, 7, 290, 300, b"db")
    folder = group(
        groups, "a", "7\n", memory_max=str(GIB), memory_current=str(GIB - 1), pids_max="20", pids_current="8"
    )
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    limits = Limits(table, time.clock)
    assert len(read(table, limits) or {}) == 3
    (path / "limits").write_text(f"{LIMITS}Max open files            1000        524288       files\n")
    (folder / "memory.max").write_text(f"{2 * GIB}\n")
    time.pass_(5.0)
    found = read(table, limits)
    assert found is not None
    assert found["descriptors db[7@50]"][1] == pytest.approx(0.29)
    assert found["memory /a"][1] == pytest.approx(0.5)
    (folder / "memory.current").write_text(f"{2 * GIB}\n")
    (folder / "memory.max").write_text("max\n")
    time.pass_(5.0)
    assert "memory /a" not in (read(table, limits) or {})
    table.close()


def test_what_is_unreadable_is_as_it_was(
    machine: Machine, time: Time, groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.run(7)
    group(groups, "a", "7\n", memory_max=str(GIB), memory_current=str(GIB - 1), pids_max="20", pids_current="8")
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    limits = Limits(table, time.clock)
    before = read(table, limits)
    assert len(before or {}) == 2
    processes = table.read()
    opened = Path.open

    def fail(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.is_relative_to(groups):
            raise OSError(errno.ENFILE, "too many")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", fail)
    for passed_s in (5.0, SEARCH_S):
        time.pass_(passed_s)
        found = limits.read(*processes)
        assert found is not None
        assert set(found[0].rows) == set(before or {})
    table.close()


def test_who_holds_a_limit_is_looked_for_within_bounds(
    machine: Machine, time: Time, groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[str, int]] = []

    def look(path: str, most: int) -> tuple[list[int], int]:
        looked.append((Path(path).name, most))
        return some_members(path, most)

    monkeypatch.setattr("laggard.producers.host.limits.some_members", look)
    monkeypatch.setattr("laggard.producers.host.limits.MAX_LOOKED", 5)
    for pid in (7, 8):
        machine.run(pid, threads=10)
    group(groups, "a", "7\n" + "999999\n" * 9, pids_max="20", pids_current="19")
    group(groups, "b", "8\n", pids_max="20", pids_current="18")
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    limits = Limits(table, time.clock)
    found = read(table, limits)
    assert found is not None
    assert {row: name for row, (name, _, _) in found.items()} == {"pids /a": "work[7@50]", "pids /b": "pids /b"}
    time.pass_(5.0)
    found = read(table, limits)
    assert found is not None
    assert found["pids /b"][0] == "work[8@50]"
    time.pass_(5.0)
    read(table, limits)
    assert [name for name, _ in looked] == ["a", "b"], "for a minute it is known"
    machine.end(7)
    time.pass_(5.0)
    found = read(table, limits)
    assert found is not None
    assert found["pids /a"][0] == "pids /a", "who is gone holds nothing"
    table.close()


def test_a_group_that_is_called_like_a_process(machine: Machine, time: Time, groups: Path) -> None:
    machine.run(7)
    group(groups, "x[1]", memory_max=str(GIB), memory_current=str(GIB - 1))
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    found = read(table, Limits(table, time.clock))
    assert list(found or {}) == ["memory /x[1]/"]
    table.close()


def test_groups_are_sought_less_often_where_it_takes_long(machine: Machine, time: Time, groups: Path) -> None:
    machine.run(7)
    cpu = iter((0, 400_000_000))  # of which 0.2 % is 200 s
    clock = Clock(lambda: time.wall, lambda: time.monotonic, lambda: time.boottime, lambda: next(cpu))
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    limits = Limits(table, clock)
    assert read(table, limits) == {}
    time.pass_(SEARCH_S)
    assert read(table, limits) == {}
    table.close()


def test_a_group_that_goes_while_it_is_read_is_left_out(machine: Machine, time: Time, groups: Path) -> None:
    machine.run(7)
    folder = group(groups, "a", memory_max=str(GIB), memory_current=str(GIB - 1))
    table = ProcessTable(time.clock, 5.0, root=str(machine.root), groups=str(groups))
    limits = Limits(table, time.clock)
    assert read(table, limits)
    (folder / "memory.current").unlink()
    time.pass_(5.0)
    assert read(table, limits) == {}
    table.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0),
        (b"Max open files", 0),
        (b"Max open files            unlimited            unlimited            files\n", 0),
        (b"Max processes 5 6\nMax open files            1024  4096  files\n", 1024),
    ],
    ids=str,
)
def test_the_limit_of_open_files(text: bytes, expected: int) -> None:
    assert open_files(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0),
        (b"inactive_file", 0),
        (b"inactive_file x\n", 0),
        (b"a 1\ninactive_file 7\nactive_file 5\nslab_reclaimable 3\n", 15),
        (b"inactive_file 7\ntotal_inactive_file 8\ntotal_active_file 9\n", 17),
    ],
    ids=str,
)
def test_what_is_given_back_first(text: bytes, expected: int) -> None:
    assert cache_bytes(text) == expected


# The kernel of this machine.


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A group of this machine that may use 64 MiB."""
    with limited_group("memory", ("memory.max", "memory.limit_in_bytes"), str(64 << 20)) as group:
        yield group


def test_the_memory_of_a_real_group(real_group: Path, tmp_path: Path) -> None:
    holds = (
        "import sys; from pathlib import Path; sys.stdin.readline(); held = bytearray(32 << 20)\n"
        f"Path({str(tmp_path / 'cache')!r}).write_bytes(bytes(8 << 20)); print(flush=True); sys.stdin.readline()"
    )
    table = ProcessTable(Clock(), 1.0)
    arguments = [sys.executable, "-S", "-E", "-c", holds]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        (real_group / "cgroup.procs").write_text(str(child.pid))
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        found = read(table, Limits(table, Clock()))
        child.stdin.close()
    table.close()
    assert found is not None
    name, used, unused = found[f"memory /{real_group.name}"]
    assert name.endswith(f"[{child.pid}@{name.partition('@')[2]}")
    assert 0.5 <= used <= 0.75
    assert unused == pytest.approx((1.0 - used) * (64 << 20))


def test_the_open_files_of_a_real_process() -> None:
    opens = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))\n"
        "held = [open('/dev/null') for _ in range(200)]; print(flush=True); sys.stdin.readline()"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 300
    table = ProcessTable(Clock(), 1.0)
    arguments = [sys.executable, "-S", "-E", "-c", opens]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        found = read(table, Limits(table, Clock()))
        child.stdin.close()
    table.close()
    assert found is not None
    ((name, used, _),) = [told for row, told in found.items() if f"[{child.pid}@" in row]
    assert f"[{child.pid}@" in name
    assert np.isclose(used, 203 / 300, atol=5 / 300)
