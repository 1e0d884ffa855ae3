"""Recorded requests that are kept until their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.core.records import encode
from laggard.pipeline.methods.requests.recorded import EncodedRequests
from tests.pipeline.methods.requests.stages import calm, locked

if TYPE_CHECKING:
    import pytest


def test_they_come_back_as_often_as_they_are_asked_for() -> None:
    kept, requests = EncodedRequests(), [*calm(0, 5), locked(6)]
    for each in requests:
        kept.add(each)
    assert list(kept.requests()) == list(kept.requests()) == requests


def test_beyond_a_bound_the_first_ones_are_let_go_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    requests = list(calm(0, 5))
    kept = EncodedRequests(most_bytes=10 * len(encode(requests[0])) + 5)
    for each in requests:
        kept.add(each)
    left = list(kept.requests())
    assert left == requests[-len(left) :]
    assert 8 <= len(left) <= 11
    assert [record.message for record in caplog.records] == [
        "'shop' has more requests than fit; the first ones are left out"
    ]
