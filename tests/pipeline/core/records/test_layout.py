"""Layouts: what may be named, how it is packed, and what is remembered of it."""

from __future__ import annotations

import re
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.records import Layout, RecordError, make_layout
from laggard.pipeline.core.records.layout import read_layout
from laggard.pipeline.core.records.limits import MAX_COMMAND, MAX_FEATURES, MAX_NAME, MAX_ROWS
from laggard.pipeline.core.records.memory import LayoutMemory


@pytest.mark.parametrize(
    ("rows", "features", "commands"),
    [
        ([], [], []),
        ([], ["x"], []),
        (["a"], [], []),
        (["a"], ["x"], [""]),
        (["a", "b"], ["x"], ["", ""]),
        (["é", "\U0001f40c"], ["\n"], ["a\tb", ""]),
    ],
)
def test_degenerate_layouts_come_back(rows: list[str], features: list[str], commands: list[str]) -> None:
    made = make_layout(rows, rows, features, commands)
    read = read_layout(made.packed, "")
    assert (read.rows, read.names, read.features) == (tuple(rows), tuple(rows), tuple(features))
    assert read.commands == made.commands == tuple(commands)


@given(layout=st.from_type(Layout))
def test_a_layout_comes_back_from_what_it_was_packed_as(layout: Layout) -> None:
    read = read_layout(layout.packed, "")
    assert (read.rows, read.names, read.features, read.packed) == (
        layout.rows, layout.names, layout.features, layout.packed,
    )  # fmt: skip
    assert (read.commands, read.users, read.containers) == (layout.commands, layout.users, layout.containers)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rows": ["a", "a"]}, "field 'rows': expected each name only once, got 'a' 2 times"),
        ({"features": ["x", "y", "x"]}, "field 'features': expected each name only once, got 'x' 2 times"),
        ({"rows": ["a", ""]}, "field 'rows[1]': expected text of 1 to 1,024 characters"),
        ({"names": ["a"]}, "field 'names': expected one for each of 2 rows, got 1"),
        ({"names": ["", "b"]}, "field 'names[0]'"),
        ({"commands": ["a"]}, "field 'commands': expected none, or one for each of 2 rows, got 1"),
        ({"users": ["a"]}, "field 'users': expected none, or one for each of 2 rows, got 1"),
        ({"containers": ["", "x" * (MAX_NAME + 1)]}, "field 'containers[1]'"),
        ({"rows": ["a", "b\0c"]}, "field 'rows[1]': expected text of 1 to 1,024 characters without U+0000"),
        ({"rows": ["a", "\ud800"]}, r"field 'rows[1]': expected text of 1 to 1,024 characters without U+0000 and lone"),
        ({"names": ["a", 7]}, "field 'names[1]'"),
        ({"names": ["a", b"b"]}, "field 'names[1]'"),
        ({"features": ["x" * (MAX_NAME + 1)]}, "of 1,025 characters"),
        ({"commands": ["", "x" * (MAX_COMMAND + 1)]}, "field 'commands[1]'"),
        ({"features": map(str, range(MAX_FEATURES + 1))}, "field 'features': expected a list of at most 10,000"),
        ({"rows": map(str, range(MAX_ROWS + 1))}, "field 'rows': expected a list of at most 100,000"),
    ],
)
def test_what_is_no_layout_is_not_made(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RecordError, match=re.escape(told)):
        make_layout(**{"rows": ["a", "b"], "names": ["a", "b"], "features": ["x"], **changes})


def test_a_layout_of_too_many_cells_or_bytes_is_not_made() -> None:
    names = [str(number) for number in range(10_000)]
    with pytest.raises(RecordError, match=r"at most 4,000,000 rows x features, got 10,000 x 401"):
        make_layout(names, names, names[:401])
    with pytest.raises(RecordError, match=r"names of at most 25,165,824 bytes together"):
        make_layout(names, names, [], ["x" * MAX_COMMAND] * 10_000)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"names": None}, "field 'names': expected a byte string"),
        ({"rows": "a"}, "field 'rows': expected a byte string of at most 25,165,824, got 'a'"),
        ({"rows": b"\xff"}, "field 'rows': expected UTF-8, got invalid start byte"),
        ({"rows": b"a\0"}, "field 'rows[1]'"),
        ({"rows": b"a\0a"}, "field 'rows': expected each name only once"),
        (
            {"rows": b"", "names": b"", "commands": b""},
            "field 'commands': expected none, or one for each of 0 rows, got 1",
        ),
    ],
)
def test_what_is_no_packed_layout_is_refused(fields: dict[str, Any], told: str) -> None:
    packed = msgpack.packb({"rows": b"a", "names": b"a", "features": b"x", **fields})
    with pytest.raises(RecordError, match=f"^day:7: {re.escape(told)}"):
        read_layout(packed, "day:7")


# What is remembered.


def remembered(memory: LayoutMemory[str], name: str) -> bool:
    made = []

    def make() -> Layout:
        made.append(name)
        return make_layout([name], [name], [])

    memory.get(name, make)
    return not made


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    memory = LayoutMemory[str](most=2)
    assert [remembered(memory, name) for name in "abacab"] == [False, False, True, False, True, False]


def test_the_bytes_that_are_remembered_are_bounded() -> None:
    size = len(make_layout(["a"], ["a"], []).packed)
    memory = LayoutMemory[str](most_bytes=2 * size)
    assert [remembered(memory, name) for name in "abab"] == [False, False, True, True]
    assert [remembered(memory, name) for name in "ca"] == [False, False]
    assert not remembered(memory, "x" * 2 * size)
    assert not remembered(memory, "x" * 2 * size), "it does not fit at all"


def test_what_could_not_be_made_is_not_remembered() -> None:
    memory = LayoutMemory[str]()

    def fails() -> Layout:
        raise RecordError("", "", "a layout", "nothing")

    with pytest.raises(RecordError):
        memory.get("a", fails)
    assert not remembered(memory, "a")
