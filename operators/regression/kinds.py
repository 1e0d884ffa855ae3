"""The kinds of model: what is fitted on the chosen metrics, and how the other kinds choose theirs (section 2.2 B)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from laggard.operators.regression.climb import folds_of
from laggard.operators.regression.correlation import CONSTANT, lengths
from laggard.operators.regression.selection import Choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from laggard.operators.regression.models import Kind

FORGETTING: Final = 0.97
"""A sample counts half after 23 more."""

BUILT: Final = 0.1
"""So many samples, one spread off in each direction, the coefficients count for that were there at the beginning: where
samples have long told nothing of a direction, these hold."""

FAR: Final = 1e6
"""A value that is so many spreads off is not followed: it would decide alone for hundreds of samples."""

LINEAR_STATE: Final = ("centre", "spread", "built", "b", "information", "moment")

NEIGHBOURS: Final = 3
LEAF: Final = 2
STAGES: Final = 50
DEPTH: Final = 2
SEED: Final = 0


class Fit(Protocol):
    """A fitted model of some metrics.

    Attributes:
        deviations: of each sample that it was fitted on from what is predicted without it, shape (samples,).

    """

    deviations: NDArray[np.float64]

    def predict(self, values: NDArray[np.float64]) -> float:
        """The performance at these values of the metrics, shape (terms,). NaN where one of them is not finite."""

    def learn(self, values: NDArray[np.float64], target: float) -> None:
        """Follow a further sample, as far as the kind can."""

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The intercept and the coefficient of each metric, NaN where the kind has none. Shape (1 + terms,)."""

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""


class LinearFit:
    """Least squares, tracked from then on by least squares with forgetting.

    What is minimised is the sum of 0.97^age (y - x b)^2 and of `BUILT` (b - b at the beginning)^2. The normal equations
    themselves are kept and solved anew: in the usual recursion of their inverse, rounding errors grow with 0.97^-n and
    are as large as the inverse itself after 1,200 samples.

    Parameters:
        values: shape (samples, terms), without NaN.
        target: shape (samples,).

    Attributes:
        fitted: what is predicted for each sample that it was fitted on, shape (samples,).
        deviations: see `Fit`.

    References: Haykin (2014), "Adaptive filter theory", chapter 10. Ljung and Ljung (1985), "Error propagation
    properties of recursive least-squares adaptation algorithms", Automatica 21.

    """

    def __init__(self, values: NDArray[np.float64], target: NDArray[np.float64]) -> None:
        self._centre, self._spread = scale_of(values)
        design = self._design(values)
        self._information = design.T @ design
        inverse = np.linalg.pinv(self._information, hermitian=True)
        self._built = self._b = inverse @ (design.T @ target)
        self._moment = np.zeros(len(self._built))  # of what the coefficients at the beginning leave
        self.fitted = design @ self._built
        leverage = np.einsum("nt,tu,nu->n", design, inverse, design)
        # Without a sample the model would miss it by its residual / (1 - leverage) (Cook and Weisberg, 1982).
        self.deviations = (target - self.fitted) / np.maximum(1.0 - leverage, 0.1)

    def _design(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        # In units of their own spread, so that all base units are treated alike.
        scaled = (np.atleast_2d(values) - self._centre) / self._spread
        return np.column_stack((np.ones(len(scaled)), scaled))

    def predict(self, values: NDArray[np.float64]) -> float:
        """The performance at these values."""
        return float((self._design(values) @ self._b)[0]) if np.isfinite(values).all() else math.nan

    def learn(self, values: NDArray[np.float64], target: float) -> None:
        """Follow a further sample."""
        if not np.isfinite(values).all() or np.abs(x := self._design(values)[0]).max() > FAR:
            return
        self._information = FORGETTING * self._information + np.outer(x, x)
        self._moment = FORGETTING * self._moment + x * (target - x @ self._built)
        self._b = self._built + np.linalg.solve(self._information + BUILT * np.eye(len(x)), self._moment)

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The intercept and the coefficient of each metric, in base units."""
        slopes = self._b[1:] / self._spread
        return np.concatenate(([self._b[0] - slopes @ self._centre], slopes))

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {name: getattr(self, f"_{name}").copy() for name in LINEAR_STATE}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> LinearFit:
        """The fit that `snapshot` gave."""
        fit = cls.__new__(cls)
        for name in LINEAR_STATE:
            setattr(fit, f"_{name}", np.array(state[name], np.float64))
        fit.deviations = fit.fitted = np.empty(0)
        return fit


class LearnedFit:
    """k-nearest neighbours, a regression tree, or boosted trees, by scikit-learn.

    Parameters:
        kind: which.
        values: shape (samples, terms), without NaN.
        target: shape (samples,).

    """

    def __init__(self, kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64]) -> None:
        # Copies in the order of memory that restored ones have: sums are rounded by it.
        self._kind, self._values, self._target = kind, np.array(values, order="C"), target.copy()
        self._centre, self._spread = scale_of(self._values)
        self._model = estimator(kind, len(target))
        self._model.fit(self._scaled(self._values), self._target)
        self.fitted = np.asarray(self._model.predict(self._scaled(self._values)), np.float64)
        self.deviations = target - cross_predicted(kind, self._values, self._target)

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((np.atleast_2d(values) - self._centre) / self._spread)

    def predict(self, values: NDArray[np.float64]) -> float:
        """The performance at these values."""
        return float(self._model.predict(self._scaled(values))[0]) if np.isfinite(values).all() else math.nan

    def learn(self, values: NDArray[np.float64], target: float) -> None:
        """Nothing: such a model stays what it is until the next one is built."""

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """None: all NaN."""
        return np.full(1 + self._values.shape[1], np.nan)

    def snapshot(self) -> dict[str, Any]:
        """The samples that it was fitted on; it is fitted again, with the same result."""
        return {"kind": self._kind, "values": self._values.copy(), "target": self._target.copy()}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> LearnedFit:
        """The fit that `snapshot` gave."""
        return cls(state["kind"], np.asarray(state["values"], np.float64), np.asarray(state["target"], np.float64))


def scale_of(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of each column and its standard deviation, 1 where it is constant."""
    centre = values.mean(axis=0)
    spread = lengths(values - centre) / math.sqrt(len(values))
    return centre, np.where(spread > CONSTANT * np.abs(centre), spread, 1.0)


def fitted(kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64]) -> LinearFit | LearnedFit:
    """A model of this kind. With no terms, it is the mean."""
    return LinearFit(values, target) if kind == "linear" or not values.shape[1] else LearnedFit(kind, values, target)


