"""Requests to draw."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from laggard.pipeline.core.records import Request, Segment, Spent
from laggard.pipeline.methods.requests.words import STATES

FIGURE_2: Final = Request(
    "wordpress",
    1700000000.25,
    "r1",
    0.122,
    counts={"RU": 1, "RS": 1, "BT": 1},
    times_s={"RU": 0.012, "RS": 0.004, "BT": 0.106},
    host="web-1",
    name="GET /cart",
    critical_s={"RU": 0.043, "RS": 0.035, "BD": 0.044},
    spent=(
        Spent("BT", "poll", "127.0.0.1:9000", "php-fpm", 812, "", 1, 0.106),
        Spent("RU", "", "", "", 0, "", 1, 0.012),
        Spent("RS", "connect", "127.0.0.1:11211", "", 0, "ECONNREFUSED", 57, 0.004),
    ),
    threads=("apache2[801]", "php-fpm[812]", "mysqld[99]", "kworker/u8:1[31]"),
    path=(
        Segment(0, 0.0, 0.012, "RU", ""),
        Segment(1, 0.012, 0.043, "RU", ""),
        Segment(2, 0.043, 0.074, "RS", "futex"),
        Segment(3, 0.074, 0.118, "BD", "vda"),
        Segment(0, 0.118, 0.122, "RS", "writev"),
    ),
    notes=("the path leaves mysqld[99] without a waker that is known",),
)
"""S4's figure 2: five intervals over four threads."""

SPANS: Final = Request(
    "shop",
    1700000000.25,
    "5b8aa5a2d2c872e8",
    0.5,
    times_s={"self": 0.1, "client": 0.4},
    name="POST /checkout",
    threads=("shop", "payment"),
    path=(Segment(0, 0.0, 0.1, "self", ""), Segment(1, 0.1, 0.5, "client", "HTTP POST")),
)
"""One that was made of spans."""


def contended(pieces: int = 100, threads: int = 6) -> Request:
    """As S4's figure 5: workers that hand a lock from one to the next."""
    names = tuple(f"php-fpm[{812 + number}]" for number in range(threads))
    states = ("RU", "RS", "BP", "BF")
    edges = [0.0, *(0.4 * (number + 1) / pieces + 0.001 * (number % 3) for number in range(pieces - 1)), 0.42]
    path = tuple(
        Segment(
            number * 5 % threads, edges[number], edges[number + 1], states[number % 4], "fcntl" if number % 2 else ""
        )
        for number in range(pieces)
    )
    return Request("wordpress", 1700000000.0, "r2", 0.42, times_s={"RS": 0.42}, threads=names, path=path)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any request with a path, whose pieces follow each other, of any length down to nothing."""
    threads = draw(st.integers(1, 8))
    lengths_ns = draw(st.lists(st.sampled_from((0, 1, 1_000, 1_000_000, 3_000_000_000)), min_size=1, max_size=40))
    states = st.sampled_from((*STATES, "self", "client"))
    path, now = [], 0
    for each in lengths_ns:
        begin, now = now, now + each
        path.append(
            Segment(draw(st.integers(0, threads - 1)), begin / 1e9, now / 1e9, draw(states), draw(st.text(max_size=8)))
        )
    names = tuple(f"{draw(st.text(min_size=1, max_size=60))}[{number}]" for number in range(threads))
    return Request("shop", 1700000000.0, draw(st.text(min_size=1)), now / 1e9, threads=names, path=tuple(path))
