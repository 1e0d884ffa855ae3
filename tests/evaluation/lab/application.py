"""The shop's application: pages that are made from the database for each request.

    uvicorn tests.evaluation.lab.application:application

`SHOP_DATABASE` says where the database is; `PROMETHEUS_MULTIPROC_DIR`, where all its processes count what they did.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from jinja2 import DictLoader, Environment, select_autoescape
from prometheus_client import Counter, Gauge
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import Connection
    from psycopg.rows import DictRow
    from starlette.requests import Request

CONNECTIONS: Final = 6
"""To the database, of each process."""

BASE = """<!doctype html><html><head><title>{% block title %}{% endblock %} - shop</title><style>
{% for number in range(300) %}.shelf-{{ number }} { margin: {{ number * 7 % 31 }}px; color: #{{ "%06x"|format(number *
48271 % 16777216) }}; grid-area: {{ number % 12 }} / {{ number // 12 }}; order: {{ number * 16807 % 997 }}; }
{% endfor %}</style></head><body>
<nav>{% for number in range(50) %}<a href="/category/{{ number }}">category {{ number }}</a> {% endfor %}</nav>
{% block body %}{% endblock %}</body></html>"""
LIST = """{% extends "base" %}{% block title %}{{ title }}{% endblock %}{% block body %}<h1>{{ title }}</h1>
{% for each in products %}<article><h2><a href="/product/{{ each.product }}">{{ each.title }}</a></h2>
<p>{{ each.description }}</p><p>{{ "%.2f"|format(each.price) }}, {{ each.added|day }}, {{ each.reviews }} reviews,
{{ each.stars|stars }}</p></article>{% endfor %}{% endblock %}"""
PRODUCT = """{% extends "base" %}{% block title %}{{ product.title }}{% endblock %}{% block body %}
<h1>{{ product.title }}</h1><p>{{ product.description }}</p><p>{{ "%.2f"|format(product.price) }}</p>
{% for each in reviews %}<article><h3>{{ each.name }}, {{ each.written|day }}, {{ each.stars|stars }}</h3>
<p>{{ each.body|marked }}</p></article>{% endfor %}{% endblock %}"""
PERSON = """{% extends "base" %}{% block title %}{{ person.name }}{% endblock %}{% block body %}
<h1>{{ person.name }}</h1><p>here since {{ person.joined|day }}</p>
{% for each in reviews %}<article><h3><a href="/product/{{ each.product }}">{{ each.title }}</a>, {{ each.stars|stars }}
</h3><p>{{ each.body|marked }}</p></article>{% endfor %}{% endblock %}"""

OF_CATEGORY = """
    SELECT product, title, description, price, added, count(review) AS reviews, avg(stars) AS stars
    FROM (SELECT * FROM products WHERE category = %s ORDER BY added DESC OFFSET %s LIMIT 5) AS listed
    LEFT JOIN reviews USING (product) GROUP BY 1, 2, 3, 4, 5 ORDER BY added DESC"""
ONE_PRODUCT = "SELECT * FROM products WHERE product = %s"
OF_PRODUCT = """
    SELECT name, stars, body, written FROM reviews JOIN people USING (person)
    WHERE product = %s ORDER BY written DESC LIMIT 20"""
ONE_PERSON = "SELECT * FROM people WHERE person = %s"
OF_PERSON = """
    SELECT product, title, stars, body FROM reviews JOIN products USING (product)
    WHERE person = %s ORDER BY written DESC LIMIT 20"""

SERVED = Counter("shop_requests", "Pages that were made.", ["page"])
QUERIES = Counter("shop_queries", "Questions to the database.", ["page"])
QUERY_SECONDS = Counter("shop_query_seconds", "Time in which the database was waited for.", ["page"])
RENDER_SECONDS = Counter("shop_render_seconds", "Time in which pages were made of what it said.", ["page"])
PAGE_BYTES = Counter("shop_page_bytes", "Size of the pages.", ["page"])
POOL_SECONDS = Counter("shop_pool_wait_seconds", "Time in which a connection to the database was waited for.")
UNDER_WAY = Gauge("shop_requests_under_way", "Requests that are being answered.", multiprocess_mode="livesum")

pool: ConnectionPool[Connection[DictRow]] = ConnectionPool(
    os.environ["SHOP_DATABASE"],
    min_size=CONNECTIONS,
    max_size=CONNECTIONS,
    open=False,
    timeout=60.0,
    kwargs={"row_factory": dict_row},
)


def stars(count: float | None) -> str:
    """Stars as a person reads them."""
    return "no stars" if count is None else "*" * round(count)


def marked(body: str) -> str:
    """What people wrote, each word that looks like a date made one."""
    return re.sub(r"\b([0-9]{2})([0-9]{2})([0-9a-f]+)\b", r"\1-\2 \3", body)


pages = Environment(
    loader=DictLoader({"base": BASE, "list": LIST, "product": PRODUCT, "person": PERSON}),
    autoescape=select_autoescape(default=True, default_for_string=True),
    auto_reload=False,
)
pages.filters |= {"stars": stars, "marked": marked, "day": lambda ts: ts.strftime("%A, %d %B %Y")}


class Page:
    """One request, what it asks the database, and its answer."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def ask(self, connection: Connection[DictRow], query: str, *arguments: object) -> list[DictRow]:
        """All rows of the answer."""
        begin = time.perf_counter()
        rows = connection.execute(query, arguments).fetchall()
        QUERIES.labels(self._kind).inc()
        QUERY_SECONDS.labels(self._kind).inc(time.perf_counter() - begin)
        return rows

    def render(self, template: str, **values: Any) -> HTMLResponse:
        """The page."""
        begin = time.perf_counter()
        text = pages.get_template(template).render(**values)
        RENDER_SECONDS.labels(self._kind).inc(time.perf_counter() - begin)
        SERVED.labels(self._kind).inc()
        PAGE_BYTES.labels(self._kind).inc(len(text))
        return HTMLResponse(text)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    pool.open(wait=True)
    yield
    pool.close()


def connection() -> Any:
    """A connection from the pool."""
    begin = time.perf_counter()
    taken = pool.getconn()
    POOL_SECONDS.inc(time.perf_counter() - begin)
    return taken


@UNDER_WAY.track_inprogress()
def category(request: Request) -> HTMLResponse:
    page, number = Page("category"), int(request.path_params["number"])
    taken = connection()
    try:
        products = page.ask(taken, OF_CATEGORY, number, int(request.query_params.get("from", 0)))
        taken.commit()
    finally:
        pool.putconn(taken)
    return page.render("list", title=f"category {number}", products=products)


@UNDER_WAY.track_inprogress()
def product(request: Request) -> HTMLResponse:
    page, number = Page("product"), int(request.path_params["number"])
    taken = connection()
    try:
        (found,) = page.ask(taken, ONE_PRODUCT, number)
        reviews = page.ask(taken, OF_PRODUCT, number)
        taken.commit()
    finally:
        pool.putconn(taken)
    return page.render("product", product=found, reviews=reviews)


@UNDER_WAY.track_inprogress()
def person(request: Request) -> HTMLResponse:
    page, number = Page("person"), int(request.path_params["number"])
    taken = connection()
    try:
        (found,) = page.ask(taken, ONE_PERSON, number)
        reviews = page.ask(taken, OF_PERSON, number)
        taken.commit()
    finally:
        pool.putconn(taken)
    return page.render("person", person=found, reviews=reviews)


application = Starlette(
    routes=[
        Route("/category/{number:int}", category),
        Route("/product/{number:int}", product),
        Route("/person/{number:int}", person),
    ],
    lifespan=lifespan,
)
