"""Lasting anomalies: each is reported once, from its onset to its end, against the unit's own past."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from laggard.operators.lasting import Lasting
from laggard.operators.lasting.blocks import LARGEST_GAP_S
from laggard.operators.lasting.detector import CALM_S
from laggard.operators.lasting.evaluation import MOST_OPEN
from laggard.operators.lasting.limits import NEW_S
from laggard.operators.lasting.state import SCALES
from laggard.operators.lasting.units import SPARE_NAMES

from .conftest import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CPU, RSS = "cpu_user_ratio", "memory_rss_bytes"
MIB: Final = 2.0**20
HOUR_S: Final = 3600.0


class Told(NamedTuple):
    """A trouble as it was told: in minutes since the beginning."""

    unit: str
    feature: str
    begin_min: float
    end_min: float


class Machine:
    """One whose processes take and hold what a test says, with a little noise; half a day is learned first."""

    def __init__(self, rows: Sequence[str] = ("web[1]", "db[2]"), interval_s: float = 5.0, **options: Any) -> None:
        self.lasting = Lasting(**options)
        self.interval_s = interval_s
        self.ts = 1e9
        self.told: list[Told] = []
        self._random = np.random.default_rng(1)
        self._open: dict[tuple[str, float], str] = {}
        self.begins = self.ts
        self.rows = tuple(rows)
        self.layout = self._layout(self.rows)

    def _layout(self, rows: Sequence[str]) -> Names:
        return Names(tuple(rows), tuple(row.partition("[")[0] for row in rows), (CPU, RSS))

    def run(
        self,
        minutes: float,
        cpu: dict[str, float] | None = None,
        rss: Callable[[float], float] | None = None,
        of: str = "",
    ) -> list[Told]:
        """Let time pass; what ended in it was told. `cpu`: cores by row; `rss`: bytes by seconds, of the row `of`."""
        begin, before = self.ts, len(self.told)
        while self.ts < begin + 60.0 * minutes:
            self.ts += self.interval_s
            values = np.empty((len(self.rows), 2))
            for place, row in enumerate(self.rows):
                busy = (cpu or {}).get(row, 0.02)
                values[place] = max(busy + 0.002 * self._random.standard_normal(), 0.0), 100.0 * MIB
                if row == of and rss is not None:
                    values[place, 1] += rss(self.ts - begin)
            self.take(values)
        return self.told[before:]

    def take(self, values: Any) -> None:
        state = self.lasting.score(self.ts, self.layout, values).state
        self.lasting.learn(self.ts, self.layout, values)
        now = {(each.unit, each.opened_ts): each for each in state.anomalies}
        for key in self._open.keys() - now.keys():
            self._tell(*key, self._open.pop(key), self.ts)
        for key, each in now.items():
            self._open[key] = self.lasting.quantities.levels[self.lasting.quantities.level(each.quantity)]

    def _tell(self, unit: str, opened_ts: float, feature: str, ts: float) -> None:
        self.told.append(Told(unit, feature, (opened_ts - self.begins) / 60.0, (ts - self.begins) / 60.0))

    @property
    def open(self) -> list[tuple[str, str]]:
        """Units in trouble now, and in what."""
        return [(unit, feature) for (unit, _), feature in self._open.items()]

    def become(self, *rows: str) -> None:
        """These are the processes from now on."""
        self.rows = rows
        self.layout = self._layout(rows)


@pytest.fixture(scope="module")
def learned() -> Machine:
    machine = Machine()
    assert machine.run(12 * 60) == []
    assert machine.open == []
    return machine


def test_what_is_near_the_limit_is_suspicious(machine: Machine) -> None:
    def found() -> tuple[float, Any]:
        scores = machine.lasting.score(machine.ts + 5.0, machine.layout, np.full((2, 2), 100.0 * MIB))
        return scores.suspicion, scores.suspect(1)

    assert found()[0] <= 1.0
    assert found()[1] is None
    machine.run(3, cpu={"db[2]": 0.08})
    suspicion, (row, onset_ts) = found()
    assert 1.0 < suspicion < 3.17
    assert machine.open == []
    assert (row.row, row.features[0].feature, row.score < 1.0) == ("db[2]", CPU, True)
    assert machine.ts - 90.0 <= onset_ts <= machine.ts - 30.0, "as far back as its window reaches"
    other = Lasting()
    other.restore(machine.lasting.snapshot())
    machine.lasting = other
    assert found() == (suspicion, (row, onset_ts))
    machine.run(3, cpu={"db[2]": 0.9})
    assert machine.open == [("db", CPU)]
    assert found()[0] <= 1.0, "it is an anomaly now"


@pytest.fixture
def machine(learned: Machine) -> Machine:
    """One that has learned half a day."""
    machine = Machine()
    machine.ts = learned.ts
    machine.lasting.restore(learned.lasting.snapshot())
    return machine


@pytest.mark.parametrize("minutes", [3, 12, 45])
def test_a_hog_is_told_within_90_s_once_and_until_it_ends(machine: Machine, minutes: float) -> None:
    began = machine.ts
    machine.run(1.5, {"web[1]": 1.0})
    assert machine.open == [("web", CPU)]
    assert machine.run(minutes - 1.5, {"web[1]": 1.0}) == []
    (told,) = machine.run(30)
    assert (told.unit, told.feature) == ("web", CPU)
    ended_min = (began - machine.begins) / 60.0 + minutes
    assert ended_min + CALM_S / 60.0 <= told.end_min <= ended_min + CALM_S / 60.0 + 1.5


@pytest.mark.parametrize("seconds", [5, 15])
def test_a_burst_is_not_told(machine: Machine, seconds: float) -> None:
    machine.run(seconds / 60.0, {"web[1]": 1.0})
    machine.run(60)
    assert machine.told == []
    assert machine.open == []


def test_a_minute_is_told_while_it_lasts(machine: Machine) -> None:
    delays = set()
    for wait_s in (0, 5, 10):
        tried = copy.deepcopy(machine)
        tried.run((300 + wait_s) / 60.0)
        begin = tried.ts
        while not tried.open:
            tried.run(5 / 60.0, {"web[1]": 1.0})
        delays.add(tried.ts - begin)
    assert max(delays) <= 40.0


SERVICE: Final = ("web[1]", "db[2]", "shop[3]")


def test_the_level_of_a_new_program_that_stays_is_its_baseline(machine: Machine) -> None:
    machine.become(*SERVICE)
    machine.run(NEW_S / 60.0 + 4 * 60)
    assert machine.told == []
    assert machine.open == []
    machine.run(3, {"shop[3]": 0.5})
    assert machine.open == [("shop", CPU)]


def test_a_new_program_settles_though_its_processes_begin_one_by_one(machine: Machine) -> None:
    machine.become(*SERVICE)
    machine.run(1)
    machine.become(*SERVICE, "shop[4]")
    machine.run(NEW_S / 60.0 + 4 * 60)
    units = machine.lasting._state.units
    assert np.isneginf(units.joined_ts[units.names.index("shop")])
    assert machine.told == []
    assert machine.open == []
    machine.run(3, {"shop[3]": 0.5})
    assert machine.open == [("shop[3]", CPU)]


def test_what_a_new_program_holds_is_no_peak_of_it() -> None:
    machine = Machine()
    machine.run(10)
    machine.become(*SERVICE)
    machine.run(NEW_S / 60.0 + 15)
    assert machine.open == []
    machine.run(12, rss=lambda seconds: min(seconds / 600.0, 1.0) * 600.0 * MIB, of="shop[3]")
    assert machine.open == [("shop", RSS)]


def test_a_new_program_does_not_settle_in_an_anomaly(machine: Machine) -> None:
    machine.become(*SERVICE)
    machine.run(NEW_S / 60.0 + 10, {"shop[3]": 1.0})
    assert machine.open == [("shop", CPU)]
    machine.run(60)
    assert [each.unit for each in machine.told] == ["shop"]
    machine.run(3, {"shop[3]": 0.5})
    assert machine.open == [("shop", CPU)]


def test_a_program_that_starts_again_and_again_does_not_settle(machine: Machine) -> None:
    for number in range(30):
        machine.become("web[1]", "db[2]", f"job[{10 + number}]")
        machine.run(1)
    state = machine.lasting._state
    assert np.isfinite(state.units.joined_ts[state.units.names.index("job")])


def test_what_came_before_twice_is_usual(machine: Machine) -> None:
    for _ in range(2):
        machine.run(5, {"web[1]": 1.0})
        machine.run(60)
    assert len(machine.told) == 2
    for _ in range(3):
        machine.run(5, {"web[1]": 1.0})
        machine.run(60)
    assert len(machine.told) == 2
    # What is far more is not.
    machine.run(5, {"web[1]": 40.0})
    assert machine.open == [("web", CPU)]


def test_what_is_adopted_is_usual_at_once_and_later_and_its_unit_is_learned(machine: Machine) -> None:
    machine.run(5, {"web[1]": 1.0})
    (own,) = machine.lasting.score(machine.ts, machine.layout, np.full((2, 2), 1.0)).open
    machine.lasting.adopt("no such anomaly")
    assert len(machine.lasting.snapshot()["anomalies"]) == 1
    machine.lasting.adopt(own)
    assert machine.lasting.snapshot()["anomalies"] == []
    machine.run(40, {"web[1]": 1.0})
    machine.run(60)
    machine.run(5, {"web[1]": 1.0})
    assert len(machine.told) == 1
    assert machine.open == []
    machine.run(5, {"web[1]": 40.0})
    assert machine.open == [("web", CPU)], "it is far more"


def test_while_it_lasts_what_was_usual_before_is_told_and_others_are_learned(machine: Machine) -> None:
    machine.run(120, {"web[1]": 1.0, "db[2]": 0.03})
    scores = machine.lasting.score(machine.ts + 5.0, machine.layout, np.array([[1.0, 100 * MIB], [0.03, 100 * MIB]]))
    ranking = scores.ranking(5, 1)
    (row,) = ranking.rows
    (cpu,) = row.features
    assert row.row == "web[1]"
    assert (row.name, cpu.feature) == ("web", CPU)
    assert cpu.mean == pytest.approx(0.02, abs=0.001)
    # The newest 15 seconds alone.
    assert cpu.value == pytest.approx(1.0, abs=0.01)
    assert cpu.recent is None
    assert row.score == pytest.approx(scores.score)
    assert scores.score > 2.0
    mean = scores.state.evidence[0].mean[0]
    assert mean[1] > 0.025


def test_what_has_lasted_for_hours_is_usual(machine: Machine) -> None:
    onset_min = (machine.ts - machine.begins) / 60.0
    machine.run(4 * HOUR_S / 60.0 + 5.0, {"web[1]": 1.0})
    (told,) = machine.told
    assert 60.0 * (told.end_min - onset_min) == pytest.approx(4 * HOUR_S, abs=15.0)
    assert machine.run(60, {"web[1]": 1.0}) == []
    assert machine.open == []


def test_what_is_accepted_was_reported_for_five_minutes() -> None:
    machine = Machine(accepted_after_s=60.0)
    machine.run(6 * 60)
    machine.run(30, {"web[1]": 1.0})
    (told,) = machine.told
    assert told.end_min - told.begin_min == pytest.approx(CALM_S / 60.0)
    assert machine.open == []


def test_a_leak_is_told_by_what_it_holds(machine: Machine) -> None:
    machine.run(10, rss=lambda seconds: 5e6 * seconds, of="db[2]")
    assert machine.open == [("db", RSS)]
    machine.run(20)
    assert [(each.unit, each.feature) for each in machine.told] == [("db", RSS)]


@pytest.mark.slow
def test_of_several_of_a_name_the_one_is_told_that_explains_it() -> None:
    machine = Machine([f"worker[{each}]" for each in range(6)])
    machine.run(12 * 60)
    machine.run(3, {"worker[4]": 1.0})
    assert machine.open == [("worker[4]", CPU)]
    machine.run(30)
    # Where all take more it is the name.
    machine.run(5, dict.fromkeys(machine.rows, 1.0))
    assert machine.open == [("worker", CPU)]
    assert [each.unit for each in machine.told] == ["worker[4]"]


def test_the_last_process_of_a_name_goes_on_as_the_name() -> None:
    machine = Machine([f"worker[{each}]" for each in range(3)])
    machine.run(6 * 60)
    machine.run(5, {"worker[1]": 1.0})
    assert machine.open == [("worker[1]", CPU)]
    machine.become("worker[1]")
    machine.run(30, {"worker[1]": 1.0})
    assert machine.open == [("worker", CPU)]
    assert [each.unit for each in machine.told] == ["worker[1]"]
    # With it its anomaly ends.
    machine.become("other[9]")
    machine.run(10)
    assert machine.open == []


def test_a_program_that_was_never_seen_has_taken_nothing_so_far(machine: Machine) -> None:
    machine.become("web[1]", "db[2]", "miner[3]")
    machine.run(2, {"miner[3]": 1.0})
    assert machine.open == [("miner", CPU)]
    # The anomaly ends with its name, without a calm time.
    machine.become("web[1]", "db[2]")
    machine.run(10)
    assert [each.unit for each in machine.told] == ["miner"]


def test_an_anomaly_ends_with_a_name_that_is_remembered_no_longer(machine: Machine) -> None:
    machine.run(2, {"db[2]": 1.0})
    assert machine.open == [("db", CPU)]
    machine.become("web[1]", *(f"short{number}[{number}]" for number in range(10, 10 + SPARE_NAMES + 1)))
    machine.run(0.25)
    machine.become("web[1]")
    machine.run(1)
    assert machine.open == []


def test_a_restart_is_no_news(machine: Machine) -> None:
    machine.become("web[7]", "db[2]")
    machine.run(60)
    assert machine.told == []
    assert machine.open == []


def test_after_a_gap_windows_begin_anew(machine: Machine) -> None:
    machine.run(0.25, {"web[1]": 1.0})
    machine.ts += LARGEST_GAP_S + 60.0
    machine.run(0.25, {"web[1]": 1.0})
    assert machine.open == []
    machine.run(0.75, {"web[1]": 1.0})
    assert machine.open == [("web", CPU)]


@pytest.mark.parametrize("interval_s", [pytest.param(1.0, marks=pytest.mark.slow), 30.0, 60.0])
def test_other_intervals_tell_the_same(interval_s: float) -> None:
    machine = Machine(interval_s=interval_s)
    machine.run(12 * 60)
    machine.run(max(2.0, 5.0 * interval_s / 60.0), {"web[1]": 1.0})
    assert machine.open == [("web", CPU)]
    machine.run(20)
    assert [each.unit for each in machine.told] == ["web"]


def test_a_value_that_is_missing_leaves_out_no_other(machine: Machine) -> None:
    for _ in range(36):
        machine.ts += 5.0
        machine.take(np.array([[1.0, np.nan], [np.nan, 100 * MIB]]))
    assert machine.open == [("web", CPU)]


@pytest.mark.slow
def test_a_larger_budget_has_lower_limits() -> None:
    found = {}
    for per_day in (0.5, 1.0, 2.0):
        machine = Machine(false_alarms_per_day=per_day)
        machine.run(6 * 60)
        machine.run(0.25 * SCALES[0].window_s / 15.0, {"web[1]": 0.12})
        found[per_day] = machine.lasting.score(
            machine.ts + 5.0, machine.layout, np.array([[0.12, 100 * MIB], [0.02, 100 * MIB]])
        ).score
    assert found[0.5] < found[1.0] < found[2.0]


def test_a_budget_is_above_0() -> None:
    with pytest.raises(ValueError, match="false_alarms_per_day: expected a number above 0, got 0"):
        Lasting(false_alarms_per_day=0.0)


def test_the_state_is_as_large_as_documented() -> None:
    rows = tuple(f"p{number}[1]" for number in range(40))
    names = Names(rows, tuple(row.partition("[")[0] for row in rows), (CPU, RSS))
    lasting = Lasting()
    for tick in range(100):
        lasting.learn(5.0 * tick, names, np.ones((40, 2)))
    levels, quantities = len(lasting.quantities.levels), len(lasting.quantities)
    evidence = [each for scale in lasting.snapshot()["evidence"] for each in scale.values()]
    pending = [each for each in lasting.snapshot()["pending"].values() if each is not None]
    assert sum(each.nbytes for each in evidence) == 40 * 3 * (20 * levels + 44 * quantities)
    assert sum(each.nbytes for each in pending) <= 2 * 8 * levels * (40 + 1)


def test_the_worst_are_opened_where_more_deviate_than_may_be_open() -> None:
    rows = [f"p{number}[1]" for number in range(2 * MOST_OPEN)]
    machine = Machine(rows, interval_s=15.0)
    machine.run(6 * 60)
    machine.run(3, {row: 1.0 + number / MOST_OPEN for number, row in enumerate(rows)})
    assert {unit for unit, _ in machine.open} == {f"p{number}" for number in range(MOST_OPEN, 2 * MOST_OPEN)}
