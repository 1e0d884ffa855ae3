"""What requests of a cluster do that normal ones do not: n-grams of system calls (section III.D, table V)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.sparse import csr_array, hstack

from laggard.operators.requests.representations import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.requests.representations import Coded

    Floats = NDArray[np.float64]

LONGEST: Final = 3
"""Unigrams, bigrams and trigrams."""

STEADY: Final = 0.14
"""The least spread of a count: that of one which differs by 1 in one request of fifty. Without it, one `read` more
would be infinitely unusual where no normal request had it."""

APART: Final = 3.0
"""So many spreads from the mean of normal requests a count is unusual: if that of most requests, and on average."""

ALONE: Final = 20.0
"""What a single request has to reach, and `n` together an n-th part of. Of the normal requests that the authors
published, fewer than one in a hundred do, and of groups of 2, 3 and 5 of them."""


@dataclass(frozen=True, slots=True, eq=False)
class NGrams:
    """How often each sequence holds each run of events.

    Attributes:
        grams: the runs that occur at all, the shortest first.
        counts: shape (sequences, grams), of integers.

    """

    grams: tuple[tuple[str, ...], ...]
    counts: csr_array


def ngrams(sequences: Coded, longest: int = LONGEST) -> NGrams:
    """All runs of 1 to `longest` events of each sequence, and how often they occur in it.

    Example:
        >>> from laggard.operators.requests.representations import coded
        >>> found = ngrams(coded([["connect", "connect", "close"], ["close"]]), 2)
        >>> found.grams
        (('connect',), ('close',), ('connect', 'connect'), ('connect', 'close'))
        >>> found.counts.toarray().tolist()
        [[2, 1, 1, 1], [0, 1, 0, 0]]

    """
    count, width = len(sequences.lengths), len(sequences.words) + 1
    # Events are 1, 2, ...; a 0 behind each sequence keeps runs from reaching into the next: what holds a 0 is 0 itself.
    ends = np.cumsum(sequences.lengths + 1)
    events = np.zeros(len(sequences.codes) + count, np.int32)
    inside = np.ones(len(events), np.bool_)
    inside[ends - 1] = False
    events[inside] = sequences.codes + 1
    runs, grams = events, list[tuple[int, ...]]((each,) for each in range(width))
    every: list[tuple[int, ...]] = []
    parts: list[csr_array] = []
    for length in range(1, longest + 1):
        if length > 1:
            # A run is known by the one that it prolongs, and its last event: tables stay small however long it is.
            pairs = runs[:-1].astype(np.int64) * width + events[length - 1 :]
            occurs = np.bincount(pairs, minlength=len(grams) * width).reshape(-1, width) > 0
            occurs[0], occurs[:, 0] = False, False
            found = np.flatnonzero(occurs)
            table = np.zeros(occurs.size, np.int32)
            table[found] = np.arange(1, len(found) + 1)
            runs = table[pairs]
            grams = [(), *((*grams[each // width], int(each % width)) for each in found)]
        every += grams[1:]
        parts.append(counted(runs, ends, len(grams))[:, 1:])
    counts = csr_array(hstack(parts, format="csr")) if parts else csr_array((count, 0), dtype=np.int64)
    occurring = np.flatnonzero(counts.sum(axis=0))
    named = tuple(tuple(sequences.words[event - 1] for event in every[each]) for each in occurring)
    return NGrams(named, counts[:, occurring])


@dataclass(frozen=True, slots=True, eq=False)
class Usual:
    """What counts of normal requests are like, shape (features,) each.

    Attributes:
        mean: of each count.
        spread: its standard deviation, at least `STEADY`.
        share: of the requests in which it is not 0.

    """

    mean: Floats
    spread: Floats
    share: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Distinctions:
    """How the counts of some requests differ from those of normal ones, shape (features,) each.

    Attributes:
        mean: of each count.
        share: of the requests in which it is not 0.
        statistic: how far the mean is from that of normal requests, in units of their spread, with its sign.
        unusual: share of the requests whose own count is more than `APART` spreads away, to the same side.
        apart: whether it sets these requests apart: the count of at least half of them is unusual, and the statistic at
            least `APART`, or `ALONE` divided by the number of requests, whichever is more.
        order: the features, what sets apart first, then by the size of the statistic.

    """

    mean: Floats
    share: Floats
    statistic: Floats
    unusual: Floats
    apart: NDArray[np.bool_]
    order: NDArray[np.intp]


def usual(counts: csr_array) -> Usual:
    """What normal requests are like.

    Parameters:
        counts: shape (requests, features), sparse or not.

    Raises:
        ValueError: there is no request.

    """
    counts = csr_array(counts)
    if not counts.shape[0]:
        raise ValueError("no normal requests: expected at least one")
    mean = np.asarray(counts.mean(axis=0), np.float64)
    squares = np.asarray(counts.power(2).mean(axis=0), np.float64)
    share = np.asarray((counts != 0).mean(axis=0), np.float64)
    # Counts are whole numbers of a moderate size: nothing is lost by taking the difference of squares.
    return Usual(mean, np.sqrt(np.maximum(squares - mean**2, STEADY**2)), share)


def distinctions(counts: csr_array, normal: Usual) -> Distinctions:
    """What sets some requests apart from normal ones, in the order in which it does.

    The difference of the mean counts, which the published table compares, is measured by the spread of normal requests:
    a count that normal requests have too, now and then, or that differs between them anyway, says little. Half of the
    requests and more have to be unusual: the mean of a few wild ones says nothing of the others.

    Parameters:
        counts: of these requests, shape (requests, features), sparse or not.
        normal: what normal ones are like, of the same features.

    Raises:
        ValueError: there is no request, or the features are not as many.

    Example:
        >>> normal = usual(np.array([[1, 7], [1, 8], [1, 7], [1, 6]]))
        >>> found = distinctions(np.array([[5, 7], [4, 8], [1, 7], [5, 9], [4, 7]]), normal)
        >>> found.apart.tolist(), found.order.tolist()
        ([True, False], [0, 1])

    """
    counts = csr_array(counts)
    if not counts.shape[0] or counts.shape[1:] != normal.mean.shape:
        raise ValueError(
            f"counts of shape {counts.shape}: expected at least one request, of {len(normal.mean)} features"
        )
    values = counts.toarray().astype(np.float64)
    mean = values.mean(axis=0)
    statistic = (mean - normal.mean) / normal.spread
    away = (values - normal.mean) / normal.spread * np.sign(statistic)
    unusual = (away > APART).mean(axis=0)
    apart = (unusual >= 0.5) & (np.abs(statistic) >= max(APART, ALONE / len(values)))
    order = np.lexsort((-np.abs(statistic), ~apart))
    return Distinctions(mean, (values != 0).mean(axis=0), statistic, unusual, apart, order)
