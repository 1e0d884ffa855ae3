"""S1's case, replayed by the command: high use with two short dips is one event, told with its phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pipeline.conftest import Replaying

START = 1_700_000_000.0
DIPS = ((108.5, 111.5), (149.0, 152.0))


def recording(interval_s: int) -> Iterator[dict[str, Any]]:
    """`java` uses 95 % of four CPUs from 50 to 170 s (S1, Fig. 2), but for two dips of 3 s, as ticks see it."""
    moments = np.arange(0.0, 900.0, 0.1) + 0.05
    use = np.where((moments > 50.0) & (moments < 170.0), 0.95, 0.1)
    for begin, end in DIPS:
        use[(moments > begin) & (moments < end)] = 0.1
    for tick, share in enumerate(use.reshape(-1, 10 * interval_s).mean(axis=1), 1):
        rows = {
            "java": {"cpu_user_ratio": 3.0 * share, "cpu_system_ratio": share, "cpus": 4},
            "sh": {"cpu_user_ratio": 0.01, "cpu_system_ratio": 0.0, "cpus": 4},
        }
        yield {"ts": START + tick * interval_s, "host": "web-1", "scope": "process", "rows": rows}


@pytest.mark.parametrize("interval_s", [1, 5])
def test_the_case_of_the_figure_is_one_event(replay: Replaying, interval_s: int) -> None:
    found, _ = replay.json(recording(interval_s), "--operators", "cpu", "--scores")
    (anomaly,) = (each for each in found if each["kind"] == "anomaly")
    assert anomaly["operator"] == "cpu"
    assert anomaly["parameters"]["cpu_threshold"] == 0.85
    began = {1: 5.0, 5: 10.0}[interval_s]
    assert anomaly["ts"] == START + 50.0 + began
    (java, *_) = anomaly["ranking"]
    assert (java["row"], java["basis"]) == ("java", "threshold")
    assert java["phases"] == [
        {"high": True, "begin_ts": START + 50, "end_ts": anomaly["ts"], "mean": pytest.approx(0.95), "dips": 0}
    ]
    assert anomaly["sentence"] == f"`java` used 95 % of all processors for {began:.0f} s."
    high = [each["ts"] - START for each in found if each["kind"] == "score" and each["score"] > 1.0]
    ended = {1: 175.0, 5: 180.0}[interval_s]
    assert high == list(np.arange(50.0 + began, ended + 0.1, interval_s)), "one event, dips and all"
    incidents = [(each["change"], each["number"]) for each in found if each["kind"] == "incident"]
    assert incidents[0] == ("opened", 1)
    assert incidents[-1][0] == "closed"
    assert len({each["id"] for each in found if each["kind"] == "incident"}) == 1


def test_parameters_are_set(replay: Replaying) -> None:
    def told(*flags: str) -> list[dict[str, Any]]:
        return replay.json(recording(1), "--operators", "cpu", *(word for each in flags for word in ("--set", each)))[0]

    late = told("cpu.duration=20s", "cpu.threshold=0.9")
    assert (late[0]["ts"], late[0]["parameters"]["duration_s"]) == (START + 70.0, 20.0)
    assert told("cpu.threshold=96%") == []
    assert told("cpu.conditions=quota") == []
