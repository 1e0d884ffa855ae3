"""The operator `cpu`: what it measures, the events that it makes of it, and their phases."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.cpu import Cpu
from laggard.operators.cpu.events import MOST_PHASES
from laggard.operators.cpu.smoothing import MOST_READINGS, Smoothing

from .conftest import Names, names, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.operators.cpu.smoothing import Kind
    from laggard.operators.ranking import Ranking, RowScore

START = 1e9
PROCESS = ["cpu_user_ratio", "cpu_system_ratio", "cpus"]


def follow(
    operator: Cpu, readings: Iterable[Sequence[Sequence[float]]], layout: Names, interval_s: float = 1.0
) -> list[Ranking]:
    """The rankings of frames at one tick after the other."""
    found = []
    for tick, rows in enumerate(readings):
        values, ts = (
            np.array(rows, np.float64).reshape(len(layout.rows), len(layout.features)),
            START + tick * interval_s,
        )
        found.append(operator.score(ts, layout, values).ranking())
        operator.learn(ts, layout, values)
    return found


def use(shares: Iterable[float], cpus: float = 4.0) -> list[list[list[float]]]:
    """Frames of one process that uses so large a share of all CPUs, a quarter of it in the kernel."""
    return [[[0.75 * share * cpus, 0.25 * share * cpus, cpus]] for share in shares]


JAVA = names(["java[7@1]"], PROCESS)


def stretches(row: RowScore, start: float = START) -> list[tuple[bool, float, float]]:
    return [(each.high, each.begin_ts - start, each.end_ts - start) for each in row.phases]


def test_the_share_of_all_cpus_is_user_and_system_time_over_their_number() -> None:
    layout = names(["a[1]", "b[2]", "c[3]"], PROCESS)
    (_, *_, ranking) = follow(Cpu(), [[[3.0, 0.4, 4.0], [0.9, 0.09, 4.0], [3.25, 0.125, 4.0]]] * 6, layout)
    told = {row.row: (row.score > 1.0, row.features[0].value) for row in ranking.rows}
    assert told == {"a[1]": (True, 3.4 / 4), "b[2]": (False, 0.99 / 4), "c[3]": (False, 3.375 / 4)}
    assert [row.row for row in ranking.rows] == ["a[1]", "c[3]", "b[2]"]
    assert {row.features[0].mean for row in ranking.rows} == {0.85}
    assert {row.basis for row in ranking.rows} == {"threshold"}


def test_a_busy_core_is_an_event_only_where_that_is_asked_for() -> None:
    hog = use([0.25] * 8)
    assert follow(Cpu(), hog, JAVA)[-1].score == 0.0
    ranking = follow(Cpu(conditions=["cpu", "single_cpu"]), hog, JAVA)[-1]
    assert ranking.score == pytest.approx(2.0)
    assert [(each.feature, each.value, each.score) for each in ranking.rows[0].features] == [
        ("cpu_single_ratio", 1.0, 2.0),
        ("cpu_system_wide_ratio", 0.25, 0.0),
    ]


def test_the_score_says_how_far_the_machine_is() -> None:
    rankings = follow(Cpu(), use([0.0, *[0.9] * 7, *[0.1] * 6]), JAVA)
    assert [round(each.score, 9) for each in rankings] == [
        *(0.0, 0.2, 0.4, 0.6, 0.8),
        *[1.9] * 8,
        0.0,
    ]  # fmt: skip
    assert rankings[1].rows[0].score == rankings[1].score


def test_two_short_dips_are_phases_of_one_event() -> None:
    """S1, Fig. 2: high from 50 to 170 s, with dips at 110 and 150 s."""
    shares = [0.95 if 50 < tick <= 170 and tick not in (110, 111, 149, 150, 151) else 0.1 for tick in range(185)]
    rankings = follow(Cpu(), use(shares), JAVA)
    open_ = [tick for tick, each in enumerate(rankings) if each.score > 1.0]
    assert open_ == list(range(55, 176)), "one event, from 5 s after it began to 5 s after it is known to have ended"
    (row,) = rankings[171].rows
    assert stretches(row) == [
        (True, 50.0, 109.0),
        (False, 109.0, 111.0),
        (True, 111.0, 148.0),
        (False, 148.0, 151.0),
        (True, 151.0, 170.0),
        (False, 170.0, 171.0),
    ]
    assert [round(each.mean, 9) for each in row.phases] == [0.95, 0.1, 0.95, 0.1, 0.95, 0.1]
    assert row.features[0].recent == pytest.approx(0.95)
    assert row.age_s == 121.0


@pytest.mark.parametrize("offset_s", [0, 1, 2, 3, 4])
def test_at_five_second_ticks_it_is_one_event_too(offset_s: int) -> None:
    seconds = [0.95 if 50 < at <= 170 and not (108 < at <= 111 or 149 < at <= 152) else 0.1 for at in range(1, 201)]
    shares = [float(np.mean(seconds[at : at + 5])) for at in range(offset_s, 195, 5)]
    rankings = follow(Cpu(), use(shares), JAVA, 5.0)
    told = [each.score > 1.0 for each in rankings]
    assert sum(now and not before for before, now in zip([False, *told], told, strict=False)) == 1
    last = max(tick for tick, high in enumerate(told) if high)
    assert [phase.high for phase in rankings[last].rows[0].phases] == [True, False, True, False, True, False]


def test_phases_are_bounded_and_those_that_are_joined_count_their_dips() -> None:
    high, dip = [0.9] * 3, [0.0] * 2
    rankings = follow(Cpu(), use([0.0, *[0.9] * 6, *(dip + high) * 40]), JAVA)
    (row,) = rankings[-1].rows
    assert len(row.phases) < MOST_PHASES
    assert row.phases[0].dips + sum(not each.high for each in row.phases) == 40
    assert row.phases[0].begin_ts == START
    assert row.phases[0].mean == pytest.approx(0.9)
    assert [each.high for each in row.phases] == [place % 2 == 0 for place in range(len(row.phases))]
    assert all(one.end_ts == other.begin_ts for one, other in zip(row.phases, row.phases[1:], strict=False))


def test_the_event_of_a_process_that_ends_is_over_after_the_wait() -> None:
    operator, both = Cpu(), names(["java[7@1]", "sh[8@1]"], PROCESS)
    follow(operator, use([0.0, *[0.9] * 9]), JAVA)
    told = []
    for tick in range(10, 17):
        layout, values = names(["sh[8@1]"], PROCESS), np.array([[0.0, 0.0, 4.0]])
        (worst, *_) = operator.score(START + tick, layout, values).ranking().rows
        operator.learn(START + tick, layout, values)
        told.append((worst.row, worst.gone_s, worst.score > 1.0))
    assert told == [*[("java[7@1]", float(gone), True) for gone in (1, 2, 3, 4, 5)], *[("sh[8@1]", 0.0, False)] * 2]
    assert operator.snapshot()["conditions"]["cpu"]["events"]["rows"] == []
    assert operator.score(START + 17, both, np.array([[3.9, 0.0, 4.0], [0, 0, 4.0]])).score == 0.2


def test_what_was_high_before_its_name_changed_is_another_row() -> None:
    operator = Cpu()
    follow(operator, use([0.0, *[0.9] * 3]), JAVA)
    scores = operator.score(START + 4, names(["javac[7@1]"], PROCESS), np.array([[3.6, 0.0, 4.0]]))
    assert [(row.row, row.score) for row in scores.ranking().rows] == [("javac[7@1]", 0.2)]


def test_frames_that_do_not_say_how_many_cpus_there_are_have_as_many_as_were_in_use() -> None:
    layout = names(["a[1]", "b[2]"], ["cpu_user_ratio"])
    operator = Cpu()
    assert follow(operator, [[[0.95], [0.02]]] * 7, layout)[-1].rows[0].features[0].value == 0.95
    # Four at once were seen: of these one busy core is a quarter.
    follow(operator, [[[2.0], [2.03]]], layout)
    assert follow(operator, [[[1.0], [0.0]]], layout)[-1].rows[0].features[0].value == 0.25


HOST = ["cpu_user_ratio", "cpu_busy_ratio", "cpus", "pressure_io_some_ratio", "pressure_memory_some_ratio"]


@pytest.mark.parametrize(
    ("features", "rows", "told"),
    [
        (["cpu_ratio"], {"a[1]": [0.9]}, {"a[1]": {"cpu_system_wide_ratio": 0.85}}),
        (
            HOST,
            {"host": [0.99, 0.99, 1.0, 0.9, 0.7]},
            {"host": {"pressure_io_some_ratio": 0.85, "pressure_memory_some_ratio": 0.6}},
        ),
        (
            [*PROCESS, "io_pressure_ratio", "memory_pressure_ratio"],
            {"stuck[1]": [0.02, 0.0, 4.0, 0.95, 0.7], "busy[2]": [1.0, 0.0, 4.0, 0.0, 0.0]},
            {"stuck[1]": {"io_pressure_ratio": 0.85, "memory_pressure_ratio": 0.6}},
        ),
        (
            [*PROCESS, "cpu_quota_throttled_ratio"],
            {"hog[1]": [0.5, 0.0, 4.0, 1.0], "sleeper[2]": [0.001, 0.0, 4.0, 1.0], "free[3]": [1.0, 0.0, 4.0, np.nan]},
            {"hog[1]": {"cpu_quota_throttled_ratio": 0.5}},
        ),
    ],
    ids=[
        "use that is not told apart by mode",
        "pressure of the host",
        "pressure of a process's group",
        "those alone who use their quota up",
    ],
)
def test_what_is_high_is_told_with_its_limit(
    features: list[str], rows: dict[str, list[float]], told: dict[str, dict[str, float]]
) -> None:
    ranking = follow(Cpu(), [list(rows.values())] * 7, names(list(rows), features))[-1]
    high = {
        row.row: {each.feature: each.mean for each in row.features if each.score > 1.0}
        for row in ranking.rows
        if row.score > 1.0
    }
    assert high == told


def test_of_a_host_no_use_of_its_cpus_is_told() -> None:
    operator, layout = Cpu(conditions=["cpu", "single_cpu"]), names(["host"], HOST)
    assert follow(operator, [[[0.99, 0.99, 1.0, 0.9, 0.7]]] * 7, layout)[-1].rows == ()


def test_short_spikes_that_are_frequent_are_an_event_of_their_own() -> None:
    def told(period: int, seconds: int) -> set[str]:
        shares = [1.0 if tick % period < 2 else 0.0 for tick in range(seconds)]
        rankings = follow(Cpu(conditions=["cpu", "spikes"]), use(shares), JAVA)
        return {each.feature for one in rankings for row in one.rows for each in row.features if each.score > 1.0}

    assert told(6, 300) == {"cpu_spikes_per_s"}
    assert told(30, 900) == set()


def test_a_mean_does_not_see_what_is_shorter_than_its_window() -> None:
    flapping = [0.0, *[1.0, 0.6] * 20]
    assert max(each.score for each in follow(Cpu(), use(flapping), JAVA)) < 1.0
    assert follow(Cpu(threshold=0.75, smoothing="mean"), use(flapping), JAVA)[-1].score == pytest.approx(1.8, abs=0.05)


def test_an_outlier_is_left_out_and_a_step_is_not() -> None:
    smoothing = Smoothing("trimmed", window_s=5.0)
    readings = [0.90, 0.91, 0.89, 0.90, 0.0, 0.91, 0.90, 0.1, 0.1, 0.1, 0.1]
    smooth = [float(smoothing.step(["a"], np.array([each]), 1.0)[0]) for each in readings]
    assert min(smooth[:8]) > 0.89
    assert smooth[-1] < 0.2
    plain_mean = Smoothing("mean", window_s=5.0)
    assert [float(plain_mean.step(["a"], np.array([each]), 1.0)[0]) for each in readings][4] == pytest.approx(0.72)


READINGS = st.lists(st.floats(0, 1) | st.just(np.nan), min_size=2, max_size=2)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 7.0]), READINGS), max_size=80),
    st.sampled_from([1.0, 5.0, 60.0]),
)
def test_a_mean_is_that_of_the_readings_of_its_window(ticks: list[tuple[float, list[float]]], window_s: float) -> None:
    smoothing, past = Smoothing("mean", window_s), list[tuple[float, list[float]]]()
    for passed_s, readings in ticks:
        smooth = smoothing.step(["a", "b"], np.array(readings), passed_s)
        past.append((passed_s, readings))
        for row in range(2):
            kept, age_s = list[tuple[float, float]](), 0.0
            for span_s, each in reversed(past[-MOST_READINGS:]):
                age_s += span_s
                if kept and age_s > window_s * (1.0 + 1e-9):
                    break
                kept.append((max(span_s, 1e-9), each[row]))
            known = [(span_s, each) for span_s, each in kept if not np.isnan(each)]
            if np.isnan(readings[row]):
                assert np.isnan(smooth[row])
            else:
                mean = sum(span_s * each for span_s, each in known) / sum(span_s for span_s, _ in known)
                assert smooth[row] == pytest.approx(mean, abs=1e-9)


def test_a_steady_reading_at_the_threshold_is_high_however_it_is_smoothed() -> None:
    kinds: tuple[Kind, ...] = ("none", "mean", "trimmed")
    for kind in kinds:
        operator = Cpu(smoothing=kind)
        assert follow(operator, [[[0.85, 0.0, 1.0]]] * 9, JAVA)[-1].score == pytest.approx(1.85)


def test_a_condition_that_was_not_watched_before_begins_anew() -> None:
    before, after = Cpu(conditions=["cpu"]), Cpu(conditions=["cpu", "single_cpu"], smoothing="mean")
    follow(before, use([0.0, *[0.9] * 9]), JAVA)
    after.restore(before.snapshot())
    found = follow(after, use([0.9]), JAVA)[0].rows[0].features
    assert [each.feature for each in found if each.score > 1.0] == ["cpu_system_wide_ratio"]


def test_a_machine_that_was_suspended_was_not_high_meanwhile() -> None:
    operator = Cpu()
    follow(operator, use([0.1] * 9), JAVA)
    for tick, score in enumerate((0.2, 0.4, 0.6, 0.8, 1.9)):
        ts, values = START + 3600.0 + tick, np.array(use([0.9])[0])
        scores = operator.score(ts, JAVA, values)
        assert scores.score == pytest.approx(score)
        operator.learn(ts, JAVA, values)
    assert stretches(scores.ranking().rows[0]) == [(True, 3599.0, 3604.0)]


def test_phases_stay_in_their_order_when_the_clock_steps_back() -> None:
    operator = Cpu()
    follow(operator, use([0.0, *[0.9] * 9]), JAVA)
    for tick, share in enumerate((0.1, 0.1, 0.9, 0.9)):
        ts, values = START + 5.0 + tick, np.array(use([share])[0])
        (row,) = operator.score(ts, JAVA, values).ranking().rows
        operator.learn(ts, JAVA, values)
    assert [high for high, _, _ in stretches(row)] == [True, False, True]
    assert all(one.begin_ts <= one.end_ts <= other.begin_ts for one, other in pairwise(row.phases))


def test_a_quiet_frame_leaves_nothing_in_the_state() -> None:
    operator = Cpu()
    layout = names([f"p[{pid}]" for pid in range(1000)], PROCESS)
    frame = np.tile([0.1, 0.0, 4.0], (1000, 1))
    operator.learn(START, layout, frame)
    state: Any = operator.snapshot()
    operator.learn(START + 1, layout, frame)
    assert {each["events"]["machine"]["states"].size for each in operator.snapshot()["conditions"].values()} == {0}
    assert len(plain(operator.snapshot())) == len(plain(state))


@given(st.lists(READINGS, min_size=1, max_size=20))
def test_without_outliers_a_mean_is_that_of_what_hampels_identifier_keeps(ticks: list[list[float]]) -> None:
    smoothing = Smoothing("trimmed", window_s=100.0)
    for readings in ticks:
        smooth = smoothing.step(["a", "b"], np.array(readings), 1.0)
    for row in range(2):
        known = np.array([readings[row] for readings in ticks if not np.isnan(readings[row])])
        if np.isnan(ticks[-1][row]):
            assert np.isnan(smooth[row])
            continue
        apart = np.abs(known - np.median(known))
        kept = known if len(known) < 3 else known[apart <= 3.0 * (1.4826 * np.median(apart))]
        assert smooth[row] == pytest.approx(kept.mean(), abs=1e-9)
