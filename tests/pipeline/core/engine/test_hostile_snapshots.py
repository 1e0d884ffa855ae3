"""Snapshots that somebody else wrote: each is restored, or is not used and its reason told. Nothing else stops."""

from __future__ import annotations

import copy
import math
import tracemalloc
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from laggard.pipeline.core.engine import snapshots
from laggard.pipeline.core.engine.snapshots import BASE_KEY, SnapshotError, decode_state, encode_state
from laggard.pipeline.core.engine.stage import DeadLetter
from tests.pipeline.core.engine.every_stage import STAGES, partition_of, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.core.bus import Incoming, Snapshot
    from laggard.pipeline.core.engine.stage import StageTask

AFTER: Final = 20
"""Records that a task processes after the recovery."""

HOSTILE: Final[tuple[Any, ...]] = (
    *(None, True, -1, 1 << 31, 1 << 62, (1 << 64) - 1, math.nan, math.inf, -1e308, "", "x" * 40, b""),
    *([], {}, [[]], [None], {"a": 1}, [1 << 62], ["x", "x"]),
    *(np.zeros(0), np.zeros((0, 0)), np.array(1.0), np.full((3, 3), np.nan), np.zeros((1, 1, 1)), np.ones(7, bool)),
    *(np.full(5, 1 << 62), np.full(5, -1), np.array([np.inf])),
)
"""What may stand in the place of any part of a state."""

MIB: Final = 1 << 20
MOST_MEMORY: Final = 64 * MIB
"""That a recovery of the small states here may take, whatever is in them."""


@cache
def saved(name: str) -> tuple[tuple[Snapshot, ...], tuple[Incoming, ...]]:
    """The snapshots of a stage behind three quarters of its records, and what comes then."""
    stage, records = STAGES[name], records_of(STAGES[name])
    task = stage.task(partition_of(stage))
    behind = len(records) * 3 // 4
    for record in records[:behind]:
        task.process(record)
        task.outputs.clear()
    return tuple(task.states.whole(task.position, records[behind - 1].ts)), tuple(records[behind : behind + AFTER])


def places(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the parts of a state are; of a list the first few."""
    parts = state.items() if isinstance(state, dict) else enumerate(state[:3]) if isinstance(state, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def changed(state: dict[str, Any], path: Sequence[Any], part: Any) -> dict[str, Any]:
    """The state with another part at a place; without it where that is `...`."""
    state = copy.deepcopy(state)
    inner: Any = state
    for key in path[:-1]:
        inner = inner[key]
    if part is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = part
    return state


@contextmanager
def bounded(most: int) -> Iterator[None]:
    """Fails where more memory than this is taken meanwhile."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= most
    finally:
        tracemalloc.stop()


def recovered(name: str, spoiled: Snapshot) -> StageTask:
    """A task that has loaded its snapshots, one of which is spoiled, went on, and saved everything."""
    whole, after = saved(name)
    stage = STAGES[name]
    task = stage.task(partition_of(stage))
    with bounded(MOST_MEMORY):
        loaded = task.states.load([spoiled if each.key == spoiled.key else each for each in whole])
    task.states.loaded(after[0].offset)
    for reason in loaded.damaged.values():
        assert reason.startswith(f"{spoiled.operator} in {spoiled.partition.topic}[0]@{spoiled.offset}")
    assert loaded.damaged.keys() <= {spoiled.key}
    others = {each.key for each in whole} - {spoiled.key, BASE_KEY}
    assert others <= set(task.states.keys()), "the others are restored"
    task.found()
    for record in after:
        task.process(record)
    task.states.save_all(task.position)
    for snapshot in task.states.take(task.position):
        assert snapshot.value == b"" or decode_state(snapshot.value, "here")
    return task


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each not in {"gaussian", "incidents"})) for each in STAGES]
)
@settings(max_examples=10)
@given(st.data())
def test_a_state_with_hostile_parts_is_restored_or_learned_anew(name: str, data: st.DataObject) -> None:
    whole, _ = saved(name)
    chosen = data.draw(st.sampled_from(whole))
    state = decode_state(chosen.value, "here")
    where = list(places(state))
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from([*HOSTILE, ...]))
        with suppress(KeyError, IndexError, TypeError, ValueError):  # what is around it is gone already, or an array
            state = changed(state, data.draw(st.sampled_from(where)), part)
    recovered(name, replace(chosen, value=encode_state(state)))


