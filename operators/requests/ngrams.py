"""The n-grams of system calls that distinguish a cluster from normal requests (S4, section III.D, table V)."""

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
"""The least spread of a count: that of one which differs by 1 in one request of fifty. Otherwise the statistic of one
more `read` would be infinite if no normal request had it."""

APART: Final = 3.0
"""A count is unusual at this number of spreads from the mean of normal requests: in most requests, and on average."""

ALONE: Final = 20.0
"""The least statistic of a single request; that of n requests together is an n-th part of it. Fewer than one in a
hundred of the normal requests that the authors published reach it, and likewise of groups of 2, 3 and 5."""


@dataclass(frozen=True, slots=True, eq=False)
class NGrams:
    """The counts of n-grams in sequences of events.

    Attributes:
        grams: the n-grams that occur, the shortest first.
        counts: how often each sequence has each of them, shape (sequences, grams), integers.

    """

    grams: tuple[tuple[str, ...], ...]
    counts: csr_array


def ngrams(sequences: Coded, longest: int = LONGEST) -> NGrams:
    """Count the n-grams of 1 to `longest` events in each sequence.

    Example:
        >>> from laggard.operators.requests.representations import coded
        >>> found = ngrams(coded([["connect", "connect", "close"], ["close"]]), 2)
        >>> found.grams
        (('connect',), ('close',), ('connect', 'connect'), ('connect', 'close'))
        >>> found.counts.toarray().tolist()
        [[2, 1, 1, 1], [0, 1, 0, 0]]

    """
    count, width = len(sequences.lengths), len(sequences.words) + 1
    # Events are 1, 2, ...; a 0 after each sequence separates it from the next: an n-gram with a 0 is 0.
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
            # An n-gram is coded by the one before its last event, and this event: tables stay small for any n.
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
    """The counts of normal requests, shape (features,) each.

    Attributes:
        mean: the mean of each count.
        spread: its standard deviation, at least `STEADY`.
        share: the share of requests in which it is not 0.

    """

    mean: Floats
    spread: Floats
    share: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Distinctions:
    """The differences of the counts of some requests from normal ones, shape (features,) each.

    Attributes:
        mean: the mean of each count.
        share: the share of requests in which it is not 0.
        statistic: the difference of the mean from that of normal requests, in units of their spread, signed.
        unusual: the share of requests whose own count deviates by more than `APART` spreads, with the same sign.
        apart: whether the count distinguishes these requests: it is unusual in at least half of them, and the statistic
            is at least `APART`, and at least `ALONE` divided by the number of requests.
        order: the features, distinguishing ones first, then by the size of the statistic.

    """

    mean: Floats
    share: Floats
    statistic: Floats
    unusual: Floats
    apart: NDArray[np.bool_]
    order: NDArray[np.intp]


def usual(counts: csr_array) -> Usual:
    """Summarize the counts of normal requests.

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
    # Counts are moderate integers: the difference of squares is exact.
    return Usual(mean, np.sqrt(np.maximum(squares - mean**2, STEADY**2)), share)


def distinctions(counts: csr_array, normal: Usual) -> Distinctions:
    """Find the counts that distinguish some requests from normal ones.

    The published table compares mean counts. Here their difference is measured in spreads of normal requests, since a
    count that varies between normal requests means little. At least half of the requests must be unusual, so that a few
    extreme ones do not dominate the mean.

    Parameters:
        counts: the counts of these requests, shape (requests, features), sparse or not.
        normal: those of normal requests, of the same features.

    Raises:
        ValueError: there is no request, or the number of features differs.

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
