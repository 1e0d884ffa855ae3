"""Counters scored and learned per second: the operator beside river doing the same work in the same run.

    python tests/benchmarks/gaussian.py [--rows 200] [--features 30] [--rounds 5]

Every engine scores each counter before it learns it. The rounds of all engines take turns, so that a noisy machine
disturbs them alike; the median round counts, in CPU time of one core.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
from river import anomaly, proba

from laggard.operators.gaussian import Gaussian
from laggard.pipeline.core.records import make_layout

if TYPE_CHECKING:
    from collections.abc import Callable

TICKS = 200


def frames(rows: int, features: int) -> np.ndarray:
    """Counters as they are: most barely move, some are bursty. Shape (ticks, rows, features)."""
    noise = np.random.default_rng(0)
    level = noise.lognormal(0.0, 3.0, (rows, features))
    return level * (1.0 + 0.1 * noise.lognormal(0.0, 1.0, (TICKS, rows, features)))


def laggard(series: np.ndarray, interval_s: float, likelihood: str) -> Callable[[], int]:
    """The operator, after its first ticks, when every counter has a past."""
    _, rows, features = series.shape
    layout = make_layout([f"p[{row}]" for row in range(rows)], ["p"] * rows, [f"f{each}" for each in range(features)])
    operator = Gaussian(likelihood="paper" if likelihood == "paper" else "scale_free")
    clock = 0.0

    def work() -> int:
        nonlocal clock
        for values in series:
            clock += interval_s
            operator.score(clock, layout, values)
            operator.learn(clock, layout, values)
        return series.size

    work()
    return work


def numpy_alone(series: np.ndarray) -> Callable[[], int]:
    """Mean and variance with forgetting, and nothing else: no score, no names, no gaps. What numpy could do at best."""
    mean, squares, deviation, step = np.zeros((4, *series.shape[1:]))

    def work() -> int:
        for values in series:
            np.subtract(values, mean, out=deviation)
            np.multiply(deviation, 0.001, out=step)
            np.add(mean, step, out=mean)
            np.multiply(squares, 0.999, out=squares)
            np.multiply(deviation, step, out=step)
            np.add(squares, step, out=squares)
        return series.size

    return work


def river_gaussian(series: np.ndarray) -> Callable[[], int]:
    """One `proba.Gaussian` a counter: the density of the value, then the update."""
    few = series[:2].reshape(2, -1).tolist()
    models = [proba.Gaussian() for _ in few[0]]

    def work() -> int:
        for values in few:
            for model, value in zip(models, values, strict=True):
                model(value)
                model.update(value)
        return 2 * len(models)

    return work


def river_scorer(series: np.ndarray) -> Callable[[], int]:
    """One `anomaly.GaussianScorer` a counter: the score of the value, then the update."""
    few = series[:2].reshape(2, -1).tolist()
    models = [anomaly.GaussianScorer() for _ in few[0]]

    def work() -> int:
        for values in few:
            for model, value in zip(models, values, strict=True):
                model.score_one(None, value)
                model.learn_one(None, value)
        return 2 * len(models)

    return work


def main() -> None:
    """Print a line per engine."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--features", type=int, default=30)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    series = frames(chosen.rows, chosen.features)
    engines = {
        "laggard, ticks of 5 s": laggard(series, 5.0, "scale_free"),
        "laggard, ticks of 1 s": laggard(series, 1.0, "scale_free"),
        "laggard, the paper's likelihood, 5 s": laggard(series, 5.0, "paper"),
        "numpy, mean and variance alone": numpy_alone(series),
        "river proba.Gaussian": river_gaussian(series),
        "river anomaly.GaussianScorer": river_scorer(series),
    }
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(chosen.rounds):
        for name, work in engines.items():
            began = time.process_time()
            counters = work()
            rates[name].append(counters / (time.process_time() - began))
    slowest = statistics.median(rates["river anomaly.GaussianScorer"])
    print(
        f"{chosen.rows} rows x {chosen.features} features, {chosen.rounds} rounds; million counters a second and core"
    )
    for name, found in rates.items():
        middle = statistics.median(found)
        spread = f"{min(found) / 1e6:.2f} to {max(found) / 1e6:.2f}"
        print(f"{name:38} {middle / 1e6:8.2f}  ({spread}), {middle / slowest:7.1f} x GaussianScorer")


if __name__ == "__main__":
    main()
