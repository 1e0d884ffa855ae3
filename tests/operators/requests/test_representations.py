"""Sequences as bags of words, weighted as in equation 1 and as the published figures are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer

from laggard.operators.requests.representations import (
    Coded,
    bag_of_words,
    coded,
    document_frequencies,
    tf_df,
    tf_idf,
)

SEQUENCES = [["open", "read", "read", "close"], ["open", "close"], [], ["open"]]


@given(st.lists(st.lists(st.sampled_from("abcd"))), st.sampled_from(["", "a", "dz"]))
def test_bags_hold_what_counters_count(sequences: list[list[str]], words: str) -> None:
    found = coded(sequences, words)
    assert found.words[: len(words)] == tuple(words)
    counts = bag_of_words(found).toarray()
    assert counts.shape == (len(sequences), len(found.words))
    for row, sequence in zip(counts.tolist(), sequences, strict=True):
        assert {word: count for word, count in zip(found.words, row, strict=True) if count} == Counter(sequence)


def test_a_string_is_a_sequence_of_letters() -> None:
    assert bag_of_words(coded(["2121", "4"], "0124")).toarray().tolist() == [[0, 2, 2, 0], [0, 0, 0, 1]]


def test_weights_by_hand() -> None:
    counts = bag_of_words(coded(SEQUENCES))
    assert document_frequencies(counts).tolist() == [3, 1, 2]
    assert tf_idf(counts).toarray()[0] == pytest.approx([np.log(4 / 3), 2 * np.log(4), np.log(2)])
    assert tf_df(counts).toarray()[0] == pytest.approx([1 / 3, 2.0, 1 / 2])
    assert tf_idf(counts).nnz == tf_df(counts).nnz == counts.nnz


def test_equation_1_is_that_of_scikit_learn_which_adds_1() -> None:
    counts = csr_array(np.random.default_rng(1).poisson([5.0, 0.1, 0.01, 0.0], (300, 4)))
    theirs = TfidfTransformer(norm=None, smooth_idf=False)
    with np.errstate(divide="ignore"):  # of the event that is nowhere
        expected = theirs.fit_transform(counts) - counts
    assert tf_idf(counts).toarray() == pytest.approx(expected.toarray())


def test_what_is_in_every_sequence_counts_for_nothing_in_equation_1_only() -> None:
    counts = bag_of_words(coded([["open"], ["open", "open"]]))
    assert tf_idf(counts).toarray().tolist() == [[0.0], [0.0]]
    assert tf_df(counts).toarray().tolist() == [[0.5], [1.0]]


def test_codes_that_do_not_fit_are_refused() -> None:
    codes = np.array([0, 1, 2], np.int32)
    with pytest.raises(ValueError, match="sequences of 2 events: expected 3"):
        Coded(("a", "b", "c"), codes, np.array([2]))
    with pytest.raises(ValueError, match="codes up to 2: expected 0 to 1"):
        Coded(("a", "b"), codes, np.array([3]))
