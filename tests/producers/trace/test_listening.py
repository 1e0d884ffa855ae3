"""The wait of a request in the listen queue, before the server's own probes know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.producers.trace.events import Kind
from tests.producers.trace.rows import Rows, nanoseconds

if TYPE_CHECKING:
    from laggard.pipeline.core.records import Request

SOCKET, SEEN_AS = "unix:/run/php/php-fpm.sock", "unix:/var/run/php/php-fpm.sock"
ACCEPT, CONNECT, POLL, AGAIN = 43, 42, 7, -11
WORKERS, NGINX = (1, 2), 3


class Pool(Rows):
    """Two workers and a web server."""

    def __init__(self, *, server: str = SOCKET) -> None:
        super().__init__("php-fpm8.2", "php-fpm8.2", "nginx")
        for worker in WORKERS:
            self(1, worker - 1, Kind.OPENED, worker, 0, text=server)

    def connect(self, ts: int, *, to: str = SEEN_AS, result: int = 0, lasts: int = 2) -> None:
        self(ts, 2, Kind.SYSCALL_ENTER, NGINX, CONNECT, 9, text="connect")
        self(ts + lasts - 1, 2, Kind.OPENED, NGINX, 9, text=to)
        self(ts + lasts, 2, Kind.SYSCALL_EXIT, NGINX, CONNECT, result, text="connect")

    def accept(self, ts: int, worker: int = 1, *, result: int = 4) -> None:
        self.call(ts, ts + 5, worker - 1, worker, "accept", ACCEPT, 0, result=result)

    def wait(self, begin: int, end: int, worker: int = 1, call: str = "accept", number: int = ACCEPT) -> None:
        """Wait in a call until the web server wakes the worker, which then waits 10 for a CPU."""
        cpu = worker - 1
        self(begin, cpu, Kind.SYSCALL_ENTER, worker, number, 0, text=call)
        self(begin + 1, cpu, Kind.SWITCH, worker, 0, 0, 1)
        self(end, 2, Kind.WAKE, NGINX, worker)
        self(end + 10, cpu, Kind.SWITCH, 0, worker, text="php-fpm8.2")
        self(end + 11, cpu, Kind.SYSCALL_EXIT, worker, number, 4, text=call)

    def serve(self, begin: int, end: int, name: str, worker: int = 1) -> None:
        self(begin, worker - 1, Kind.BEGIN, worker, text=f"blog\tGET {name}")
        self(end, worker - 1, Kind.END, worker)

    def found(self) -> dict[str, Request]:
        self.rows.sort(key=lambda row: row[0])
        found = {each.name: each for each in self.analysed()}
        for each in found.values():
            total = round(each.duration_s * 1e9)
            assert sum(nanoseconds(each.times_s).values()) == sum(nanoseconds(each.critical_s).values()) == total
            assert sum(round(part.time_s * 1e9) for part in each.spent) == total
        return found


def queued(request: Request) -> list[tuple[str, str, int, int]]:
    """Where it waited, what kept the workers busy, the pid of one, for how long."""
    found = [each for each in request.spent if each.syscall == "accept" and each.state == "BT"]
    return [(each.on, each.by, each.pid, round(each.time_s * 1e9)) for each in found]


def test_all_workers_are_busy() -> None:
    rows = Pool()
    rows.accept(10, 1)
    rows.serve(20, 1000, "/slow", 1)
    rows.accept(10, 2)
    rows.serve(20, 400, "/slow", 2)
    rows.accept(402, 2)
    rows.serve(410, 2000, "/report", 2)  # still open when the first one is free
    rows.connect(500)
    rows.connect(600)
    rows.accept(1010, 1)
    rows.serve(1020, 1050, "/first", 1)
    rows.accept(1060, 1)
    rows.serve(1070, 1080, "/second", 1)
    found = rows.found()
    # It could have been served from when the web server connected, 510 before its worker accepted it.
    assert found["GET /first"].ts == pytest.approx(500e-9)
    assert found["GET /first"].duration_s == pytest.approx(550e-9)
    assert nanoseconds(found["GET /first"].times_s) == {"BT": 510, "RS": 5, "RU": 35}
    assert queued(found["GET /first"]) == [(SOCKET, "GET /report", 2, 258), (SOCKET, "GET /slow", 1, 252)]
    assert found["GET /first"].path[0].state == "BT"
    assert found["GET /first"].path[0].end_s == pytest.approx(510e-9)
    assert {by for _, by, _, _ in queued(found["GET /second"])} == {"GET /report", "GET /slow", "GET /first"}
    assert not queued(found["GET /slow"])
    assert not queued(found["GET /report"])


@pytest.mark.parametrize("polls", [False, True])
def test_a_free_worker_serves_at_once(polls: bool) -> None:
    """A wait for a CPU is one for a CPU, and a connection of long ago is not taken for this one."""
    rows = Pool()
    rows.connect(50)
    if polls:
        rows.wait(100, 700, call="poll", number=POLL)
        rows.accept(715)
    else:
        rows.wait(100, 700)
    rows.connect(699)  # returns after the accept it led to, on another CPU
    rows.serve(730, 800, "/")
    rows.connect(805)
    rows.accept(810)
    rows.serve(820, 830, "/next")
    found = rows.found()
    assert found["GET /"].duration_s == pytest.approx(100e-9)
    assert nanoseconds(found["GET /"].times_s)["BP"] == 10
    assert queued(found["GET /"]) == []
    assert [each[3] for each in queued(found["GET /next"])] == [5]


def test_a_client_that_sends_late_did_not_wait() -> None:
    rows = Pool()
    rows.connect(100)
    rows.accept(300)
    rows.wait(310, 900, call="read", number=0)
    rows.serve(950, 1000, "/")
    request = rows.found()["GET /"]
    assert request.duration_s == pytest.approx(100e-9)
    assert not queued(request)


@pytest.mark.parametrize("failure", ["refused", "elsewhere", "lost", "an empty queue"])
def test_what_is_not_known_is_not_said(failure: str) -> None:
    rows = Pool()
    to = "unix:/run/other.sock" if failure == "elsewhere" else SEEN_AS
    rows.connect(100, to=to, result=-111 if failure == "refused" else 0)
    if failure == "lost":
        rows(150, 1, Kind.LOST, -1, 110, 150, 1)
        rows(160, 0, Kind.SYSCALL_ENTER, 1, 39, text="getpid")
    if failure == "an empty queue":
        rows.accept(150, 2, result=AGAIN)
    rows.accept(300)
    rows.serve(320, 400, "/")
    request = rows.found()["GET /"]
    assert request.duration_s == pytest.approx(100e-9)
    assert not queued(request)


def test_a_further_request_of_a_connection_begins_where_the_server_says() -> None:
    rows = Pool(server="127.0.0.1:9000")
    rows.connect(100, to="127.0.0.1:9000", result=-115)
    rows.accept(300)
    rows.serve(320, 400, "/one")
    rows.serve(500, 600, "/two")
    found = rows.found()
    assert queued(found["GET /one"]) == [("127.0.0.1:9000", "", 0, 200)]
    assert found["GET /two"].duration_s == pytest.approx(100e-9)