def restored(state: dict[str, Any]) -> LinearFit | LearnedFit:
    """The fit that `snapshot` gave."""
    return LearnedFit.restored(state) if "kind" in state else LinearFit.restored(state)


def estimator(kind: Kind, samples: int) -> Any:
    """What scikit-learn has of a kind.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.

    """
    # Here, since the default kind does without, and loading it takes seconds.
    from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsRegressor  # noqa: PLC0415
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415

    made: dict[Kind, Callable[[], Any]] = {
        "neighbours": lambda: KNeighborsRegressor(min(NEIGHBOURS, max(samples - 1, 1)), weights="distance"),
        "tree": lambda: DecisionTreeRegressor(min_samples_leaf=LEAF, random_state=SEED),
        "boosting": lambda: GradientBoostingRegressor(n_estimators=STAGES, max_depth=DEPTH, random_state=SEED),
    }
    return made[kind]()


def cross_predicted(kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is predicted for each sample by a model that was fitted without its fold; a single one by itself."""
    if len(target) < 2:
        return target.copy()
    fold = folds_of(len(target))
    predicted = np.empty(len(target))
    centre, spread = scale_of(values)
    scaled = (values - centre) / spread
    for number in range(int(fold.max(initial=-1)) + 1):
        test = fold == number
        model = estimator(kind, int((~test).sum()))
        predicted[test] = model.fit(scaled[~test], target[~test]).predict(scaled[test])
    return predicted


def climb_kind(
    kind: Kind,
    values: NDArray[np.float64],
    target: NDArray[np.float64],
    columns: NDArray[np.intp],
    *,
    minimum_gain: float,
    most: int,
) -> Choice:
    """Algorithm 2 as it stands, for any kind: each candidate is tried by itself. See `selection.climb`."""
    left, chosen, r2 = [int(column) for column in columns], list[int](), 0.0
    variance = float(((target - target.mean()) ** 2).sum())
    while left and variance > 0.0 and len(chosen) < most:
        gains = [_r2(kind, values[:, [*chosen, column]], target, variance) for column in left]
        at = int(np.argmax(gains))
        if not gains[at] - r2 > minimum_gain:
            break
        r2 = gains[at]
        chosen.append(left.pop(at))
    return Choice(chosen, r2)


def _r2(kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64], variance: float) -> float:
    return 1.0 - float(((target - cross_predicted(kind, values, target)) ** 2).sum()) / variance
