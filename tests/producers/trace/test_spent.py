"""The uses of a request's time, and their processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.records.limits import MAX_SPENT
from laggard.pipeline.core.records.requests import REST
from laggard.producers.trace.events import Flags, Kind
from tests.producers.trace.rows import Rows

if TYPE_CHECKING:
    from laggard.pipeline.core.records import Request

HARD = int(Flags.KNOWN | Flags.HARD)


def of(request: Request, state: str) -> list[tuple[str, str, str, int, str, int, int]]:
    """Without the state, with nanoseconds."""
    return [
        (each.syscall, each.on, each.by, each.pid, each.result, each.times, round(each.time_s * 1e9))
        for each in request.spent
        if each.state == state
    ]


def test_a_lock_is_held_by_whom_it_was_given_to() -> None:
    rows = Rows("php-fpm", "worker", "cron")
    rows(1, 1, Kind.OPENED, 2, 5, text="/var/lib/x.lock")
    rows(1, 0, Kind.OPENED, 1, 7, text="/var/lib/x.lock")
    rows.call(2, 3, 1, 2, "flock", 73, 5, 2)
    with rows.waiting("flock", 73, 7, 2):
        # The thread that wakes is not the holder: closing may have been delayed to another thread.
        rows(80, 2, Kind.WAKE, 3, 1)
    request = rows.one()
    assert of(request, "BT") == [("flock", "/var/lib/x.lock", "worker", 2, "", 1, 50)]
    assert of(request, "RS") == [("flock", "/var/lib/x.lock", "", 0, "", 1, 15)]


@pytest.mark.parametrize("unlock", ["unlock", "another thread unlocks", "close", "exit"])
def test_a_lock_that_was_given_back_has_no_holder(unlock: str) -> None:
    rows = Rows("php-fpm", "worker", "cron")
    rows(1, 1, Kind.OPENED, 2, 5, text="/x")
    rows(1, 0, Kind.OPENED, 1, 7, text="/x")
    # A pointer says whether `fcntl` locks or unlocks: the first call locks, the second one unlocks.
    rows.call(2, 3, 1, 2, "fcntl", 72, 5, 7)
    if unlock == "unlock":
        rows.call(4, 5, 1, 2, "fcntl", 72, 5, 6)
    elif unlock == "another thread unlocks":
        # Such a lock is a process's.
        rows(4, 2, Kind.NAMED, -1, 4, 2, text="worker")
        rows(4, 1, Kind.SWITCH, 2, 4, 1, text="worker")
        rows.call(4, 5, 1, 4, "fcntl", 72, 5, 6)
    elif unlock == "close":
        rows.call(4, 5, 1, 2, "close", 3, 5)
    else:
        rows(4, 1, Kind.EXIT, 2)
        rows(5, 1, Kind.SWITCH, 2, 0, 0, 16)
    with rows.waiting("fcntl", 72, 7, 7):
        rows(80, 2, Kind.WAKE, 3, 1)
    assert of(rows.one(), "BT") == [("fcntl", "/x", "cron", 3, "", 1, 50)]


def test_a_lock_that_was_handed_over_is_its_new_holders_also_where_the_old_one_comes_back_later() -> None:
    rows = Rows("php-fpm", "worker", "cron", "other")
    for tid in (1, 2, 3):
        rows(1, tid - 1, Kind.OPENED, tid, 5, text="/x")
    rows.call(2, 3, 1, 2, "fcntl", 72, 5, 7)
    # `worker` unlocks, but `cron` is back with the lock before `worker` is.
    rows(4, 2, Kind.SYSCALL_ENTER, 3, 72, 5, 7, text="fcntl")
    rows(5, 1, Kind.SYSCALL_ENTER, 2, 72, 5, 6, text="fcntl")
    rows(6, 2, Kind.SYSCALL_EXIT, 3, 72, 0, text="fcntl")
    rows(7, 1, Kind.SYSCALL_EXIT, 2, 72, 0, text="fcntl")
    with rows.waiting("fcntl", 72, 5, 7):
        rows(80, 3, Kind.WAKE, 4, 1)
    assert of(rows.one(), "BT") == [("fcntl", "/x", "cron", 3, "", 1, 50)]


def test_a_refused_connect_is_told_however_fast_it_fails() -> None:
    rows = Rows("php-fpm")
    rows(100, 0, Kind.BEGIN, 1, text="shop\tGET /")
    at = 200
    for _ in range(57):
        rows(at, 0, Kind.SYSCALL_ENTER, 1, 42, 9, text="connect")
        rows(at + 1, 0, Kind.PATH, 1, text="127.0.0.1:3306")
        rows(at + 3, 0, Kind.SYSCALL_EXIT, 1, 42, -111, text="connect")
        at += 10
    # A hundred things that each take longer.
    for number in range(100):
        rows(at, 0, Kind.SYSCALL_ENTER, 1, 257, text="openat")
        rows(at + 1, 0, Kind.PATH, 1, text=f"/usr/share/php/part{number % 10}{number // 10}.php")
        rows(at + 900, 0, Kind.SYSCALL_EXIT, 1, 257, 5, text="openat")
        at += 1_000
    rows(at, 0, Kind.END, 1)
    request = rows.one()
    assert ("connect", "127.0.0.1:3306", "", 0, "ECONNREFUSED", 57, 171) in of(request, "RS")
    assert len(request.spent) == MAX_SPENT
    rest = request.spent[-1]
    assert rest == (REST, "", "", "", 0, "", 39, rest.time_s)
    assert sum(round(each.time_s * 1e9) for each in request.spent) == at - 100
    assert [each.time_s for each in request.spent[:-1]] == sorted(
        (each.time_s for each in request.spent[:-1]), reverse=True
    )


def test_who_had_the_cpu_meanwhile() -> None:
    rows = Rows("worker")
    rows(1, 0, Kind.NAMED, -1, 8, 70, text="backup")
    rows(1, 0, Kind.NAMED, -1, 70, 70, text="backup")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(20, 0, Kind.SWITCH, 1, 8, 1, text="backup")
    rows(50, 0, Kind.SWITCH, 8, 9, 1, text="other")
    rows(60, 0, Kind.SWITCH, 9, 8, 1, text="backup")
    rows(70, 0, Kind.SWITCH, 8, 1, 1, text="worker")
    rows(100, 0, Kind.END, 1)
    request = rows.one()
    assert of(request, "BP") == [("", "", "backup", 70, "", 1, 40), ("", "", "other", 9, "", 1, 10)]
    assert sum(round(each.time_s * 1e9) for each in request.spent) == 90


def test_an_idle_cpu_is_attributed_to_no_process() -> None:
    rows = Rows("worker", "other")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(20, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(50, 1, Kind.WAKE, 2, 1)
    rows(70, 0, Kind.SWITCH, 0, 1, text="worker")
    rows(100, 0, Kind.END, 1)
    assert of(rows.one(), "BP") == [("", "", "", 0, "", 1, 20)]


@pytest.mark.parametrize(("named", "on"), [(True, "/srv/data/a.bin"), (False, "vda")])
def test_a_read_that_misses_the_cache_names_the_file_or_else_the_device(named: bool, on: str) -> None:
    rows = Rows("worker")
    if named:
        rows(1, 0, Kind.SYSCALL_ENTER, 1, 257, -100, text="openat")
        rows(2, 0, Kind.PATH, 1, text="/srv/data/a.bin")
        rows(3, 0, Kind.SYSCALL_EXIT, 1, 257, 12, text="openat")
    with rows.waiting("pread64", 17, 12, state=2, result=4096):
        rows(78, 0, Kind.IRQ_ENTER, 0, 30, text="surprise", flags=HARD)
        rows(79, 0, Kind.BLOCK_COMPLETE, 0, 254 << 20, 8, 4096, text="vda", flags=HARD)
        rows(80, 0, Kind.WAKE, 0, 1, flags=HARD)
        rows(82, 0, Kind.IRQ_EXIT, 0, 30, flags=HARD)
    assert of(rows.one(), "BD") == [("pread64", on, "", 0, "", 1, 50)]


def test_a_poll_waited_for_the_descriptor_that_is_used_next() -> None:
    rows = Rows("php-fpm", "mariadbd")
    rows(1, 0, Kind.OPENED, 1, 4, text="127.0.0.1:3306")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(20, 0, Kind.SYSCALL_ENTER, 1, 7, 0x7F00, text="poll")
    rows(30, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(80, 1, Kind.WAKE, 2, 1)
    rows(90, 0, Kind.SWITCH, 0, 1, text="php-fpm")
    rows(95, 0, Kind.SYSCALL_EXIT, 1, 7, 1, text="poll")
    rows.call(96, 97, 0, 1, "recvfrom", 45, 4, result=100)
    rows(110, 0, Kind.END, 1)
    assert of(rows.one(), "BT") == [("poll", "127.0.0.1:3306", "mariadbd", 2, "", 1, 50)]


def test_threads_of_the_same_process_have_their_own_names_others_their_processes() -> None:
    rows = Rows("python", "gc", "connection")
    rows(1, 0, Kind.NAMED, -1, 2, 1, text="gc")
    rows(1, 0, Kind.NAMED, -1, 30, 30, text="mariadbd")
    rows(1, 0, Kind.NAMED, -1, 3, 30, text="connection")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    for number, waker in ((1, 2), (2, 3)):
        at = 100 * number
        rows(at, 0, Kind.SYSCALL_ENTER, 1, 0, 4, text="read")
        rows(at + 1, 0, Kind.SWITCH, 1, 0, 0, 1)
        rows(at + 50, waker - 1, Kind.WAKE, waker, 1)
        rows(at + 51, 0, Kind.SWITCH, 0, 1, text="python")
        rows(at + 52, 0, Kind.SYSCALL_EXIT, 1, 0, 1, text="read")
    rows(300, 0, Kind.END, 1)
    assert {(by, pid) for _, _, by, pid, _, _, _ in of(rows.one(), "BT")} == {("gc", 1), ("mariadbd", 30)}


def test_an_interrupt_is_named() -> None:
    rows = Rows("worker")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(20, 0, Kind.IRQ_ENTER, 1, 236, text="local_timer", flags=HARD)
    rows(30, 0, Kind.IRQ_EXIT, 1, 236, flags=HARD)
    rows(100, 0, Kind.END, 1)
    request = rows.one()
    assert of(request, "BI") == [("", "local_timer", "", 0, "", 1, 10)]
    assert of(request, "RU") == [("", "", "", 0, "", 1, 80)]


def test_one_system_call_that_waits_twice_is_one_in_the_kernel() -> None:
    rows = Rows("worker", "other")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(20, 0, Kind.SYSCALL_ENTER, 1, 0, 4, text="read")
    for at in (30, 60):
        rows(at, 0, Kind.SWITCH, 1, 0, 0, 1)
        rows(at + 10, 1, Kind.WAKE, 2, 1)
        rows(at + 20, 0, Kind.SWITCH, 0, 1, text="worker")
    rows(90, 0, Kind.SYSCALL_EXIT, 1, 0, 1, text="read")
    rows(100, 0, Kind.END, 1)
    request = rows.one()
    assert of(request, "RS") == [("read", "", "", 0, "", 1, 30)]
    assert of(request, "BT") == [("read", "", "other", 2, "", 2, 20)]
    assert request.counts == {"RU": 2, "RS": 3, "BT": 2, "BP": 2}


def test_a_nonblocking_connect_has_the_error_that_getsockopt_returns() -> None:
    rows = Rows("php-fpm", "python")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(20, 0, Kind.SYSCALL_ENTER, 1, 42, 9, text="connect")
    rows(21, 0, Kind.PATH, 1, text="127.0.0.1:3306")
    rows(25, 0, Kind.SYSCALL_EXIT, 1, 42, -115, text="connect")
    rows(26, 0, Kind.OPENED, 1, 9, text="127.0.0.1:3306")
    rows(30, 0, Kind.SYSCALL_ENTER, 1, 7, 0x7F00, text="poll")
    rows(31, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(40, 1, Kind.WAKE, 2, 1)
    rows(41, 0, Kind.SWITCH, 0, 1, text="php-fpm")
    rows(42, 0, Kind.SYSCALL_EXIT, 1, 7, 1, text="poll")
    rows.call(43, 44, 0, 1, "getsockopt", 55, 9, result=-111)
    rows(50, 0, Kind.END, 1)
    request = rows.one()
    assert ("connect", "127.0.0.1:3306", "", 0, "ECONNREFUSED", 1, 5) in of(request, "RS")
    # The wait in the poll was the connect's.
    assert of(request, "BT") == [("connect", "127.0.0.1:3306", "python", 2, "ECONNREFUSED", 1, 9)]


@pytest.mark.parametrize("after", ["close", "poll", "recvfrom", "used before"])
def test_a_poll_after_a_nonblocking_connect_waits_for_the_connection_until_its_time_limit(after: str) -> None:
    rows = Rows("php-fpm")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(20, 0, Kind.SYSCALL_ENTER, 1, 42, 9, text="connect")
    rows(21, 0, Kind.PATH, 1, text="10.0.0.9:3306")
    rows(25, 0, Kind.SYSCALL_EXIT, 1, 42, -115, text="connect")
    rows.call(26, 27, 0, 1, "fcntl", 72, 9, 4)
    if after == "used before":
        rows.call(27, 28, 0, 1, "sendto", 44, 9, result=3)
    rows(30, 0, Kind.SYSCALL_ENTER, 1, 7, 0x7F00, text="poll")
    rows(31, 0, Kind.SWITCH, 1, 0, 0, 1)
    rows(60, 0, Kind.IRQ_ENTER, 0, 236, text="local_timer", flags=HARD)
    rows(61, 0, Kind.TIMER_ENTER, 0, flags=HARD)
    rows(62, 0, Kind.WAKE, 0, 1, flags=HARD)
    rows(63, 0, Kind.TIMER_EXIT, 0, flags=HARD)
    rows(64, 0, Kind.IRQ_EXIT, 0, 236, flags=HARD)
    rows(65, 0, Kind.SWITCH, 0, 1, text="php-fpm")
    rows(66, 0, Kind.SYSCALL_EXIT, 1, 7, 0, text="poll")
    if after == "recvfrom":
        rows(1, 0, Kind.OPENED, 1, 4, text="127.0.0.1:6379")
        rows.rows.insert(1, rows.rows.pop())
        rows.call(67, 68, 0, 1, "recvfrom", 45, 4, result=100)
    elif after != "used before":
        rows.call(67, 68, 0, 1, after, {"close": 3, "poll": 7}[after], 9)
    rows(80, 0, Kind.END, 1)
    expected = {
        "recvfrom": ("poll", "127.0.0.1:6379", "", 0, "", 1, 31),  # of another socket
        "used before": ("poll", "", "", 0, "", 1, 31),
    }
    assert of(rows.one(), "BS") == [expected.get(after, ("connect", "10.0.0.9:3306", "", 0, "EINPROGRESS", 1, 31))]
