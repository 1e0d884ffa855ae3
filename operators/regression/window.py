"""The newest samples of an application as one matrix: its performance and the metrics of its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.regression.models import Metrics

GONE_SHARE: Final = 0.25
"""The share of unused columns from which on they are dropped."""


class Window:
    """Samples in the order of time, with one column per metric.

    Metrics may come and go. A missing one is NaN, and the column of one that is in no sample is dropped.

    Memory: at most `capacity` x `limit` x 8 bytes, and the names.

    Parameters:
        performance: the names of the performance metrics.
        capacity: the most samples.
        limit: the most metrics; the first ones are kept.

    Attributes:
        ids: the metric of each column; another list after columns were dropped.
        performances: the names of the performance metrics.
        refused: the number of metrics of the newest sample beyond the limit.

    """

    def __init__(self, performance: Sequence[str], capacity: int, limit: int) -> None:
        self.ids: list[str] = []
        self.refused = 0
        self.performances = tuple(performance)
        self.capacity = capacity
        self._limit = limit
        self._ts: NDArray[np.float64] = np.empty(0)
        self._performance: NDArray[np.float64] = np.empty((0, len(self.performances)))
        self._values: NDArray[np.float64] = np.empty((capacity, 0))
        self._begin = 0
        self._columns: dict[str, int] = {}
        self._remembered: tuple[Metrics, NDArray[np.intp], NDArray[np.intp]] | None = None

    def __len__(self) -> int:
        return len(self._ts)

    def add(self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]) -> None:
        """Add a sample; a full window drops the oldest one."""
        at, of = self._places(metrics)
        size = len(self._ts)
        row = (self._begin + size) % self.capacity
        if size == self.capacity:
            self._begin = (self._begin + 1) % self.capacity
            self._ts, self._performance = self._ts[1:], self._performance[1:]
        self._values[row] = np.nan
        self._values[row, at] = values if len(of) == len(values) else values[of]
        self._ts = np.append(self._ts, ts)
        newest = [performance.get(name, np.nan) for name in self.performances]
        self._performance = np.vstack((self._performance, newest))

    def _places(self, metrics: Metrics) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the columns of a sample's metrics, and the places of these in the sample."""
        if self._remembered is not None and self._remembered[0] is metrics:
            return self._remembered[1], self._remembered[2]
        # Not by the identity of the object: a restored window must do the same.
        new = [name for name in metrics.ids if name not in self._columns]
        if new and self._give_up(metrics):
            new = [name for name in metrics.ids if name not in self._columns]
        for name in new[: max(self._limit - len(self.ids), 0)]:
            self._columns[name] = len(self.ids)
            self.ids.append(name)
        if len(self.ids) > self._values.shape[1]:
            more = np.full((self.capacity, len(self.ids) - self._values.shape[1]), np.nan)
            self._values = np.hstack((self._values, more))
        found = [(self._columns[name], number) for number, name in enumerate(metrics.ids) if name in self._columns]
        self.refused = len(metrics.ids) - len(found)
        places = np.array(found, np.intp).reshape(-1, 2)
        at, of = places[:, 0].copy(), places[:, 1].copy()
        # Metrics beyond the limit find room once columns are dropped.
        self._remembered = None if self.refused else (metrics, at, of)
        return at, of

    def _give_up(self, metrics: Metrics) -> bool:
        """Drop the columns of metrics that are in no sample, if they are many or there is no room for others."""
        there = set(metrics.ids)
        seen = np.isfinite(self._rows()).sum(axis=0) > 0
        remaining = [at for at, name in enumerate(self.ids) if seen[at] or name in there]
        full = len(self.ids) + len(there) > self._limit and len(remaining) < len(self.ids)
        if not full and len(remaining) >= (1.0 - GONE_SHARE) * len(self.ids):
            return False
        self._values = self._values[:, remaining].copy()
        self.ids = [self.ids[at] for at in remaining]
        self._columns = {name: at for at, name in enumerate(self.ids)}
        return True

    def _rows(self, last: int | None = None) -> NDArray[np.float64]:
        size = len(self._ts)
        first = 0 if last is None else max(size - last, 0)
        return self._values[(self._begin + np.arange(first, size)) % self.capacity]

    def last(self, count: int | None = None) -> NDArray[np.float64]:
        """Return a copy of the values of the newest samples, the oldest first, shape (samples, metrics)."""
        return self._rows(count)

    def of(self, metrics: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of some metrics in all samples, shape (samples, len(metrics)); NaN for unknown metrics."""
        rows = (self._begin + np.arange(len(self._ts))) % self.capacity
        found = np.full((len(rows), len(metrics)), np.nan)
        for number, name in enumerate(metrics):
            if (column := self._columns.get(name)) is not None:
                found[:, number] = self._values[rows, column]
        return found

    def performance(self, name: str, count: int | None = None) -> NDArray[np.float64]:
        """Return a performance metric of the newest samples, shape (samples,)."""
        column = self._performance[:, self.performances.index(name)]
        return column if count is None else column[max(len(column) - count, 0) :]

    def times(self, count: int | None = None) -> NDArray[np.float64]:
        """Return the times of the newest samples, seconds since the Unix epoch."""
        return self._ts if count is None else self._ts[max(len(self._ts) - count, 0) :]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "ids": list(self.ids),
            "ts": self._ts.copy(),
            "performance": self._performance.copy(),
            "values": self._rows(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        ts, values = np.array(state["ts"], np.float64), np.array(state["values"], np.float64)
        ids, performance = [str(name) for name in state["ids"]], np.array(state["performance"], np.float64)
        if len(ts) > self.capacity or values.shape != (len(ts), len(ids)):
            raise ValueError(
                f"expected at most {self.capacity} samples of {len(ids)} metrics, got {len(ts)} and {values.shape}"
            )
        if performance.shape != (len(ts), len(self.performances)):
            raise ValueError(f"expected performance of {len(self.performances)} metrics, got {performance.shape}")
        self.ids, self._columns = ids, {name: at for at, name in enumerate(ids)}
        self._values = np.full((self.capacity, len(ids)), np.nan)
        self._values[: len(ts)] = values
        self._begin, self._ts, self._performance, self._remembered = 0, ts, performance, None
