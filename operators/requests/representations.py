"""Representations of requests: their events counted or weighted (S4, section III.C, table III)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.sparse import csr_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EVENTS: Final = 1 << 18
"""The number of codes that are sorted at once: as many as fit into the processor's caches."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Coded sequences of events, such as system calls or states.

    Attributes:
        words: the names of the events.
        codes: the place of each event in `words`, of all sequences one after the other, shape (events,).
        lengths: the length of each sequence, shape (sequences,).

    Raises:
        ValueError: the lengths do not add up, or a code has no word.

    """

    words: tuple[str, ...]
    codes: NDArray[np.int32]
    lengths: NDArray[np.intp]

    def __post_init__(self) -> None:
        if int(self.lengths.sum()) != len(self.codes) or self.lengths.min(initial=0) < 0:
            raise ValueError(
                f"sequences of {self.lengths.sum()} events: expected {len(self.codes)}, as there are codes"
            )
        if len(self.codes) and not 0 <= self.codes.min() <= self.codes.max() < len(self.words):
            raise ValueError(f"codes up to {self.codes.max()}: expected 0 to {len(self.words) - 1}, as there are words")


def coded(sequences: Iterable[Sequence[str]], words: Sequence[str] = ()) -> Coded:
    """Code sequences of events.

    Parameters:
        sequences: sequences of the names of events.
        words: names that come first, whether they occur or not; the others follow in the order of their occurrence.

    Example:
        >>> coded([["open", "read"], ["read", "close"]]).codes
        array([0, 1, 1, 2], dtype=int32)

    """
    places = {word: at for at, word in enumerate(words)}
    lengths: list[int] = []

    def place(word: str) -> int:
        return places.setdefault(word, len(places))

    def each() -> Iterable[Sequence[str]]:
        for sequence in sequences:
            lengths.append(len(sequence))
            yield sequence

    codes = np.fromiter(map(place, chain.from_iterable(each())), np.int32)
    return Coded(tuple(places), codes, np.array(lengths, np.intp))


def bag_of_words(sequences: Coded) -> csr_array:
    """Return the count of each event in each sequence, shape (sequences, words), integers."""
    return counted(sequences.codes, np.cumsum(sequences.lengths), len(sequences.words))


def counted(codes: NDArray[np.int32], ends: NDArray[np.intp], width: int) -> csr_array:
    """Count the codes in each sequence.

    Parameters:
        codes: the codes of all sequences one after the other, below `width`.
        ends: the end of each sequence, shape (sequences,); it may be beyond the end of the codes.
        width: the number of different codes.

    Returns:
        The counts, shape (sequences, width), integers.

    """
    begins = np.concatenate(([0], ends))
    counts, columns, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
    first = 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, begins[first] + EVENTS)), first + 1)
        mine = codes[begins[first] : ends[last - 1]]
        rows = np.repeat(np.arange(last - first), np.diff(begins[first : last + 1]))[: len(mine)]
        cells = np.sort(rows * width + mine)
        at = np.flatnonzero(np.diff(cells, prepend=-1))
        counts.append(np.diff(at, append=len(cells)))
        columns.append((cells[at] % width).astype(np.int32))
        sizes.append(np.bincount(cells[at] // width, minlength=last - first))
        first = last
    rows_end = np.cumsum(np.concatenate(sizes))
    return csr_array((np.concatenate(counts), np.concatenate(columns), rows_end), shape=(len(ends), width))


def document_frequencies(counts: csr_array) -> NDArray[np.intp]:
    """Return the number of sequences with each event, shape (words,)."""
    return np.asarray((counts != 0).sum(axis=0), np.intp)


def tf_idf(counts: csr_array) -> csr_array:
    """Return the TF-IDF of equation 1, count * log(sequences / document frequency), shape (sequences, words).

    It is 0 for an event that is in all sequences.
    """
    frequencies = document_frequencies(counts)
    return _weighted(counts, np.log(counts.shape[0] / np.maximum(frequencies, 1)))


def tf_df(counts: csr_array) -> csr_array:
    """Return the counts divided by the document frequency, shape (sequences, words).

    The published figures of "TF-IDF" were made with it: the authors' program computes it instead of equation 1. It is
    small for an event that is in all sequences, but not 0, and decreases with the number of sequences.
    """
    return _weighted(counts, 1.0 / np.maximum(document_frequencies(counts), 1))


def _weighted(counts: csr_array, weights: Floats) -> csr_array:
    counts = csr_array(counts)
    return csr_array((counts.data * weights[counts.indices], counts.indices, counts.indptr), shape=counts.shape)
