from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from laggard.pipeline.investigator.caching import SHARE, SOONEST_S, Cache


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_it_is_found_anew_so_rarely_that_this_takes_its_share() -> None:
    clock, found = Clock(), iter(range(10))
    kept = Cache[int](clock=clock)

    def find() -> int:
        clock.now_s += 1.0
        return next(found)

    assert kept.get("a", find) == 0
    clock.now_s = 1.0 / SHARE
    assert kept.get("a", find) == 0
    clock.now_s += 0.5
    assert kept.get("a", find) == 1
    clock.now_s = 1e9
    assert kept.get("a", find, fixed=True) == 2
    clock.now_s = 1e12
    assert kept.get("a", find) == 2


def test_what_is_found_at_once_is_kept_for_some_seconds() -> None:
    clock, found = Clock(), iter(range(10))
    kept = Cache[int](clock=clock)
    assert kept.get("a", found.__next__) == 0
    clock.now_s = SOONEST_S
    assert kept.get("a", found.__next__) == 0
    clock.now_s += 0.1
    assert kept.get("a", found.__next__) == 1


def test_what_could_not_be_found_is_looked_for_again() -> None:
    kept = Cache[int]()
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 1) == 1


def test_the_answers_that_were_asked_for_last_are_kept() -> None:
    kept, found = Cache[str](most=2), list[str]()

    def get(asked: str) -> str:
        def find() -> str:
            found.append(asked)
            return asked

        return kept.get(asked, find, fixed=True)

    for asked in ("a", "b", "a", "c", "a", "b"):
        assert get(asked) == asked
    assert found == ["a", "b", "c", "b"]


def test_who_asks_the_same_waits_for_it_and_who_asks_something_else_does_not() -> None:
    kept, begun, go_on, found = Cache[str](), threading.Event(), threading.Event(), []

    def slow() -> str:
        begun.set()
        assert go_on.wait(120)
        found.append("slow")
        return "slow"

    with ThreadPoolExecutor() as threads:
        first = threads.submit(kept.get, "slow", slow)
        assert begun.wait(120)
        second = threads.submit(kept.get, "slow", slow)
        try:
            assert threads.submit(kept.get, "quick", lambda: "quick").result(60.0) == "quick"
        finally:
            go_on.set()
        assert (first.result(60.0), second.result(60.0)) == ("slow", "slow")
    assert found == ["slow"]
