"""Groups of different times, such as waves, and their mean courses by age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BINS: Final = 128
"""The number of bins of a life, each with its mean; two are merged into one when a life outgrows them."""

GROUPS: Final = 1_024
"""The most groups with a course; the oldest are dropped."""


class Courses:
    """The mean course of each group by its age, so that groups of different times can be compared (section IV.B).

    Memory: groups x 128 x metrics x 8 bytes x 2.

    Parameters:
        metrics: the number of metrics.

    Attributes:
        width: the number of ticks in a bin.

    """

    def __init__(self, metrics: int) -> None:
        self.metrics = metrics
        self.width = 1
        self._courses: dict[str, _Course] = {}

    def __contains__(self, group: str) -> bool:
        return group in self._courses

    def add(self, ts: float, group: str, values: NDArray[np.float64]) -> None:
        """Learn a tick of a group, `values` of shape (metrics,); NaN for none."""
        course = self._courses.get(group)
        if course is None:
            if len(self._courses) >= GROUPS:
                del self._courses[next(iter(self._courses))]
            course = self._courses[group] = _Course(ts, self.metrics)
        at = course.ticks // self.width
        if at >= BINS:
            self.width *= 2
            for each in self._courses.values():
                each.halve()
            at //= 2
        known = np.isfinite(values)
        course.sums[at] += np.where(known, values, 0.0)
        course.counts[at] += known
        course.ticks += 1
        course.until_ts = ts

    def begin_ts(self, group: str) -> float:
        """Return the begin of a group, seconds since the Unix epoch."""
        return self._courses[group].begin_ts

    def until_ts(self, group: str) -> float:
        """Return the time at which a group was last seen."""
        return self._courses[group].until_ts

    def means(self, group: str) -> NDArray[np.float64]:
        """Return the course of a group, shape (bins, metrics); NaN if unknown."""
        course = self._courses[group]
        bins = -(-course.ticks // self.width)
        counts = course.counts[:bins]
        return np.where(counts > 0.0, course.sums[:bins] / np.maximum(counts, 1.0), np.nan)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        every = list(self._courses.values())
        nothing = np.zeros((0, BINS, self.metrics))
        return {
            "groups": list(self._courses),
            "width": self.width,
            "begin_ts": [each.begin_ts for each in every],
            "until_ts": [each.until_ts for each in every],
            "ticks": [each.ticks for each in every],
            "sums": np.stack([each.sums for each in every]) if every else nothing,
            "counts": np.stack([each.counts for each in every]) if every else nothing,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        sums, counts = np.array(state["sums"], np.float64), np.array(state["counts"], np.float64)
        shape = (len(state["groups"]), BINS, self.metrics)
        if sums.shape != shape or counts.shape != shape:
            raise ValueError(f"courses: expected the shape {shape}, got {sums.shape} and {counts.shape}")
        self.width = int(state["width"])
        self._courses = {}
        for at, group in enumerate(state["groups"]):
            course = self._courses[group] = _Course(float(state["begin_ts"][at]), self.metrics)
            course.until_ts, course.ticks = float(state["until_ts"][at]), int(state["ticks"][at])
            course.sums, course.counts = sums[at].copy(), counts[at].copy()


class _Course:
    __slots__ = ("begin_ts", "counts", "sums", "ticks", "until_ts")

    def __init__(self, ts: float, metrics: int) -> None:
        self.begin_ts = self.until_ts = ts
        self.ticks = 0
        self.sums = np.zeros((BINS, metrics))
        self.counts = np.zeros((BINS, metrics))

    def halve(self) -> None:
        """Merge each two bins."""
        for name in ("sums", "counts"):
            part = getattr(self, name)
            joined = np.zeros_like(part)
            joined[: BINS // 2] = part[0::2] + part[1::2]
            setattr(self, name, joined)
