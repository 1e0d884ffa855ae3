"""Performance models of an application with 7,522 metrics: time to build, to test and to follow, beside other ways.

    python -m tests.benchmarks.regression [--rounds 5]

The ways take turns within each round, so that a noisy machine disturbs them alike; the median round counts, in CPU time
of one core. The paper's figures are of another machine: take the ratios to what is measured beside, in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import ttest_ind
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import PredefinedSplit

from laggard.operators.regression import Regression
from laggard.operators.regression.climb import folds_of
from laggard.operators.regression.correlation import best, correlations
from laggard.operators.regression.kinds import climb_kind
from laggard.operators.regression.models import KINDS, Kind
from laggard.operators.regression.selection import climb
from laggard.operators.regression.welch import welch
from tests.operators.regression.slow_climb import slow_climb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

METRICS: Final = 7_522
RT: Final = "response_time_mean_s"
CANDIDATES: Final = (5, 10, 25, 50, 100, 200, 400, 800)
PAPER_MS: Final[Mapping[str, float]] = {"build": 221.0, "test": 5.0}


class Names:
    """The names of metrics, as operators see them."""

    ids = tuple(f"host-{number % 4}/process-{number}:cpu_busy_ratio" for number in range(METRICS))


def samples(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of 7,522 metrics 200 follow the load, and so does the response time, with noise of its own."""
    chance = np.random.default_rng(count)
    load = chance.uniform(0.2, 0.8, count)
    values = chance.lognormal(size=(count, METRICS))
    values[:, :200] = load[:, None] + chance.lognormal(-2.0, 1.0, 200) * chance.normal(size=(count, 200))
    target = load + 0.5 * values[:, 3] + 0.2 * values[:, 150] + 0.05 * chance.normal(size=count)
    return values, target


