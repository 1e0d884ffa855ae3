"""The process table on a tree of files. What needs a real kernel is in test_live.py."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from laggard.producers.host.descriptors import MAX_SOCKET_SCAN
from laggard.producers.host.process import MAX_THREADS, RATES, Process
from laggard.producers.host.processes import FEATURES, ProcessTable
from laggard.producers.host.tasks import IO
from laggard.producers.system.kernel import Kernel
from laggard.producers.system.open_files import FileBudget


@pytest.fixture
def table(machine, time):
    table = ProcessTable(time.clock, 1.0, root=str(machine.root))
    yield table
    table.close()


def rows(table):
    """One tick: of each row its features."""
    layout, values = table.read()
    assert layout.features == FEATURES
    assert values.shape == (len(layout.rows), len(FEATURES))
    assert not values.flags.writeable
    return {row: dict(zip(FEATURES, line, strict=True)) for row, line in zip(layout.rows, values.tolist(), strict=True)}


def only(table):
    (row,) = rows(table).values()
    return row


def test_every_counter_is_a_rate_or_a_size_in_base_units(machine, time, table):
    path = machine.run(7, state="R")
    (path / "fd" / "0").symlink_to("/dev/null")
    (path / "fd" / "1").symlink_to("socket:[123]")
    rows(table)
    time.pass_(2)
    machine.run(
        7,
        user=100,
        system=50,
        run_ns=1_500_000_000,
        wait_ns=500_000_000,
        timeslices=20,
        children_user=20,
        children_system=20,
        faults_minor=10,
        faults_major=4,
        voluntary=14,
        involuntary=6,
        rchar=2000,
        wchar=1000,
        syscr=4,
        syscw=2,
        read=8192,
        write=4096,
        cancelled=2048,
        threads=1,
        virtual=1_000_000,
        rss=3,
        file=12,
        shmem=8,
        swap=5,
    )
    row = only(table)
    assert len(row) == len(FEATURES), "no feature comes twice"
    assert row.pop("cpu_user_ratio") == pytest.approx(0.5)
    assert row.pop("cpu_system_ratio") == pytest.approx(0.25)
    assert math.isnan(row.pop("io_delay_ratio"))
    assert row == {
        "cpu_wait_ratio": 0.25,
        "cpu_children_ratio": 0.2,
        "timeslices_per_s": 10,
        "page_faults_minor_per_s": 5,
        "page_faults_major_per_s": 2,
        "switches_voluntary_per_s": 7,
        "switches_involuntary_per_s": 3,
        "io_read_characters_per_s": 1000,
        "io_write_characters_per_s": 500,
        "io_read_operations_per_s": 2,
        "io_write_operations_per_s": 1,
        "io_read_bytes_per_s": 4096,
        "io_write_bytes_per_s": 2048,
        "io_cancelled_write_bytes_per_s": 1024,
        "memory_rss_bytes": 3 * 4096,
        "memory_virtual_bytes": 1_000_000,
        "memory_shared_bytes": 20 * 1024,
        "memory_swap_bytes": 5 * 1024,
        "threads": 1,
        "descriptors": 2,
        "sockets": 1,
        "children": 0,
        "cpu_quota_throttled_ratio": 0,
        "io_pressure_ratio": 0,
        "memory_pressure_ratio": 0,
        "cpus": os.cpu_count(),
    }


def test_who_shares_a_quota_shares_how_often_it_is_used_up(machine, time, tmp_path):
    groups = tmp_path / "cgroups"
    groups.mkdir()
    (groups / "cgroup.controllers").write_text("cpu\n")

    def count(tick, group, throttled, pids=""):
        folder = groups / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text("max 100000\n" if throttled is None else "50000 100000\n")
        (folder / "cpu.stat").write_text(f"nr_periods {10 * tick}\nnr_throttled {(throttled or 0) * tick}\n")
        (folder / "cgroup.procs").write_text(pids)

    for pid in range(7, 12):
        machine.run(pid)
    table = ProcessTable(time.clock, 1.0, root=str(machine.root), groups=str(groups))
    for tick in range(1, 3):
        count(tick, "pod", 4)
        count(tick, "pod/hog", 9, "7\n8\n")
        count(tick, "pod/mild", 2, "9\n")
        count(tick, "calm", 0, "10\n")
        count(tick, "free", None, "11\n99\n")
        ratios = {row: features["cpu_quota_throttled_ratio"] for row, features in rows(table).items()}
        time.pass_(1)
    table.close()
    # The quota that is used up most often counts: the own one, or one further up.
    assert sorted(ratios.values()) == [0, 0, 0.4, 0.9, 0.9]
    assert [ratio for row, ratio in ratios.items() if "[9@" in row] == [0.4]


def test_who_may_have_waited_has_the_pressure_of_its_control_group(machine, time, tmp_path):
    groups = tmp_path / "cgroups"
    groups.mkdir()
    (groups / "cgroup.controllers").write_text("io memory\n")
    (groups / "cgroup.stat").write_text("nr_descendants 3\n")

    def count(tick, group, io, memory, pids):
        folder = groups / group
        folder.mkdir(parents=True, exist_ok=True)
        for resource, ratio in (("io", io), ("memory", memory)):
            (folder / f"{resource}.pressure").write_text(f"some avg10=0.00 total={round(ratio * tick * 1e6)}\n")
            machine.write(f"pressure/{resource}", f"some avg10=0.00 total={tick}\n")
        (folder / "cgroup.procs").write_text(pids)

    for pid in (7, 8, 10, 11, 12, 13, 14):
        machine.run(pid)
    machine.run(9, state="D")
    machine.run(12, threads=2)
    table = ProcessTable(time.clock, 1.0, root=str(machine.root), groups=str(groups))
    for tick in range(1, 4):
        machine.run(7, read=1_000_000 * tick)  # it reads
        machine.run(11, faults_minor=100 * tick)  # it takes memory
        machine.run(10)  # it runs, and does neither
        path = machine.root / "12" / "task" / "120"
        path.mkdir(parents=True, exist_ok=True)
        (path / "stat").write_text("120 (worker) D 1 1 1")
        count(tick, "shop", 0.9, 0.4, "7\n8\n9\n10\n11\n12\n99\n")
        count(tick, "alone", 0.25, 0.0, "13\n")
        count(tick, "calm", 0.0, 0.0, "14\n")
        found = {int(row.split("[")[1].split("@")[0]): features for row, features in rows(table).items()}
        time.pass_(1)
    table.close()
    io = {pid: features["io_pressure_ratio"] for pid, features in found.items()}
    assert io == pytest.approx({7: 0.9, 8: 0, 9: 0.9, 10: 0, 11: 0, 12: 0.9, 13: 0.25, 14: 0})
    memory = {pid: features["memory_pressure_ratio"] for pid, features in found.items()}
    assert memory == pytest.approx({7: 0, 8: 0, 9: 0.4, 10: 0, 11: 0.4, 12: 0.4, 13: 0, 14: 0})


def test_block_io_delay_where_the_kernel_accounts_for_it(machine, time):
    machine.write("sys/kernel/task_delayacct", "1\n")
    machine.run(7)
    table = ProcessTable(time.clock, 1.0, root=str(machine.root))
    rows(table)
    time.pass_(1)
    machine.run(7, delay=30)
    assert only(table)["io_delay_ratio"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("looked_before", "start"),
    [(False, 9999), (True, 50)],
    ids=["it began a moment ago, before the first tick", "it is old, and was not seen before"],
)
def test_where_it_is_not_known_what_is_new_there_are_no_rates(machine, time, table, looked_before, start):
    if looked_before:
        rows(table)
        time.pass_(1)
    machine.run(7, user=1000, start=start)
    row = only(table)
    assert all(math.isnan(row[rate]) for rate in RATES)
    assert row["memory_rss_bytes"] == 8192


@pytest.mark.parametrize(
    ("passed_s", "suspended_s", "start", "per_s"),
    [(4, 0, 10_100, 2000), (1, 0, 10_099, 6000), (1, 3600, 10_010, 6000)],
    ids=[
        "over its life of 3 s, as ticks were missed",
        "over a whole interval, as it began 10 ms ago",
        "over the waking part of its life",
    ],
)
def test_a_process_that_began_since_the_last_tick_has_rates(
    machine, time, table, *, passed_s, suspended_s, start, per_s
):
    rows(table)
    time.pass_(passed_s)
    time.suspend(suspended_s)
    machine.run(7, rchar=6000, start=start)
    assert only(table)["io_read_characters_per_s"] == pytest.approx(per_s)


def test_one_that_sleeps_has_rates_of_zero_and_keeps_its_sizes(machine, time, table):
    machine.run(7, rchar=5000, rss=9)
    rows(table)
    for _ in range(25):
        time.pass_(1)
        row = only(table)
        assert {row[rate] for rate in RATES if rate != "io_delay_ratio"} == {0.0}
        assert row["memory_rss_bytes"] == 9 * 4096


def test_memory_that_is_taken_from_a_sleeping_process_is_seen_within_ten_seconds(machine, time, table):
    machine.run(7, rss=100)
    rows(table)
    fields = dict(machine.fields[7])
    machine.run(7, rss=10, swap=400, run_ns=fields["run_ns"] - 1)
    assert machine.fields[7]["run_ns"] == fields["run_ns"] - 1
    (machine.root / "7" / "schedstat").write_text(f"{fields['run_ns']} 0 0\n")
    seen = []
    for _ in range(11):
        time.pass_(1)
        seen.append(only(table)["memory_swap_bytes"])
    assert seen[-1] == 400 * 1024


def test_rates_after_a_long_sleep_are_over_the_last_tick_only(machine, time, table):
    machine.run(7)
    rows(table)
    for _ in range(7):
        time.pass_(1)
        rows(table)
    time.pass_(1)
    machine.run(7, rchar=500)
    assert only(table)["io_read_characters_per_s"] == pytest.approx(500)


def test_a_counter_that_goes_backwards_has_no_rate_once(machine, time, table):
    machine.run(7, rchar=5000, wchar=10)
    rows(table)
    time.pass_(1)
    machine.run(7, rchar=100, wchar=20)
    row = only(table)
    assert math.isnan(row["io_read_characters_per_s"])
    assert row["io_write_characters_per_s"] == 10
    time.pass_(1)
    machine.run(7, rchar=200)
    assert only(table)["io_read_characters_per_s"] == 100


def test_no_time_between_ticks_gives_no_rates(machine, table):
    machine.run(7)
    rows(table)
    machine.run(7, rchar=100)
    assert all(math.isnan(only(table)[rate]) for rate in RATES)


@pytest.mark.parametrize("comm", [b"a b", b"(sd-pam)", b"x) S 1 (", b"tab\there", b"new\nline", b"\xff\xfe", b""])
def test_any_comm_is_a_row(machine, time, table, comm):
    machine.run(7, comm)
    rows(table)
    time.pass_(1)
    machine.run(7, comm, rchar=10)
    ((row, features),) = rows(table).items()
    assert row.endswith("[7@50]")
    assert row.isprintable()
    assert features["io_read_characters_per_s"] == 10


def test_a_new_name_is_a_new_row_of_the_same_process(machine, time, table):
    machine.run(7, b"sh")
    assert list(rows(table)) == ["sh[7@50]"]
    time.pass_(1)
    machine.run(7, b"python", rchar=300)
    ((row, features),) = rows(table).items()
    assert row == "python[7@50]"
    assert features["io_read_characters_per_s"] == 300


@pytest.mark.parametrize("late", [False, True])
def test_cpu_time_that_was_in_a_childs_row_is_not_its_parents(machine, time, table, late):
    """The kernel gives it to who waits for the child: all of its life at once."""
    machine.run(7)
    machine.run(8, parent=7, user=100, run_ns=1_000_000_000)
    rows(table)
    time.pass_(1)
    machine.run(8, parent=7, user=190, children_user=30, run_ns=1_900_000_000)
    assert rows(table)["work[8@50]"]["cpu_children_ratio"] == pytest.approx(0.3)
    time.pass_(1)
    machine.end(8)
    if late:  # it ended after its parent had been read
        assert rows(table)["work[7@50]"]["cpu_children_ratio"] == 0.0
        time.pass_(1)
    machine.run(7, children_user=190 + 30 + 5)
    assert only(table)["cpu_children_ratio"] == pytest.approx(0.05)
    time.pass_(1)
    machine.run(7, children_user=190 + 30 + 5 + 10)
    assert only(table)["cpu_children_ratio"] == pytest.approx(0.1)


@pytest.mark.parametrize("late", [False, True])
def test_cpu_time_that_was_in_a_grandchilds_row_is_not_its_grandparents(machine, time, table, late):
    """As of a compiler that a shell waits for, which `make` waits for: both end at once."""
    machine.run(7)
    machine.run(8, parent=7, user=10, run_ns=100_000_000)
    machine.run(9, parent=8, user=100, run_ns=1_000_000_000)
    rows(table)
    time.pass_(1)
    machine.end(9)
    if late:  # the one in the middle had been read already
        assert rows(table)["work[8@50]"]["cpu_children_ratio"] == 0.0
        time.pass_(1)
    machine.end(8)
    machine.run(7, children_user=100 + 10 + 5)
    assert only(table)["cpu_children_ratio"] == pytest.approx(0.05)


def test_who_ends_without_being_waited_for_takes_nothing_off_later_children(machine, time, table):
    machine.run(7)
    machine.run(8, parent=7, user=100, run_ns=1_000_000_000)
    rows(table)
    machine.end(8)
    for _ in range(2):
        time.pass_(1)
        only(table)
    time.pass_(1)
    machine.run(7, children_user=50)
    assert only(table)["cpu_children_ratio"] == pytest.approx(0.5)


def test_io_of_a_child_that_has_ended_is_not_its_parents(machine, time, table):
    """The kernel adds it to what `/proc/PID/io` says of the parent when that waits for the child."""
    machine.run(7, write=1000)
    only(table)
    time.pass_(1)
    machine.run(7, write=1300, children_write=50_000_000, children_faults=90)
    assert only(table)["io_write_bytes_per_s"] == 300


def test_io_of_several_threads_is_not_there_when_a_childs_has_been_added_to_it(machine, time, table):
    machine.run(7, threads=2, write=1000)
    machine.thread(7, 8)
    only(table)
    time.pass_(1)
    machine.run(7, threads=2, write=1300)
    assert only(table)["io_write_bytes_per_s"] == 300
    time.pass_(1)
    machine.run(7, threads=2, write=1400, children_write=50_000_000, children_faults=90)
    assert math.isnan(only(table)["io_write_bytes_per_s"])
    time.pass_(1)
    machine.run(7, threads=2, write=1450)
    assert math.isnan(only(table)["io_write_bytes_per_s"])
    time.pass_(1)
    machine.run(7, threads=2, write=1650)
    assert only(table)["io_write_bytes_per_s"] == 200


def test_io_goes_on_where_threads_come_and_go(machine, time, table):
    machine.run(7, write=1000, children_write=700)
    only(table)
    time.pass_(1)
    machine.run(7, threads=2, write=1300)
    machine.thread(7, 8)
    assert only(table)["io_write_bytes_per_s"] == 0
    time.pass_(1)
    machine.run(7, threads=2, write=1400)
    assert only(table)["io_write_bytes_per_s"] == 100
    time.pass_(1)
    machine.end_thread(7, 8)
    machine.run(7, threads=1, write=1500)
    only(table)
    time.pass_(1)
    machine.run(7, write=1900)
    assert only(table)["io_write_bytes_per_s"] == 400


def test_names_of_kernel_workers_do_not_follow_their_work(machine, time, table):
    machine.run(7, b"kworker/0:1-events", flags=0x00200040, parent=2)
    first, _ = table.read()
    time.pass_(1)
    machine.run(7, b"kworker/0:1+flush", flags=0x00200040, parent=2)
    second, _ = table.read()
    assert first is second
    assert first.names == ("kworker",)
    assert first.commands == ("",)


def test_the_layout_stays_the_same_object_as_long_as_the_names_do(machine, time, table):
    machine.run(7)
    machine.run(8)
    first, _ = table.read()
    time.pass_(1)
    machine.run(7, user=10)
    assert table.read()[0] is first
    machine.end(8)
    assert table.read()[0] is not first


def test_a_command_line_that_was_not_there_yet_is_read_later(machine, time, table):
    path = machine.run(7, b"sh", run_ns=1)
    (path / "cmdline").write_bytes(b"sh\0")
    assert table.read()[0].commands == ("sh",)
    time.pass_(1)
    machine.run(7, b"cat", run_ns=2)  # in the middle of its exec
    (path / "cmdline").write_bytes(b"")
    layout = table.read()[0]
    assert (layout.names, layout.commands) == (("cat",), ("",))
    time.pass_(1)
    machine.run(7, b"cat", run_ns=3)
    (path / "cmdline").write_bytes(b"cat\0-\0")
    later = table.read()[0]
    assert (later.rows, later.commands) == (layout.rows, ("cat -",))


def test_a_row_tells_as_whom_and_in_what_it_runs(machine, time, table):
    machine.write("1/root/etc/passwd", "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/bin/false\n")
    machine.run(7, b"nginx", run_ns=1)
    machine.write("7/cgroup", "0::/system.slice/nginx.service\n")
    machine.run(8, b"kthreadd", flags=0x00200040, parent=0)
    machine.write("8/cgroup", "0::/\n")
    first = table.read()[0]
    of = {name: (user, where) for name, user, where in zip(first.names, first.users, first.containers, strict=True)}
    assert of == {"nginx": ("root", "nginx.service"), "kthreadd": ("root", "")}
    time.pass_(1)
    machine.run(7, uid=33, run_ns=2)  # what it may do is given up once it listens
    machine.run(9, b"sh", uid=1234)
    second = table.read()[0]
    assert dict(zip(second.names, second.users, strict=True)) == {"nginx": "www-data", "kthreadd": "root", "sh": "1234"}
    time.pass_(1)
    machine.run(7, run_ns=3)
    assert table.read()[0] is second


def test_command_lines_are_told_and_may_be_left_out(machine, time, table):
    path = machine.run(7)
    (path / "cmdline").write_bytes(b"/bin/work\0--word\0x\0")
    assert table.read()[0].commands == ("/bin/work --word x",)
    table = ProcessTable(time.clock, 1.0, root=str(machine.root), command_lines=False)
    layout, _ = table.read()
    assert layout.commands == ()
    assert b"password" not in layout.packed


def test_what_ends_is_gone_and_what_comes_takes_its_place(machine, time, table):
    for pid in range(1, 200):
        machine.run(pid, rss=pid)
    assert len(rows(table)) == 199
    for pid in range(1, 200, 2):
        machine.end(pid)
    for pid in range(1000, 1030):
        machine.run(pid, rss=pid)
    time.pass_(1)
    after = rows(table)
    assert len(after) == 99 + 30
    for row, features in after.items():
        pid = int(row.split("[")[1].split("@")[0])
        assert features["memory_rss_bytes"] == pid * 4096


def test_a_pid_in_use_again_is_a_new_row(machine, time):
    # Without held files, as on a machine that is short of descriptors: here only the start tells.
    table = ProcessTable(time.clock, 1.0, root=str(machine.root), descriptor_limit=0)
    machine.run(7, user=5000, rchar=10**9, start=50)
    rows(table)
    time.pass_(1)
    machine.end(7)
    machine.run(7, user=5100, rchar=10**9 + 1, start=60)
    ((row, features),) = rows(table).items()
    assert row == "work[7@60]"
    assert all(math.isnan(features[rate]) for rate in RATES)
    assert table.held_files == 0


def test_threads_are_added_up(machine, time, table):
    machine.run(7, threads=3, wait_ns=1, timeslices=1, voluntary=1)
    machine.thread(7, 7)
    for tid in (8, 9):
        machine.thread(7, tid, wait_ns=10**9, timeslices=100, voluntary=90, involuntary=10)
    rows(table)
    time.pass_(1)
    machine.thread(7, 8, wait_ns=10**9 + 2 * 10**8, timeslices=107, voluntary=94, involuntary=13)
    machine.thread(7, 9, wait_ns=10**9 + 10**8, timeslices=101, voluntary=91)
    machine.run(7, wait_ns=10**8 + 1, timeslices=3, voluntary=2, involuntary=1)
    row = only(table)
    assert row["cpu_wait_ratio"] == pytest.approx(0.4)
    assert row["timeslices_per_s"] == 10
    assert row["switches_voluntary_per_s"] == 6
    assert row["switches_involuntary_per_s"] == 4


def test_threads_come_and_go_without_a_false_rate(machine, time):
    # Not held, for a file of a tree still reads when it is gone, which one of procfs does not.
    table = ProcessTable(time.clock, 1.0, root=str(machine.root), descriptor_limit=0)
    machine.run(7, threads=2)
    machine.thread(7, 8, wait_ns=10**12)
    rows(table)
    time.pass_(1)
    machine.end_thread(7, 8)
    machine.thread(7, 9, wait_ns=5 * 10**8)  # as many as before, but another one
    machine.run(7, threads=2)
    assert 0 <= only(table)["cpu_wait_ratio"] <= 0.5
    time.pass_(1)
    machine.run(7, threads=1)
    assert only(table)["cpu_wait_ratio"] == 0


def test_a_process_of_too_many_threads_has_no_wait(machine, time, table):
    machine.run(7, threads=MAX_THREADS + 1)
    rows(table)
    time.pass_(1)
    machine.run(7, user=100)
    row = only(table)
    assert math.isnan(row["cpu_wait_ratio"])
    assert row["cpu_user_ratio"] == pytest.approx(1)


def test_threads_that_were_not_looked_at_for_a_while_did_nothing_twice(machine, time, table):
    machine.run(7, threads=2)
    machine.thread(7, 8, wait_ns=5 * 10**9)
    for threads in (2, MAX_THREADS + 1):
        machine.run(7, threads=threads)
        rows(table)
        time.pass_(1)
    machine.thread(7, 8, wait_ns=6 * 10**9)
    machine.run(7, threads=2)
    assert math.isnan(only(table)["cpu_wait_ratio"]), "it was not known before"
    time.pass_(1)
    machine.thread(7, 8, wait_ns=6 * 10**9 + 10**8)
    machine.run(7)
    assert only(table)["cpu_wait_ratio"] == pytest.approx(0.1)
    process = next(iter(table.processes))
    assert process.threads.wait_ns == 6 * 10**9 + 10**8


def test_children_are_counted(machine, time, table):
    machine.run(1, parent=0)
    machine.run(7, parent=1)
    for pid in (20, 21, 22):
        machine.run(pid, parent=7)
    assert {row: features["children"] for row, features in rows(table).items() if features["children"]} == {
        "work[1@50]": 1,
        "work[7@50]": 3,
    }
    machine.end(22)
    time.pass_(1)
    assert rows(table)["work[7@50]"]["children"] == 2


def test_orphans_are_counted_with_their_new_parent_while_they_sleep(machine, time, table):
    machine.run(1, parent=0)
    machine.run(7, parent=1)
    machine.run(20, parent=7)
    rows(table)
    machine.end(7)
    run_ns = machine.fields[20]["run_ns"]
    machine.run(20, parent=1)
    (machine.root / "20" / "schedstat").write_text(f"{run_ns} 0 0\n")
    time.pass_(1)
    assert rows(table)["work[1@50]"]["children"] == 1


def test_sockets_of_too_many_descriptors_are_not_counted(machine, time, table):
    path = machine.run(7)
    for number in range(MAX_SOCKET_SCAN + 1):
        (path / "fd" / str(number)).symlink_to("socket:[1]")
    row = only(table)
    assert row["descriptors"] == MAX_SOCKET_SCAN + 1
    assert math.isnan(row["sockets"])


PLACES = {"io": "task/7/io"}
"""Of a process with one thread."""


@pytest.mark.parametrize("missing", ["io", "status", "schedstat", "fd"])
def test_a_file_that_is_not_there_is_nan_in_its_features_only(machine, time, table, missing):
    def run(**changes):
        path = machine.run(7, **changes)
        (path / missing).rmdir() if missing == "fd" else (path / PLACES.get(missing, missing)).unlink()

    run()
    rows(table)
    time.pass_(1)
    run(faults_minor=3)
    row = only(table)
    assert row["page_faults_minor_per_s"] == 3
    absent = {
        "io": {"io_read_bytes_per_s", "io_write_operations_per_s"},
        "status": {"memory_swap_bytes", "switches_voluntary_per_s"},
        "schedstat": {"cpu_wait_ratio", "timeslices_per_s"},
        "fd": {"descriptors", "sockets"},
    }
    for file, features in absent.items():
        assert {math.isnan(row[feature]) for feature in features} == {file == missing}
    assert table.unreadable_files == 1
    assert table.read_errors == 0


@pytest.mark.parametrize("broken", ["io", "status", "schedstat"])
def test_a_text_out_of_form_is_nan_and_counted(machine, time, table, broken):
    path = machine.run(7)
    (path / PLACES.get(broken, broken)).write_text("nonsense\n")
    rows(table)
    assert table.read_errors == 1
    time.pass_(1)
    machine.run(7, rchar=10, wait_ns=10, voluntary=1)
    only(table)
    assert table.read_errors == 0
    time.pass_(1)
    machine.run(7, rchar=20, wait_ns=20, voluntary=2)
    row = only(table)
    assert row["io_read_characters_per_s"] == 10
    assert row["switches_voluntary_per_s"] == 1


def test_a_process_without_a_readable_stat_is_left_out_and_counted(machine, table):
    machine.run(7)
    (machine.run(8) / "stat").write_text("nonsense")
    (machine.run(9) / "stat").unlink()
    assert list(rows(table)) == ["work[7@50]"]
    assert table.read_errors == 1


def test_one_that_runs_while_it_is_read_is_read_again(machine):
    class Racing(FileBudget):
        def read(self, descriptors, which, path):
            text = super().read(descriptors, which, path)
            if which == IO:
                machine.run(7, rchar=1000)
            return text

    machine.run(7)
    process = Process(7, str(machine.root / "7"), Kernel(str(machine.root)), Racing(10))
    process.read(retry=True)
    assert not process.sleeps()
    assert process.read(retry=False)[FEATURES.index("io_read_characters_per_s")] == 1000
    assert process.sleeps()
    process.release()
    assert not process.sleeps()  # nothing held, nothing known


def test_zombies_and_kernel_threads_hold_nothing(machine, time, table):
    machine.run(7, state="Z", rss=0, virtual=0)
    (machine.root / "7" / "status").write_text(
        "Name:\tx\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t0\n"
    )
    row = only(table)
    assert row["memory_rss_bytes"] == row["memory_shared_bytes"] == row["memory_swap_bytes"] == 0
    assert table.read_errors == 0


def test_what_is_in_proc_beside_processes_is_left_alone(machine, table):
    machine.write("12x/stat", "nonsense")
    machine.write("\u0663/stat", "nonsense")  # a digit, but not one of ASCII
    machine.write("meminfo", "nonsense")
    for _ in range(2):
        assert rows(table) == {}
        assert table.read_errors == 0


def test_files_are_held_only_as_far_as_the_budget_goes(machine, time):
    for pid in range(1, 11):
        machine.run(pid)
    table = ProcessTable(time.clock, 1.0, root=str(machine.root), descriptor_limit=10)
    rows(table)
    assert table.held_files == 10
    time.pass_(1)
    for pid in range(1, 11):
        machine.run(pid, rchar=7)
    assert {features["io_read_characters_per_s"] for features in rows(table).values()} == {7}
    table.close()
    assert table.held_files == 0


def test_3000_processes(machine, time):
    # One directory each, but all alike: links, so that the test stays quick.
    machine.run(1)
    for pid in range(2, 3_001):
        (machine.root / str(pid)).symlink_to("1")
    table = ProcessTable(time.clock, 1.0, root=str(machine.root), descriptor_limit=100)
    layout, values = table.read()
    assert values.shape == (3_000, len(FEATURES))
    assert len(set(layout.rows)) == 3_000
    assert np.nanmax(values[:, FEATURES.index("threads")]) == 1


def test_every_slot_is_used_again(machine, time, table):
    for generation in range(10):
        for pid in range(100):
            machine.run(1000 + generation * 100 + pid)
        rows(table)
        for pid in range(100):
            machine.end(1000 + generation * 100 + pid)
        time.pass_(1)
    assert rows(table) == {}
    assert len(table._readings.now) <= 256
    assert table.held_files == 0
