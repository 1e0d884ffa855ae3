"""The published performance model: built on the newest window, replaced after Welch's test (S2, section 2)."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.regression.correlation import best, correlations
from laggard.operators.regression.following import MISSING, Follower, Options, Seen, Wishes
from laggard.operators.regression.welch import welch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.regression.models import Model, Reason
    from laggard.operators.regression.traits import Traits
    from laggard.operators.regression.window import Window

POOR_R2: Final = 0.8
"""The R^2 below which a model is poor (section 5.6 B, Table 7)."""

MOST_PUBLISHED: Final = 20


class Published(Follower):
    """The published method: Algorithms 1 and 2 on a window, and Welch's test on residuals of adjacent windows."""

    def __init__(self, name: str, options: Options) -> None:
        super().__init__(name, options)
        self._reference: NDArray[np.float64] = np.empty(0)  # residuals in the window of the model
        self._residuals = deque[float](maxlen=options.window)

    def evaluate(self, value: float, values: Mapping[str, float]) -> Seen:
        """Evaluate a sample. The state does not change."""
        predicted = self.predict(values)
        residuals = np.array([*self._residuals, value - predicted])[-self._options.window :]
        residuals = residuals[np.isfinite(residuals)]
        p = welch(self._reference, residuals) if len(residuals) >= self._options.window else math.nan
        if self._options.criterion == "residuals":
            changed = p < self._options.significance
        else:
            changed = len(residuals) >= self._options.window and self._r2((value, predicted)) < POOR_R2
        return Seen(predicted, value - predicted, p, self._options.window, changed)

    def learn(
        self, value: float, values: Mapping[str, float], window: Window, traits: Traits, wishes: Wishes
    ) -> Model | None:
        """Learn the newest sample, and return the model that was built."""
        del traits  # the published method has no traits
        seen = self.evaluate(value, values)
        self._note(value, seen.predicted)
        self._residuals.append(seen.residual)
        samples = int(np.isfinite(window.performance(self.name)).sum())
        reason: Reason | None = None
        if self.model is None:
            reason = "first" if samples >= self._options.window else None
        elif seen.changed or self._missing >= MISSING:
            reason = "poor" if self._options.criterion == "r2" else "changed"
        elif self._wished:
            reason = "wish"
        return None if reason is None else self._build(window, wishes, reason, seen.p_value)

    def _build(self, window: Window, wishes: Wishes, reason: Reason, p_value: float) -> Model:
        samples = self._usable(window, self._options.window)
        r = correlations(samples.values, samples.target)
        r[samples.numbers(wishes.banned)] = np.nan
        candidates = best(r, self._options.candidates)
        choice = self._climb(samples, candidates, min(max(len(samples.target) - 2, 1), MOST_PUBLISHED))
        self._p_value = p_value
        model = self._make(samples, choice, r=r, candidates=candidates, wishes=wishes, reason=reason)
        assert self._fit is not None
        self._reference = samples.target - self._fit.fitted
        # W(t) slides over W(t'): at first they share samples.
        self._residuals = deque(self._reference.tolist(), self._options.window)
        return model

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return super().snapshot() | {"reference": self._reference.copy(), "residuals": list(self._residuals)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`."""
        super().restore(state)
        self._reference = np.array(state["reference"], np.float64)
        self._residuals = deque((float(each) for each in state["residuals"]), self._options.window)
