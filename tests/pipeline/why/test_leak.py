"""What has lasted for hours is told with its beginning, not by the last hour alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.records import Frame
from laggard.pipeline.settings import read_settings
from laggard.pipeline.watch import KEPT_TICKS, Watch
from laggard.pipeline.why import History
from laggard.pipeline.wiring import wire
from tests.pipeline.why.conftest import FEATURES, HOG, HOST_LAYOUT, LAYOUT, START, TOPICS, append, work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tests.pipeline.why.conftest import Recorded

TICK_S = 30.0
HOUR = int(3600 / TICK_S)
BEGINS, ENDS = 2 * HOUR, 8 * HOUR
TICKS = np.arange(ENDS)


def at(tick: float) -> float:
    return START + tick * TICK_S


def frames(feature: str, levels: NDArray[np.float64]) -> Iterator[Frame]:
    noise = np.random.default_rng(7)
    column = FEATURES.index(feature)
    for tick, level in enumerate(levels):
        values = noise.normal(100.0, 5.0, (len(LAYOUT.rows), len(FEATURES)))
        values[:, :3] /= 1000.0
        values[:, 9:11] *= 1e4
        values[-1, column] = level * noise.normal(1.0, 0.002)
        yield Frame("host", "web-1", "process", at(tick), 2 * tick, LAYOUT, values)
        yield Frame("host", "web-1", "host", at(tick), 2 * tick + 1, HOST_LAYOUT, np.array([[0.5, 0.25, 2e9]]))


@pytest.fixture
def leaking(empty: Recorded) -> Recorded:
    """From 210 MB to 1.9 GB in the last six of eight hours."""
    levels = 210e6 + 1.69e9 * np.maximum(0.0, (TICKS - BEGINS) / (ENDS - 1 - BEGINS))
    append(empty.bus, frames("memory_rss_bytes", levels))
    work(empty.bus, wire(read_settings(environ={})))
    return empty


def why(recorded: Recorded, capsys: pytest.CaptureFixture[str], tick: int) -> str:
    assert run(["why", "--bus", str(recorded.path), "--host", "web-1", "--at", str(at(tick))]) == 0
    return capsys.readouterr().out


def test_a_leak_is_told_since_it_began_and_from_what(leaking, capsys):
    told = why(leaking, capsys, ENDS - 1)
    assert "most unlike itself: it holds 1.9 GB of memory, " in told
    grown = re.search(r"; it has grown for ([\d.]+) h, from (\d+) MB to 1\.9 GB\.", told)
    assert grown is not None
    assert float(grown[1]) == pytest.approx(6.0, abs=0.2)
    assert int(grown[2]) == pytest.approx(210, abs=10)
    assert "memory_rss_bytes of hog, 0 to 1.9 GB, over 7.2 h, then 18 min" in told, "the plot shows what was before"
    assert "; it has grown for 3 h, from 21" in why(leaking, capsys, BEGINS + 3 * HOUR)


def test_who_watches_is_told_that_it_has_lasted_longer_than_is_looked_at(leaking):
    history = History(leaking.bus, TOPICS, wire(read_settings(environ={}))[0])
    watched = Watch(history, "web-1").answer(5, 3)
    assert watched is not None
    assert (watched.verdict.culprits[0].row, watched.grown) == (HOG, None)
    assert (watched.began, watched.began_before) == (at(ENDS - KEPT_TICKS), True)
