"""A river detector by its name in the settings: found, checked and tried before any data comes."""

from __future__ import annotations

import copy
import inspect
import math
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from laggard.operators.river.plain import NotPlainError, Parts, generators

if TYPE_CHECKING:
    from collections.abc import Mapping

Parameter = bool | int | float | str

SEED: Final = 1
"""The default seed of a detector with random numbers."""

PROBABLE: Final = {"HalfSpaceTrees", "GaussianScorer"}
"""For these, one minus the answer is like a probability, and minus its logarithm separates large answers."""

MOST_CERTAIN: Final = 1e-13
"""Answers closer to 1 than this are equal."""

STEPS: Final = 16.0
"""The factor by which raw scores are finer than the bins of the calibration."""

CHANGED_BY_SCORING: Final = {"PredictiveAnomalyDetection": ("dynamic_mae", "dynamic_se_variance")}
"""Detectors that learn when they score: here they learn in `learn` only."""

TRIED: Final = 64
"""The number of synthetic rows with which a detector is tried."""

MOST_NODES: Final = 200_000
"""The most trees of HalfSpaceTrees: about 60 MB per host."""

WINDOW: Final = 256
"""The window of LocalOutlierFactor: with river's default of 1,000 it is 15 times as slow."""


class Blueprint:
    """Makes detectors of one kind.

    Parameters:
        name: the name of a class in `river.anomaly`.
        parameters: the parameters of its constructor that are numbers, texts or truth values; for `LocalOutlierFactor`
            also `window_size`.

    Raises:
        ImportError: river is not installed.
        ValueError: there is no such detector or parameter, or its state is no plain data; says what was expected.

    Attributes:
        per: `row` for a detector of all features of a row, `counter` for one of single values.
        parts: the classes and functions that such a detector consists of.

    """

    def __init__(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        self.name = name
        self.parameters = dict(parameters)
        self.per: Literal["row", "counter"] = "row"
        self._kept = CHANGED_BY_SCORING.get(name, ())
        self._prototype = self._built()
        try:
            for generator in generators(self._prototype) if "seed" not in self.parameters else ():
                generator.seed(SEED)  # otherwise it would differ from run to run
        except NotPlainError as error:
            raise ValueError(f"{name} cannot be kept: {error}") from None
        self.parts = self._try()

    def _built(self) -> Any:
        anomaly = _anomaly()
        found = usable()
        if self.name not in found:
            filters = ": it passes on the answers of another" if self.name in anomaly.__all__ else ""
            raise ValueError(f"expected one of {', '.join(found)}, got {self.name}{filters}")
        cls = found[self.name]
        self.per = "row" if "x" in inspect.signature(cls.score_one).parameters and not _supervised(cls) else "counter"
        signature = inspect.signature(cls).parameters
        known = [name for name, each in signature.items() if _is_plain(each)]
        arguments: dict[str, Any] = dict(self.parameters)
        if self.name == "LocalOutlierFactor":
            known.append("window_size")
            arguments["engine"] = _engine(arguments.pop("window_size", WINDOW))
        for name, value in self.parameters.items():
            if name not in known:
                raise ValueError(
                    f"expected parameters of {self.name} ({', '.join(known) or 'it has none'}), got {name}"
                )
            default = signature[name].default if name in signature else WINDOW
            if default is not None and not _fits(value, default):
                raise ValueError(f"{name}: expected a value such as {default!r}, got {value!r}")
            if type(default) is int and value < min(default, 1):  # type: ignore[operator]
                raise ValueError(f"{name}: expected at least {min(default, 1)}, got {value!r}")
        if self.name == "HalfSpaceTrees":
            _check_trees(self.parameters.get("n_trees", 10), self.parameters.get("height", 8))
        if "seed" in signature:
            arguments.setdefault("seed", SEED)
        try:
            return cls(**arguments)
        except Exception as error:  # noqa: BLE001 - river's own checks raise what they like
            raise ValueError(f"{self.name} does not take {self.parameters}: {_message(error)}") from None

    def _try(self) -> Parts:
        """Learn and score synthetic rows, and check that the state of the detector can be stored."""
        detector = self.new()
        noise = np.random.default_rng(SEED)
        rows = noise.random((TRIED, 3)).tolist()
        try:
            for row in rows:
                self.learn(detector, {"a": row[0], "b": row[1]}, row[2])
                self.score(detector, {"a": row[1], "b": row[0]}, row[2])
            parts = Parts(detector)
            before = repr(parts.table(detector))
            again = parts.object_of(parts.table(detector))
            both = [[self.score(each, {"a": row[1]}, row[2]) for row in rows] for each in (detector, again)]
        except NotPlainError as error:
            raise ValueError(f"{self.name} cannot be kept: {error}") from None
        except Exception as error:  # noqa: BLE001 - likewise
            raise ValueError(f"{self.name} with {self.parameters} fails on plain numbers: {_message(error)}") from None
        if repr(both[0]) != repr(both[1]):
            raise ValueError(f"{self.name} cannot be kept: it goes on differently after it was read back")
        if repr(parts.table(detector)) != before:
            raise ValueError(f"{self.name} cannot be used: scoring changes what it has learned")
        return parts

    def new(self) -> Any:
        """Return a new detector that shares nothing with others."""
        return copy.deepcopy(self._prototype)

    def score(self, detector: Any, x: Mapping[str, float], y: float = 0.0) -> float:
        """Return the raw score of the features `x` of a row, or of one value `y` after `x`; NaN for none.

        It is scaled for the calibration, see `PROBABLE` and `STEPS`.
        """
        saved = [(name, copy.deepcopy(getattr(detector, name))) for name in self._kept]
        try:
            answer = float(detector.score_one(x) if self.per == "row" else detector.score_one(x, y))
        except ZeroDivisionError:
            answer = math.nan  # a detector that has seen a single value only
        finally:
            for name, value in saved:
                setattr(detector, name, value)
        if self.name in PROBABLE:
            answer = -math.log(max(1.0 - answer, MOST_CERTAIN)) if math.isfinite(answer) else math.nan
        return answer * STEPS if math.isfinite(answer) else math.nan

    def learn(self, detector: Any, x: Mapping[str, float], y: float = 0.0) -> None:
        """Let a detector learn a row or a value."""
        if self.per == "row":
            detector.learn_one(x)
            return
        # An answer that is NaN, as before any was learned, would stay in its means for ever.
        if self._kept and math.isfinite(self.score(detector, x, y)):
            detector.score_one(x, y)
        detector.learn_one(x, y)


def usable() -> dict[str, Any]:
    """Return the detectors of the installed river. Raises `ImportError` that says how to install it."""
    anomaly = _anomaly()
    found = {name: getattr(anomaly, name) for name in anomaly.__all__}
    return {name: cls for name, cls in found.items() if not hasattr(cls, "classify")}


def _anomaly() -> Any:
    try:
        from river import anomaly  # noqa: PLC0415 - it is heavy, and an extra
    except ImportError as error:
        raise ImportError("the operator river needs river: pip install 'laggard[river]'") from error
    return anomaly


def _engine(window_size: Parameter) -> Any:
    from river import neighbors  # noqa: PLC0415

    if type(window_size) is not int or window_size < 1:
        raise ValueError(f"window_size: expected a whole number of at least 1, got {window_size!r}")
    return neighbors.LazySearch(window_size=window_size)


def _check_trees(trees: Any, height: Any) -> None:
    if trees * 2.0 ** (height + 1) > MOST_NODES:
        got = f"{trees} trees of height {height}"
        raise ValueError(f"n_trees, height: expected at most {MOST_NODES:,} nodes, got {got}")


def _supervised(cls: Any) -> bool:
    return "y" in inspect.signature(cls.score_one).parameters


def _is_plain(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter can be given in the settings."""
    if isinstance(parameter.default, Parameter):
        return True
    kind = str(parameter.annotation)
    named = "dict" not in kind and ("int" in kind or "float" in kind)
    return parameter.default is None and (named or parameter.name == "window_size")


def _fits(value: Parameter, default: Parameter) -> bool:
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
