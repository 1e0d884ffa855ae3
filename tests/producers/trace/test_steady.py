"""Steady words."""

from __future__ import annotations

import doctest
import random

import pytest

from laggard.producers.trace import calls, request_names, steady
from laggard.producers.trace.request_names import MOST_KNOWN, MOST_PARTS, RequestNames
from laggard.producers.trace.steady import asked_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/data/a.bin", "/srv/data/a.bin"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("/usr/lib/python3.11/asyncio/base_events.py", "/usr/lib/python3.11/asyncio/base_events.py"),
        ("/tmp/sess/upload_Ab12Cd.tmp", "/tmp/sess/*.tmp"),
        ("/tmp/.ZendSem.aB3dEf (deleted)", "/tmp/.ZendSem.*"),
        ("/tmp/phpAbXcDe", "/tmp/*"),
        ("/tmp/cache/sidebar", "/tmp/cache/sidebar"),
        ("/var/lib/x.lock (deleted)", "/var/lib/x.lock"),
        ("/proc/self/fd/7", "/proc/self/fd/*"),
        ("/proc/812/task/815/comm", "/proc/*/comm"),
        ("/dev/pts/4", "/dev/pts/*"),
        ("/data/550e8400-e29b-41d4-a716-446655440000/x", "/data/*/x"),
        ("/var/log/app/2026112200001.log", "/var/log/app/*.log"),
        ("socket:[4711]", "socket"),
        ("anon_inode:[eventpoll]", "anon_inode"),
        ("[::1]:5432", "[::1]:5432"),
        ("unix:/tmp/lab-Ab12Cd34/fpm.socket", "unix:/tmp/lab-*/fpm.socket"),
        ("/run/mysqld/mysqld.sock", "/run/mysqld/mysqld.sock"),
    ],
)
def test_files_and_sockets(text: str, expected: str) -> None:
    assert steady.steady(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GET /", "GET /"),
        ("GET /item/17?x=1#top", "GET /item/*"),
        ("GET /v2/users/550e8400-e29b-41d4-a716-446655440000", "GET /v2/users/*"),
        ("/wp-content/themes/index.php", "/wp-content/themes/index.php"),
        ("", ""),
        ("GET /2024/05/01/hello-world/", "GET /*/*/*/hello-world/"),
        ("GET /blog/what-we-did-last-summer", "GET /blog/*"),
        ("GET /terms-and-conditions", "GET /terms-and-conditions"),
        ("GET /wp-admin/admin-ajax.php", "GET /wp-admin/admin-ajax.php"),
        ("GET /item/4711.json", "GET /item/*.json"),
        ("GET /page-17/v2", "GET /page-*/v2"),
        ("GET /reset/eyJhbGciOiJIUzI1NiJ9xQ", "GET /reset/*"),
        ("GET /caf%C3%A9", "GET /*"),
        ("GET /.well-known/x", "GET /.well-known/x"),
        ("GET /9f86d081884c7d65/a.b", "GET /*/a.b"),
    ],
)
def test_what_was_asked_for(text: str, expected: str) -> None:
    assert steady.asked_for(text) == expected


def test_names_are_few_and_stay_whatever_is_asked_for() -> None:
    chance, names = random.Random(7), RequestNames()
    routes = [f"GET /{page}" for page in ("", "cart", "sign-in", "opreset.php")]
    assert [names.name("shop", route) for route in routes] == routes
    asked = [
        f"GET /{'/'.join(''.join(chance.choices('abcdefgh.', k=5)) for _ in range(chance.randrange(1, 12)))}"
        for _ in range(20_000)
    ]
    told = [names.name("shop", asked_for(each)) for each in asked]
    assert len(set(told)) <= MOST_KNOWN * MOST_PARTS
    assert max(name.count("/") for name in told) == MOST_PARTS
    assert [names.name("shop", asked_for(each)) for each in asked[-5_000:]] == told[-5_000:]
    assert [names.name("shop", route) for route in routes] == routes
    assert (names.name("shop", "GET /never-seen"), names.name("blog", "GET /never-seen")) == ("GET /*", "GET /*")
    posts = RequestNames()
    assert len({posts.name("blog", f"GET /blog/hello-{word}") for word in map(chr, range(200, 1_200))}) == 33


@pytest.mark.parametrize("module", [steady, calls, request_names], ids=lambda module: module.__name__)
def test_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
