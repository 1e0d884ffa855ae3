"""A shop's application, for a threaded server of WSGI: pages of what redis holds, with a stock that one lock guards.

    gunicorn --worker-class gthread --threads 8 tests.evaluation.requests.lab.shop:application

`SHOP_REDIS_PORT` says where redis is. `SHOP_CHORES` is a named pipe: each line is a chore that a thread of its own
does at once: `collect` the garbage, or `stocktaking SECONDS`, in which the lock is held. `SHOP_CHORES_LOG` is where it
writes what it did: begin, end (seconds since the Unix epoch), chore.

Headers of each answer say which thread made it, when, and how long each of its phases took.
"""

from __future__ import annotations

import gc
import json
import os
import random
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import redis
from jinja2 import DictLoader, Environment, select_autoescape

from laggard.producers.trace.middleware import TracedWSGI

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

CATALOGUE: Final = 400_000
"""Things that the application keeps, which a collection of garbage has to look at."""
ASKED: Final = 16
"""Products on a page, each one question to redis."""
REPLICA_MS: Final = 15
"""For a replica of redis, which there is none of, a page waits so long or up to twice that."""

PAGES: Final = Environment(
    loader=DictLoader(
        {
            "page": """<!doctype html><html><head><title>{{ title }}</title></head><body>
<nav>{% for each in range(400) %}<a href="/list?number={{ each }}">shelf {{ each }}</a> {% endfor %}</nav>
{% for each in products %}<article><h2>{{ each.title }}</h2><p>{{ each.text }}</p><p>{{ each.price }}, {{ each.stock }}
left</p></article>{% endfor %}</body></html>"""
        }
    ),
    autoescape=select_autoescape(default=True, default_for_string=True),
)

store = redis.Redis(port=int(os.environ["SHOP_REDIS_PORT"]), max_connections=64)
catalogue: list[dict[str, Any]] = [{"product": each, "tags": [each % 7, each % 11]} for each in range(CATALOGUE)]
stock_lock = threading.Lock()
stock = dict.fromkeys(range(1000), 100)


class Page:
    """One request, and how long its parts took."""

    def __init__(self) -> None:
        self.arrived = time.time()
        self.phases: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the work."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - begin

    def answer(self, path: str, number: int) -> bytes:
        """The page."""
        products = []
        for each in range(ASKED):
            with self.phase("redis"):
                text = store.get(f"product:{(number * 31 + each) % 1000}")
            assert isinstance(text, bytes)
            products.append(json.loads(text))
        with self.phase("replica"):
            store.wait(1, REPLICA_MS + number % REPLICA_MS)
        if path == "/buy":
            with self.phase("stock"), stock_lock:
                for product in products:
                    stock[product["product"]] -= 1
        if path == "/price":
            with self.phase("names"):
                socket.getaddrinfo("prices.shop.test", 80, socket.AF_INET, socket.SOCK_STREAM)
        for product in products:
            product["stock"] = stock[product["product"]]
        with self.phase("render"):
            return PAGES.get_template("page").render(title=path, products=products).encode()


def do_chores() -> None:
    """One after the other, for as long as the application lives."""
    with Path(os.environ["SHOP_CHORES_LOG"]).open("a") as log:
        while True:
            with Path(os.environ["SHOP_CHORES"]).open() as told:
                for line in told:
                    begin = time.time()
                    if line.startswith("collect"):
                        gc.collect()
                    else:
                        with stock_lock:
                            time.sleep(float(line.split()[1]))
                    log.write(f"{begin:.6f} {time.time():.6f} {line.split()[0]}\n")
                    log.flush()


def fill() -> None:
    """Put the products into redis."""
    chance = random.Random(1)
    words = [f"{chance.randrange(1 << 32):x}" for _ in range(200)]
    for number in range(1000):
        text = " ".join(chance.choices(words, k=60))
        product = {"product": number, "title": f"thing {number}", "text": text, "price": chance.randrange(9999) / 100}
        store.set(f"product:{number}", json.dumps(product))


def page(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """The application."""
    made = Page()
    (number,) = parse_qs(environ["QUERY_STRING"]).get("number", ["1"])
    body = made.answer(environ["PATH_INFO"], int(number))
    headers = [
        ("Content-Type", "text/html"),
        ("Content-Length", str(len(body))),
        ("X-Thread", str(threading.get_native_id())),
        ("X-Begin", f"{made.arrived:.6f}"),
        ("X-End", f"{time.time():.6f}"),
        ("X-Phases", json.dumps(made.phases)),
    ]
    start_response("200 OK", headers)
    return [body]


application = TracedWSGI(page, service="shop")
threading.Thread(target=do_chores, name="chores", daemon=True).start()
