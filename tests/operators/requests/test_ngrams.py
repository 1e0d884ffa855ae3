"""Counts of n-grams beside the plainest loop, and by what they are ranked."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laggard.operators.requests import representations
from laggard.operators.requests.ngrams import STEADY, distinctions, ngrams, usual
from laggard.operators.requests.representations import bag_of_words, coded

CALLS = ("open", "read", "write", "close", "fcntl")
SEQUENCES = st.lists(st.lists(st.sampled_from(CALLS), max_size=12), max_size=15)


def plain(sequences: list[list[str]], longest: int) -> list[dict[tuple[str, ...], int]]:
    return [
        Counter(
            tuple(calls[at : at + length]) for length in range(1, longest + 1) for at in range(len(calls) - length + 1)
        )
        for calls in sequences
    ]


@given(SEQUENCES, st.integers(1, 5), st.sampled_from([1, 7, 1 << 18]))
def test_counts_are_those_of_a_plain_loop(sequences: list[list[str]], longest: int, events: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(representations, "EVENTS", events)
        found = ngrams(coded(sequences, CALLS), longest)
    counts = found.counts.toarray()
    assert counts.shape == (len(sequences), len(found.grams))
    mine = [{gram: int(count) for gram, count in zip(found.grams, row, strict=True) if count} for row in counts]
    assert mine == plain(sequences, longest)
    assert [len(gram) for gram in found.grams] == sorted(len(gram) for gram in found.grams)
    assert len(set(found.grams)) == len(found.grams)


def test_unigrams_are_the_bag_of_words() -> None:
    sequences = coded([["read", "read", "close"], [], ["open"]])
    assert ngrams(sequences, 1).counts.toarray().tolist() == bag_of_words(sequences).toarray().tolist()


def shop(seed: int, requests: int, *, retries: int = 0, locks: int = 0) -> list[list[str]]:
    """What requests of a shop call: it varies how much they read, and two in a hundred have a cold cache."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(requests):
        calls = ["connect"] * (1 + retries) + ["sendto", "poll", "recvfrom"] * int(chance.integers(5, 15))
        if chance.random() < 0.02:
            calls += ["newstat"] * int(chance.integers(50, 150))
        calls += ["fcntl"] * (2 + locks) + ["write", "close"]
        made.append(calls)
    return made


def ranked(some: list[list[str]], normal: list[list[str]]) -> tuple[list[str], int]:
    every = ngrams(coded([*normal, *some]))
    found = distinctions(every.counts[len(normal) :], usual(every.counts[: len(normal)]))
    return [" ".join(every.grams[each]) for each in found.order], int(found.apart.sum())


def test_what_is_repeated_leads() -> None:
    normal = shop(1, 2000)
    order, apart = ranked(shop(2, 20, retries=4), normal)
    assert set(order[:2]) == {"connect", "connect connect"}
    assert order[2] == "connect connect connect"
    assert order[3:apart] == ["connect connect sendto"]
    order, apart = ranked(shop(3, 5, locks=300), normal)
    assert set(order[:3]) == {"fcntl", "fcntl fcntl", "fcntl fcntl fcntl"}
    assert apart == 3


def test_what_is_missing_counts_too() -> None:
    some = [[call for call in calls if call != "write"] for calls in shop(4, 20)]
    order, apart = ranked(some, shop(1, 2000))
    assert {"write", "fcntl write", "write close"} <= set(order[:apart])


def test_a_few_wild_ones_do_not_set_all_apart() -> None:
    some = shop(5, 20)
    for calls in some[:9]:
        calls.extend(["newlstat"] * 500)
    order, apart = ranked(some, shop(1, 2000))
    assert order[0].startswith("newlstat")
    assert apart == 0
    some[9].extend(["newlstat"] * 500)
    assert ranked(some, shop(1, 2000))[1] >= 3


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
def test_normal_requests_are_rarely_set_apart(count: int) -> None:
    normal = shop(1, 2000)
    every = ngrams(coded(normal))
    known = usual(every.counts[:1000])
    chance = np.random.default_rng(count)
    drawn = (1000 + chance.choice(1000, count, replace=False) for _ in range(200))
    assert sum(bool(distinctions(every.counts[rows], known).apart.any()) for rows in drawn) <= 4


def test_what_is_usual_is_what_numpy_says() -> None:
    counts = np.random.default_rng(8).poisson([0.0, 0.001, 3.0, 200.0], (400, 4))
    for given_as in (counts, csr_array(counts)):
        found = usual(given_as)
        assert found.mean == pytest.approx(counts.mean(axis=0))
        assert found.spread == pytest.approx(np.maximum(counts.std(axis=0), STEADY))
        assert found.share == pytest.approx((counts > 0).mean(axis=0))


def test_none_and_others_are_refused() -> None:
    with pytest.raises(ValueError, match="no normal requests"):
        usual(np.empty((0, 3)))
    known = usual(np.ones((5, 3)))
    for shape in ((0, 3), (2, 4)):
        with pytest.raises(ValueError, match="expected at least one request, of 3 features"):
            distinctions(np.ones(shape), known)
