"""What every operator on frames promises, checked for each of them in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.covariance import Covariance
from laggard.operators.cpu import Cpu
from laggard.operators.cpu.measures import CONDITIONS
from laggard.operators.gaussian import Gaussian
from laggard.operators.river import Blueprint, River

from .conftest import lively as lively_stream
from .conftest import names, plain, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Tick

    Lively = Callable[[int, int], list[Tick]]

MAKERS: dict[str, Callable[[], Any]] = {
    "gaussian": lambda: Gaussian(stocks=("_2", "_3")),
    "gaussian, the paper's": lambda: Gaussian(likelihood="paper"),
    "gaussian, short and narrow": lambda: Gaussian(context_s=120.0, minimum_features=1, spare_rows=2),
    "covariance": lambda: Covariance(windows=(4, 12)),
    "covariance, as published, of few": lambda: Covariance(method="published", windows=(8,), limit=7),
    "cpu": Cpu,
    "cpu, all of it": lambda: Cpu(threshold=0.5, duration_s=7.0, conditions=tuple(CONDITIONS)),
    "cpu, smooth": lambda: Cpu(conditions=("cpu", "spikes"), smoothing="trimmed", window_s=25.0),
}

# What is measured of what comes first among the features of a stream; they come and go from the end.
MEASURED = [
    *("pressure_io_some_ratio", "cpu_user_ratio", "cpu_system_ratio", "pressure_memory_some_ratio"),
    *("cpu_quota_throttled_ratio", "threads", "cpus"),
]

# Small ones, so that their windows are full within a test, and each tried out once.
RIVERS: dict[str, dict[str, int]] = {
    "HalfSpaceTrees": {"n_trees": 3, "height": 4, "window_size": 40},
    "LODA": {"n_random_cuts": 8},
    "LocalOutlierFactor": {"n_neighbors": 2, "window_size": 10},
    "OneClassSVM": {},
    "GaussianScorer": {"grace_period": 5},
    "StandardAbsoluteDeviation": {},
    "PredictiveAnomalyDetection": {"warmup_period": 3},
}


def river(name: str) -> Callable[[], Any]:
    blueprint = Blueprint(name, RIVERS[name])
    return lambda: River(blueprint=blueprint, context_s=120.0, spare_rows=2)


MAKERS |= {f"river, {name}": river(name) for name in RIVERS}

# The operator around river's detectors is the same: one of them is enough for the quick part.
SLOW = {f"river, {name}" for name in RIVERS} - {"river, StandardAbsoluteDeviation"}


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MAKERS])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str) -> Callable[[], Any]:
    return MAKERS[name]


@pytest.fixture
def features(name: str) -> int | list[str]:
    """Of a stream that says something to the operator."""
    return MEASURED if name.startswith("cpu") else 12


@pytest.fixture
def lively(features: int | list[str]) -> Lively:
    return lambda ticks, seed: lively_stream(ticks, seed, features=features)


def answers(operator: Any, stream: list[Any]) -> list[Any]:
    """Score, then learn, each tick."""
    found = []
    for ts, layout, values in stream:
        scores = operator.score(ts, layout, values)
        found.append((scores.score, scores.ranking(5, 5)))
        operator.learn(ts, layout, values)
    return found


def test_the_same_input_gives_the_same_answers_bit_for_bit(make: Callable[[], Any], lively: Lively) -> None:
    stream = lively(150, 1)
    first, second = make(), make()
    assert repr(answers(first, stream)) == repr(answers(second, stream))
    assert plain(first.snapshot()) == plain(second.snapshot())


def test_scoring_changes_nothing(make: Callable[[], Any], lively: Lively) -> None:
    stream = lively(120, 2)
    scored, silent = make(), make()
    for tick, (ts, layout, values) in enumerate(stream):
        for _ in range(2):
            scored.score(ts, layout, values)
        other = stream[tick // 2]
        scored.score(ts + 1.0, other[1], other[2])
        scored.learn(ts, layout, values)
        silent.learn(ts, layout, values)
    assert plain(scored.snapshot()) == plain(silent.snapshot())


@pytest.mark.parametrize("cut", [0, 1, 37, 119])
def test_a_stream_that_is_cut_and_resumed_goes_on_as_if_it_had_not_been(
    make: Callable[[], Any], lively: Lively, cut: int
) -> None:
    stream = lively(120, 3)
    whole, first, second = make(), make(), make()
    expected = answers(whole, stream)
    found = answers(first, stream[:cut])
    second.restore(first.snapshot())
    assert repr(found + answers(second, stream[cut:])) == repr(expected)
    assert plain(second.snapshot()) == plain(whole.snapshot())


def test_a_snapshot_is_a_copy(make: Callable[[], Any], lively: Lively) -> None:
    stream = lively(80, 4)
    operator, restored = make(), make()
    answers(operator, stream[:40])
    snapshot = operator.snapshot()
    before = plain(snapshot)
    restored.restore(snapshot)
    answers(operator, stream[40:])
    answers(restored, stream[40:])
    assert plain(snapshot) == before


def test_values_that_are_given_are_not_changed(make: Callable[[], Any], lively: Lively) -> None:
    operator = make()
    for ts, layout, values in lively(60, 5):
        copy = values.copy()
        values.setflags(write=False)
        operator.score(ts, layout, values)
        operator.learn(ts, layout, values)
        assert values.tobytes() == copy.tobytes()


def test_scores_stay_what_they_are_when_the_operator_learns_on(make: Callable[[], Any], lively: Lively) -> None:
    operator = make()
    stream = lively(100, 6)
    answers(operator, stream[:50])
    scores = operator.score(*stream[50])
    before = repr((scores.score, scores.ranking(9, 9)))
    answers(operator, stream[50:])
    assert repr((scores.score, scores.ranking(9, 9))) == before


@pytest.mark.parametrize(("rows", "features"), [(0, 0), (0, 5), (3, 0), (1, 1), (1, 40)])
def test_frames_of_any_size_are_taken(make: Callable[[], Any], rows: int, features: int) -> None:
    operator = make()
    layout = names([f"p[{each}]" for each in range(rows)], features)
    chance = np.random.default_rng(8)
    for tick in range(30):
        values = chance.normal(size=(rows, features))
        ranking = operator.score(5.0 * tick, layout, values).ranking(3, 3)
        assert len(ranking.rows) <= rows
        operator.learn(5.0 * tick, layout, values)


def test_a_frame_whose_shape_is_not_that_of_its_names_is_refused_and_changes_nothing(
    make: Callable[[], Any], lively: Lively
) -> None:
    operator = make()
    answers(operator, lively(30, 9))
    before = plain(operator.snapshot())
    layout = names(["a[1]", "b[2]"], 3)
    for call in (operator.score, operator.learn):
        with pytest.raises(ValueError, match=r"expected values of shape \(2, 3\).*got \(3, 2\)"):
            call(2e9, layout, np.zeros((3, 2)))
    assert plain(operator.snapshot()) == before


def test_a_state_that_does_not_fit_is_refused_by_name(make: Callable[[], Any], lively: Lively) -> None:
    operator = make()
    answers(operator, lively(30, 10))
    snapshot = operator.snapshot()
    if "depths" in snapshot:
        bank = snapshot["depths"][0]["bank"]
        for each in ("sums", "relation", "limits"):
            damage = snapshot | {"depths": [snapshot["depths"][0] | {"bank": bank | {each: np.zeros((1, 3))}}]}
            with pytest.raises(ValueError, match=rf"{each}: expected the shape"):
                make().restore(damage)
        with pytest.raises(ValueError, match="courses: expected the shape"):
            make().restore(snapshot | {"courses": snapshot["courses"] | {"sums": np.zeros((1, 3))}})
        return

    def damaged(state: dict[str, Any], **changed: Any) -> dict[str, Any]:
        """With another value in the part that has the rows."""
        if "rows" in state:
            return state | changed
        part = next(each for each in ("usual", "conditions", "events", "cpu") if each in state)
        return state | {part: damaged(state[part], **changed)}

    matrix = "values" if "conditions" in snapshot else "usual_mean"
    with pytest.raises(ValueError, match=rf"{matrix}: expected the shape"):
        make().restore(damaged(snapshot, **{matrix: np.zeros((1, 3))}))
    with pytest.raises(ValueError, match=r"names: expected one per row"):
        make().restore(damaged(snapshot, names=["x"] * 99))
    for each in {"likelihood", "detector", "parameters"} & snapshot.keys():
        with pytest.raises(ValueError, match=each):
            make().restore(snapshot | {each: "another"})


def test_values_of_any_kind_never_give_a_score_that_is_not_a_number(
    make: Callable[[], Any], features: int | list[str]
) -> None:
    operator = make()
    chance = np.random.default_rng(11)
    layout = names([f"p[{each}]" for each in range(5)], features)
    kinds = np.array([0.0, -0.0, 1.0, 1e15, -1e15, 1e-300, 1e140, 1e308, np.inf, -np.inf, np.nan])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for tick in range(200):
            values = chance.choice(kinds, (5, len(layout.features)))
            scores = operator.score(5.0 * tick, layout, values)
            assert np.isfinite(scores.score)
            assert scores.score >= 0.0
            for row in scores.ranking(9, 99).rows:
                assert np.isfinite([row.score, *(each.score for each in row.features)]).all()
            operator.learn(5.0 * tick, layout, values)


@pytest.mark.slow
def test_rows_and_features_that_come_and_go_do_not_grow_the_state(make: Callable[[], Any]) -> None:
    operator = make()

    def size_after(ticks: range) -> int:
        for tick in ticks:
            layout = names([f"p[{tick + each}]" for each in range(4)], [f"feature_{tick}"])
            operator.learn(5.0 * tick, layout, np.full((4, 1), float(tick)))
        return size(operator.snapshot())

    assert size_after(range(300)) == size_after(range(300, 400))
