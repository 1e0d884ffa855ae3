"""What every operator promises, on frames or on intervals of applications, checked for each in the same way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from laggard.operators.covariance import Covariance
from laggard.operators.cpu import Cpu
from laggard.operators.cpu.measures import CONDITIONS
from laggard.operators.deviations import Deviations
from laggard.operators.gaussian import Gaussian
from laggard.operators.lasting import Lasting, Series
from laggard.operators.regression import Regression
from laggard.operators.river import Blueprint, River
from laggard.operators.saturation import Saturation, Users

from .conftest import lively as lively_stream
from .conftest import names, plain, size
from .regression.streams import RT, restless, trait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .conftest import Tick

    Lively = Callable[[int, int], list[Tick]]

MAKERS: dict[str, Callable[[], Any]] = {
    "gaussian": lambda: Gaussian(stocks=("_2", "_3")),
    "gaussian, the paper's": lambda: Gaussian(likelihood="paper"),
    "gaussian, short and narrow": lambda: Gaussian(context_s=120.0, minimum_features=1, spare_rows=2),
    "covariance": lambda: Covariance(windows=(4, 12)),
    "covariance, as published, of few": lambda: Covariance(method="published", windows=(8,), limit=7),
    "lasting": lambda: Lasting(rates={"feature_0": 0.01, "feature_1": 0.01}, stocks={"feature_2": (0.01, 0.001)}),
    "deviations": lambda: Deviations(
        Gaussian(), Lasting(rates={"feature_0": 0.01, "feature_1": 0.01}, stocks={"feature_2": (0.01, 0.001)})
    ),
    "series": lambda: Series(resolution={"_1": 0.01}),
    "deviations, of any rows": lambda: Deviations(Gaussian(minimum_features=1), Series(), false_alarms_per_day=9.0),
    "cpu": Cpu,
    "cpu, all of it": lambda: Cpu(threshold=0.5, duration_s=7.0, conditions=tuple(CONDITIONS)),
    "saturation": lambda: Saturation(duration_s=10.0, limits={"cpu": 0.3, "disk": 0.2}),
    "saturation, users": Users,
    "cpu, smooth": lambda: Cpu(conditions=("cpu", "spikes"), smoothing="trimmed", window_s=25.0),
}

# What is measured of what comes first among the features of a stream; they come and go from the end.
MEASURED = [
    *("pressure_io_some_ratio", "cpu_user_ratio", "cpu_system_ratio", "pressure_memory_some_ratio"),
    *("cpu_quota_throttled_ratio", "threads", "cpus"),
]

FULL = [
    *("pressure_cpu_some_ratio", "memory_used_bytes", "memory_available_bytes", "filesystem_/_used_ratio"),
    *("pressure_io_some_ratio", "disk_sda_busy_ratio", "cpu_busy_ratio"),
]
USED = [
    "cpu_user_ratio",
    "cpu_system_ratio",
    "memory_rss_bytes",
    "io_write_bytes_per_s",
    "threads",
    "io_read_bytes_per_s",
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

REGRESSIONS: dict[str, Callable[[], Regression]] = {
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


def with_wishes(make: Callable[[], Regression]) -> Regression:
    operator = make()
    operator.ban("web-1/other-3:value")
    operator.pin("web-1:cpu_busy_ratio")
    return operator


# The quick run checks each operator with one choice of its settings, and one of river's detectors.
SLOW = {f"river, {name}" for name in RIVERS} - {"river, StandardAbsoluteDeviation"}
SLOW |= {"gaussian, the paper's", "gaussian, short and narrow", "covariance, as published, of few"}
SLOW |= {"deviations, of any rows", "cpu, smooth"}
SLOW |= set(REGRESSIONS) - {"adaptive", "published"}


def each_of(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in names]


class Kind(NamedTuple):
    """An operator, and what makes a stream of a number of ticks for it, from a seed."""

    make: Callable[[], Any]
    stream: Callable[[int, int], list[Any]]


@pytest.fixture(scope="module", params=each_of([*MAKERS, *REGRESSIONS]))
def kind(request: pytest.FixtureRequest) -> Kind:
    name = str(request.param)
    if name in REGRESSIONS:
        return Kind(
            partial(with_wishes, REGRESSIONS[name]), lambda ticks, seed: restless(min(ticks, 50), seed, change=28)
        )
    return Kind(MAKERS[name], partial(lively_stream, features=features_of(name)))


def features_of(name: str) -> int | list[str]:
    """Of a stream that says something to the operator."""
    if name.startswith("saturation"):
        return FULL if name == "saturation" else USED
    return MEASURED if name.startswith("cpu") else 12


@pytest.fixture(params=each_of(MAKERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str) -> Callable[[], Any]:
    return MAKERS[name]


@pytest.fixture
def features(name: str) -> int | list[str]:
    return features_of(name)


@pytest.fixture
def lively(features: int | list[str]) -> Lively:
    return lambda ticks, seed: lively_stream(ticks, seed, features=features)


def answers(operator: Any, stream: list[Any]) -> list[Any]:
    """Score, then learn, each tick."""
    found = []
    for tick in stream:
        scores = operator.score(*tick)
        found.append((scores.score, scores.ranking(5, 5)) if hasattr(scores, "ranking") else scores)
        found.append(operator.learn(*tick))
    return found


class Course(NamedTuple):
    """A stream, what an operator answers to it, and its state after it."""

    stream: list[Any]
    answers: str
    state: Any


@pytest.fixture(scope="module")
def course(kind: Kind) -> Course:
    operator, stream = kind.make(), kind.stream(120, 1)
    return Course(stream, repr(answers(operator, stream)), plain(operator.snapshot()))


def test_the_same_input_gives_the_same_answers_bit_for_bit(kind: Kind, course: Course) -> None:
    operator = kind.make()
    assert repr(answers(operator, course.stream)) == course.answers
    assert plain(operator.snapshot()) == course.state


def test_scoring_changes_nothing(kind: Kind) -> None:
    stream = kind.stream(120, 2)
    scored, silent = kind.make(), kind.make()
    for number, tick in enumerate(stream):
        for _ in range(2):
            scored.score(*tick)
        scored.score(tick[0] + 1.0, *stream[number // 2][1:])
        scored.learn(*tick)
        silent.learn(*tick)
    assert plain(scored.snapshot()) == plain(silent.snapshot())


@pytest.mark.parametrize("cut", [29, *(pytest.param(cut, marks=pytest.mark.slow) for cut in (0, 1, -1))])
def test_a_stream_that_is_cut_and_resumed_goes_on_as_if_it_had_not_been(kind: Kind, course: Course, cut: int) -> None:
    first, second = kind.make(), kind.make()
    found = answers(first, course.stream[:cut])
    snapshot = first.snapshot()
    second.restore(snapshot)
    assert plain(second.snapshot()) == plain(snapshot)
    assert repr(found + answers(second, course.stream[cut:])) == course.answers
    assert plain(second.snapshot()) == course.state


def test_a_snapshot_is_a_copy(kind: Kind) -> None:
    stream = kind.stream(80, 4)
    operator, restored = kind.make(), kind.make()
    answers(operator, stream[:35])
    snapshot = operator.snapshot()
    before = plain(snapshot)
    restored.restore(snapshot)
    answers(operator, stream[35:])
    answers(restored, stream[35:])
    assert plain(snapshot) == before


def test_values_that_are_given_are_not_changed(kind: Kind) -> None:
    operator = kind.make()
    for tick in kind.stream(60, 5):
        copy = tick[2].copy()
        tick[2].setflags(write=False)
        answers(operator, [tick])
        assert tick[2].tobytes() == copy.tobytes()


def test_what_was_answered_stays_what_it_is_when_the_operator_learns_on(kind: Kind) -> None:
    operator = kind.make()
    stream = kind.stream(100, 6)
    found = answers(operator, stream[:35])
    scores = operator.score(*stream[35])
    # A ranking is made when it is asked for.
    before = repr((found, scores.score, scores.ranking(9, 9) if hasattr(scores, "ranking") else scores))
    answers(operator, stream[35:])
    assert repr((found, scores.score, scores.ranking(9, 9) if hasattr(scores, "ranking") else scores)) == before


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

    if "groups" in snapshot:
        (group,) = snapshot["groups"]
        with pytest.raises(ValueError, match="levels: expected"):
            make().restore(snapshot | {"groups": [group | {"features": ["another"]}]})
        with pytest.raises(ValueError, match="evidence: expected 3 scales, got 2"):
            make().restore(snapshot | {"groups": [group | {"evidence": group["evidence"][1:]}]})
        return

    if "newcomers" in snapshot:
        first, *others = snapshot["evidence"]
        with pytest.raises(ValueError, match="mean: expected the shape"):
            make().restore(snapshot | {"evidence": [first | {"mean": np.zeros((1, 3))}, *others]})
        with pytest.raises(ValueError, match="evidence: expected 3 scales, got 2"):
            make().restore(snapshot | {"evidence": others})
        with pytest.raises(ValueError, match="first_ts: expected"):
            make().restore(snapshot | {"first_ts": np.zeros(1)})
        return

    if "resources" in snapshot:
        with pytest.raises(ValueError, match="resources: cpu: expected mean, "):
            make().restore(snapshot | {"resources": {"cpu": {"mean": 0.5}}})
        return
    if "means" in snapshot:
        with pytest.raises(ValueError, match="means: expected the shape"):
            make().restore(snapshot | {"means": np.zeros((1, 3))})
        with pytest.raises(ValueError, match="seen_ts: expected one per name"):
            make().restore(snapshot | {"seen_ts": np.zeros(3)})
        return

    def damaged(state: dict[str, Any], **changed: Any) -> dict[str, Any]:
        """With another value in the part that has the rows."""
        if "rows" in state:
            return state | changed
        part = next(each for each in ("usual", "conditions", "events", "cpu", "gaussian") if each in state)
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

    # Both end with a whole sub-block: one that is open takes a few values more.
    assert size_after(range(300)) == size_after(range(300, 390))
