"""What every operator promises, checked for each method and kind of performance model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.regression import Regression
from tests.operators.conftest import plain, size

from .streams import RT, THR, Interval, Names, restless, run, stream, trait

if TYPE_CHECKING:
    from collections.abc import Callable

MAKERS: dict[str, Callable[[], Regression]] = {
    "adaptive": lambda: Regression(trait=trait),
    "adaptive, without traits": lambda: Regression(window=6, history=20),
    "adaptive, neighbours": lambda: Regression(trait=trait, kind="neighbours", candidates=2),
    "published": lambda: Regression(method="published"),
    "published, of 20": lambda: Regression(method="published", window=20),
    "published, r2": lambda: Regression(method="published", criterion="r2", candidates=10),
    "published, tree": lambda: Regression(method="published", kind="tree", candidates=2),
    "published, boosting": lambda: Regression(method="published", kind="boosting", candidates=1, performance=(RT,)),
}
"""Of the kinds that scikit-learn fits one for each method, and boosting: each fit takes 1 to 30 ms."""

SLOW = {"adaptive, neighbours", "published, boosting"}


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MAKERS])
def make(request: pytest.FixtureRequest) -> Callable[[], Regression]:
    made = MAKERS[str(request.param)]

    def with_wishes() -> Regression:
        operator = made()
        operator.ban("web-1/other-3:value")
        operator.pin("web-1:cpu_busy_ratio")
        return operator

    return with_wishes


@pytest.fixture
def intervals(make: Callable[[], Regression]) -> list[Interval]:
    return restless(50, 1, change=28)


def test_the_same_input_gives_the_same_answers_bit_for_bit(
    make: Callable[[], Regression], intervals: list[Interval]
) -> None:
    first, second = make(), make()
    found = run(first, intervals)
    assert repr(found) == repr(run(second, intervals))
    assert plain(first.snapshot()) == plain(second.snapshot())
    assert any(models for _, models in found)


def test_scoring_changes_nothing(make: Callable[[], Regression], intervals: list[Interval]) -> None:
    scored, silent = make(), make()
    for at, interval in enumerate(intervals):
        before = plain(scored.snapshot())
        scored.score(*interval)
        scored.score(interval[0] + 1.0, *intervals[at // 2][1:])
        assert plain(scored.snapshot()) == before
        scored.learn(*interval)
        silent.learn(*interval)
    assert plain(scored.snapshot()) == plain(silent.snapshot())


@pytest.mark.parametrize("cut", [1, 29, 44])
def test_a_stream_that_is_cut_and_resumed_goes_on_as_if_it_had_not_been(
    make: Callable[[], Regression], intervals: list[Interval], cut: int
) -> None:
    whole, first, second = make(), make(), make()
    expected = run(whole, intervals)
    found = run(first, intervals[:cut])
    snapshot = first.snapshot()
    second.restore(snapshot)
    assert plain(second.snapshot()) == plain(snapshot)
    assert repr(found + run(second, intervals[cut:])) == repr(expected)
    assert plain(second.snapshot()) == plain(whole.snapshot())
    assert (second.pinned, second.banned) == (whole.pinned, whole.banned)


def test_a_snapshot_is_a_copy(make: Callable[[], Regression], intervals: list[Interval]) -> None:
    operator, restored = make(), make()
    run(operator, intervals[:35])
    snapshot = operator.snapshot()
    before = plain(snapshot)
    restored.restore(snapshot)
    run(operator, intervals[35:])
    run(restored, intervals[35:])
    assert plain(snapshot) == before


def test_a_snapshot_is_plain_data(make: Callable[[], Regression], intervals: list[Interval]) -> None:
    operator = make()
    run(operator, intervals[:35])

    def check(state: Any) -> None:
        if isinstance(state, dict):
            assert all(isinstance(key, str) for key in state)
            list(map(check, state.values()))
        elif isinstance(state, list):
            list(map(check, state))
        else:
            assert state is None or type(state) in {str, int, float, bool, np.ndarray}, type(state)

    check(operator.snapshot())


def test_values_that_are_given_are_not_changed(make: Callable[[], Regression], intervals: list[Interval]) -> None:
    operator = make()
    for interval in intervals:
        copy = interval[2].copy()
        interval[2].setflags(write=False)
        operator.score(*interval)
        operator.learn(*interval)
        assert interval[2].tobytes() == copy.tobytes()


def test_answers_stay_what_they_are_when_the_operator_learns_on(
    make: Callable[[], Regression], intervals: list[Interval]
) -> None:
    operator = make()
    found = run(operator, intervals[:35])
    before = repr(found)
    run(operator, intervals[35:])
    assert repr(found) == before


def test_a_state_that_does_not_fit_is_refused_by_name(
    make: Callable[[], Regression], intervals: list[Interval]
) -> None:
    operator = make()
    run(operator, intervals[:30])
    snapshot = operator.snapshot()
    window = snapshot["window"]
    with pytest.raises(ValueError, match=r"expected the performance metrics .*got \('errors_per_s',\)"):
        make().restore(snapshot | {"performance": ["errors_per_s"]})
    with pytest.raises(ValueError, match=r"expected at most .* samples of .* metrics, got"):
        make().restore(snapshot | {"window": window | {"values": window["values"][:, 1:]}})
    with pytest.raises(ValueError, match=r"expected performance of .* metrics, got"):
        make().restore(snapshot | {"window": window | {"performance": window["performance"][:, :0]}})
    many = {"ts": np.zeros(999), "values": np.zeros((999, len(window["ids"]))), "performance": np.zeros((999, 2))}
    with pytest.raises(ValueError, match=r"expected at most .* samples"):
        make().restore(snapshot | {"window": window | many})


def test_metrics_that_come_and_go_do_not_grow_the_state(make: Callable[[], Regression]) -> None:
    operator = make()
    chance = np.random.default_rng(2)

    def size_after(intervals: range) -> int:
        for at in intervals:
            names = Names(tuple(f"web-{at + each}:cpu_busy_ratio" for each in range(4)))
            told = {RT: float(chance.lognormal()), THR: float(chance.lognormal())}
            operator.learn(60.0 * at, names, chance.normal(size=4), told)
        return size(operator.snapshot())

    # Models have more or fewer terms: the matrix of samples is what could grow.
    assert size_after(range(600, 750)) <= 1.3 * size_after(range(750, 850)) + 500
    assert size(operator.snapshot()) < 60_000


VALUES = [0.0, -0.0, 1.0, 1e15, -1e15, 1e-300, 1e100, np.inf, -np.inf, np.nan]


def test_values_of_any_kind_never_give_a_score_that_is_not_a_number(make: Callable[[], Regression]) -> None:
    operator = make()
    chance = np.random.default_rng(3)
    names = Names(tuple(f"web-1/p{each}:cpu_busy_ratio" for each in range(12)))
    for at in range(70):
        values = np.where(chance.random(12) < 0.15, chance.choice(VALUES, 12), chance.normal(size=12))
        told = {RT: float(chance.lognormal()), THR: float(chance.lognormal())}
        judgement = operator.score(60.0 * at, names, values, told)
        assert np.isfinite(judgement.score)
        assert judgement.score >= 0.0
        for model in operator.learn(60.0 * at, names, values, told):
            assert all(np.isfinite(each.r) for each in model.candidates)


def test_performance_of_any_kind_never_gives_a_score_that_is_not_a_number(make: Callable[[], Regression]) -> None:
    operator = make()
    chance = np.random.default_rng(4)
    for at, (ts, names, values, told) in enumerate(stream(70, 4)):
        odd = {name: float(chance.choice(VALUES)) if chance.random() < 0.2 else told[name] for name in told}
        if at % 40 > 35:
            odd = {RT: float("nan")}
        judgement = operator.score(ts, names, values, odd)
        assert np.isfinite(judgement.score)
        assert judgement.score >= 0.0
        operator.learn(ts, names, values, odd)
