"""The kinds of models that are fitted to chosen metrics, and the choice for nonlinear ones (section 2.2 B)."""

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
"""The factor of forgetting per sample: the weight of a sample is halved after 23 more."""

BUILT: Final = 0.1
"""The weight of the fitted coefficients, in samples at one spread in each direction: they decide in directions in which
samples have not varied for long."""

FAR: Final = 1e6
"""A value beyond this number of spreads is not tracked: it alone would decide for hundreds of samples."""

LINEAR_STATE: Final = ("centre", "spread", "built", "b", "information", "moment")

NEIGHBOURS: Final = 3
LEAF: Final = 2
STAGES: Final = 50
DEPTH: Final = 2
SEED: Final = 0


class Fit(Protocol):
    """A fitted model of some metrics.

    Attributes:
        deviations: the difference of each fitted sample from its prediction without it, shape (samples,).

    """

    deviations: NDArray[np.float64]

    def predict(self, values: NDArray[np.float64]) -> float:
        """Predict the performance at these values of the metrics, shape (terms,). NaN if one of them is not finite."""

    def learn(self, values: NDArray[np.float64], target: float) -> None:
        """Track a further sample, if the kind can."""

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The intercept and the coefficient of each metric, shape (1 + terms,); NaN if the kind has none."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""


class LinearFit:
    """Least squares, which is then tracked by least squares with forgetting.

    It minimizes the sum of 0.97^age (y - x b)^2 and of `BUILT` (b - b0)^2, with b0 the fitted coefficients. The normal
    equations are stored and solved again for each sample. The rounding errors of the common recursion for their inverse
    grow with 0.97^-n, and are as large as the inverse after 1,200 samples.

    Parameters:
        values: shape (samples, terms), without NaN.
        target: shape (samples,).

    Attributes:
        fitted: the prediction for each fitted sample, shape (samples,).
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
        self._moment = np.zeros(len(self._built))  # of the residuals of b0
        self.fitted = design @ self._built
        leverage = np.einsum("nt,tu,nu->n", design, inverse, design)
        # The residual of a sample in a model without it is residual / (1 - leverage) (Cook and Weisberg, 1982).
        self.deviations = (target - self.fitted) / np.maximum(1.0 - leverage, 0.1)

    def _design(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        # In units of their own spread, so that base units do not matter.
        scaled = (np.atleast_2d(values) - self._centre) / self._spread
        return np.column_stack((np.ones(len(scaled)), scaled))

    def predict(self, values: NDArray[np.float64]) -> float:
        """Predict the performance at these values."""
        return float((self._design(values) @ self._b)[0]) if np.isfinite(values).all() else math.nan

    def learn(self, values: NDArray[np.float64], target: float) -> None:
        """Track a further sample."""
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
        """Return a copy of the state as plain data."""
        return {name: getattr(self, f"_{name}").copy() for name in LINEAR_STATE}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> LinearFit:
        """Restore the fit of a `snapshot`."""
        fit = cls.__new__(cls)
        for name in LINEAR_STATE:
            setattr(fit, f"_{name}", np.array(state[name], np.float64))
        fit.deviations = fit.fitted = np.empty(0)
        return fit


class LearnedFit:
    """k-nearest neighbors, a regression tree, or boosted trees, by scikit-learn.

    Parameters:
        kind: the kind of model.
        values: shape (samples, terms), without NaN.
        target: shape (samples,).

    """

    def __init__(self, kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64]) -> None:
        # Copies in the memory order of restored ones, which the rounding of sums depends on.
        self._kind, self._values, self._target = kind, np.array(values, order="C"), target.copy()
        self._centre, self._spread = scale_of(self._values)
        self._model = estimator(kind, len(target))
        self._model.fit(self._scaled(self._values), self._target)
        self.fitted = np.asarray(self._model.predict(self._scaled(self._values)), np.float64)
        self.deviations = target - cross_predicted(kind, self._values, self._target)

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((np.atleast_2d(values) - self._centre) / self._spread)

    def predict(self, values: NDArray[np.float64]) -> float:
        """Predict the performance at these values."""
        return float(self._model.predict(self._scaled(values))[0]) if np.isfinite(values).all() else math.nan

    def learn(self, values: NDArray[np.float64], target: float) -> None:
        """Do nothing: such a model does not change until the next one is built."""

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """NaN for all: such a model has none."""
        return np.full(1 + self._values.shape[1], np.nan)

    def snapshot(self) -> dict[str, Any]:
        """Return the fitted samples; they are fitted again, with the same result."""
        return {"kind": self._kind, "values": self._values.copy(), "target": self._target.copy()}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> LearnedFit:
        """Restore the fit of a `snapshot`."""
        return cls(state["kind"], np.asarray(state["values"], np.float64), np.asarray(state["target"], np.float64))


def scale_of(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the standard deviation of each column; 1 for a constant one."""
    centre = values.mean(axis=0)
    spread = lengths(values - centre) / math.sqrt(len(values))
    return centre, np.where(spread > CONSTANT * np.abs(centre), spread, 1.0)


def fitted(kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64]) -> LinearFit | LearnedFit:
    """Fit a model of this kind. Without terms it is the mean."""
    return LinearFit(values, target) if kind == "linear" or not values.shape[1] else LearnedFit(kind, values, target)


def restored(state: dict[str, Any]) -> LinearFit | LearnedFit:
    """Restore the fit of a `snapshot`."""
    return LearnedFit.restored(state) if "kind" in state else LinearFit.restored(state)


def estimator(kind: Kind, samples: int) -> Any:
    """Return the estimator of scikit-learn for a kind.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.

    """
    # Imported here, since the default kind does not need it, and loading it takes seconds.
    from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsRegressor  # noqa: PLC0415
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415

    factories: dict[Kind, Callable[[], Any]] = {
        "neighbours": lambda: KNeighborsRegressor(min(NEIGHBOURS, max(samples - 1, 1)), weights="distance"),
        "tree": lambda: DecisionTreeRegressor(min_samples_leaf=LEAF, random_state=SEED),
        "boosting": lambda: GradientBoostingRegressor(n_estimators=STAGES, max_depth=DEPTH, random_state=SEED),
    }
    return factories[kind]()


def cross_predicted(kind: Kind, values: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Predict each sample by a model that was fitted without its fold; a single sample by itself."""
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
    """Run Algorithm 2 as published, for any kind: each candidate is tried on its own. See `selection.climb`."""
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
