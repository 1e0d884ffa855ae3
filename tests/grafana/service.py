"""A simulated service whose requests are traced: most wait for a database, some of them for what they should not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import Request, Segment, Spent
from laggard.pipeline.core.records.requests import bounded
from laggard.producers.trace.overhead import OWN_FEATURES, own_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records import Frame

REQUESTS_PER_S: Final = 10
EVENTS: Final = 450
"""Of the kernel, for each request."""

CALLS: Final = (
    *("accept4", "getcwd", "openat", "newfstatat", "read", "close") * 2,
    *("sendto", "poll", "recvfrom") * 6,
    *("write", "shutdown", "close"),
)
PAGES: Final = ("GET /", "GET /post", "GET /search", "POST /comment")

DATABASE: Final = "127.0.0.1:3306"
QUERIES: Final = 6
"""Of the database, in each request."""

THREADS: Final = ("php-fpm[812]", "mariadbd[731:745]", "worker[4711]")
"""Who serves a request, who answers its queries, and who holds the lock; of the last one a path may tell nothing."""


@dataclass(frozen=True, slots=True)
class Held:
    """What holds up a share of the requests for a while.

    Attributes:
        kind: `lock` or `refused`.
        start_s: when it begins, in seconds of the scene.
        end_s: when it ends.
        share: of the requests.

    """

    kind: str
    start_s: float
    end_s: float
    share: float


class Service:
    """Parameters: its name, when the scene begins in seconds since the Unix epoch, and what holds requests up."""

    def __init__(self, name: str, host: str, begins: float, held: Sequence[Held]) -> None:
        self._name, self._host = name, host
        self._begins = begins
        self._held = held
        self._random = np.random.default_rng(21)
        self._sequence = count(1)
        self._traced = 0
        self._cpu_s = 0.0

    def requests(self, ts: float) -> list[Request]:
        """Those that end in the second before."""
        ended = sorted(ts - self._random.random(REQUESTS_PER_S))
        self._traced += len(ended)
        return [self._request(each) for each in ended]

    def tracing(self, ts: float) -> list[Frame]:
        """The reports of tracing on itself: more often than it publishes them, for a scene is short."""
        self._cpu_s += 0.03 + 0.004 * self._random.random()
        lost, discarded = self._traced // 300, self._traced // 90
        values = (self._cpu_s, EVENTS * self._traced, lost, self._traced, discarded, 1.0, 0, 0, 0.6)
        return [own_frame(self._host, ts, dict(zip(OWN_FEATURES, values, strict=True)))]

    def _request(self, ends: float) -> Request:
        page = self._random.integers(len(PAGES))
        slow = (1.0 + 0.15 * page) * np.exp(0.12 * self._random.normal(size=4))
        spent = [
            Spent("RU", "", "", "", 0, "", 40, 0.020 * slow[0]),
            Spent("BT", "poll", DATABASE, "mariadbd", 731, "", QUERIES, 0.045 * slow[1]),
            Spent("BP", "", "", "php-fpm", 812, "", 5, 0.006 * slow[2]),
            Spent("RS", "sendto", DATABASE, "", 0, "", QUERIES, 0.004 * slow[3]),
        ]
        calls = list(CALLS)
        for each in self._held:
            if each.start_s <= ends - self._begins < each.end_s and self._random.random() < each.share:
                long_s = 0.4 * (0.7 + 0.6 * self._random.random())
                if each.kind == "lock":
                    spent.append(Spent("BT", "flock", "/srv/blog/cache/sidebar", "worker", 4711, "", 1, long_s))
                    calls += ["flock", "read", "flock"]
                else:
                    tries = int(long_s / 0.02)
                    spent.append(Spent("BS", "clock_nanosleep", "", "", 0, "", tries, long_s))
                    refused = Spent("RS", "connect", "127.0.0.1:6379", "", 0, "ECONNREFUSED", tries, 2e-5 * tries)
                    spent.append(refused)
                    calls += ["socket", "connect", "close", "clock_nanosleep"] * tries
        times_s: dict[str, float] = {}
        counts: dict[str, float] = {}
        for one in spent:
            times_s[one.state] = times_s.get(one.state, 0.0) + one.time_s
            counts[one.state] = counts.get(one.state, 0.0) + one.times
        number = next(self._sequence)
        duration_s = sum(times_s.values())
        path = _path(spent, duration_s)
        critical_s: dict[str, float] = {}
        for piece in path:
            critical_s[piece.state] = critical_s.get(piece.state, 0.0) + piece.end_s - piece.begin_s
        return Request(
            self._name, ends - duration_s, f"812-{number}", duration_s, counts, times_s, tuple(calls), number,
            self._host, PAGES[page], critical_s=critical_s, spent=bounded(spent),
            threads=THREADS[: 1 + max(piece.thread for piece in path)], path=path,
        )  # fmt: skip


def _path(spent: Sequence[Spent], duration_s: float) -> tuple[Segment, ...]:
    """The critical path: queries one after the other, what holds the request up, and the end of its own work."""
    pieces, now = [], 0.0
    for thread, lasts_s, state, detail in _pieces(spent):
        pieces.append(Segment(thread, now, now + lasts_s, state, detail))
        now += lasts_s
    return (*pieces[:-1], pieces[-1]._replace(end_s=duration_s))  # to the last bit


def _pieces(spent: Sequence[Spent]) -> Iterator[tuple[int, float, str, str]]:
    """Of a path, in order: the thread, for how long in seconds, its state and its detail."""
    computes, answers, queues, asks, *holds = spent
    computes_s = computes.time_s / (QUERIES + 2)
    yield 0, computes_s, computes.state, ""
    for query in range(QUERIES):
        yield 0, asks.time_s / QUERIES, asks.state, f"{asks.syscall} {asks.on}"
        reads = query == 0  # the others find it in memory
        detail = "pread64 /var/lib/mysql/blog/wp_posts.ibd" if reads else ""
        yield 1, answers.time_s / QUERIES, "BD" if reads else "RU", detail
        if query < queues.times:
            yield 0, queues.time_s / queues.times, queues.state, ""
        yield 0, computes_s, computes.state, ""
    for each in holds:
        if each.state == "BT":
            yield 2, 0.3 * each.time_s, "RU", ""
            yield 2, 0.7 * each.time_s, "BD", f"fsync {each.on}"
        else:
            yield 0, each.time_s, each.state, f"{each.syscall} {each.on}".rstrip()
    yield 0, computes_s, computes.state, ""
