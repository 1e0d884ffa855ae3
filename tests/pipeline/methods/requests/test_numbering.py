"""Requests that come again, by host and number."""

from __future__ import annotations

import json
from dataclasses import replace

from laggard.pipeline.core.eventtime import REMEMBERED
from laggard.pipeline.methods.requests.numbering import MAX_HOSTS, Numbering
from tests.pipeline.methods.requests.stages import normal

REQUEST = normal(0.0)


def again(numbering: Numbering, sequence: int, end_ts: float, host: str = "web-1", *, far_behind: bool = False) -> bool:
    return numbering.again(replace(REQUEST, host=host, sequence=sequence), end_ts, far_behind=far_behind)


def test_a_number_of_a_host_comes_once_and_what_has_none_is_never_there_again() -> None:
    numbering = Numbering()
    assert [again(numbering, -1, 1.0) for _ in range(3)] == [False] * 3
    assert numbering.snapshot() == []
    assert not again(numbering, 7, 1.0)
    assert again(numbering, 7, 1.0)
    assert not again(numbering, 7, 1.0, host="web-2")
    assert not again(numbering, 7, 1.0, host="")
    assert not again(numbering, 8, 0.5)  # it ended before the one that came first
    assert again(numbering, 8, 0.5)


def test_numbers_that_were_forgotten_count_as_seen() -> None:
    numbering = Numbering()
    for number in range(1_000, 1_001 + REMEMBERED):
        assert not again(numbering, number, float(number))
    assert again(numbering, 1_000, 1_000.0)
    assert again(numbering, 5, 5.0)


def test_a_host_that_lost_count_is_taken_at_its_word() -> None:
    numbering = Numbering()
    again(numbering, 100, 1.0)
    assert not again(numbering, 0, 2.0)
    assert not again(numbering, 1, 3.0)
    assert again(numbering, 1, 3.0)


def test_a_clock_that_was_set_back_is_no_repetition() -> None:
    numbering = Numbering()
    for number in range(300):
        again(numbering, 10**6 + number, 1e6 + number)
    assert not again(numbering, 50, 50.0, far_behind=True)
    assert again(numbering, 10**6 + 299, 1e6, far_behind=True)
    assert not again(numbering, 50, 50.0, host="new", far_behind=True)


def test_the_host_heard_least_recently_is_forgotten() -> None:
    numbering = Numbering()
    for at in range(MAX_HOSTS + 1):
        again(numbering, 1, 1.0, host=f"web-{at}")
        again(numbering, 2, 1.0, host="web-0")
    hosts = [host for host, _, _ in numbering.snapshot()]
    assert len(hosts) == MAX_HOSTS
    assert "web-0" in hosts
    assert "web-1" not in hosts


def test_it_is_written_down_and_read_back() -> None:
    numbering, other = Numbering(), Numbering()
    for number in range(300):
        again(numbering, number, float(number), host=f"web-{number % 3}")
    other.restore(json.loads(json.dumps(numbering.snapshot())))
    assert other.snapshot() == numbering.snapshot()
    assert again(other, 299, 299.0, host="web-2")
    assert not again(other, 301, 299.0, host="web-2")
