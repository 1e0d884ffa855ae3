"""Requests as they come, and what is said of outliers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from laggard.pipeline.core.records import Request
from laggard.pipeline.core.records.requests import RequestOutput, request_id
from tests.pipeline.methods.requests.paths import FIGURE_2

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCKED = "waits for a lock held by `worker` (pid 812) (`flock` on /var/lib/x.lock): 480 ms of 510 ms, usually 0"


def normal(service: str = "wordpress", requests: int = 200, begin: float = 1700000000.0) -> Iterator[Request]:
    """One each second, of 100 to 149 ms."""
    for number in range(requests):
        duration_s = (100 + number % 50) / 1e3
        yield Request(service, begin + number, f"n-{number}", duration_s, times_s={"RU": duration_s}, sequence=number)


def outlying(service: str = "wordpress", begin: float = 1700000000.0) -> Iterator[tuple[Request, RequestOutput]]:
    """Ten that wait for a lock, one in no cluster yet, which is fast but odd; the first is figure 2 of S4."""
    for number in range(11):
        odd = number == 10
        ts, identity = begin + 20.0 + 10.0 * number, "r1" if number == 0 else f"slow-{number}"
        duration_s = 0.03 if odd else 0.122
        request = replace(
            FIGURE_2, service=service, ts=ts, request=identity, duration_s=duration_s, sequence=1000 + number
        )
        if odd:
            request = replace(request, path=(), threads=(), times_s={"RU": 0.03}, critical_s={"RU": 0.03}, spent=())
        yield request, judged(request, odd=odd)


def judged(request: Request, *, odd: bool = False) -> RequestOutput:
    return RequestOutput(
        request.ts,
        request_id("requests", request.service, f"laggard.requests[0]@{request.sequence}"),
        "requests",
        request.service,
        request.request,
        request.name,
        request.host,
        request.duration_s,
        1.5 if odd else 4.2,
        odd,
        "" if odd else "flock x.lock",
        "repeats `stat`, 512 times a request, usually 3" if odd else LOCKED,
        request.times_s,
        {"RU": 0.12, "RS": 0.004},
        request.critical_s,
        request.threads,
        request.path,
        False,
        True,
    )
