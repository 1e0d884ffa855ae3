"""Notices: what is suspicious is told beside anomalies, from its beginning to its end, or until it is an anomaly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.records.outputs import Anomaly, Notice, write_output
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.scoring.task import Task
from tests.pipeline.core.engine.conftest import INPUT, moved, told
from tests.pipeline.scoring.test_lasting import BEGIN, MINUTE_S, ONSET, WIRED, Fault, frames, minute

if TYPE_CHECKING:
    from collections.abc import Sequence

SLIGHT = Fault("report[2]", "cpu_user_ratio", 0.1, 0.0, 3.0)
"""More than the budget of notices allows, and less than that of anomalies."""

GROWS = (SLIGHT._replace(end_min=9.0), Fault("report[2]", "cpu_user_ratio", 0.8, 2.0, 9.0))


def run(given: Sequence[Frame], **options: Any) -> tuple[list[Notice], list[Any]]:
    """The notices, and all that is told."""
    found = told(Task(WIRED, INPUT, snapshot_records=100_000, **options), given)
    return [each for each in found if isinstance(each, Notice)], found


def test_what_is_suspicious_is_told_and_is_no_anomaly() -> None:
    (opened, ended), found = run([*frames(30, SLIGHT)])
    assert found == [opened, ended]
    assert (opened.change, opened.blame and opened.blame.name) == ("opened", "report")
    assert 0.0 < minute(opened.ts) <= 1.0
    assert 1.0 < opened.score <= ended.score < 3.17, "as a share of what the budget of notices allows"
    assert opened.ranking.rows[0].name == "report"
    assert opened.sentence.startswith("`report` (pid 2) is behaving unusually: it uses 11.")
    assert opened.live
    assert (ended.change, ended.id, ended.became, ended.ranking.rows) == ("ended", opened.id, "", ())
    assert 2.5 <= minute(ended.until_ts) <= 4.0 < minute(ended.ts) <= 5.5
    assert ended.sentence.startswith("Resolved after ")


def test_what_uses_a_little_more_for_a_minute_is_told_with_its_onset() -> None:
    """Far too little for the last seconds."""
    (opened, ended), _ = run([*frames(30, SLIGHT._replace(more=0.06))])
    assert minute(opened.onset_ts) == pytest.approx(0.0, abs=0.26)
    assert ended.onset_ts == opened.onset_ts
    assert ended.sentence.startswith(f"Resolved after {readable_duration(ended.until_ts - opened.onset_ts)}.")
    assert opened.sentence.startswith(
        "`report` (pid 2) uses 0.07 cores in user mode. It has done so for 30 s; its base"
    )


def test_a_notice_ends_when_it_has_become_an_anomaly() -> None:
    (opened, ended), found = run([*frames(30, *GROWS)])
    anomaly = next(each for each in found if isinstance(each, Anomaly))
    assert (opened.change, ended.change, ended.became) == ("opened", "ended", anomaly.id)
    assert anomaly.ts == ended.ts
    assert minute(anomaly.onset_ts) <= 2.5 or math.isnan(anomaly.onset_ts)


def test_an_anomaly_that_comes_at_once_needs_no_notice() -> None:
    notices, found = run([*frames(30, SLIGHT._replace(more=0.9))])
    assert notices == []
    assert isinstance(found[0], Anomaly)


def test_nothing_is_told_where_nothing_is_wrong() -> None:
    assert run([*frames(60)])[1] == []


def test_a_host_that_falls_silent_ends_its_notice() -> None:
    given = [each for each in frames(90, SLIGHT) if minute(each.ts) <= 1.5 or minute(each.ts) > 80.0]
    (opened, ended), _ = run(given)
    assert (opened.change, ended.change) == ("opened", "ended")
    assert minute(ended.until_ts) <= 1.5
    assert ended.ts <= ONSET + 1.5 * MINUTE_S, "as of the last frame that was heard"


@pytest.mark.parametrize("cut_min", [1.5, *(pytest.param(cut, marks=pytest.mark.slow) for cut in (-1.0, 3.5))])
@pytest.mark.parametrize(
    "faults",
    [(SLIGHT,), pytest.param((SLIGHT._replace(more=0.05),), marks=pytest.mark.slow), GROWS],
    ids=["slight", "tiny", "grows"],
)
def test_a_state_that_was_restored_in_the_middle_tells_the_same(faults: Sequence[Fault], cut_min: float) -> None:
    given = [*frames(20, *faults)]
    want = run(given)[1]
    cut = next(place for place, each in enumerate(given) if minute(each.ts) > cut_min)
    one, two = (Task(WIRED, INPUT, snapshot_records=100_000) for _ in range(2))
    got = told(one, given[:cut])
    got += told(moved(one, two), given[cut:])
    assert list(map(write_output, got)) == list(map(write_output, want))


def test_what_is_replayed_is_not_live() -> None:
    (opened, ended), _ = run([*frames(20, SLIGHT)], live=False)
    assert (opened.live, ended.live) == (False, False)


def test_more_idle_processors_are_no_trouble() -> None:
    """The host of a machine whose work ends."""
    random = np.random.default_rng(3)
    layout = make_layout(("web-1",), ("web-1",), ("cpu_idle_ratio", "memory_available_bytes", "load_1m"))
    given = []
    for tick in range(800):
        idle = 0.0 if tick < 600 else 0.9
        values = np.abs(random.normal([[idle, 1e9 + 7e9 * idle, 2.0]], [[0.001, 1e6, 0.1]]))
        given.append(Frame("host", "web-1", "host", BEGIN + 5.0 * tick, tick, layout, values))
    assert run(given)[1] == []
