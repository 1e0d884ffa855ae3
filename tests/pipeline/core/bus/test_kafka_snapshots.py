"""Snapshots as records and back, without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.bus import Partition, Refused, Snapshot
from laggard.pipeline.core.bus.kafka.snapshots import CHUNK_BYTES, newest, newest_offsets, records
from laggard.pipeline.core.bus.kafka.wire import incoming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.bus.kafka.wire import Raw

INPUT = Partition("laggard.counters", 3)
TOPIC = Partition("laggard.snapshots.gaussian", 1)
CHUNK = 7

# What could be taken for the marks in a key of a chunk.
KEYS = st.sampled_from(["", "a", "a#1", "a#", "#0", "3/a", "b/c", "Höst/😀", "\udcff"])


def snapshot(key: str, offset: int, value: bytes) -> Snapshot:
    return Snapshot("gaussian", INPUT, key, offset, 1_700_000_000.123456 + offset, value)


def written(*snapshots: Snapshot) -> list[Raw]:
    return [record for each in snapshots for record in records(each, TOPIC.topic, TOPIC.number, chunk_bytes=CHUNK)]


def log(raws: Sequence[Raw]) -> list[Incoming]:
    """As a topic holds them that was not compacted yet."""
    return [incoming(TOPIC, at, r.key, r.value, r.ts_ms, r.headers) for at, r in enumerate(raws)]


def compacted(found: Sequence[Incoming]) -> list[Incoming]:
    last = {record.key: record.offset for record in found}
    return [record for record in found if last[record.key] == record.offset and record.headers]


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 5), st.binary(max_size=4 * CHUNK)), max_size=12),
    st.one_of(st.none(), st.integers(0, 5)),
)
def test_the_newest_of_each_key_comes_back(states: list[tuple[str, int, bytes]], bound: int | None) -> None:
    taken = [snapshot(*state) for state in states]
    expected: dict[str, Snapshot] = {}
    for each in taken:
        if bound is None or each.offset <= bound:
            expected[each.key] = each  # also one of a lower offset: the group's offsets were set back
    found = log(written(*taken))
    assert list(newest(found, "gaussian", INPUT, bound)) == [expected[key] for key in sorted(expected)]
    if bound is None:
        assert newest_offsets(found, INPUT) == {key: each.offset for key, each in expected.items()}


@given(st.lists(st.tuples(KEYS, st.binary(max_size=4 * CHUNK)), max_size=12))
def test_the_newest_of_each_key_survives_compaction(states: list[tuple[str, bytes]]) -> None:
    taken = [snapshot(key, offset, value) for offset, (key, value) in enumerate(states)]
    expected = {each.key: each for each in taken}
    found = newest(compacted(log(written(*taken))), "gaussian", INPUT)
    assert list(found) == [expected[key] for key in sorted(expected)]


@given(st.binary(min_size=1, max_size=4 * CHUNK), st.data())
def test_half_written_is_not_there(value: bytes, data: st.DataObject) -> None:
    old, new = snapshot("a", 1, b"old"), snapshot("a", 2, value)
    chunks = written(new)
    missing = data.draw(st.integers(0, len(chunks) - 1))
    found = log(written(old) + [chunk for at, chunk in enumerate(chunks) if at != missing])
    assert list(newest(found, "gaussian", INPUT)) == [old]


def test_foreign_and_malformed_records_are_skipped() -> None:
    mine = snapshot("a", 1, b"state")
    (right,) = written(mine)
    wrong = [
        *written(Snapshot("gaussian", Partition("laggard.counters", 31), "a", 9, 0.0, b"another partition's")),
        *written(Snapshot("gaussian", Partition("laggard.pools", 3), "a", 9, 0.0, b"another topic's")),
        right._replace(key=b"laggard.counters/3/a", value=b"no chunk"),
        right._replace(headers=[]),
        right._replace(headers=[("offset", b"x"), *right.headers[1:]]),
        right._replace(headers=[*right.headers[:-1], ("chunk", b"1")]),
        right._replace(key=b"\xff\xfe"),
    ]
    assert list(newest(log([right, *wrong]), "gaussian", INPUT)) == [mine]


def test_chunks_that_a_smaller_state_leaves_are_deleted() -> None:
    large, small = snapshot("a", 1, bytes(4 * CHUNK)), snapshot("a", 2, b"small")
    followed = records(small, TOPIC.topic, TOPIC.number, before=4, chunk_bytes=CHUNK)
    assert [record.value for record in followed] == [b"small", None, None, None]
    left = compacted(log(written(large) + followed))
    assert [record.key for record in left] == ["laggard.counters/3/a#0"]
    assert list(newest(left, "gaussian", INPUT)) == [small]


def test_a_chunk_is_smaller_than_what_any_topic_takes() -> None:
    large = snapshot("a", 1, bytes(2 * CHUNK_BYTES + 1))
    sizes = [record.size for record in records(large, TOPIC.topic, TOPIC.number)]
    assert len(sizes) == 3
    assert max(sizes) < 1_000_000


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="finite"):
        written(Snapshot("gaussian", INPUT, "a", 1, float("inf"), b""))
