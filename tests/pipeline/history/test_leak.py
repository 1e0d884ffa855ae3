"""What has lasted for hours is told with its beginning, not by the last hour alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Frame
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.history.lookback import Beginning
from laggard.pipeline.history.report import findings
from laggard.pipeline.history.watch import CACHED_FRAMES, Watch
from laggard.pipeline.history.why import History
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import wire
from tests.pipeline.history.conftest import FEATURES, HOG, HOST_LAYOUT, LAYOUT, START, TOPICS, Recorded, append, work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

TICK_S = 30.0
HOUR = int(3600 / TICK_S)
BEGINS, ENDS = 2 * HOUR, 8 * HOUR
TICKS = np.arange(ENDS)
ALONE = [Given("operators", "gaussian", "test")]


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


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """From 210 MB to 1.9 GB in the last six of eight hours."""
    path, (wired,) = tmp_path_factory.mktemp("leak") / "laggard.db", wire(read_settings(environ={}, flags=ALONE))
    levels = 210e6 + 1.69e9 * np.maximum(0.0, (TICKS - BEGINS) / (ENDS - 1 - BEGINS))
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        append(bus, frames("memory_rss_bytes", levels))
        work(bus, [wired])
        yield Recorded(path, bus, wired, History(bus, TOPICS, wired))


def why(recorded: Recorded, capsys: pytest.CaptureFixture[str], tick: int) -> str:
    assert run(["why", "--bus", str(recorded.path), "--host", "web-1", "--at", str(at(tick))]) == 0
    return capsys.readouterr().out


def test_a_leak_is_told_since_it_began_and_from_what(leaking, capsys):
    told = why(leaking, capsys, ENDS - 1)
    assert "behaving unusually: it holds 1.9 GB of memory, " in told
    grown = re.search(r"; it has grown for ([\d.]+) h, from (\d+) MB to 1\.9 GB\.", told)
    assert grown is not None
    assert float(grown[1]) == pytest.approx(6.0, abs=0.2)
    assert int(grown[2]) == pytest.approx(210, abs=10)
    assert "memory_rss_bytes of hog, 0 to 1.9 GB, over 7.2 h, then 18 min" in told, "the plot shows what was before"
    assert "; it has grown for 3 h, from 21" in why(leaking, capsys, BEGINS + 3 * HOUR)


def test_who_watches_is_told_that_it_has_lasted_longer_than_is_looked_at(leaking):
    watched = Watch(leaking.history, "web-1").answer(5, 3)
    assert watched is not None
    assert (watched.verdict.culprits[0].row, watched.grown) == (HOG, None)
    assert (watched.began, watched.began_before) == (at(ENDS - CACHED_FRAMES), True)


@pytest.mark.parametrize(
    ("lasted_s", "before", "told"),
    [
        (45.0, False, ""),  # has just begun
        (90.0, False, " (90 s)."),
        (6 * 3600.0, False, " (6 h)."),
        (6 * 3600.0, True, ", for more than 6 h."),
    ],
)
def test_what_has_not_grown_is_told_since_it_began(leaking, lasted_s, before, told):
    asked = leaking.history.ask("web-1", at(ENDS - 1), 5, 3)
    level = replace(asked, grown=None, began=asked.frame.ts - lasted_s, began_before=before)
    (first, *_) = findings(level)
    assert told in first.plain
    assert ("since" in first.plain or "for more" in first.plain) == bool(told)
    (first, *_) = findings(replace(asked, grown=Beginning(asked.frame.ts - lasted_s, 2e8, before)))
    more = "more than " if before else ""
    assert f"; it has grown for {more}{readable_duration(lasted_s)}, from 200 MB to 1.9 GB." in first.plain


def test_what_began_on_another_day_is_told_with_its_date(leaking):
    asked = leaking.history.ask("web-1", at(ENDS - 1), 5, 3)
    (first, *_) = findings(replace(asked, grown=None, began=asked.frame.ts - 86400.0))
    assert re.search(r", since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(24 h\)\.", first.plain)
