"""A metric as it is declared: its name, its type, its labels and its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "laggard_"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: without the prefix and without the suffix of its type.
        kind: its type, as Prometheus calls it.
        labels: their names, in order. `host` is called `application`, `pool` or `service` where the stream is keyed
            by that.
        help: one or two sentences.
        feature: of the frames of agents or sources, the one that it shows; empty for what the worker knows itself.

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
