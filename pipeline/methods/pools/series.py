"""Time series of members and of the rest of their pool: means of two minutes, as in S3's visual check (section V.G)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.covariance.results import path_of
from laggard.pipeline.core.records import Decoder, Frame, RecordError
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.core.bus import Bus, Incoming
    from laggard.pipeline.core.records import Layout
    from laggard.pipeline.core.records.pools import LevelOutput

    Floats = NDArray[np.float64]

BIN_S: Final = 120.0
"""The seconds of a mean: shorter ones show single points and noise (section V.G, step 3)."""

LONGEST_S: Final = 24 * 3600.0
"""The longest series, in seconds."""

MOST_READ: Final = 20_000
"""The most records that are read for one series; of more, only the first ones of each bin are read."""

DRAWN: Final = 5
"""The most separate series: of more, those farthest from the others."""


@dataclass(frozen=True, slots=True)
class Means:
    """One feature of all members over time.

    Attributes:
        ts: the middle of each bin, seconds since the Unix epoch, ascending; bins begin at multiples of `BIN_S`.
        members: the paths of the members.
        values: the means, shape (bins, members); NaN for absent members.

    """

    ts: Floats
    members: tuple[str, ...]
    values: Floats


@dataclass(frozen=True, slots=True)
class Beside:
    """The series of members or groups, and the quartiles of the others at the same time.

    Attributes:
        ts: as in `Means`.
        labels: the labels of the separate series, at most `DRAWN`, the farthest from the others first.
        values: their values, shape (bins, labels).
        chosen: the number of requested members or groups.
        everybody: whether all were requested.
        others: the number of the others; all, if all were requested.
        median: the median of the others, shape (bins,); NaN if none of them was there.
        low: their lower quartile.
        high: their upper quartile.

    """

    ts: Floats
    labels: tuple[str, ...]
    values: Floats
    chosen: int
    everybody: bool
    others: int
    median: Floats
    low: Floats
    high: Floats


def read_means(bus: Bus, topic: str, pool: str, feature: str, span: tuple[float, float]) -> Means:
    """Read the means of a feature of every member of a pool.

    Args:
        bus: the bus with its frames.
        topic: the topic of its frames.
        pool: the name of the pool.
        feature: the name of the feature.
        span: the start and the end, both inclusive, seconds since the Unix epoch; not longer than `LONGEST_S`.

    """
    first, last = (math.floor(each / BIN_S) for each in span)
    found: dict[int, tuple[Layout, list[int], list[Floats]]] = {}
    decoder = Decoder()
    for record in _records(Reader(bus, bus.partition_of(topic, pool), pool), first, last):
        try:
            frame = decoder.decode(record.value, pool)
        except RecordError:
            continue  # a dead letter by now
        at = math.floor(record.ts / BIN_S)
        if isinstance(frame, Frame) and feature in frame.layout.features and first <= at <= last:
            _, bins, columns = found.setdefault(id(frame.layout), (frame.layout, [], []))
            bins.append(at - first)
            columns.append(frame.values[:, frame.layout.features.index(feature)])
    places: dict[str, int] = {}
    for layout, _, _ in found.values():
        for path in member_paths(layout):
            places.setdefault(path, len(places))
    sums = np.zeros((last - first + 1, len(places)))
    counts = np.zeros(sums.shape)
    for layout, bins, columns in found.values():
        values = np.stack(columns)
        cells = np.array(bins)[:, None], np.array([places[path] for path in member_paths(layout)])[None, :]
        there = np.isfinite(values)
        np.add.at(sums, cells, np.where(there, values, 0.0))
        np.add.at(counts, cells, there)
    means = _divided(sums, counts)
    measured = counts.any(axis=1)
    ts: Floats = (first + np.arange(len(sums), dtype=np.float64) + 0.5) * BIN_S
    return Means(ts[measured], tuple(places), means[measured])


def beside(means: Means, level: str, compared: Sequence[str], chosen: Sequence[str] | None) -> Beside:
    """Compare requested members or groups of one level with the others of it.

    Args:
        means: the means of the pool's members.
        level: the path of the group inside which they are compared; empty at the top.
        compared: the labels of the level's dendrogram. A group has the mean of its members, as S3 combines the threads
            of a machine. Members and groups of the level without a leaf count, too.
        chosen: the labels of the requested ones; None for all.

    """
    columns = _columns(means, level, compared)
    values = np.column_stack([_mean(means.values[:, list(each)]) for each in columns.values()] or [means.values])
    labels = list(columns)
    requested = [at for at, label in enumerate(labels) if chosen is None or label in set(chosen)]
    everybody = len(requested) == len(labels)
    rest = [at for at in range(len(labels)) if everybody or at not in set(requested)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # none of the others was there in some bin
        low, median, high = (np.nanquantile(values[:, rest], share, axis=1) for share in (0.25, 0.5, 0.75))
        apart = np.nanmean(np.abs(values - median[:, None]), axis=0)
    drawn = sorted(requested, key=lambda at: (-np.nan_to_num(apart[at], nan=-1.0), labels[at]))[:DRAWN]
    return Beside(
        means.ts,
        tuple(labels[at] for at in drawn),
        values[:, drawn],
        len(requested),
        everybody,
        len(rest),
        median,
        low,
        high,
    )


def cluster(level: LevelOutput, first: str, second: str) -> tuple[int, tuple[str, ...]] | None:
    """Return the smallest cluster with these two leaves: its number, as in `Merge`, and the labels in it.

    Two leaves identify any cluster, even after the dendrogram is drawn again. None if one of them is not there.
    """
    members: list[tuple[int, ...]] = [(number,) for number in range(len(level.leaves))]
    members += [()] * len(level.merges)
    for number, merge in enumerate(level.merges, len(level.leaves)):
        members[number] = members[merge.first] + members[merge.second]
    wanted = {number for number, leaf in enumerate(level.leaves) if leaf.label in (first, second)}
    if {level.leaves[number].label for number in wanted} != {first, second}:
        return None
    number = next(number for number, each in enumerate(members) if wanted <= set(each))
    return number, tuple(level.leaves[each].label for each in members[number])


def _records(reader: Reader, first: int, last: int) -> Iterator[Incoming]:
    """Read the records of these bins; if there are too many, the first ones of each bin."""
    begins = [reader.bus.offset_at(reader.partition, at * BIN_S) for at in (first, last + 1)]
    if begins[1] - begins[0] <= MOST_READ:
        yield from reader.stored(*begins)
        return
    most = MOST_READ // (last - first + 1)
    begins = [reader.bus.offset_at(reader.partition, at * BIN_S) for at in range(first, last + 2)]
    for start, stop in pairwise(begins):
        yield from reader.stored(start, min(stop, start + most))


def member_paths(layout: Layout) -> list[str]:
    """Return the paths of the rows of a layout in their pool, from its top down: `web-1/worker-3`."""
    return ["/".join(path_of(row, name)) for row, name in zip(layout.rows, layout.names, strict=True)]


def _columns(means: Means, level: str, compared: Sequence[str]) -> Mapping[str, Sequence[int]]:
    """Return the columns of each leaf by label, and those of members and groups of the level without a leaf."""
    found: dict[str, list[int]] = {label: [] for label in compared}
    for at, member in enumerate(means.members):
        parts = path_of(member, "")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        known = [label for label in above if label in found]
        if known:
            found[known[-1]].append(at)
        elif not level:
            found.setdefault(above[0], []).append(at)
        elif level in above[:-1]:
            found.setdefault(above[above.index(level) + 1], []).append(at)
    return {label: columns for label, columns in found.items() if columns}


def _mean(values: Floats) -> Floats:
    """Return the mean of each row over its finite values."""
    there = np.isfinite(values)
    return _divided(np.where(there, values, 0.0).sum(axis=1), there.sum(axis=1).astype(np.float64))


def _divided(sums: Floats, counts: Floats) -> Floats:
    means: Floats = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0.0)
    return means
