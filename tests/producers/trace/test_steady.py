"""Steady words."""

from __future__ import annotations

import doctest

import pytest

from laggard.producers.trace import calls, steady


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
    ],
)
def test_what_was_asked_for(text: str, expected: str) -> None:
    assert steady.asked_for(text) == expected


@pytest.mark.parametrize("module", [steady, calls], ids=lambda module: module.__name__)
def test_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
