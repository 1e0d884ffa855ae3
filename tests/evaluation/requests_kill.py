"""kill -9 at random moments, of a worker that judges requests: the result is an undisturbed one's, bit for bit.

See `rekeying_kill.py`. The producer appends requests of three services: some of them wait for a lock now and then, one
has none for a while. The worker runs `requests` and what joins anomalies.

    python -m tests.evaluation.requests_kill                                   # about a minute
    python -m tests.evaluation.requests_kill --frames 200000 --seconds 600     # longer
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.requests.detector import Requests
from laggard.operators.requests.rates import Rates
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Request, Segment, Spent, encode
from laggard.pipeline.core.topics import ANOMALIES, REQUESTS
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.methods.requests.stage import RequestsStage
from laggard.pipeline.methods.requests.ticks import REQUEST
from tests.evaluation.rekeying_kill import TOPICS, Case, Result, main

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICES: Final = ("shop", "blog", "search")
JUDGING: Final = RequestsStage(
    "requests",
    REQUESTS,
    (REQUEST,),
    Rates,
    1,
    {},
    answers_marks=False,
    detector=partial(Requests, minimum_points=20, reference=500),
)
BEGAN: Final = 1.7e9
EVERY_S: Final = 0.1
CALLS: Final = ("openat", "read", "fstat", "poll", "write", "close")


def records(start: int, stop: int) -> Iterator[Outgoing]:
    """The input, one request for each number."""
    for number in range(start, stop):
        draw = np.random.default_rng(number)
        service, ts = SERVICES[number % 3], BEGAN + EVERY_S * number
        if service == "search" and number % 3000 >= 2000:
            service = "blog"
        times_s = {"RU": 0.02 + 0.01 * draw.random(), "RS": 0.005 + 0.002 * draw.random()}
        calls, spent = [CALLS[each] for each in draw.integers(0, len(CALLS), 20)], []
        if number % 1500 >= 1200 and draw.random() < 0.2:
            times_s["BT"] = 0.4 + 0.1 * draw.random()
            calls.append("fcntl")
            spent.append(Spent("BT", "fcntl", "/srv/x.lock", "worker", 812, "", 1, times_s["BT"]))
        elif draw.random() < 0.01:
            times_s["BD"] = draw.exponential(0.3)
        counts = {state: float(draw.integers(1, 9)) for state in times_s}
        duration_s = sum(times_s.values())
        request = Request(
            service, ts - duration_s, f"r{number}", duration_s, counts, times_s, tuple(calls), number,
            host=f"web-{number % 2}", spent=tuple(spent), threads=("worker[1]",),
            path=(Segment(0, 0.0, duration_s, "RU", ""),),
        )  # fmt: skip
        yield Outgoing(TOPICS.name(REQUESTS), service, encode(request), request.ts)


def holds(want: Result) -> dict[str, bool]:
    kinds = {one["kind"] for one in want.told[ANOMALIES.name]}
    return {
        "all services have a state": sorted(want.states) == sorted(SERVICES),
        "there are outlying requests, anomalies and incidents": {"request", "anomaly", "incident"} <= kinds,
    }


CASE: Final = Case(
    "tests.evaluation.requests_kill",
    (JUDGING, Joining()),
    JUDGING,
    records,
    (ANOMALIES,),
    "service",
    holds,
    REQUESTS,
)

if __name__ == "__main__":
    sys.exit(main(CASE, __doc__))
