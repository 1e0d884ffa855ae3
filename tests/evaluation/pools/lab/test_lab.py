"""Real pools, recorded: that who goes wrong does, that the others do not, and that what is found is counted right."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.evaluation.pools.lab.load import items
from tests.evaluation.pools.lab.recording import read, record, recordings

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.records import Frame
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


def test_items_come_in_bursts_at_the_mean_rate_that_is_asked_for_and_again_with_the_same_seed():
    some = list(islice(items(1, 50.0, 9000.0), 100_000))
    assert some == list(islice(items(1, 50.0, 9000.0), 100_000))
    assert some != list(islice(items(2, 50.0, 9000.0), 100_000))
    at_s = np.array([item.at_s for item in some])
    counts = np.bincount(at_s.astype(int))[:-1]
    assert counts.mean() == pytest.approx(50.0, rel=0.1)
    assert counts.var() > 5 * counts.mean()  # a Poisson process would have 1
    assert np.median([item.rounds for item in some]) == pytest.approx(9000.0, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("pool", "fault"), [("prefork", "leak"), ("java", "spin"), ("python", "slow")])
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
    assert wrong < (0.8 if fault == "slow" else 0.01) * min(mean.values())
    if fault == "spin":
        running = {row: np.mean(values) for row, values in rates(after, "running_ratio").items()}
        assert max(running, key=running.__getitem__) == truth.row


@pytest.mark.slow
@pytest.mark.parametrize(("pool", "fault"), [("java", "left"), ("python", "left"), ("nginx", "replaced")])
def test_a_member_that_is_lost_is_told_and_one_comes_in_its_place_or_none(tmp_path: Path, pool: str, fault: Fault):
    truth, frames = read(record(pool, fault, 1, 20.0, tmp_path))
    assert truth.row in frames[0].layout.rows
    assert truth.row not in frames[-1].layout.rows
    assert len(frames[0].layout.rows) == truth.members
    assert len(frames[-1].layout.rows) == truth.members - (fault == "left")
