"""What threads and workers are called, and what of that is their pool's."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as some

from laggard.producers.host.pools import names
from laggard.producers.host.pools.names import pattern, patterns, role


def test_the_examples() -> None:
    assert doctest.testmod(names).failed == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("http-nio-8080-exec-3", "http-nio-8080-exec"),
        ("pool-1-thread-12", "pool-1-thread"),
        ("GC Thread#0", "GC Thread"),
        ("worker_7", "worker"),
        ("kworker/3", "kworker"),
        ("epollEventLoopG", "epollEventLoopG"),
        ("4711", "4711"),
        ("-3", "-3"),
        ("Thread-5 (work)", "Thread"),
        ("Thread-12 (work", "Thread"),
        ("C2 (x)", "C"),
        ("G1 Main Marker", "G1 Main Marker"),
        ("naïve\ufffd9", "naïve\ufffd"),
        ("", ""),
    ],
)
def test_a_number_at_the_end_is_not_the_pools(name: str, expected: str) -> None:
    assert pattern(name) == expected


@given(some.text(max_size=15))
def test_any_name_has_a_pattern_that_is_no_longer(name: str) -> None:
    found = pattern(name)
    assert len(found) <= len(name)
    assert bool(found) == bool(name)


def test_names_that_java_shortened_are_one_pool_however_long_their_numbers_are() -> None:
    java = [f"http-nio-8080-exec-{number}" for number in (1, 12, 123)]
    shortened = [f"{name[:7]}..{name[-6:]}" for name in java]
    assert shortened == ["http-ni..exec-1", "http-ni..xec-12", "http-ni..ec-123"]
    other = ["http-ni..oller-1", "grpc-de..exec-1", "http-ni..Poller", "http-nio"]
    found = patterns([*shortened, *other])
    assert {found[name] for name in shortened} == {"http-ni..exec"}
    assert [found[name] for name in other] == ["http-ni..oller", "grpc-de..exec", "http-ni..Poller", "http-nio"]


@given(some.lists(some.text("ab.1-", min_size=1, max_size=15)))
def test_patterns_are_the_same_in_any_order(some_names: list[str]) -> None:
    assert patterns(some_names) == patterns(some_names[::-1])


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("nginx: cache manager process", "cache manager"),
        ("nginx: worker process is shutting down", "worker process"),
        ("php-fpm: pool www", "pool www"),
        ("postgres: checkpointer ", "checkpointer"),
        ("postgres: 15/main: walsender replica 10.0.0.3(1) streaming", "walsender replica"),
        ("postgres: io worker 2", "io worker"),
        ("gunicorn: worker [shop.wsgi:app]", "worker shop.wsgi:app"),
        ("[celeryd: celery@a:ForkPoolWorker-12]", "celery@a:ForkPoolWorker"),
        ("puma: cluster worker 0: 700 [shop]", "cluster worker"),
        ("/usr/sbin/apache2 -k start", ""),
        ("python app.py --name: x", ""),
        ("nginx:", ""),
        ("", ""),
    ],
)
def test_what_a_title_says_that_a_process_is(title: str, expected: str) -> None:
    assert role(title) == expected
