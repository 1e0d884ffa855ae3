"""What events mean for processes, descriptors and names."""

from __future__ import annotations

import pytest

from laggard.producers.trace.events import NO_TEXT, Kind, Texts
from laggard.producers.trace.machine import Machine


class Played:
    """A machine to which things happen, a nanosecond apart."""

    def __init__(self) -> None:
        self.texts = Texts()
        self.machine = Machine("", self.texts, {})
        self._handlers = self.machine.handlers()
        self.ts = 0

    def __call__(self, kind: Kind, tid: int, *numbers: int, text: str = "", cpu: int = 0) -> None:
        self.ts += 1
        a, b, c = (*numbers, 0, 0, 0)[:3]
        self._handlers[kind]((self.ts, cpu, 4, tid, a, b, c, self.texts.place(text) if text else NO_TEXT))

    def call(self, tid: int, name: str, *arguments: int, result: int, path: str = "", opened: str = "") -> None:
        self(Kind.SYSCALL_ENTER, tid, -1, *arguments, text=name)
        if path:
            self(Kind.PATH, tid, text=path)
        if opened:
            self(Kind.OPENED, tid, -1, text=opened)
        self(Kind.SYSCALL_EXIT, tid, -1, result, text=name)

    def files(self, tid: int) -> dict[int, str]:
        return self.machine.threads[tid].process.files

    def on(self, tid: int, descriptor: int) -> str:
        """Where a read of a descriptor goes."""
        self.call(tid, "read", descriptor, result=1)
        return self.machine.threads[tid].calls[-1][4]


@pytest.fixture
def played() -> Played:
    return Played()


def test_what_is_opened_is_known_by_what_the_call_returns(played: Played) -> None:
    played.call(1, "openat", -100, result=7, path="/srv/a")
    played.call(1, "openat", -100, result=-2, path="/srv/missing")
    played.call(1, "accept4", 3, result=8, opened="127.0.0.1:8080")
    played(Kind.OPENED, 1, 9, text="/already/there")
    assert played.files(1) == {7: "/srv/a", 8: "127.0.0.1:8080", 9: "/already/there"}
    assert played.on(1, 7) == "/srv/a"
    assert played.on(1, 70) == ""


def test_a_connection_is_known_by_where_it_leads(played: Played) -> None:
    played.call(1, "connect", 5, result=0, path="127.0.0.1:3306")
    played.call(1, "connect", 6, result=-111, path="127.0.0.1:9")
    assert played.files(1) == {5: "127.0.0.1:3306"}
    # A recorder may name the socket instead, while the call goes on.
    played(Kind.SYSCALL_ENTER, 1, -1, 6, text="connect")
    played(Kind.OPENED, 1, 6, text="127.0.0.1:6379")
    played(Kind.SYSCALL_EXIT, 1, -1, 0, text="connect")
    assert played.machine.threads[1].calls[-1][4] == "127.0.0.1:6379"
    assert played.on(1, 6) == "127.0.0.1:6379"


@pytest.mark.parametrize(
    ("name", "arguments", "result", "expected"),
    [
        ("dup", (7, 0), 8, {7: "/a", 8: "/a"}),
        ("dup2", (7, 2), 2, {7: "/a", 2: "/a"}),
        ("fcntl", (7, 1030), 8, {7: "/a", 8: "/a"}),
        ("fcntl", (7, 3), 8, {7: "/a"}),
        ("close", (7, 0), 0, {}),
        ("close", (7, 0), -9, {7: "/a"}),
    ],
)
def test_the_table_of_descriptors(
    played: Played, name: str, arguments: tuple[int, int], result: int, expected: dict[int, str]
) -> None:
    played.call(1, "openat", -100, result=7, path="/a")
    played.call(1, name, *arguments, result=result)
    assert played.files(1) == expected


