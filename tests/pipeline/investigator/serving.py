"""The page as `laggard serve` serves it, on a free port and a bus of the test's."""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from laggard.pipeline.cli.opening import bus_of, topics_of
from laggard.pipeline.investigator.access import Access, page_listen
from laggard.pipeline.investigator.app import create_app
from laggard.pipeline.investigator.guard import MOST_REQUESTS, guarded
from laggard.pipeline.investigator.live import News
from laggard.pipeline.investigator.reading import Reading
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.web.server import serve
from laggard.pipeline.wiring import asked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.web.server import Serving

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that never use TLS: reading the usual authorities takes each of them 20 ms."""


class Served:
    """A page that is served.

    Attributes:
        url: where.
        serving: the server.
        client: asks it: `client.get("/api/v1/cluster")`.
        reading: what it reads; its `bus` takes what a test appends.

    """

    def __init__(self, serving: Serving, reading: Reading) -> None:
        self.url = serving.url
        self.serving = serving
        self.reading = reading
        self.client = httpx.Client(base_url=serving.url, timeout=120, verify=NO_AUTHORITIES)


@contextmanager
def served(bus: Path, **given: str) -> Iterator[Served]:
    """Serve what is on a bus, with settings such as `serve_token="..."`."""
    told = {"bus.location": str(bus), "state": str(bus.parent), "host": "web-1", "serve.listen": "127.0.0.1:0"}
    told |= {name.replace("_", ".", 1): value for name, value in given.items()}
    settings = read_settings(None, environ={}, flags=[Given(name, value, "a test") for name, value in told.items()])
    stop = threading.Event()
    with bus_of(settings) as opened:
        reading = Reading(opened, topics_of(settings), settings, asked(settings))
        listen = page_listen(settings)
        news = News(reading)
        app = guarded(create_app(reading, news), listen, settings)
        serving = serve(app, listen, stop, MOST_REQUESTS, ending=news.close, shared=Access(settings).trusts)
        try:
            page = Served(serving, reading)
            with page.client:
                yield page
        finally:
            serving.close()


def get(page: Served, path: str, status: int = 200, /, **asked: Any) -> Any:
    """What the API answers, which has to come with this status: `get(page, "/moment", at=12.0)`."""
    answer = page.client.get(f"/api/v1{path}", params=asked)
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(page: Served, path: str, /, **asked: Any) -> tuple[int, str, str]:
    """With which status the API refuses to answer, what is wrong, and what it expects."""
    answer = page.client.get(f"/api/v1{path}", params=asked)
    told = answer.json()
    return answer.status_code, told["error"], told["expected"]
