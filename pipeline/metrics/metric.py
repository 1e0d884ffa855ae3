"""The declaration of a metric: its name, its type, its labels and its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "laggard_"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: its name without the prefix and without the suffix of its type.
        kind: its type in Prometheus.
        labels: the names of its labels, in order. `host` becomes `application`, `pool` or `service` if the stream is
            keyed by that.
        help: one or two sentences.
        feature: the feature of the frames of agents or sources that it shows; empty for the worker's own metrics.

    """

    name: str
    kind: Literal["counter", "gauge", "histogram", "info"]
    labels: tuple[str, ...]
    help: str
    feature: str = ""

    @property
    def exposed(self) -> str:
        """The name of its samples; those of a histogram add `_bucket`, `_sum` and `_count`."""
        return PREFIX + self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")
