"""Sudden and lasting deviations as one operator: what one part keeps open the other neither learns nor reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from laggard.operators.deviations import MIGRATIONS, Deviations
from laggard.operators.gaussian import Gaussian
from laggard.operators.lasting import Lasting

from .conftest import Names, lively, plain

if TYPE_CHECKING:
    from laggard.operators.deviations import Scores

    from .conftest import Tick

INTERVAL_S: Final = 15.0
CPU, RSS = 0, 1
USUAL: Final = np.array([[0.1, 5e7], [0.02, 9e7], [0.05, 4e7]])
WEB, DB, JOB = range(3)


class Machine:
    """One whose processes use what a test says, with a little noise."""

    def __init__(self) -> None:
        self.deviations = Deviations(Gaussian(minimum_features=1), Lasting(), false_alarms_per_day=3.0)
        self.ts = 1e9
        self.layout = Names(("web[1]", "db[2]", "job[3]"), ("web", "db", "job"), ("cpu_user_ratio", "memory_rss_bytes"))
        self.random = np.random.default_rng(1)
        self.frame: Tick = self.ts, self.layout, np.abs(USUAL)

    def run(self, minutes: float, cpu: dict[int, float] | None = None) -> Scores:
        """Let time pass, with these cores more, by row; return the scores of its last frame, which is not learned."""
        for _ in range(round(60.0 * minutes / INTERVAL_S)):
            if self.ts > 1e9:
                self.deviations.learn(*self.frame)
            self.ts += INTERVAL_S
            values = self.random.normal(USUAL, USUAL * [0.1, 2e-4])
            for row, more in (cpu or {}).items():
                values[row, CPU] += more
            self.frame = self.ts, self.layout, np.abs(values)
        return self.deviations.score(*self.frame)

    def means(self) -> Any:
        """Return the baselines of the Gaussian, shape (features, rows)."""
        state = self.deviations.snapshot()["gaussian"]
        assert state["rows"] == list(self.layout.rows)
        return np.array(state["usual_mean"])


@pytest.fixture(scope="module")
def learned() -> Machine:
    machine = Machine()
    scores = machine.run(120)
    assert not scores.open
    return machine


@pytest.fixture
def machine(learned: Machine) -> Machine:
    """One that has learned two hours."""
    machine = Machine()
    machine.deviations.restore(learned.deviations.snapshot())
    machine.ts, machine.frame = learned.ts, learned.frame
    return machine


def test_a_row_with_an_open_anomaly_is_not_learned_until_it_ends(machine: Machine) -> None:
    scores = machine.run(3, {DB: 1.0})
    assert [anomaly.split()[0] for anomaly in scores.open] == ["db[2]"]
    machine.run(1, {DB: 1.0})
    before = machine.means()
    assert machine.run(60, {DB: 1.0}).open.keys() == scores.open.keys()
    after = machine.means()
    assert after[:, DB] == pytest.approx(before[:, DB], rel=1e-12)
    assert (after[:, [WEB, JOB]] != before[:, [WEB, JOB]]).all()
    # It is over, but stays open for five calm minutes.
    assert machine.run(4).open.keys() == scores.open.keys()
    assert machine.means()[:, DB] == pytest.approx(before[:, DB], rel=1e-12)
    assert not machine.run(4).open
    machine.run(30)
    again = machine.means()
    assert (np.abs(again[:, DB] / before[:, DB] - 1.0) > 1e-9).all()
    assert again[CPU, DB] == pytest.approx(0.02, abs=0.004), "nothing of the anomaly is learned"


def test_the_sudden_part_does_not_see_a_row_with_an_open_anomaly(machine: Machine) -> None:
    scores = machine.run(30, {DB: 1.0})
    (anomaly,) = scores.open.values()
    assert anomaly.score == pytest.approx(2.0, abs=0.1)
    assert scores.of_gaussian.score > 1.0 > scores.sudden
    assert scores.score >= anomaly.score
    # It sees what happens to others meanwhile.
    scores = machine.run(0.25, {DB: 1.0, WEB: 2.0})
    assert len(scores.open) == 1
    assert scores.sudden > 1.0
    assert {row.row for row in scores.ranking(2, 1).rows} == {"db[2]", "web[1]"}


def test_an_anomaly_is_ranked_by_its_row_and_the_baseline_from_before(machine: Machine) -> None:
    scores = machine.run(60, {DB: 1.0})
    (anomaly,) = scores.open
    for ranking in (scores.ranking(1, 1), scores.about(anomaly, 1, 1)):
        (row,) = ranking.rows
        (cpu,) = row.features
        assert (row.row, cpu.feature) == ("db[2]", "cpu_user_ratio")
        assert row.score >= scores.open[anomaly].score > scores.of_gaussian.score
        assert cpu.mean == pytest.approx(0.02, abs=0.001)
        assert cpu.value == pytest.approx(1.02, abs=0.01)
        assert cpu.recent is None
    with pytest.raises(KeyError):
        scores.about("db[2] 1.0", 1, 1)


def test_a_row_that_is_calm_again_leads_no_ranking(machine: Machine) -> None:
    machine.run(30, {DB: 1.0})
    scores = machine.run(0.25)
    (anomaly,) = scores.open.values()
    assert anomaly.score < 1.0, "it is open for five minutes more, but over"
    assert scores.of_lasting is not None
    assert (scores.of_lasting.leading(), scores.of_lasting.ranking().rows) == ({}, ())


def test_an_accepted_level_is_the_baseline_of_both_parts_at_once(machine: Machine) -> None:
    (begun,) = machine.run(4 * 60 - 1, {DB: 1.0}).open
    scores = machine.run(0.25, {DB: 1.0})
    while not (accepted := scores.open[begun]).accepted:
        scores = machine.run(0.25, {DB: 1.0})
    assert machine.ts - accepted.onset_ts == pytest.approx(4 * 3600.0, abs=INTERVAL_S)
    # At this tick it is still known to the sudden part by its old baseline, but counts no more.
    assert scores.frozen is None
    assert scores.accepted is not None
    assert scores.accepted.tolist() == [False, True, False]
    assert scores.of_gaussian.score > 1.0 > scores.sudden
    assert machine.means()[CPU, DB] == pytest.approx(0.02, abs=0.001)
    for _ in range(4 * 60):
        scores = machine.run(0.25, {DB: 1.0})
        assert not scores.open
        assert scores.accepted is None
        assert scores.score < 1.0
        assert machine.means()[CPU, DB] == pytest.approx(1.02, abs=0.01)
    # What comes on top of it is an anomaly again.
    assert [anomaly.split()[0] for anomaly in machine.run(3, {DB: 2.0}).open] == ["db[2]"]


def test_two_rows_have_an_anomaly_each(machine: Machine) -> None:
    machine.run(20, {DB: 1.0})
    scores = machine.run(10, {DB: 1.0, WEB: 1.0})
    assert [anomaly.split()[0] for anomaly in scores.open] == ["db[2]", "web[1]"]
    first, second = scores.open.values()
    assert second.onset_ts - first.onset_ts == pytest.approx(20 * 60.0, abs=INTERVAL_S)
    left = machine.run(10, {WEB: 1.0})
    assert list(left.open) == list(scores.open)[1:]


def test_a_state_of_the_gaussian_alone_is_migrated() -> None:
    machine, alone = Machine(), Gaussian(minimum_features=1)
    machine.run(60)
    alone.restore(machine.deviations.gaussian.snapshot())
    assert (Gaussian.state_version, Deviations.state_version) == (2, 4)
    migrated = MIGRATIONS[3](MIGRATIONS[2](alone.snapshot()))
    machine.deviations = Deviations(Gaussian(minimum_features=1), Lasting())
    machine.deviations.restore(migrated)
    assert plain(machine.deviations.gaussian.snapshot()) == plain(alone.snapshot())
    assert plain(machine.deviations.snapshot()["lasting"]) == plain(Lasting().snapshot())
    assert machine.deviations.score(*machine.frame).sudden == alone.score(*machine.frame).score
    # The lasting part begins anew.
    assert not machine.run(90).open
    assert [anomaly.split()[0] for anomaly in machine.run(3, {DB: 1.0}).open] == ["db[2]"]


@pytest.mark.parametrize("seed", [1, 2])
def test_without_lasting_it_is_the_gaussian(seed: int) -> None:
    deviations, alone = Deviations(Gaussian()), Gaussian()
    for ts, layout, values in lively(120, seed):
        scores, expected = deviations.score(ts, layout, values), alone.score(ts, layout, values)
        assert plain([scores.score, scores.sudden]) == plain([expected.score] * 2)
        assert repr(scores.ranking(5, 5)) == repr(expected.ranking(5, 5))
        assert not scores.open
        deviations.learn(ts, layout, values)
        alone.learn(ts, layout, values)
    state = deviations.snapshot()
    assert state["lasting"] is None
    assert plain(state["gaussian"]) == plain(alone.snapshot())
    restored = Deviations(Gaussian())
    restored.restore(state)
    assert plain(restored.snapshot()) == plain(state)
