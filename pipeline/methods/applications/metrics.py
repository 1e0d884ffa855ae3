"""The metrics of an application: their names, their parts, and the places of their values."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout

FORGOTTEN_INTERVALS: Final = 256
"""A metric without a value in this many intervals in a row is forgotten ..."""

LOOKED_INTERVALS: Final = 64
"""... at the next check, one in this many intervals, so that names seldom change."""

MAX_METRICS: Final = 50_000
MAX_LAYOUTS: Final = 64
"""The most layouts that are remembered with the places of their metrics."""


def metric_id(row: str, feature: str) -> str:
    """Return the id of a metric: `web-1/nginx:cpu_wait_ratio`."""
    return f"{row}:{feature}"


class MetricParts(NamedTuple):
    """The parts of a metric.

    Attributes:
        host: the name of the host.
        row: `HOST`, or `HOST/NAME` for all processes of one name.
        feature: the counter, with its base unit.

    """

    host: str
    row: str
    feature: str

    @property
    def name(self) -> str:
        """The name of the processes; empty for the host itself."""
        return self.row.partition("/")[2]


def metric_parts(metric: str) -> MetricParts:
    """Return the parts of a metric; the feature follows the last colon outside of labels (`{...}`)."""
    head, brace, labels = metric.partition("{")
    row, _, feature = head.rpartition(":")
    if row:
        feature += brace + labels
    else:
        row, _, feature = metric.rpartition(":")
    return MetricParts(row.partition("/")[0], row, feature)


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """The names of metrics: one object for as long as they do not change.

    Attributes:
        ids: unique, in the order of the values.

    """

    ids: tuple[str, ...]


class Places:
    """The places of metrics in vectors of their values.

    At most `MAX_METRICS` have a place; a metric without a value in `FORGOTTEN_INTERVALS` intervals loses it.

    Attributes:
        metrics: the names at the end of the last interval.
        left_out: the number of values without a place so far; each call of `placed` counts them again.

    """

    def __init__(self) -> None:
        self.metrics = Metrics(())
        self.left_out = 0
        self._place: dict[str, int] = {}
        self._unseen = np.zeros(0, np.int32)  # by place, the number of intervals since the last value
        self._count = 0
        self._layouts: OrderedDict[bytes, NDArray[np.intp]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._place)

    def placed(self, layout: Layout, values: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the places of the metrics of a layout, and the values of those that have a place."""
        places = self._layouts.get(layout.packed)
        if places is None:
            ids = (metric_id(row, feature) for row in layout.rows for feature in layout.features)
            places = np.fromiter(map(self._place_of, ids), np.intp, len(layout.rows) * len(layout.features))
            self._layouts[layout.packed] = places
            if len(self._layouts) > MAX_LAYOUTS:
                self._layouts.popitem(last=False)
        else:
            self._layouts.move_to_end(layout.packed)
        if places.size and places.min() < 0:
            has_place = places >= 0
            self.left_out += int(places.size - has_place.sum())
            return places[has_place], values[has_place]
        return places, values

    def _place_of(self, metric: str) -> int:
        found = self._place.get(metric)
        if found is None:
            if len(self._place) >= MAX_METRICS:
                return -1
            found = self._place[metric] = len(self._place)
        return found

    def seen(self, there: NDArray[np.bool_]) -> Metrics:
        """Note the metrics with a value in an interval; return the names of all, before some are forgotten."""
        if len(self.metrics.ids) != len(self._place):
            self.metrics = Metrics(tuple(self._place))
            self._unseen = np.concatenate((self._unseen, np.zeros(len(self._place) - len(self._unseen), np.int32)))
        self._unseen += 1
        self._unseen[there] = 0
        metrics = self.metrics
        self._count += 1
        if self._count % LOOKED_INTERVALS == 0 and (self._unseen >= FORGOTTEN_INTERVALS).any():
            retained = self._unseen < FORGOTTEN_INTERVALS
            ids = [metric for metric, keep in zip(metrics.ids, retained.tolist(), strict=True) if keep]
            self._name(ids, self._unseen[retained])
        return metrics

    def _name(self, ids: list[str], unseen: NDArray[np.int32]) -> None:
        self.metrics = Metrics(tuple(ids))
        self._place = {metric: place for place, metric in enumerate(ids)}
        self._unseen = unseen
        self._layouts.clear()

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {"metrics": list(self.metrics.ids), "unseen": self._unseen.copy(), "count": self._count}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        self._count = int(state["count"])
        self._name(list(state["metrics"]), np.array(state["unseen"], np.int32))
