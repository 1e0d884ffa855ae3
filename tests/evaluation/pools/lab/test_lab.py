"""Real pools, recorded: that who goes wrong does, that the others do not, and that what is found is counted right."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from laggard.operators.covariance import Covariance
from laggard.operators.covariance.results import Deviation
from laggard.pipeline.core.records import Frame, make_layout
from tests.evaluation.pools.lab import recording
from tests.evaluation.pools.lab.live import table, watch
from tests.evaluation.pools.lab.load import items
from tests.evaluation.pools.lab.recording import Truth, read, record, recordings

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.operators.contract import Layout, Matrix
    from laggard.operators.covariance.results import Kind
    from tests.evaluation.pools.lab.live import Verdict
    from tests.evaluation.pools.lab.recording import Fault


def rates(frames: list[Frame], feature: str) -> dict[str, list[float]]:
    """Of each row, at each tick at which it is known."""
    found: dict[str, list[float]] = {}
    for frame in frames:
        column = frame.values[:, frame.layout.features.index(feature)]
        for row, value in zip(frame.layout.rows, column.tolist(), strict=True):
            if not math.isnan(value):
                found.setdefault(row, []).append(value)
    return found


@pytest.mark.slow
def test_items_come_in_bursts_at_the_mean_rate_that_is_asked_for_and_again_with_the_same_seed():
    some = list(islice(items(1, 50.0, 9000.0), 100_000))
    assert some == list(islice(items(1, 50.0, 9000.0), 100_000))
    assert some != list(islice(items(2, 50.0, 9000.0), 100_000))
    at_s = np.array([item.at_s for item in some])
    counts = np.bincount(at_s.astype(int))[:-1]
    assert counts.mean() == pytest.approx(50.0, rel=0.1)
    assert counts.var() > 5 * counts.mean()  # a Poisson process would have 1
    assert np.median([item.rounds for item in some]) == pytest.approx(9000.0, rel=0.02)


class Told(NamedTuple):
    deviations: tuple[Deviation, ...]


class Scripted:
    """An operator that says at each tick what it is told to."""

    def __init__(self, script: dict[int, list[tuple[str, Kind, float]]]) -> None:
        self.script = script
        self.learnt = 0

    def score(self, ts: float, layout: Layout, values: Matrix) -> Told:
        nan = math.nan
        return Told(
            tuple(
                Deviation((row,), row, kind, score, (), nan, nan, 12, nan, nan, "", nan)
                for row, kind, score in self.script.get(self.learnt, [])
            )
        )

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        self.learnt += 1


def judged(fault: Fault, script: dict[int, list[tuple[str, Kind, float]]], pool: str = "prefork") -> Verdict:
    """Two members for 200 ticks; `b` goes wrong at the 100th."""
    layout = make_layout(("a", "b"), ("a", "b"), ("cpu_user_ratio",))
    frames = [Frame("pool", "p", "member", float(ts), ts, layout, np.zeros((2, 1))) for ts in range(1000, 1200)]
    wrong = ("b", 1099.5) if fault != "healthy" else ("", math.nan)
    return watch(Truth(pool, "p", 2, fault, 1, *wrong), frames, Scripted(script))


def test_what_is_called_first_and_rightly_after_the_onset_is_found_and_named():
    verdict = judged(
        "stuck",
        {105: [("b", "slower", 2.0)], 106: [("a", "busy", 3.0), ("b", "stuck", 2.0)], 107: [("b", "stuck", 2.0)]},
    )
    assert (verdict.found, verdict.first, verdict.named) == (5, "slower", 7)
    assert (verdict.before, verdict.after) == (0, 1)


def test_what_is_called_before_the_onset_or_of_a_healthy_pool_or_not_above_1_is_not_found():
    early = judged("stuck", {20: [("b", "stuck", 2.0)], 150: [("b", "stuck", 1.0)]})
    assert math.isnan(early.found)
    assert (early.before, early.after) == (1, 0)
    healthy = judged("healthy", {150: [("b", "stuck", 2.0)]})
    assert not healthy.is_case
    assert (healthy.before, healthy.after) == (1, 0)
    replaced = judged("replaced", {150: [("b", "left", 2.0)]})
    assert math.isnan(replaced.found)
    assert (replaced.before, replaced.after) == (0, 1)


def test_a_false_finding_that_comes_and_goes_counts_again_only_after_a_quiet_time():
    flapping: dict[int, list[tuple[str, Kind, float]]] = {at: [("a", "busy", 2.0)] for at in (10, 12, 40)}
    assert judged("healthy", flapping).before == 1
    assert judged("healthy", flapping | {150: [("a", "busy", 2.0)]}).before == 2


def test_a_leak_of_a_thread_may_be_called_by_what_its_page_faults_look_like():
    script: dict[int, list[tuple[str, Kind, float]]] = {150: [("b", "busy", 2.0)]}
    assert judged("leak", script, "java").named == 50
    assert math.isnan(judged("leak", script, "prefork").named)


def test_the_table_tells_all_that_happened():
    verdicts = [judged("stuck", {105: [("b", "stuck", 2.0)]}), judged("stuck", {}), judged("healthy", {})]
    assert table(verdicts).splitlines()[2:] == [
        "| prefork | stuck | 2 | 1/2 | 5, never | 1/2 | 5, never | stuck | 0 + 0 |",
        "| prefork | healthy | 1 | - | - | - | - | - | 0 + 0 |",
        "",
        "Found 1/2, named 1/2; 0 false findings in 0.007 pool-days.",
    ]


@pytest.mark.slow
def test_a_real_pool_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recording, "WARM_S", 0.5)
    truth, frames = read(record("python", "left", 1, 5.0, tmp_path))
    assert recordings(tmp_path)
    assert truth.row in frames[0].layout.rows
    assert truth.row not in frames[-1].layout.rows
    assert len(frames[0].layout.rows) == truth.members == len(frames[-1].layout.rows) + 1


@pytest.mark.long
def test_a_thread_that_leaves_a_real_pool_for_good_is_found_and_named(tmp_path: Path):
    verdict = watch(*read(record("java", "left", 1, 90.0, tmp_path)), Covariance())
    assert verdict.found <= 30
    assert verdict.named <= 30


@pytest.mark.long
@pytest.mark.parametrize(("pool", "fault"), [("prefork", "leak"), ("python", "slow")])
def test_the_member_that_takes_the_item_goes_wrong_and_no_other(tmp_path: Path, pool: str, fault: Fault):
    truth, frames = read(record(pool, fault, 1, 30.0, tmp_path))
    assert 28 <= len(frames) <= 33  # a busy machine may miss a tick
    assert recordings(tmp_path)
    before = [frame for frame in frames if frame.ts < truth.begin_ts]
    after = [frame for frame in frames if frame.ts > truth.begin_ts + 2.0]
    assert all(len(frame.layout.rows) == truth.members for frame in frames)
    if fault == "leak":
        held = {row: values[-1] - values[0] for row, values in rates(after, "memory_rss_bytes").items()}
        assert max(held, key=held.__getitem__) == truth.row
        return
    written = "io_write_characters_per_s"  # each item writes something
    assert min(map(np.mean, rates(before, written).values())) > 0.0
    mean = {row: float(np.mean(values)) for row, values in rates(after, written).items()}
    wrong = mean.pop(truth.row)
    assert wrong < 0.8 * min(mean.values())


@pytest.mark.long
@pytest.mark.parametrize(("pool", "fault"), [("python", "left"), ("nginx", "replaced")])
def test_a_member_that_is_lost_is_told_and_one_comes_in_its_place_or_none(tmp_path: Path, pool: str, fault: Fault):
    truth, frames = read(record(pool, fault, 1, 20.0, tmp_path))
    assert truth.row in frames[0].layout.rows
    assert truth.row not in frames[-1].layout.rows
    assert len(frames[0].layout.rows) == truth.members
    assert len(frames[-1].layout.rows) == truth.members - (fault == "left")
