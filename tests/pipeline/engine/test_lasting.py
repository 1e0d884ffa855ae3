"""What lasts, from recorded frames to an incident: opened while it goes on, closed when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.records import Frame, make_layout
from laggard.pipeline.records.json_lines import write_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pipeline.conftest import Replaying

INTERVAL_S: Final = 15.0
BEGIN, HOG, OVER, END = 1.7e9, 1.7e9 + 6 * 3600.0, 1.7e9 + 6.5 * 3600.0, 1.7e9 + 6.75 * 3600.0


def recording() -> Iterator[str]:
    """Six hours of ordinary work, half an hour in which `report` computes beside it, and what comes after."""
    layout = make_layout(("nginx[1]", "report[2]"), ("nginx", "report"), ("cpu_user_ratio", "memory_rss_bytes"))
    random = np.random.default_rng(1)
    for tick in range(round((END - BEGIN) / INTERVAL_S)):
        ts = BEGIN + tick * INTERVAL_S
        values = random.normal([[0.1, 5e7], [0.01, 9e7]], [[0.01, 1e4], [0.001, 1e4]])
        values[1, 0] += 0.9 * (HOG < ts <= OVER)
        yield write_line(Frame("host", "web-1", "process", ts, tick, layout, np.abs(values)))


def test_an_incident_is_open_while_a_trouble_lasts(replay: Replaying) -> None:
    told, _ = replay.json(recording(), "--operators", "gaussian")
    anomalies = [each for each in told if each["kind"] == "anomaly"]
    opened, *_, closed = [each for each in told if each["kind"] == "incident"]
    (anomaly,) = anomalies
    assert HOG + 30.0 <= anomaly["ts"] <= HOG + 90.0
    assert (anomaly["blame"]["name"], anomaly["blame"]["feature"]) == ("report", "cpu_user_ratio")
    assert anomaly["blame"]["resources"] == ["cpu"]
    assert 0.005 < anomaly["blame"]["usual"] < 0.02
    assert opened["change"] == "opened"
    assert "`report` (pid 2) is most unlike itself: it uses 91 % of one core in user mode" in opened["sentence"]
    assert closed["change"] == "closed"
    assert OVER - 30.0 <= closed["until_ts"] <= OVER + 60.0
    assert closed["ts"] <= OVER + 6 * 60.0
