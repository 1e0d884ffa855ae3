"""`laggard replay` on recorded pools: who deviates, when, and at the end what all of the data say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.pipeline.cli.exits import FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pipeline.conftest import Replaying


T0 = 1_700_000_000.0
TICK_S = 7.0
TICKS = 600


def lines(*, leaking: str = "", hosts: tuple[str, ...] = (), ticks: int = TICKS) -> Iterator[dict[str, Any]]:
    """Ten workers under a common load, alike; one may leak from the middle on. With hosts: as their processes."""
    draw = np.random.default_rng(5)
    for tick in range(ticks):
        load = 0.3 + 0.1 * np.sin(tick / 15.0) + 0.02 * draw.normal()
        rows = {}
        for number in range(10):
            held = 1e8 + 2e6 * draw.normal()
            if f"worker-{number}" == leaking and tick >= ticks // 2:
                held += 1e6 * (tick - ticks // 2)
            rows[f"worker-{number}"] = {
                "cpu_ratio": max(load + 0.05 * draw.normal(), 0.0),
                "memory_rss_bytes": held,
                "descriptors": 20.0 + draw.integers(0, 5),
            }
        ts = T0 + TICK_S * tick
        if not hosts:
            yield {"ts": ts, "pool": "workers", "rows": rows}
        for at, host in enumerate(hosts):
            mine = [number for number in range(10) if number % len(hosts) == at]
            own = {f"worker[{number}@1]": rows[f"worker-{number}"] for number in mine}
            yield {"ts": ts + at, "host": host, "scope": "process", "rows": own}


def test_a_member_that_leaks_is_ranked_and_is_an_incident(replay: Replaying) -> None:
    told, err = replay.json(list(lines(leaking="worker-7")), "--scores")
    pools = [each for each in told if each["kind"] == "pool"]
    whole = pools[-1]
    assert [each["whole"] for each in pools] == [False] * (len(pools) - 1) + [True]
    first = whole["ranking"][0]
    assert (first["rows"], first["kind"]) == (["worker-7"], "leak")
    assert first["features"][0]["feature"] == "memory_rss_bytes"
    assert first["height"] > 0.0
    assert first["sentence"].startswith("`worker-7` leaks: it holds ")
    assert [each["rows"] for each in whole["ranking"]] == [["worker-7"]]
    assert [len(each["leaves"]) for each in whole["levels"]][:1] == [10]
    anomaly = next(each for each in told if each["kind"] == "anomaly")
    assert (anomaly["operator"], anomaly["pool"], anomaly["scope"]) == ("covariance", "workers", "member")
    assert T0 + TICK_S * TICKS / 2 <= anomaly["ts"] <= T0 + TICK_S * (TICKS / 2 + 120)
    assert (anomaly["blame"]["row"], anomaly["blame"]["resources"]) == ("worker-7", ["disk", "memory"])
    incident = next(each for each in told if each["kind"] == "incident")
    assert "On pool workers since " in incident["sentence"]
    scores = [each for each in told if each["kind"] == "score"]
    assert [each["ts"] for each in scores] == [T0 + TICK_S * tick for tick in range(TICKS)]
    assert {(each["operator"], each["pool"]) for each in scores} == {("covariance", "workers")}
    assert "that no operator reads" not in err


def test_where_none_deviates_nothing_is_ranked(replay: Replaying) -> None:
    told, _ = replay.json(list(lines()))
    (whole,) = told
    assert (whole["kind"], whole["whole"], whole["ranking"], whole["members"]) == ("pool", True, [], 10)


@pytest.mark.slow
def test_a_line_for_each_member_is_the_same_as_one_for_all(replay: Replaying) -> None:
    recorded = list(lines(leaking="worker-7", ticks=200))
    parts = [each | {"rows": {row: values}} for each in recorded for row, values in each["rows"].items()]

    def of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in each.items() if name != "id"} for each in found if each["kind"] == "pool"
        ]

    want, _ = replay.json(recorded)
    got, _ = replay.json(parts)
    assert of(got) == of(want)
    assert want[-1]["ranking"]


@pytest.mark.slow
def test_processes_of_several_hosts_are_a_pool_by_the_settings(replay: Replaying) -> None:
    recorded = list(lines(leaking="worker-7", hosts=("web-1", "web-2")))
    flags = ("--set", "pools.members=workers=web-*/worker", "--operators", "covariance")
    told, _ = replay.json(recorded, *flags)
    whole = told[-1]
    assert (whole["pool"], whole["members"]) == ("workers", 10)
    rows = [each["rows"] for each in whole["ranking"]]
    assert ["web-2/worker[7@1]"] in rows


def test_what_is_late_is_named_with_its_line(replay: Replaying) -> None:
    recorded = list(lines(ticks=20))
    _, err = replay.json([*recorded, recorded[3] | {"sequence": 99}], code=FAILED)
    assert f"recorded.jsonl:21: late: expected a time of at least {T0 + TICK_S * 19!r}, got " in err


def test_without_the_operator_there_is_none_of_it(replay: Replaying) -> None:
    told, err = replay.json(list(lines(ticks=20)), "--operators", "gaussian")
    assert told == []
    assert "20 records that no operator reads" in err


@pytest.mark.slow
def test_a_person_reads_who_deviates_and_sees_the_dendrogram(replay: Replaying) -> None:
    out, _ = replay.text(lines(leaking="worker-7"))
    assert "  workers  " in out
    assert "`worker-7` leaks: it holds " in out
    end = out[out.rindex("workers at ") :]
    assert "10 members" in end
    assert all(f"worker-{number}" in end for number in range(10))
