"""`laggard replay` on recorded performance and counters: models, predictions, and who is short of what."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.cli.exits import FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pipeline.conftest import Replaying


T0 = 1_700_000_000.0


def lines(intervals: int, *, hosts: list[str] | None) -> Iterator[dict[str, Any]]:
    """A shop whose web tier runs out of CPUs after half of the time; a cache that serves something else."""
    draw = random.Random(3)
    for number in range(intervals):
        ts, slow = T0 + 10.0 * number, number >= intervals // 2
        load, wait = 100.0 + 20.0 * draw.random(), 0.02 + 0.01 * draw.random() + slow * (0.6 + 0.1 * draw.random())
        for second in (-5.0, 0.0):
            for host, waits in (("web-1", wait), ("db-1", 0.02 + 0.01 * draw.random()), ("cache", draw.random())):
                rows = {
                    f"nginx[{pid}@1]": {"cpu_user_ratio": load / 1000.0, "cpu_wait_ratio": waits / 3.0}
                    for pid in (1, 2)
                }
                yield {"ts": ts + second, "host": host, "scope": "process", "rows": rows}
                busy = {"cpu_busy_ratio": 0.3 + 0.1 * draw.random(), "pressure_cpu_some_ratio": waits}
                yield {"ts": ts + second, "host": host, "scope": "host", "rows": {"host": busy}}
        performance = {"throughput_per_s": load, "response_time_mean_s": 0.05 + 1.5 * wait}
        yield {"ts": ts, "application": "shop", "performance": performance} | (
            {} if hosts is None else {"hosts": hosts}
        )


def test_counters_and_performance_in_one_file_give_models_and_an_incident(replay: Replaying) -> None:
    recorded = list(lines(60, hosts=["web-1", "db-1"]))
    told, err = replay.json(recorded, "--scores")
    models = [each for each in told if each["kind"] == "model"]
    first = next(each for each in models if each["performance"] == "response_time_mean_s")
    assert set(first) >= {"ts", "application", "performance", "type", "equation", "terms", "r2", "p_value"}
    assert (first["application"], first["type"], first["live"]) == ("shop", "linear", False)
    (term,) = first["terms"]
    assert (term["host"], term["row"], term["resource"]) == ("web-1", "web-1", "cpu")
    assert term["coefficient"] == pytest.approx(1.5, rel=0.05)
    model = f"{first['intercept']:.3g} + {term['coefficient']:.3g} * web-1:pressure_cpu_some_ratio"
    assert first["equation"] == f"response_time_mean_s = {model}"
    assert term["description"] == "time that some task on web-1 waited for a CPU"
    hosts = {each["host"] for model in models for each in (*model["terms"], *model["candidates"])}
    assert hosts == {"web-1", "db-1"}

    predictions = [each for each in told if each["kind"] == "prediction"]
    assert {each["performance"] for each in predictions} == {"response_time_mean_s", "throughput_per_s"}
    assert all(each["operator"] == "regression" for each in predictions)
    scores = [each for each in told if each["kind"] == "score" and each["operator"] == "regression"]
    assert [each["ts"] for each in scores] == [T0 + 10.0 * number for number in range(1, 60)]

    (anomaly,) = (each for each in told if each["kind"] == "anomaly" and each.get("application"))
    assert T0 + 300.0 <= anomaly["ts"] <= T0 + 320.0
    assert (anomaly["blame"]["name"], anomaly["blame"]["resources"]) == ("web-1", ["cpu"])
    (incident,) = (each for each in told if each["kind"] == "incident" and each.get("application"))
    assert incident["change"] == "opened"
    assert "Most likely web-1 is short of CPU" in incident["sentence"]
    assert incident["blame"] == anomaly["blame"]
    assert f"{len(models)} models" in err
    assert "that no operator reads" not in err


@pytest.mark.parametrize(
    ("flags", "serving"),
    [((), {"web-1", "db-1", "cache"}), (("--set", "applications.hosts=shop=web-*"), {"web-1"})],
    ids=["all of the stream", "those that the settings name"],
)
def test_where_the_frames_say_no_hosts_these_serve(
    replay: Replaying, flags: tuple[str, ...], serving: set[str]
) -> None:
    told, _ = replay.json(lines(30, hosts=None), *flags)
    assert {each["host"] for model in told if model["kind"] == "model" for each in model["candidates"]} == serving


def test_frames_of_an_application_need_no_host_and_no_setting(replay: Replaying) -> None:
    def own(one: dict[str, Any]) -> dict[str, Any]:
        if "host" not in one:
            return one
        host = one.pop("host")
        rows = {f"{host}/{row}" if one["scope"] == "process" else host: each for row, each in one["rows"].items()}
        return one | {"application": "shop", "rows": rows, "hosts": [host]}

    told, err = replay.json([own(each) for each in lines(30, hosts=None)], "--operators", "regression")
    assert {each["kind"] for each in told} >= {"model", "anomaly", "incident"}
    assert "late" not in err


def test_a_wish_is_followed(replay: Replaying) -> None:
    wish = {"ts": T0, "application": "shop", "wish": "ban", "metric": "web-1:pressure_cpu_some_ratio"}
    told, _ = replay.json([wish, *lines(30, hosts=["web-1", "db-1"])])
    terms = [each for model in told if model["kind"] == "model" for each in model["terms"]]
    assert terms
    assert not [each for each in terms if (each["row"], each["feature"]) == ("web-1", "pressure_cpu_some_ratio")]


def test_without_the_operator_there_are_none_and_what_is_unused_is_counted(replay: Replaying) -> None:
    told, err = replay.json(list(lines(30, hosts=None)), "--operators", "gaussian")
    assert not [each for each in told if each["kind"] == "model"]
    assert "30 records that no operator reads" in err


def test_what_cannot_be_used_is_named_with_its_line(replay: Replaying) -> None:
    recorded = list(lines(20, hosts=["web-1"]))
    late = recorded[60] | {"rows": {"host": {"cpu_busy_ratio": 0.5}}, "scope": "host", "host": "web-1", "ts": T0 + 20.0}
    _, err = replay.json([*recorded, late, recorded[-1] | {"ts": T0 + 5.0}], code=FAILED)
    assert f"recorded.jsonl:{len(recorded) + 1}: late: expected a time " in err
    assert f"recorded.jsonl:{len(recorded) + 2}: late: expected a time after {T0 + 190.0!r} whose counters" in err


def test_a_person_reads_the_equation_and_what_its_terms_are(replay: Replaying) -> None:
    out, _ = replay.text(lines(40, hosts=["web-1", "db-1"]), "--scores")
    assert (
        "  shop  response_time_mean_s = 0.05 + 1.5 * web-1:pressure_cpu_some_ratio  (R2 1.00 of 10 intervals, first)"
        in out
    )
    assert "    web-1:pressure_cpu_some_ratio is time that some task on web-1 waited for a CPU" in out
    assert "Most likely web-1 is short of CPU" in out
    assert "  shop  response_time_mean_s " in out


def test_what_got_worse_is_told_to_people_too(replay: Replaying) -> None:
    recorded = list(lines(60, hosts=["web-1", "db-1"]))
    for each in recorded:
        if "performance" in each and each["ts"] >= T0 + 450.0:
            each["performance"]["response_time_mean_s"] *= 5.0
    out, _ = replay.text(recorded)
    [first, worse] = [line for line in out.splitlines() if "mean response time of shop is" in line]
    assert " at worst  The mean" in worse
    assert " at worst" not in first