def test_what_is_accepted_is_known_by_where_it_is(played: Played) -> None:
    played(Kind.OPENED, 1, 3, text="127.0.0.1:8080")
    played.call(1, "accept4", 3, result=7)
    assert played.files(1) == {3: "127.0.0.1:8080", 7: "127.0.0.1:8080"}
    # Whose close was missed, and something else has its number now.
    played.call(1, "socket", 2, result=7)
    assert played.files(1) == {3: "127.0.0.1:8080"}


def test_a_recorder_may_report_a_close(played: Played) -> None:
    played(Kind.OPENED, 1, 7, text="/a")
    played(Kind.CLOSED, 1, 7)
    assert played.files(1) == {}


@pytest.mark.parametrize(
    ("call", "flags", "pid", "shared"),
    [
        ("clone3", 0, 1, True),
        ("clone3", 0, 2, False),
        ("clone3", 0, 0, True),
        ("clone", 0x10000, 0, True),
        ("clone", 17, 0, False),
        ("fork", 0, 0, False),
    ],
)
def test_a_process_has_a_table_of_its_own_threads_share_theirs(
    played: Played, call: str, flags: int, pid: int, shared: bool
) -> None:
    played(Kind.NAMED, -1, 1, 1, text="python")
    played(Kind.OPENED, 1, 7, text="/a")
    played(Kind.SYSCALL_ENTER, 1, -1, flags, text=call)
    played(Kind.FORK, 1, 2, pid, text="child")
    played(Kind.SYSCALL_EXIT, 1, -1, 2, text=call)
    played(Kind.OPENED, 1, 8, text="/b")
    assert played.files(2) == ({7: "/a", 8: "/b"} if shared else {7: "/a"})
    assert played.machine.threads[2].process.pid == (1 if shared else 2)


def test_who_executes_a_file_is_a_process(played: Played) -> None:
    # As by posix_spawn(3), which clones like a thread.
    played(Kind.OPENED, 1, 7, text="/a")
    played(Kind.SYSCALL_ENTER, 1, -1, 0, text="clone3")
    played(Kind.FORK, 1, 2, 0, text="sh")
    played(Kind.EXEC, 2, text="/bin/sh")
    assert played.machine.threads[2].process.pid == 2
    assert played.files(2) == {7: "/a"}
    assert played.files(1) is not played.files(2)


def test_names(played: Played) -> None:
    played(Kind.NAMED, -1, 30, 30, text="mariadbd")
    played(Kind.NAMED, -1, 31, 30, text="connection")
    played(Kind.SWITCH, 0, 31, text="renamed")
    assert (played.machine.threads[31].name, played.machine.threads[31].process.name) == ("renamed", "mariadbd")
    played(Kind.SWITCH, 31, 30, 1, text="mysqld")
    assert played.machine.threads[31].process.name == "mysqld"


def test_kernel_threads_have_no_user_mode(played: Played) -> None:
    for tid, name in enumerate(["kworker/0:1", "ksoftirqd/1", "jbd2/vda-8", "irq/25-nvme0q1"], 9):
        played(Kind.SWITCH, 0, tid, text=name)
        assert played.machine.threads[tid].kernel, name
    played(Kind.FORK, 2, 20, 20, text="new-driver")
    assert played.machine.threads[20].kernel, "kthreadd forked it"


def test_a_system_call_without_a_name_is_known_by_its_number(played: Played) -> None:
    played(Kind.SYSCALL_ENTER, 1, 257)
    played(Kind.SYSCALL_EXIT, 1, 257, 3)
    assert [played.texts[call[2]] for call in played.machine.threads[1].calls] == ["openat"]


def test_a_system_call_that_began_before_the_trace_lasts_since_then(played: Played) -> None:
    played(Kind.SWITCH, 0, 1, text="worker")
    played(Kind.SYSCALL_EXIT, 1, -1, 1, text="read")
    [(end, begin, *_)] = played.machine.threads[1].calls
    assert (begin, end) == (1, 2)
