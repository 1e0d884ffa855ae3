"""What a bus says of requests: who asks again reads what is new alone, and is told the same as who asks first."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.topics import ANOMALIES, REQUESTS, Topics
from laggard.pipeline.methods.requests import stored
from laggard.pipeline.methods.requests.queries import summaries
from laggard.pipeline.methods.requests.stored import Stored, requests_on
from tests.pipeline.methods.requests.told import normal, outlying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus import Incoming

TOPICS = Topics()
BEGIN = 1700000000.0


class Counting(EmbeddedBus):
    """Counts the records that are read."""

    read_records = 0

    def read(self, *arguments: Any) -> Iterator[Incoming]:
        for record in super().read(*arguments):
            self.read_records += 1
            yield record


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Counting]:
    with Counting(tmp_path / "laggard.db") as opened:
        opened.create(TOPICS.specs())
        yield opened


def fill(bus: EmbeddedBus, begin: float, requests: int = 200) -> None:
    """So many normal ones of two services, and eleven outlying ones."""
    name = TOPICS.name(REQUESTS)
    for each in (*normal(requests=requests, begin=begin), *normal("shop", 30, begin=begin)):
        bus.append([Outgoing(name, each.service, encode(each), each.ts)])
    for request, output in outlying(begin=begin):
        bus.append([Outgoing(name, request.service, encode(request), request.ts)])
        bus.append([Outgoing(TOPICS.name(ANOMALIES), request.service, write_output(output).encode(), request.ts)])


def same(mine: Any, theirs: Any) -> None:
    assert (mine.took, mine.outputs, mine.cut) == (theirs.took, theirs.outputs, theirs.cut)


def test_whatever_was_asked_before_the_answer_is_that_of_who_asks_first(
    bus: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST_REQUESTS", 60)
    monkeypatch.setattr(stored, "LONGEST_REQUEST_S", 5.0)
    fill(bus, BEGIN)
    draw, asked = random.Random(5), Stored(bus, TOPICS)
    for number in range(60):
        if number == 30:
            fill(bus, BEGIN + 200.0)
        begin, end = sorted(BEGIN + draw.uniform(-10.0, 400.0) for _ in range(2))
        service = draw.choice(["", "wordpress", "shop"])
        same(asked.between(begin, end, service), requests_on(bus, TOPICS, begin, end, service))


def test_the_sentence_on_a_cluster_is_the_same_whatever_time_is_asked_about(bus: Counting) -> None:
    fill(bus, BEGIN)
    told = [replace(output, cluster_cause=f"after {at}") for at, (_, output) in enumerate(outlying(begin=BEGIN + 9e3))]
    for each in told:
        bus.append([Outgoing(TOPICS.name(ANOMALIES), each.service, write_output(each).encode(), each.ts)])
    windows = ((BEGIN, BEGIN + 60.0), (BEGIN, BEGIN + 9_050.0), (BEGIN, math.inf), (BEGIN + 9_050.0, math.inf))
    for begin, end in windows:
        (summary,) = summaries(requests_on(bus, TOPICS, begin, end), begin, end, "wordpress")
        assert {each.cause for each in summary.clusters if each.cluster} == {"after 9"}, (begin, end)


def test_what_was_read_is_not_read_again(bus: Counting) -> None:
    fill(bus, BEGIN)
    asked = Stored(bus, TOPICS)
    first = asked.between(BEGIN, BEGIN + 1000.0)
    assert len(first.took) == 241
    assert bus.read_records == 241 + 11
    told = asked.between(BEGIN + 10.0, BEGIN + 1000.0, "wordpress")
    assert len(list(told.within(BEGIN + 10.0, BEGIN + 1000.0, "wordpress"))) == 190 + 11
    assert bus.read_records == 241 + 11
    fill(bus, BEGIN + 200.0, requests=7)
    assert len(asked.between(BEGIN, BEGIN + 1000.0).took) == 241  # ids that were there count once
    assert bus.read_records == 241 + 11 + 48 + 11


def test_no_more_is_kept_than_is_allowed(bus: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST_CACHED", 100)
    fill(bus, BEGIN)
    asked = Stored(bus, TOPICS)
    for _ in range(3):
        same(asked.between(BEGIN, BEGIN + 1000.0), requests_on(bus, TOPICS, BEGIN, BEGIN + 1000.0))
    assert sum(len(each.records) for each in asked._kept.values()) <= 252


def test_all_of_some_requests(bus: Counting) -> None:
    fill(bus, BEGIN)
    asked = Stored(bus, TOPICS)
    found = asked.requests("wordpress", ["n-3", "slow-5", "no such"], BEGIN, BEGIN + 1000.0)
    (slow,) = (request for request, _ in outlying() if request.request == "slow-5")
    assert {each.request: each for each in found} == {"n-3": list(normal())[3], "slow-5": slow}
    assert asked.requests("shop", ["slow-5"], BEGIN, BEGIN + 1000.0) == []


def packed(**fields: Any) -> bytes:
    """A record of a request, with fields of its own."""
    request = {"service": "shop", "request": "x", "ts": BEGIN, "duration_s": 0.1, "times_s": {"RU": 0.1}}
    return msgspec.msgpack.encode({"v": [1, 2], "kind": "request", **request, **fields})


@pytest.mark.parametrize(
    "value",
    [
        b"junk",
        packed(duration_s=float("nan")),
        packed(duration_s=-1.0),
        packed(times_s={"RU": float("inf")}),
        packed(ts=-5.0),
        packed(service="another"),
        packed(request=7),
    ],
)
def test_records_other_than_requests_are_skipped(bus: Counting, value: bytes) -> None:
    bus.append([Outgoing(TOPICS.name(REQUESTS), "shop", each, BEGIN) for each in (value, packed(request="good"))])
    assert list(requests_on(bus, TOPICS, BEGIN - 10.0, BEGIN + 10.0).took) == [("shop", "good")]
