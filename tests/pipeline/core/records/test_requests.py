"""Traced requests and what is said of outliers: bounds, and fields that are a promise."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import strategies as st

from laggard.pipeline.core.records import RecordError, Segment, Spent
from laggard.pipeline.core.records.limits import MAX_SPENT
from laggard.pipeline.core.records.outputs import read_output
from laggard.pipeline.core.records.requests import REST, RequestOutput, bounded, request_id
from tests.pipeline.core.records.conftest import (
    AMOUNTS,
    KEYS,
    NAMES,
    TEXTS,
    TIMES,
)

OUTLYING_REQUEST = RequestOutput(
    id=request_id("requests", "shop", "laggard.requests[3]@1042"),
    ts=1.7e9,
    operator="requests",
    service="shop",
    request="r1",
    name="GET /cart",
    host="web-1",
    duration_s=0.51,
    score=2.5,
    odd=False,
    cluster="lock x.lock",
    cause="waits for a lock",
    times_s={"BF": 0.5, "RU": 0.01},
    usual_s={"BF": 0.0, "RU": 0.01},
    critical_s={"RU": 0.51},
    threads=("php-fpm[7]", "worker[812]"),
    path=(Segment(0, 0.0, 0.01, "RU", ""), Segment(1, 0.01, 0.51, "RU", "holds x.lock")),
    young=False,
    live=True,
    cluster_cause="waits for a lock held by `worker`",
    missing_ratio=0.21,
)
OUTLYING_JSON: dict[str, Any] = {
    "kind": "request",
    "ts": 1.7e9,
    "id": "9f6a34e0-fa3a-5704-9cc9-b84805892b7b",
    "operator": "requests",
    "service": "shop",
    "request": "r1",
    "name": "GET /cart",
    "host": "web-1",
    "duration_s": 0.51,
    "score": 2.5,
    "odd": False,
    "cluster": "lock x.lock",
    "cause": "waits for a lock",
    "times_s": {"BF": 0.5, "RU": 0.01},
    "usual_s": {"BF": 0.0, "RU": 0.01},
    "critical_s": {"RU": 0.51},
    "threads": ["php-fpm[7]", "worker[812]"],
    "path": [[0, 0.0, 0.01, "RU", ""], [1, 0.01, 0.51, "RU", "holds x.lock"]],
    "young": False,
    "live": True,
    "cluster_cause": "waits for a lock held by `worker`",
    "missing_ratio": 0.21,
}


@st.composite
def outlying(draw: st.DrawFn) -> RequestOutput:
    amounts = st.floats(0.0, allow_infinity=False)
    threads = tuple(draw(st.lists(NAMES, max_size=3)))
    path: list[Segment] = []
    if threads:
        for begin_s, end_s in draw(st.lists(st.tuples(amounts, amounts).map(sorted), max_size=3)):
            thread = draw(st.integers(0, len(threads) - 1))
            path.append(Segment(thread, begin_s, end_s, draw(NAMES), draw(TEXTS)))
    return RequestOutput(
        id=draw(st.builds(request_id, TEXTS, KEYS, TEXTS)),
        ts=draw(TIMES),
        operator=draw(TEXTS),
        service=draw(KEYS),
        request=draw(NAMES),
        name=draw(TEXTS),
        host=draw(TEXTS),
        duration_s=draw(amounts),
        score=draw(st.floats(1.0, exclude_min=True)),
        odd=draw(st.booleans()),
        cluster=draw(TEXTS),
        cause=draw(TEXTS),
        times_s=draw(AMOUNTS),
        usual_s=draw(AMOUNTS),
        critical_s=draw(AMOUNTS),
        threads=threads,
        path=tuple(path),
        young=draw(st.booleans()),
        live=draw(st.booleans()),
        cluster_cause=draw(TEXTS),
        missing_ratio=draw(st.floats(0.0, 1.0)),
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"path": [[2, 0.0, 0.1, "RU", ""]]}, r"'path\.thread': expected places in 'threads', which has 2, got 2"),
        ({"path": [[0, 0.0]]}, r"'path\[0\]': expected a list of thread, begin_s, end_s, state, detail"),
        ({"times_s": {"RU": -1.0}}, r"'times_s\['RU'\]': expected a finite number of at least 0"),
        ({"duration_s": math.pi * -1}, "'duration_s': expected a finite number of at least 0"),
    ],
)
def test_what_no_request_can_be_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(RecordError, match=told):
        read_output(json.dumps(OUTLYING_JSON | changed), "here")


def spent(number: int, time_s: float) -> Spent:
    return Spent("BD", "read", f"/srv/{number}", "", 0, "", 2, time_s)


def test_what_took_longest_is_kept_and_the_rest_is_summed() -> None:
    every = [spent(number, 1.0 + number) for number in range(MAX_SPENT + 9)]
    kept = bounded(every)
    assert len(kept) == MAX_SPENT
    assert kept[:-1] == tuple(reversed(every[10:]))
    assert kept[-1] == Spent(REST, "", "", "", 0, "", 20, sum(each.time_s for each in every[:10]))
    assert bounded(every[:MAX_SPENT]) == tuple(reversed(every[:MAX_SPENT]))
    assert bounded([]) == ()
