"""An alert, the numbers in its text, and the group that it is evaluated with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number in the text of an alert, other than the result of its expression.

    Attributes:
        metric: the name of the metric.
        labels: the alert's labels that the metric has.
        form: an expression with `{}` for the metric; the text has the greatest value of its series.
        instead: the metric to query if the first one has no series; empty for none.

    """

    metric: str
    labels: tuple[str, ...]
    form: str = "{}"
    instead: str = ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics to query, in order: the first one with a series gives the number."""
        return (self.metric, self.instead) if self.instead else (self.metric,)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: the name of the alert, and of its runbook.
        severity: `info` is for a chat, `warning` for a ticket, `critical` for a page.
        labels: the possible labels of its series; any of them may be missing.
        expr: PromQL; without a result while all is well.
        wait_s: the time with a result after which the alert fires.
        keep_s: the time for which the alert still fires after that, so that a recurring fault is one alert.
        summary: one line, see `alerts`.
        description: a few sentences, see `alerts`.
        dashboard: the uid of the dashboard that shows it.
        numbers: the numbers by name. `at` is the moment of the fault, `from` the start of the dashboard, in ms.

    """

    name: str
    severity: Severity
    labels: tuple[str, ...]
    expr: str
    wait_s: float
    keep_s: float
    summary: str
    description: str
    dashboard: str
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus computes and stores: `level:metric:operations`, and its PromQL."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, every `interval_s`."""

    name: str
    interval_s: float
    rules: tuple[Alert | Recording, ...]
