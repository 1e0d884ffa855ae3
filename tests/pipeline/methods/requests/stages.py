"""A stage of requests with small operators, and requests for it: what the tests of the stage share."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

from laggard.operators.requests.detector import Requests
from laggard.operators.requests.rates import Rates
from laggard.pipeline.core.records import Request, Spent
from laggard.pipeline.core.topics import REQUESTS
from laggard.pipeline.methods.requests.stage import RequestsStage
from laggard.pipeline.methods.requests.ticks import REQUEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.operators.requests.results import RequestScore, Traced

T0 = 1_700_000_000.0
UNSCORABLE, UNLEARNABLE = "cannot be scored", "cannot be learned"
LOCK = "/srv/x.lock"


class Touchy(Requests):
    """The operator, but that two requests are too much for it."""

    def score(self, request: Traced) -> RequestScore:
        if request.request == UNSCORABLE:
            raise ValueError(UNSCORABLE)
        return super().score(request)

    def learn(self, request: Traced, judged: RequestScore) -> None:
        if request.request == UNLEARNABLE:
            raise ValueError(UNLEARNABLE)
        super().learn(request, judged)


def stage(**more: Any) -> RequestsStage:
    return RequestsStage(
        "requests",
        REQUESTS,
        (REQUEST,),
        Rates,
        1,
        {"eps": "50ms"},
        answers_marks=False,
        detector=partial(Touchy, eps_s=0.05, minimum_points=5, reference=300),
        **more,
    )


def normal(
    end: float, request: str = "", *, service: str = "shop", draw: random.Random | None = None, **more: Any
) -> Request:
    """A request of about 100 ms, all in user mode, that ended some seconds after `T0`."""
    took_s = 0.1 + (0.01 * draw.random() if draw else 0.0)
    fields = {"counts": {"RU": 3.0}, "times_s": {"RU": took_s}, "syscalls": ("openat", "read", "write")} | more
    return Request(service, T0 + end - took_s, request or f"r{end}", took_s, **fields)


def locked(end: float, request: str = "", *, service: str = "shop", **more: Any) -> Request:
    """One that ended then and waited for a lock for half a second."""
    fields = {
        "counts": {"RU": 3.0, "BT": 1.0},
        "times_s": {"RU": 0.1, "BT": 0.5},
        "syscalls": ("openat", "fcntl", "read", "write"),
        "spent": (Spent("BT", "fcntl", LOCK, "worker", 812, "", 1, 0.5), Spent("RU", "", "", "", 0, "", 3, 0.1)),
    }
    return Request(service, T0 + end - 0.6, request or f"l{end}", 0.6, **fields | more)


def reading(end: float, request: str = "", *, service: str = "shop", **more: Any) -> Request:
    """One that ended then and read from a disk for 0.7 s."""
    fields = {
        "counts": {"RU": 3.0, "BD": 9.0},
        "times_s": {"RU": 0.1, "BD": 0.7},
        "syscalls": ("openat", "read", "read", "write"),
        "spent": (Spent("BD", "read", "/srv/data", "", 0, "", 9, 0.7),),
    }
    return Request(service, T0 + end - 0.8, request or f"d{end}", 0.8, **fields | more)


def calm(begin: float, stop: float, every: float = 0.1, **more: Any) -> Iterator[Request]:
    """Normal requests, ten a second."""
    draw = random.Random(int(begin))
    for number in range(round(begin / every), round(stop / every)):
        yield normal(every * number, draw=draw, **more)
