"""Saturated resources: each is reported for what it is, from its onset to its end, and forecast where it fills up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.saturation import Saturation, Users
from laggard.operators.saturation.conditions import LIMITS
from laggard.operators.saturation.detector import MAX_RESOURCES
from laggard.operators.saturation.users import BEFORE_S, MAX_NAMES

from .conftest import Names, names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.operators.contract import Open
    from laggard.operators.saturation.detector import Scores

TICK_S, START = 5.0, 1e9

QUIET = {
    "pressure_cpu_some_ratio": 0.1,
    "cpu_busy_ratio": 0.3,
    "pressure_io_some_ratio": 0.0,
    "disk_sda_busy_ratio": 0.1,
}


class Host:
    """A host whose counters a test sets, and what is open on it."""

    def __init__(self, usual: Mapping[str, float] | None = None, operator: Saturation | None = None) -> None:
        self.operator = operator or Saturation()
        self.values = {**QUIET, **(usual or {})}
        self.ts = START
        self.open: Mapping[str, Open] = {}
        self.score = 0.0
        self.opened: list[tuple[str, float]] = []

    def run(self, seconds: float, **values: float | Callable[[float], float]) -> Host:
        """Let time pass with these counters, each a value or a function of the seconds since now."""
        begin = self.ts
        while self.ts < begin + seconds:
            self.ts += TICK_S
            self.values |= {
                name: value(self.ts - begin) if callable(value) else value for name, value in values.items()
            }
            layout = names(["host"], list(self.values))
            frame = np.array([list(self.values.values())])
            scores = self.operator.score(self.ts, layout, frame)
            self.opened += [(each, self.ts - START) for each in scores.open if each not in self.open]
            self.open, self.score = scores.open, scores.score
            self.operator.learn(self.ts, layout, frame)
        return self


BUSY = {"cpu_busy_ratio": 1.0}


@pytest.mark.parametrize(
    ("waits", "within_s"), [(1.0, 60.0), (0.8, 90.0), (0.65, 160.0), (0.55, None), (0.0, None)], ids=str
)
def test_the_more_tasks_wait_the_sooner_it_is_reported(waits: float, within_s: float | None) -> None:
    host = Host().run(600, **QUIET).run(600, pressure_cpu_some_ratio=waits, **BUSY)
    if within_s is None:
        assert host.opened == []
        assert host.score <= 1.0
        return
    ((found, ts),) = host.opened
    assert found == "cpu"
    assert 600.0 < ts <= 600.0 + within_s
    assert 570.0 <= host.open["cpu"].onset_ts - START <= 630.0
    assert host.score == host.open["cpu"].score > 1.0


def test_it_stays_open_until_it_has_been_calm_and_ends_once() -> None:
    host = Host().run(300, pressure_cpu_some_ratio=0.9, **BUSY)
    host.run(60, pressure_cpu_some_ratio=0.1).run(120, pressure_cpu_some_ratio=0.9)
    assert [each for each, _ in host.opened] == ["cpu"]
    host.run(100, pressure_cpu_some_ratio=0.1)
    assert list(host.open) == ["cpu"]
    assert host.open["cpu"].score <= 1.0  # so that the calm is not taken for a part of it
    host.run(100)
    assert host.open == {}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"pressure_cpu_some_ratio": 0.9, "cpu_busy_ratio": 0.2}, []),  # one of many CPUs
        ({"pressure_io_some_ratio": 0.9, "disk_sda_busy_ratio": 0.2}, []),  # a disk that is slow, not busy
        ({"pressure_io_some_ratio": 0.9, "disk_sda_busy_ratio": 0.2, "disk_sdb_busy_ratio": 0.9}, ["disk"]),
        ({"pressure_io_some_ratio": 0.9, "disk_sda_busy_ratio": np.nan}, ["disk"]),
        ({"pressure_memory_some_ratio": 0.3}, ["memory_pressure"]),
        ({"cpu_throttled_ratio": 0.4}, ["heat"]),
        ({"memory_used_bytes": 97.0, "memory_available_bytes": 3.0}, ["memory"]),
        ({"memory_used_bytes": 90.0, "memory_available_bytes": 10.0}, []),
        ({"memory_used_bytes": 0.0, "memory_available_bytes": 0.0}, []),
        ({"filesystem_/var_used_ratio": 0.97, "filesystem_/_used_ratio": 0.5}, ["filesystem /var"]),
        ({"descriptors_used_ratio": 0.95, "pids_used_ratio": 0.91}, ["descriptors", "pids"]),
        ({"pressure_cpu_some_ratio": np.nan, "memory_used_bytes": np.inf, "memory_available_bytes": 1.0}, []),
    ],
    ids=str,
)
def test_what_counts_as_saturated(values: dict[str, float], expected: list[str]) -> None:
    host = Host(values).run(300)
    assert list(host.open) == expected


def test_the_limits_are_those_that_were_set() -> None:
    values = {"pressure_memory_some_ratio": 0.1, "filesystem_/_used_ratio": 0.9}
    assert Host(values).run(600).open == {}
    lower = Saturation(limits={"memory_pressure": 0.05, "filesystem": 0.8})
    assert set(Host(values, lower).run(600).open) == {"memory_pressure", "filesystem /"}
    assert Host(operator=Saturation(duration_s=20.0)).run(20, pressure_cpu_some_ratio=1.0, **BUSY).opened
    with pytest.raises(ValueError, match=r"limits: expected some of cpu, .* got cup"):
        Saturation(limits={"cup": 0.5})  # type: ignore[dict-item]


def test_what_is_full_is_so_until_there_is_room_again() -> None:
    host = Host({"filesystem_/_used_ratio": 0.96}).run(10)
    assert list(host.open) == ["filesystem /"]
    assert host.open["filesystem /"].onset_ts - START <= TICK_S
    host.run(600, **{"filesystem_/_used_ratio": 0.945})
    assert list(host.open) == ["filesystem /"]
    host.run(900, **{"filesystem_/_used_ratio": 0.90})
    assert host.open == {}


def test_what_cannot_be_read_any_more_is_not_open_for_ever() -> None:
    host = Host({"filesystem_/_used_ratio": 0.99}).run(300, pressure_cpu_some_ratio=0.9, **BUSY)
    assert set(host.open) == {"cpu", "filesystem /"}
    host.run(300, pressure_cpu_some_ratio=np.nan, **{"filesystem_/_used_ratio": np.nan})
    assert host.open == {}


# Forecasts.


def growing(a_minute: float, start: float = 0.5) -> Callable[[float], float]:
    return lambda passed_s: start + a_minute * passed_s / 60.0


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (growing(0.01), True),  # full in 50 min
        (growing(0.005, 0.6), True),  # in 80 min at first
        (growing(0.0005), False),
        (lambda passed_s: min(growing(0.016, 0.1)(passed_s), 0.3), False),  # in 56 min at first, but there is room
        (growing(0.03, 0.1), True),
        (lambda passed_s: 0.5 if passed_s < 900 else 0.8, False),  # one large step
        (lambda passed_s: 0.5 + 0.3 * ((passed_s % 300.0) / 300.0), False),  # comes and goes
        (lambda passed_s: 0.5 + 0.01 * np.sin(passed_s), False),
        (lambda passed_s: 0.9 - 0.0001 * passed_s, False),
    ],
    ids=["soon", "later", "slow", "much room", "much room and quick", "a step", "a sawtooth", "noise", "falling"],
)
def test_what_will_be_full_within_the_hour_is_forecast(used: Callable[[float], float], expected: bool) -> None:
    host = Host({"filesystem_/_used_ratio": 0.5}).run(900).run(2400, **{"filesystem_/_used_ratio": used})
    assert ("forecast filesystem /" in dict(host.opened)) == expected


def test_a_forecast_ends_when_the_growth_does_or_it_has_come_true() -> None:
    host = Host({"memory_used_bytes": 50.0, "memory_available_bytes": 50.0})
    host.run(1200, memory_used_bytes=lambda s: 50.0 + s / 60.0, memory_available_bytes=lambda s: 50.0 - s / 60.0)
    assert list(host.open) == ["forecast memory"]
    assert 0.0 < host.open["forecast memory"].onset_ts - START <= 720.0
    assert 1.0 < host.open["forecast memory"].score <= 2.0
    before = host.open["forecast memory"].score
    host.run(900, memory_used_bytes=lambda s: 70.0 + s / 60.0, memory_available_bytes=lambda s: 30.0 - s / 60.0)
    assert host.open["forecast memory"].score > before
    host.run(900, memory_used_bytes=lambda s: 85.0 + s / 60.0, memory_available_bytes=lambda s: 15.0 - s / 60.0)
    assert list(host.open) == ["memory"]
    stopped = Host({"filesystem_/_used_ratio": 0.5}).run(1200, **{"filesystem_/_used_ratio": growing(0.01)})
    assert list(stopped.open) == ["forecast filesystem /"]
    assert stopped.run(900, **{"filesystem_/_used_ratio": 0.7}).open == {}


def test_no_forecast_where_none_is_wanted() -> None:
    host = Host({"filesystem_/_used_ratio": 0.5}, Saturation(forecast_s=0.0))
    assert host.run(2400, **{"filesystem_/_used_ratio": growing(0.01)}).opened == []


def test_a_trend_is_not_drawn_across_a_gap() -> None:
    host = Host({"filesystem_/_used_ratio": 0.5}).run(480, **{"filesystem_/_used_ratio": growing(0.01)})
    host.ts += 3600.0
    assert host.run(480, **{"filesystem_/_used_ratio": growing(0.01, 0.58)}).opened == []


# Reports on one.


def test_a_ranking_is_about_one_resource_or_about_all() -> None:
    host = Host().run(300, pressure_cpu_some_ratio=0.9, **BUSY)
    layout, frame = names(["host"], list(host.values)), np.array([list(host.values.values())])
    scores = host.operator.score(host.ts + TICK_S, layout, frame)
    (row,) = scores.about("cpu", 10, 10).rows
    (feature,) = row.features
    assert (row.row, row.name, row.basis, feature.feature) == ("host", "cpu", "threshold", "pressure_cpu_some_ratio")
    assert (feature.value, feature.mean) == (0.9, LIMITS["cpu"])
    assert feature.recent == pytest.approx(0.9, abs=0.02)
    (phase,) = row.phases
    assert (phase.begin_ts, phase.end_ts) == (scores.open["cpu"].onset_ts, host.ts + TICK_S)
    assert scores.ranking().rows[0].features[0].feature == "pressure_cpu_some_ratio"
    assert scores.about("", 1, 1).score == scores.score
    assert scores.sudden == 0.0


def test_of_many_filesystems_a_bounded_number_is_watched() -> None:
    host = Host({f"filesystem_/{number}_used_ratio": 0.99 for number in range(3 * MAX_RESOURCES)}).run(30)
    assert len(host.open) <= MAX_RESOURCES
    assert len(host.operator.snapshot()["resources"]) == MAX_RESOURCES


# Limits.

LIMITED = ["used_ratio", "unused_bytes"]


def limited(operator: Saturation, ts: float, rows: Mapping[str, tuple[str, float]]) -> Scores:
    layout = Names(tuple(rows), tuple(name for name, _ in rows.values()), tuple(LIMITED))
    values = np.array([[used, np.nan] for _, used in rows.values()]).reshape(len(rows), len(LIMITED))
    scores = operator.score(ts, layout, values)
    operator.learn(ts, layout, values)
    return scores


def test_each_row_of_limits_is_a_resource_of_its_own() -> None:
    operator = Saturation()
    rows = {
        "memory /web": ("java[7@1]", 0.97),
        "pids /web": ("sh[8@1]", 0.5),
        "descriptors nginx[9@1]": ("nginx[9@1]", 0.92),
    }
    more = {**rows, "queue length": ("", 0.99), "memory": ("", np.nan)}
    assert limited(operator, START, more).open == {}, "not at the first frame"
    scores = limited(operator, START + TICK_S, more)
    assert set(scores.open) == {"memory /web", "descriptors nginx[9@1]"}
    assert scores.open["memory /web"].onset_ts == START
    (row,) = scores.about("memory /web", 10, 10).rows
    assert (row.row, row.name, row.features[0].feature) == ("memory /web", "memory /web", "used_ratio")
    reading = scores.readings["memory /web"]
    assert (reading.condition.name, reading.row, reading.holder) == ("group_memory", "memory /web", "java[7@1]")
    found = scores.ranking()
    assert [each.row for each in found.rows] == ["memory /web", "descriptors nginx[9@1]", "pids /web"]
    assert [each.row for each in scores.ranking(1, 1).rows] == ["memory /web"]
    assert found.score == scores.score > 1.0
    again = Saturation()
    again.restore(operator.snapshot())
    assert set(limited(again, START + 2 * TICK_S, rows).open) == {"memory /web", "descriptors nginx[9@1]"}
    assert limited(operator, START + 2 * TICK_S, {"pids /web": ("sh[8@1]", 0.5)}).open == {}, "what is gone is not open"


def test_a_limit_that_is_reached_for_a_moment_is_no_trouble() -> None:
    operator = Saturation()
    for tick, used in enumerate((1.0, 0.6, 0.9)):
        assert limited(operator, START + tick * TICK_S, {"pids /web": ("sh[8@1]", used)}).open == {} or tick == 2


def test_reaching_a_limit_is_forecast() -> None:
    operator = Saturation()
    for tick in range(360):
        used = 0.5 + 0.01 * tick * TICK_S / 60.0
        scores = limited(operator, START + tick * TICK_S, {"descriptors nginx[9@1]": ("nginx[9@1]", used)})
    assert list(scores.open) == ["forecast descriptors nginx[9@1]"]
    assert scores.resources["descriptors nginx[9@1]"].full_s == pytest.approx(1200.0, abs=70.0)


def test_no_limits_are_no_anomaly() -> None:
    assert limited(Saturation(), START, {}).ranking().rows == ()


# Users.

USED = ["cpu_user_ratio", "cpu_system_ratio", "memory_rss_bytes", "io_write_bytes_per_s"]


def used(users: Users, ts: float, rows: Mapping[str, list[float]]) -> None:
    users.learn(ts, names(list(rows), USED), np.array(list(rows.values())).reshape(len(rows), len(USED)))


def test_processes_of_one_program_are_taken_together() -> None:
    users = Users()
    for tick in range(100):
        used(users, tick * 5.0, {"web[1]": [0.2, 0.1, 1e9, 0.0], "web[2]": [0.3, 0.2, 2e9, 0.0], "db[3]": [0.1] * 4})
    scores = users.score(500.0, names(["web[1]", "web[2]"], USED), np.array([[0.2, 0.1, 1e9, 0], [0.3, 0.2, 2e9, 0]]))
    (web,) = [each for each in scores.using("cpu") if each.rows]
    assert (web.name, web.row, web.rows) == ("web", "web[2]", 2)
    assert web.now == pytest.approx(0.8)
    assert web.before == pytest.approx(0.8)
    assert scores.total("memory") == pytest.approx(3e9, rel=1e-6)
    assert scores.using("threads") == []


def test_who_has_grown_is_seen_and_who_is_gone_is_forgotten() -> None:
    users = Users()
    for tick in range(240):
        hog = {"hog[2]": [1.5, 0.5, 1e9, 5e6]} if 180 <= tick < 200 else {}
        used(users, tick * 5.0, {"web[1]": [0.2, 0.0, 1e9, 0.0], **hog})
        if tick == 199:
            found = users.score(1000.0, names(["web[1]", "hog[2]"], USED), np.array([[0.2, 0, 0, 0], [2, 0, 0, 0]]))
            first, second = found.using("cpu")
            assert (first.name, second.name) == ("hog", "web")
            assert first.now == pytest.approx(2.0, rel=0.01)
            assert first.before < 0.3
            assert second.before == pytest.approx(0.2)
    assert "hog" in users.snapshot()["names"]
    used(users, 1000.0 + BEFORE_S + 5.0, {"web[1]": [0.2, 0.0, 1e9, 0.0]})
    assert users.snapshot()["names"] == ["web"]


def test_of_many_programs_those_that_are_there_are_kept() -> None:
    users = Users()
    for tick in range(4):
        used(users, tick * 5.0, {f"p{tick}-{each}[{each}]": [0.1] * 4 for each in range(MAX_NAMES // 2)})
    kept = users.snapshot()["names"]
    assert len(kept) == MAX_NAMES
    assert {each.split("-")[0] for each in kept} == {"p2", "p3"}