@pytest.mark.parametrize("name", STAGES)
@settings(max_examples=10)
@given(st.data())
def test_damaged_bytes_of_a_state_are_restored_or_learned_anew(name: str, data: st.DataObject) -> None:
    whole, _ = saved(name)
    chosen = data.draw(st.sampled_from(whole))
    value = bytearray(zstandard.decompress(chosen.value))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(value)))
        match data.draw(st.sampled_from(["change", "insert", "cut", "end"])):
            case "change" if at < len(value):
                value[at] = data.draw(st.integers(0, 255))
            case "insert":
                value[at:at] = data.draw(st.binary(max_size=9))
            case "cut":
                del value[at : at + data.draw(st.integers(1, 9))]
            case "end":
                del value[at:]
    recovered(name, replace(chosen, value=zstandard.compress(bytes(value))))


@pytest.mark.parametrize(
    "base",
    [
        {"base": math.inf, "counted": 0},
        {"base": 1 << 63, "counted": 0},
        {"base": -1, "counted": -1},
        {"base": 1, "counted": 2},
        {"base": True, "counted": 0},
        {},
    ],
)
def test_a_base_that_cannot_be_is_not_used(base: dict[str, Any]) -> None:
    whole, _ = saved("saturation")
    stage = STAGES["saturation"]
    task = stage.task(partition_of(stage))
    spoiled = [replace(each, value=encode_state(base)) if each.key == BASE_KEY else each for each in whole]
    loaded = task.states.load(spoiled)
    assert loaded.damaged.keys() == {BASE_KEY}
    assert loaded.base is None


def test_a_key_whose_state_fails_at_a_record_learns_anew_and_the_others_go_on() -> None:
    whole, _ = saved("regression")
    (chosen,) = (each for each in whole if each.key == "shop")
    state = decode_state(chosen.value, "here")
    path = ("intervals", "places", "unseen")
    spoiled = replace(chosen, value=encode_state(changed(state, path, -1)))
    task = recovered("regression", spoiled)
    task.refresh()
    assert task.telemetry.snapshots_unusable == 1
    letters = [each for each in task.outputs if isinstance(each, DeadLetter)]
    assert [each.record.key for each in letters] == [chosen.key]
    assert "not processed: IndexError" in letters[0].reason
    assert chosen.key in task.states.keys(), "it has learned since"  # noqa: SIM118 - no dictionary


def test_a_key_whose_state_cannot_be_saved_learns_anew_and_the_others_are_saved() -> None:
    whole, _ = saved("requests")
    (chosen,) = (each for each in whole if each.key == "shop")
    state = changed(decode_state(chosen.value, "here"), ("judge", "counts", "squared"), (1 << 64) - 1)
    task = recovered("requests", replace(chosen, value=encode_state(state)))
    task.refresh()
    assert task.telemetry.snapshots_unusable == 1


# What unpacking takes.


def packed(body: bytes) -> bytes:
    """A snapshot whose state has this MessagePack as its only part."""
    return zstandard.compress(b"\x82\xa1v\x02\xa5state\x81\xa1a" + body)


def many(head: int, count: int, item: bytes) -> bytes:
    return bytes([head]) + count.to_bytes(4, "big") + item * count


BOMBS: Final[dict[str, Callable[[], bytes]]] = {
    "nothing, often": lambda: many(0xDD, 100 * MIB, b"\xc0"),
    "empty maps": lambda: many(0xDD, 100 * MIB, b"\x80"),
    "empty lists": lambda: many(0xDD, 100 * MIB, b"\x90"),
    "lists of one list": lambda: b"\xdd" + (1 << 20).to_bytes(4, "big") + (b"\x91" * 90 + b"\xc0") * MIB,
    "long lists that do not come": lambda: (b"\xdd" + (8 * MIB).to_bytes(4, "big")) * 1000 + bytes(8 * MIB),
    "shorter lists that do not come": lambda: (b"\xdd" + (900_000).to_bytes(4, "big")) * 500 + bytes(900_000),
    "an array that is none": lambda: (
        b"\xc9" + (100 * MIB + 5).to_bytes(4, "big") + b"\x01" + many(0xDD, 100 * MIB, b"\x90")
    ),
    "names": lambda: (
        b"\xdf" + (10 * MIB).to_bytes(4, "big") + b"".join(b"\xa4%04x\xc0" % (n % 65536) for n in range(MIB)) * 10
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_unpacks_to_much_is_refused_within_the_bound(name: str) -> None:
    value = packed(BOMBS[name]())
    assert len(value) < MIB, "it is a bomb"
    with bounded(3 * snapshots.MAX_STATE_BYTES + 96 * snapshots.MAX_ITEMS), pytest.raises(SnapshotError):
        decode_state(value, "here")


def test_a_large_array_is_read_within_the_bound() -> None:
    value = encode_state({"a": np.zeros(snapshots.MAX_STATE_BYTES // 8 - 100)})
    with bounded(3 * snapshots.MAX_STATE_BYTES + 96 * snapshots.MAX_ITEMS):
        assert decode_state(value, "here")["a"].nbytes > 0.99 * snapshots.MAX_STATE_BYTES