def turns(ways: Mapping[str, Callable[[], object]], rounds: int, least_s: float = 0.02) -> dict[str, float]:
    """Milliseconds of CPU time that each way takes, the median of the rounds."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times, begin = 0, time.process_time()
            while (passed := time.process_time() - begin) < least_s or not times:
                way()
                times += 1
            taken[name].append(1e3 * passed / times)
    return {name: statistics.median(found) for name, found in taken.items()}


def building(count: int, method: str) -> Callable[[], object]:
    """An interval of an application at which a model of the newest samples is built, for somebody wishes it."""
    values, target = samples(count)
    if method == "published":
        operator = Regression(performance=(RT,), window=count, history=count, method="published")
    else:
        window = 10 if count > 30 else 4
        operator = Regression(performance=(RT,), window=window, history=max(count - 2 * window, window))
    at = 0

    def once() -> object:
        operator.free("nothing")
        return follow()

    def follow() -> object:
        nonlocal at
        at += 1
        return operator.learn(60.0 * at, Names, values[at % count], {RT: float(target[at % count])})

    for _ in range(count):
        follow()
    assert once()
    return once


def builds(count: int, rounds: int) -> None:
    """A linear model of a number of samples, of 100 candidates; and the same climb by others."""
    values, target = samples(count)
    most = min(count - 2, 20)

    def chosen() -> NDArray[np.intp]:
        return best(correlations(values, target), 100)

    found = climb(values, target, chosen(), minimum_gain=0.01, most=most)

    def scikit_learn() -> object:
        # It does not stop by itself at the gain of a sum over all folds: it is told how many the climb found.
        columns = chosen()
        selector = SequentialFeatureSelector(
            LinearRegression(),
            n_features_to_select=max(len(found.columns), 1),
            scoring="neg_mean_squared_error",
            cv=PredefinedSplit(folds_of(count)),
        )
        return selector.fit(values[:, columns], target)

    taken = turns(
        {
            "interval with a build, published": building(count, "published"),
            "interval with a build, adaptive": building(count, "adaptive"),
            "both phases alone": lambda: climb(values, target, chosen(), minimum_gain=0.01, most=most),
        },
        rounds,
    )
    taken |= turns(
        {
            "the plainest loop": lambda: slow_climb(values, target, chosen().tolist(), minimum_gain=0.01, most=most),
            "SequentialFeatureSelector": scikit_learn,
        },
        1,
    )
    print(
        f"\n{count} samples of {METRICS} metrics, {len(found.columns)} of 100 candidates chosen "
        f"(paper: {PAPER_MS['build']:g} ms on its machine)"
    )
    reference = taken["both phases alone"]
    for name, ms in taken.items():
        print(f"{name:40} {ms:10.2f} ms  {ms / reference:8.2f} x")


def tests(rounds: int) -> None:
    """The hypothesis test of two windows."""
    chance = np.random.default_rng(1)
    first, second = chance.normal(size=10), chance.normal(size=10)
    taken = turns(
        {"welch": lambda: welch(first, second), "scipy ttest_ind": lambda: ttest_ind(first, second, equal_var=False)},
        rounds,
    )
    print(f"\nhypothesis test (paper: {PAPER_MS['test']:g} ms)")
    for name, ms in taken.items():
        print(f"{name:40} {ms:10.4f} ms  {ms / taken['welch']:8.2f} x")


def intervals(count: int) -> None:
    """Score and learn where no model is built."""
    values, target = samples(400)
    print(f"\nan interval of {METRICS} metrics in which no model is built; median of {count}")
    operators = {
        "adaptive": Regression(performance=(RT,)),
        "published": Regression(performance=(RT,), method="published"),
    }
    taken: dict[str, list[float]] = {f"{part}, {name}": [] for name in operators for part in ("score", "learn")}
    for at in range(100 + count):
        told = {RT: float(target[at % 400])}
        arguments = 60.0 * at, Names, values[at % 400], told
        for name, operator in operators.items():
            begin = time.process_time()
            operator.score(*arguments)
            middle = time.process_time()
            built = operator.learn(*arguments)
            end = time.process_time()
            if at >= 100 and not built:
                taken[f"score, {name}"].append(1e3 * (middle - begin))
                taken[f"learn, {name}"].append(1e3 * (end - middle))
    for name, found in taken.items():
        print(f"{name:40} {statistics.median(found):10.3f} ms")


def by_candidates(rounds: int, most: Mapping[Kind, int]) -> None:
    """Both phases by N_can and kind, of 10 samples."""
    values, target = samples(10)
    print("\nphases of 10 samples, ms; phase 2 of a first step of all candidates and those after it")
    print(f"{'candidates':>10} {'phase 1':>9}" + "".join(f"{kind:>12}" for kind in KINDS))
    for candidates in CANDIDATES:
        columns = best(correlations(values, target), candidates)
        ways: dict[str, Callable[[], object]] = {"phase 1": lambda: best(correlations(values, target), candidates)}  # noqa: B023
        ways["linear"] = lambda: climb(values, target, columns, minimum_gain=0.01, most=8)  # noqa: B023
        taken = turns(ways, rounds)
        for kind in KINDS[1:]:
            if candidates <= most[kind]:
                taken |= turns(
                    {kind: lambda: climb_kind(kind, values, target, columns, minimum_gain=0.01, most=8)},  # noqa: B023
                    1,
                )
        line = f"{candidates:>10} {taken['phase 1']:>9.2f}"
        print(line + "".join(f"{taken[kind]:>12.2f}" if kind in taken else f"{'-':>12}" for kind in KINDS), flush=True)


def main() -> None:
    """Print all of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument(
        "--most", type=int, default=100, help="candidates for neighbours and trees, a tenth for boosting"
    )
    chosen = options.parse_args()
    for count in (10, 400):
        builds(count, chosen.rounds)
    tests(chosen.rounds)
    intervals(50 * chosen.rounds)
    most: dict[Kind, int] = {"neighbours": chosen.most, "tree": chosen.most, "boosting": chosen.most // 10}
    by_candidates(chosen.rounds, most)


if __name__ == "__main__":
    main()
