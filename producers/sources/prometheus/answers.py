"""Answers of a Prometheus server's HTTP API to queries. Pure.

Reference: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laggard.producers.sources.prometheus.page import Series, series
from laggard.producers.sources.prometheus.rates import increase
from laggard.producers.sources.prometheus.selectors import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHOWN = 120


class AnswerError(Exception):
    """An unexpected answer: what was found and what was expected."""


@dataclass(frozen=True, slots=True)
class Points:
    """The samples of one series, the oldest first: times in seconds since the Unix epoch, and values, never NaN."""

    times: Sequence[float]
    values: Sequence[float]

    def rate(self, begin: float, end: float) -> float:
        """Return the increase of a counter per second, from its last sample at or before `begin` to its last sample.

        If no sample is after `begin`, it is that of the last two; if all are, that from the first one. NaN for fewer
        than two samples, and for a series that has ended.
        """
        last = len(self.times) - 1
        if last < 1 or self.has_ended(end):
            return math.nan
        base = max((at for at in range(last) if self.times[at] <= begin), default=0)
        return increase(self.values[base:]) / (self.times[last] - self.times[base])

    def mean(self, begin: float, end: float) -> float:
        """Return the mean of a gauge over (begin, end], or its last value if it has none there; NaN if it ended."""
        within = [value for at, value in zip(self.times, self.values, strict=True) if begin < at <= end]
        if within:
            return math.fsum(within) / len(within)
        return self.values[-1] if self.values and not self.has_ended(end) else math.nan

    def has_ended(self, end: float) -> bool:
        """Return whether nothing has come for more than twice the mean interval; unknown for one sample, so False."""
        last = len(self.times) - 1
        return last > 0 and end - self.times[last] > 2 * (self.times[last] - self.times[0]) / last


def parse_matrix(content: bytes) -> tuple[Mapping[Series, Points], int]:
    """Return the series of a range selector, and the number of their samples together.

    Raises:
        AnswerError: the answer is not a matrix, or an error.

    """
    found: dict[Series, Points] = {}
    samples = 0
    for each in _result(content, "matrix"):
        labels, name = _labels(each)
        values = each.get("values", [])  # native histograms have none
        if not isinstance(values, list):
            raise AnswerError(f"expected a list of values of {name}, got {values!r:.{_SHOWN}}")
        times: list[float] = []
        numbers: list[float] = []
        for value in values:
            at, number = _point(value, name)
            if not math.isnan(number) and (not times or at > times[-1]):
                times.append(at)
                numbers.append(number)
        samples += len(values)
        if times:
            found[series(name, labels)] = Points(times, numbers)
    return found, samples


def parse_number(content: bytes) -> float:
    """Return the one number of an expression; NaN if it finds nothing.

    Raises:
        AnswerError: the answer is not one number, or an error.

    """
    result = _result(content, "vector", "scalar")
    if not isinstance(result, list):
        raise AnswerError(f"expected a list, got {result!r:.{_SHOWN}}")
    if result and not isinstance(result[0], dict):
        return _point(result, "the expression")[1]
    if len(result) > 1:
        raise AnswerError(f"expected one number, got {len(result)} series: aggregate them, for example with sum()")
    return _point(result[0].get("value"), "the expression")[1] if result else math.nan


def _result(content: bytes, *kinds: str) -> Any:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerError(f"expected an answer in JSON, got {content[:_SHOWN]!r}") from None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        error = answer.get("error") if isinstance(answer, dict) else None
        raise AnswerError(f"expected the status success, got {error or answer!r:.{_SHOWN}}")
    data = answer.get("data")
    if not isinstance(data, dict) or data.get("resultType") not in kinds or not isinstance(data.get("result"), list):
        got = data.get("resultType") if isinstance(data, dict) else data
        raise AnswerError(f"expected a {' or a '.join(kinds)}, got {got!r:.{_SHOWN}}")
    if kinds == ("matrix",) and not all(isinstance(each, dict) for each in data["result"]):
        raise AnswerError("expected series, got something else among them")
    return data["result"]


def _labels(labels: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    metric = labels.get("metric")
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        raise AnswerError(f"expected the labels of a series, got {metric!r:.{_SHOWN}}")
    return {label: value for label, value in metric.items() if label != NAME}, metric.get(NAME, "")


def _point(point: Any, name: str) -> tuple[float, float]:
    try:
        at, number = point
        return float(at), float(number)
    except (TypeError, ValueError):
        raise AnswerError(f"expected a time and a number of {name}, got {point!r:.{_SHOWN}}") from None
