from __future__ import annotations

import json
import logging
import socket
import threading
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NoReturn
from unittest import mock

import pytest

from laggard.pipeline.core.bus import BusUnavailable, Outgoing
from laggard.pipeline.core.records import Mark, encode
from laggard.pipeline.investigator.live import MOST_LISTENERS, TOPICS
from tests.pipeline.investigator.serving import served
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


ALL: Final = {topic.name for topic in TOPICS}


def news(lines: Iterator[str]) -> list[str]:
    """The topics that the next event names."""
    told = next(line for line in lines if line.startswith("data: "))
    topics: list[str] = json.loads(told.removeprefix("data: "))["topics"]
    return topics


def test_listeners_are_told_to_look_at_all_once_and_then_which_topics_have_grown(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db") as page, page.client.stream("GET", "/api/v1/live") as live:
        assert live.headers["content-type"].startswith("text/event-stream")
        lines = live.iter_lines()
        assert next(lines).startswith("retry: ")
        assert set(news(lines)) == ALL
        mark = encode(Mark("web-1", 1.7e9, ""))
        page.reading.bus.append([Outgoing("laggard.counters", "web-1", mark, 1.7e9)])
        assert news(lines) == ["counters"]
        with page.client.stream("GET", "/api/v1/live") as later:
            assert set(news(later.iter_lines())) == ALL, "who comes later is told to look at all once"


@pytest.mark.slow
@pytest.mark.parametrize("failure", [BusUnavailable("away"), RuntimeError("a fault")])
def test_listeners_are_told_again_once_a_look_succeeds(tmp_path: Path, failure: Exception) -> None:
    with served(tmp_path / "bus.db") as page, page.client.stream("GET", "/api/v1/live") as live:
        lines = live.iter_lines()
        assert next(lines).startswith("retry: ")
        assert set(news(lines)) == ALL
        failed = threading.Event()

        def fail(*_: object) -> NoReturn:
            failed.set()
            raise failure

        with mock.patch.object(page.reading.bus, "all_bounds", fail):
            assert failed.wait(120)
        mark = encode(Mark("web-1", 1.7e9, ""))
        page.reading.bus.append([Outgoing("laggard.counters", "web-1", mark, 1.7e9)])
        assert news(lines) == ["counters"]


def test_a_server_ends_at_once_though_somebody_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    begun = threading.Event()

    def listen() -> None:
        with page.client.stream("GET", "/api/v1/live") as live:
            for line in live.iter_lines():
                heard.append(line)
                begun.set()
        heard.append("ended as it should")

    listener = threading.Thread(target=listen)
    with caplog.at_level(logging.WARNING), served(tmp_path / "bus.db") as page:
        listener.start()
        assert begun.wait(120)
        page.serving.close()
        listener.join(20)
    assert heard[0] == "retry: 2000"
    assert heard[-1] == "ended as it should"
    assert not caplog.records


def test_no_more_listen_than_there_are_places_however_many_ask_at_once(tmp_path: Path) -> None:
    asked = b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(tmp_path / "bus.db") as page, ExitStack() as closing:
        where = ("127.0.0.1", int(page.url.rpartition(":")[2]))

        def statuses(addresses: Sequence[str]) -> Counter[bytes]:
            connections = [socket.create_connection(where, source_address=(each, 0)) for each in addresses]
            for connection in connections:
                closing.enter_context(connection)
            for connection in connections:
                connection.sendall(asked)
            return Counter(connection.recv(12) for connection in connections)

        half = MOST_LISTENERS // 2
        assert statuses(["127.0.0.2"] * (half + 20)) == {b"HTTP/1.1 200": half, b"HTTP/1.1 503": 20}
        others = [f"127.0.0.{3 + number % 100}" for number in range(half + 20)]
        assert statuses(others) == {b"HTTP/1.1 200": half, b"HTTP/1.1 503": 20}
        closing.close()

        def again() -> bool:
            with page.client.stream("GET", "/api/v1/live") as live:
                return live.status_code == 200

        until(again)
