"""A WSGI application for a prefork server: each request is an item of `work.py`, `/KIND/ROUNDS/WAIT_MS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.evaluation.pools.lab.work import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def application(environment: Mapping[str, str], start_response: Callable[..., object]) -> Iterable[bytes]:
    _, kind, rounds, wait_ms = environment["PATH_INFO"].split("/")
    work(kind, int(rounds), float(wait_ms))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
