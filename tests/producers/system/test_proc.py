from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laggard.producers.system.proc import (
    Cpu,
    ProcError,
    parse_command,
    parse_io,
    parse_load,
    parse_meminfo,
    parse_name,
    parse_pressure,
    parse_schedstat,
    parse_stat,
    parse_status,
    parse_system_stat,
    parse_vmstat,
    whole_disks,
)

STAT = (
    b"42 (%s) S 7 42 42 0 -1 4194560 1001 2002 3 4 55 66 7 8 20 0 9 0 1234 5001216 512 18446744073709551615 1 2 3 4 5"
    b" 0 0 0 0 0 0 0 17 1 0 0 77 0 0 1 2 3 4 5 6 7 0\n"
)
STATUS = b"""Name:	bash
Umask:	0022
State:	S (sleeping)
Groups:	0 1 2 3
VmPeak:	   10000 kB
VmRSS:	    5000 kB
RssAnon:	    1000 kB
RssFile:	    3000 kB
RssShmem:	      24 kB
VmData:	     400 kB
VmSwap:	      16 kB
HugetlbPages:	       0 kB
Threads:	1
Mems_allowed_list:	0
voluntary_ctxt_switches:	150
nonvoluntary_ctxt_switches:	7
"""
KERNEL_THREAD_STATUS = b"""Name:	ksoftirqd/0
Kthread:	1
Threads:	1
voluntary_ctxt_switches:	3
nonvoluntary_ctxt_switches:	0
"""
IO = b"""rchar: 1
wchar: 2
syscr: 3
syscw: 4
read_bytes: 5
write_bytes: 6
cancelled_write_bytes: 7
"""
CUT = st.sampled_from([STAT, STATUS, IO]).flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end]))


@pytest.mark.parametrize(
    "comm", [b"bash", b"a b", b"(sd-pam)", b")", b"((x) S 1 (", b"a) R 1 2 3", b"\xff\xfe\n\t", b"", b"0"]
)
def test_stat_whatever_the_comm(comm):
    stat = parse_stat(STAT.replace(b"%s", comm))
    assert stat.comm == comm
    assert stat.state == b"S"
    assert (stat.parent, stat.flags, stat.threads, stat.start_ticks) == (7, 4194560, 9, 1234)
    assert (stat.faults_minor, stat.faults_major) == (1001, 3)
    assert (stat.user_ticks, stat.system_ticks, stat.children_ticks) == (55, 66, 15)
    assert (stat.virtual_bytes, stat.rss_pages) == (5001216, 512)


def test_block_io_delay_is_parsed_where_it_is_wanted():
    assert parse_stat(STAT, delays=True).io_delay_ticks == 77
    assert parse_stat(STAT).io_delay_ticks == 0


def test_children_may_have_less_than_no_time():
    # `cutime` and `cstime` are signed in the kernel's format.
    assert parse_stat(STAT.replace(b" 7 8 20 ", b" -1 0 20 ")).children_ticks == -1


