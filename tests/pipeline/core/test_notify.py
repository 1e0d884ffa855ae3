"""What a service manager hears, on a real datagram socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core import notify
from laggard.pipeline.core.notify import Heartbeat, Notifier
from tests.programs import started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


class Manager:
    """The manager's end."""

    def __init__(self, address: str) -> None:
        self.address = address
        if address == "inherited":
            self.socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.address = f"fd:{self._theirs.fileno()}"
        else:
            self.socket = self._theirs = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(60.0)

    def close(self) -> None:
        self.socket.close()
        self._theirs.close()

    def heard(self) -> list[str]:
        """All that came."""
        self.socket.setblocking(False)
        found = []
        try:
            while True:
                found.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            self.socket.settimeout(60.0)
            return found

    def await_message(self, wanted: str) -> list[str]:
        """All that comes up to this message."""
        found: list[str] = []
        while not found or not found[-1].startswith(wanted):
            found.append(self.socket.recv(4096).decode())
        return found


@pytest.fixture(params=["path", "abstract", "inherited"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    addresses = {"path": str(tmp_path / "notify"), "abstract": f"@laggard-test-{os.getpid()}"}
    found = Manager(addresses.get(request.param, request.param))
    yield found
    found.close()


def test_messages(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "3000000"})
    notifier.ready()
    notifier.status("12 ticks")
    notifier.status("12 ticks")
    notifier.alive()
    notifier.extend(2.5)
    notifier.stopping()
    assert manager.heard() == ["READY=1", "STATUS=12 ticks", "WATCHDOG=1", "EXTEND_TIMEOUT_USEC=2500000", "STOPPING=1"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({}, None),
    ],
)
def test_the_watchdog(manager: Manager, variables: dict[str, str], expected: float | None) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address, **variables})
    assert notifier.watchdog_s == expected
    notifier.alive()
    assert manager.heard() == ([] if expected is None else ["WATCHDOG=1"])


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "/nowhere/at/all", "fd:x", "fd:99999"])
def test_notifications_without_a_listener_are_no_error(address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1"})
    for _ in range(3):
        notifier.ready()
        notifier.alive()


def test_a_manager_that_does_not_read_holds_nothing_up(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1000000"})
    began = time.monotonic()
    for _ in range(2000):
        notifier.alive()
    assert time.monotonic() - began < 30.0
    assert 0 < len(manager.heard()) < 2000


def test_it_is_up_when_it_says_so_and_asks_for_time_until_then(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "_BEAT_S", 0.01)
    monkeypatch.setattr(notify, "_EXTEND_EVERY_S", 0.05)
    stop = Heartbeat(Notifier({"NOTIFY_SOCKET": manager.address}))
    asked: list[float] = []

    def up() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 12

    stop.progress = up
    began = time.monotonic()
    while len(asked) <= 12:
        assert not stop.wait(0.1)
    heard = manager.heard()
    assert heard[-1] == "READY=1"
    assert set(heard[:-1]) == {"EXTEND_TIMEOUT_USEC=30000000"}
    assert 2 <= len(heard[:-1]) <= min(12, 1 + (asked[-1] - began) / 0.05)
    stop.set()
    stop.set()
    assert stop.is_set()
    assert manager.heard() == ["STOPPING=1"]


def test_only_the_main_loop_is_a_sign_of_life(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Heartbeat(Notifier({"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "200000"}))
    other = threading.Thread(target=lambda: [stop.is_set() or stop.wait(0.01) for _ in range(20)])
    other.start()
    other.join()
    assert manager.heard() == []
    wait, waits = threading.Event.wait, list[float]()

    def waiting(event: threading.Event, timeout: float | None = None) -> bool:
        if event is stop:
            assert timeout is not None
            waits.append(timeout)
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", waiting)
    assert not stop.wait(0.5)
    assert max(waits) <= 0.1, "at least twice in the time it has"
    # After each such wait, however long the machine made it.
    assert sum(each > 0.09 for each in waits) <= manager.heard().count("WATCHDOG=1") <= len(waits) + 1


def test_loops_of_other_threads_are_the_sign_of_life_of_a_part_that_works_there(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "_BEAT_S", 0.001)
    stop = Heartbeat(Notifier({"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1000000"}))
    turns = 3
    stop.turns = lambda: turns
    for _ in range(5):
        assert not stop.wait(0.01)
    assert manager.heard() == ["WATCHDOG=1"]
    turns = 4
    assert not stop.wait(0.0)
    time.sleep(0.002)  # on a busy machine no beat was due
    assert not stop.wait(0.0)
    assert manager.heard() == ["WATCHDOG=1"]


def test_waiting_ends_at_once(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "_BEAT_S", 60.0)
    stop = Heartbeat(Notifier({"NOTIFY_SOCKET": manager.address}))
    threading.Timer(0.1, stop.set).start()
    began = time.monotonic()
    assert stop.wait()
    assert time.monotonic() - began < 30.0, "not at the next beat"
    assert stop.wait(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_agent_worker_and_up_tell_it(manager: Manager, tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LAGGARD_STATE": str(tmp_path / "state"),
        "LAGGARD_WEB_LISTEN": "127.0.0.1:0",
        "LAGGARD_SERVE_LISTEN": "127.0.0.1:0",
        "LAGGARD_AGENT_INTERVAL": "0.5s",
        "NOTIFY_SOCKET": manager.address,
        "WATCHDOG_USEC": "1000000",
    }
    for part in ("agent", "work", "up"):
        with started([*LAGGARD, part], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as one:
            before = manager.await_message("READY=1")
            assert manager.await_message("WATCHDOG=1")
            one.send_signal(signal.SIGTERM)
            manager.await_message("STOPPING=1")
            assert one.wait(120) == 0
        assert part == "up" or any(message.startswith("STATUS=") for message in before), before
        manager.heard()
