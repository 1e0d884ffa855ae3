"""Caches of the history of one scope of a host: sampled frames, blocks of ticks, and the requested rows."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Frame

    Vector = NDArray[np.float64]


OVERHEAD_BYTES: Final = 500
"""The bytes of a sample or a segment in addition to its values, roughly: many may be almost empty."""

MOST_WANTED: Final = 12
"""The most rows of a host and scope whose ticks are cached when a block is read for any of them."""

MOST_EMPTY: Final = 4096
"""The most stretches of records without a frame that are remembered for a host and scope."""

NOTHING: Final = np.empty(0)


class Segment(NamedTuple):
    """Ticks of a row with the same features.

    Attributes:
        features: the names of the features; none while the row did not exist.
        ts: the times of the ticks, seconds since the Unix epoch, shape (ticks,).
        values: the values, shape (ticks, features).

    """

    features: tuple[str, ...]
    ts: Vector
    values: Vector

    def of(self, feature: str) -> Vector:
        """Return the values of a feature; NaN if the segment does not have it."""
        if feature in self.features:
            return self.values[:, self.features.index(feature)]
        return np.full(len(self.ts), np.nan)


class Block(NamedTuple):
    """Ticks of a row in a block of records.

    Attributes:
        stop: the offset up to which it is read; before the end of the block only if records are still to come.
        segments: its segments in the order of their records.
        bytes: its size in bytes.

    """

    stop: int
    segments: tuple[Segment, ...]
    bytes: int


class Sample(NamedTuple):
    """A sampled frame: its time, names, a copy of its values, shape (rows, features), and its size in bytes."""

    ts: float
    rows: tuple[str, ...]
    features: tuple[str, ...]
    values: NDArray[np.float32]
    bytes: int

    def of(self, row: str | None, feature: str) -> float:
        """Return a value, NaN if it is missing; without a row, the value of the first row."""
        try:
            return float(self.values[0 if row is None else self.rows.index(row), self.features.index(feature)])
        except (ValueError, IndexError):
            return math.nan


class Track:
    """The caches of one scope of a host."""

    def __init__(self) -> None:
        self.samples: OrderedDict[int, Sample] = OrderedDict()
        self.empty: OrderedDict[tuple[int, int], None] = OrderedDict()
        self.rows: OrderedDict[str | None, dict[int, Block]] = OrderedDict()
        self.wanted: OrderedDict[str | None, None] = OrderedDict()

    def want(self, row: str | None) -> None:
        """Remember that a row was requested."""
        self.wanted[row] = None
        self.wanted.move_to_end(row)
        while len(self.wanted) > MOST_WANTED:
            self.wanted.popitem(last=False)

    def sample(self, frame: Frame) -> Sample:
        """Return a sample of a frame. Samples share names, whose size counts for the first sample that has them."""
        last = next(reversed(self.samples.values()), None)
        rows, features = frame.layout.rows, frame.layout.features
        if last is not None and last.rows == rows and last.features == features:
            rows, features, size = last.rows, last.features, 0
        else:
            before = set[str]() if last is None else {*last.rows, *last.features}
            rows, features = shared(rows), shared(features)
            new = (each for each in (*rows, *features) if each not in before)
            size = sum(map(sys.getsizeof, (rows, features, *new)))
        values = frame.values.astype(np.float32)
        return Sample(frame.ts, rows, features, values, OVERHEAD_BYTES + values.nbytes + size)

    def keep_empty(self, stretch: tuple[int, int]) -> None:
        """Remember that there is no frame from one offset to another."""
        self.empty[stretch] = None
        while len(self.empty) > MOST_EMPTY:
            self.empty.popitem(last=False)


def shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, each in memory only once: every decoded frame has its own copies."""
    return tuple(map(sys.intern, names))


def joined(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Join neighboring segments with the same features."""
    runs: list[list[Segment]] = []
    for segment in segments:
        if runs and runs[-1][0].features == segment.features:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return tuple(
        Segment(
            each[0].features, np.concatenate([one.ts for one in each]), np.concatenate([one.values for one in each])
        )
        for each in runs
    )


def tick_of(segments: Sequence[Segment]) -> float:
    """Return the usual time between two ticks in seconds; 0 if unknown."""
    steps = [np.diff(each.ts) for each in segments]
    steps += [np.array([later.ts[0] - earlier.ts[-1]]) for earlier, later in pairwise(segments)]
    apart = np.concatenate([NOTHING, *steps])
    apart = apart[apart > 0.0]
    return float(np.median(apart)) if apart.size else 0.0
