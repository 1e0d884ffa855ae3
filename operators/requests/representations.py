"""What a request is compared by: its events counted, weighted, or the time spent on them (section III.C, table III)."""

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
"""So many are sorted at once: as many as stay in the processor's caches."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Sequences of events, such as system calls or states, as numbers.

    Attributes:
        words: the names of the events.
        codes: of all sequences, one after the other: the place of each event in `words`, shape (events,).
        lengths: of each sequence, shape (sequences,).

    Raises:
        ValueError: the lengths do not add up, or a code is the place of no word.

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
    """Sequences of events as numbers.

    Parameters:
        sequences: of the names of events.
        words: names that come first, whether they occur or not; the others follow as they occur.

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
    """How often each event occurs in each sequence. Shape (sequences, words), of integers."""
    return counted(sequences.codes, np.cumsum(sequences.lengths), len(sequences.words))


def counted(codes: NDArray[np.int32], ends: NDArray[np.intp], width: int) -> csr_array:
    """How often each code occurs in each sequence.

    Parameters:
        codes: of all sequences, one after the other, below `width`.
        ends: where each sequence ends, shape (sequences,); that may be behind the end of the codes.
        width: how many codes there are.

    Returns:
        Shape (sequences, width), of integers.

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
    """In how many sequences each event occurs at all. Shape (words,)."""
    return np.asarray((counts != 0).sum(axis=0), np.intp)


def tf_idf(counts: csr_array) -> csr_array:
    """Counts weighted by how few sequences the event is in: count * log(sequences / document frequency), equation 1.

    An event that is in all sequences counts for nothing. Shape (sequences, words).
    """
    frequencies = document_frequencies(counts)
    return _weighted(counts, np.log(counts.shape[0] / np.maximum(frequencies, 1)))


def tf_df(counts: csr_array) -> csr_array:
    """Counts divided by the document frequency: what the published figures of "TF-IDF" were made with.

    It is what the authors' program does in place of equation 1. An event that is in all sequences counts little, but
    not for nothing, and the more sequences there are, the smaller all values become. Shape (sequences, words).
    """
    return _weighted(counts, 1.0 / np.maximum(document_frequencies(counts), 1))


def _weighted(counts: csr_array, weights: Floats) -> csr_array:
    counts = csr_array(counts)
    return csr_array((counts.data * weights[counts.indices], counts.indices, counts.indptr), shape=counts.shape)