@pytest.mark.parametrize(
    ("parse", "text", "values"),
    [
        pytest.param(parse_status, STATUS, (3024 * 1024, 16 * 1024, 150, 7), id="status of a process"),
        pytest.param(parse_status, KERNEL_THREAD_STATUS, (0, 0, 3, 0), id="status of a kernel thread, without memory"),
        pytest.param(
            parse_status,
            STATUS.replace(b"VmSwap:	      16 kB\n", b""),
            (3024 * 1024, 0, 150, 7),
            id="status without swap",
        ),
        pytest.param(parse_io, IO, (1, 2, 3, 4, 5, 6, 7), id="io"),
        pytest.param(parse_schedstat, b"123456789 42 7\n", (123456789, 42, 7), id="schedstat"),
    ],
)
def test_counters_of_a_process(parse, text, values):
    assert parse(text) == values


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_stat, b"", "/p/1/x, comm: expected a name in parentheses"),
        (parse_stat, b"1 (x) S 1 2", "/p/1/x, the fields behind comm: expected a state and 21 integers"),
        (parse_stat, STAT.replace(b" 55 ", b" ? "), "expected a state and 21 integers, got b'S 7 42"),
        (parse_status, b"", "/p/1/x, context switches: expected two counters at the end"),
        (parse_status, STATUS.replace(b"3000 kB", b"many kB"), "/p/1/x, RssFile, RssShmem, VmSwap: expected sizes"),
        (parse_io, b"", "/p/1/x, keys: expected rchar: wchar:"),
        (parse_io, IO[:-2], "/p/1/x, values: expected one integer for each key"),
        (parse_io, IO.replace(b"4", b"four"), "/p/1/x, values: expected one integer for each key"),
        (parse_schedstat, b"1 2", "/p/1/x, run time, wait time, timeslices: expected three integers, got b'1 2'"),
        (parse_load, b"0.1", "/p/1/x, load: expected three numbers"),
        (parse_pressure, b"some avg10=0", "/p/1/x, some: expected total= and an integer"),
        (parse_vmstat, b"pgfault x", "/p/1/x, lines: expected a name and an integer each"),
        (parse_vmstat, b"pgpgin 1", "/p/1/x, pgfault: expected a line with this name"),
        (parse_meminfo, b"MemTotal: 1 kB", "/p/1/x, MemFree: expected a line with this name"),
        (parse_system_stat, b"cpu 1 2\n", "/p/1/x, intr: expected a line with this key"),
        (parse_system_stat, b"cpu a\n", "/p/1/x, line: expected a key and integers"),
    ],
)
def test_errors_name_file_field_and_what_was_expected(parse, text, said):
    with pytest.raises(ProcError) as caught:
        parse(text, file="/p/1/x")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "parse",
    [
        parse_stat,
        parse_status,
        parse_io,
        parse_schedstat,
        parse_load,
        parse_pressure,
        parse_vmstat,
        parse_meminfo,
        parse_system_stat,
    ],
)
@given(text=st.binary(max_size=200) | CUT)
@example(text=b"(\xff)")
def test_any_bytes_give_a_value_or_one_clear_error(parse, text):
    with suppress(ProcError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (b"", ""),
        (b"\0\0", ""),
        (b"/bin/sh\0-c\0sleep 1\0", "/bin/sh -c sleep 1"),
        (b"nginx: master process\0\0\0\0", "nginx: master process"),
        (b"a\0\0b\0", "a  b"),
        (b"printf\0\x1b[31mred\n\x07\0", "printf ?[31mred??"),
        ("\u202eevil\u2066".encode(), "?evil?"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 10_000, "x" * 200),
        ("\U0001f40c".encode() * 300, "\U0001f40c" * 200),
    ],
)
def test_command_lines_are_safe_to_show(text, command):
    assert parse_command(text) == command


@pytest.mark.parametrize(
    ("comm", "kernel_thread", "name"),
    [
        (b"kworker/0:1-events", True, "kworker"),
        (b"kworker/u8:3+flush-252:0", True, "kworker"),
        (b"kworker/R-rcu_gp", True, "kworker"),
        (b"kworker/0:1-events", False, "kworker/0:1-events"),
        (b"ksoftirqd/0", True, "ksoftirqd/0"),
        (b"a\nb", False, "a?b"),
        (b"\xff", False, "\ufffd"),
        (b"", False, "?"),
    ],
)
def test_names(comm, kernel_thread, name):
    assert parse_name(comm, kernel_thread) == name


def test_system_stat():
    system = parse_system_stat(
        b"cpu  10 1 20 300 4 5 6 7 8 9\ncpu0 5 1 10 150 2 3 3 4 4 5\ncpu3 5 0 10 150 2 2 3 3 4 4\n"
        b"intr 1000 0 0 7\nctxt 2000\nbtime 1700000000\nprocesses 300\nprocs_running 2\n"
        b"procs_blocked 1\nsoftirq 99 1 2\n"
    )
    assert system.total == Cpu(10, 1, 20, 300, 4, 5, 6, 7, 8, 9)
    assert list(system.cpus) == [b"cpu0", b"cpu3"]
    assert system[2:] == (1000, 2000, 300, 2, 1, 99, 1_700_000_000)


def test_pressure_with_and_without_full():
    some = b"some avg10=2.27 avg60=1.85 avg300=0.68 total=7292668\n"
    assert parse_pressure(some) == {"some": 7292668}
    assert parse_pressure(some + b"full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n") == {"some": 7292668, "full": 5}
    assert parse_pressure(b"") == {}


def test_vmstat_adds_up_scans_and_takes_what_a_kernel_lacks_for_none():
    vmstat = parse_vmstat(b"pgfault 10\npgscan_kswapd 3\npgscan_direct 4\nnr_free_pages 5\n")
    assert (vmstat.faults, vmstat.scanned, vmstat.kills) == (10, 7, 0)


@pytest.mark.parametrize(
    ("names", "whole"),
    [
        ({"sda", "sda1", "sda15", "sdb"}, {"sda", "sdb"}),
        ({"nvme0n1", "nvme0n1p1", "nvme1n1"}, {"nvme0n1", "nvme1n1"}),
        ({"dm-1", "dm-10", "md0", "md0p1"}, {"dm-1", "dm-10", "md0"}),
        ({"mmcblk0", "mmcblk0p2", "mmcblk0boot0"}, {"mmcblk0", "mmcblk0boot0"}),
        ({"loop1", "loop10", "loop1p1"}, {"loop1", "loop10"}),
        ({"xvda1"}, {"xvda1"}),
        (set(), set()),
    ],
)
def test_partitions_are_not_disks(names, whole):
    assert whole_disks(names) == whole
