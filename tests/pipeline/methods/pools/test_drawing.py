"""Dendrograms in a terminal and as SVG: pinned as people see them, and whole whatever members call themselves."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from laggard.pipeline.core.records.pools import Leaf, LevelOutput, Merge
from laggard.pipeline.history.report import Page
from laggard.pipeline.methods.pools.dendrogram import folded, level_output
from laggard.pipeline.methods.pools.drawing import dendrogram_lines
from laggard.pipeline.methods.pools.drawing_svg import Picture, dendrogram_svg
from tests.pipeline.methods.pools.trees import MACHINES, clustered, levels

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.operators.covariance.results import Kind

GOLDEN = Path(__file__).parent / "golden"
SVG = "{http://www.w3.org/2000/svg}"
KINDS: dict[str, Kind] = {"worker-3": "leak", "worker-7": "younger"}


def drawn(level: LevelOutput, width: int = 80, *, unicode: bool = True) -> str:
    lines = [line.plain for line in dendrogram_lines(folded(level), Page(width, unicode))]
    assert max(map(len, lines)) <= width
    return "".join(f"{line.rstrip()}\n" for line in lines)


def pictured(*members: int) -> str:
    pictures = [
        Picture(f"{each} members", folded(level_output("", clustered(each, KINDS if each > 7 else {}), KINDS)))
        for each in members
    ]
    return dendrogram_svg("workers", "`worker-3` leaks.", [Picture("machines", MACHINES), *pictures])


@pytest.mark.parametrize(
    ("name", "level", "width"),
    [
        ("machines", MACHINES, 80),
        ("narrow", MACHINES, 40),
        ("members-12", level_output("", clustered(12, KINDS), KINDS), 80),
        ("members-40", level_output("", clustered(40, KINDS), KINDS), 100),
        ("members-320", level_output("", clustered(320, KINDS), KINDS), 80),
        ("ascii", level_output("", clustered(60, KINDS), KINDS), 80),
    ],
)
def test_in_a_terminal(name: str, level: LevelOutput, width: int, golden: Callable[[Path, str], None]) -> None:
    golden(GOLDEN / f"{name}.txt", drawn(level, width, unicode=name != "ascii"))


def test_as_svg(golden: Callable[[Path, str], None]) -> None:
    golden(GOLDEN / "pool.svg", pictured(5, 320))


def test_colors_mark_deviating_members() -> None:
    lines = list(dendrogram_lines(level_output("", clustered(12, KINDS), KINDS), Page(80)))
    assert [line.plain[:10] for line in lines[:2]] == ["● worker-3", "○ worker-7"]
    assert [{str(span.style) for span in line.spans} for line in lines[:3]] == [{"bold red"}, {"yellow"}, set()]


@given(levels(), st.integers(20, 120), st.booleans())
def test_any_dendrogram_has_a_line_for_each_leaf_and_a_way_to_each(
    level: LevelOutput, width: int, unicode: bool
) -> None:
    if not level.merges:
        return
    lines = [line.plain for line in dendrogram_lines(level, Page(width, unicode))]
    assert len(lines) == len(level.leaves) + 2
    assert all(f"w-{number} " in " ".join(lines) for number in range(len(level.leaves)))


@given(levels())
def test_any_dendrogram_is_whole_as_svg(level: LevelOutput) -> None:
    if not level.merges:
        return
    root = ET.fromstring(dendrogram_svg("t", "d", [Picture("h", level)]))
    merges = [each for each in root.iter(f"{SVG}title") if (each.text or "").startswith("height ")]
    assert len(merges) == len(level.merges)
    numbers = [float(each) for path in root.iter(f"{SVG}path") for each in re.findall(r"-?[\d.]+", path.get("d", ""))]
    assert all(math.isfinite(each) and each >= 0.0 for each in numbers)
    assert max(numbers) <= max(float(root.get("width", "")), float(root.get("height", "")))


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b", '"><g', "\x1b[31mred", "w\u202eorker", "工人"])
def test_names_are_data(name: str) -> None:
    level = replace(MACHINES, path=name, leaves=(Leaf(name, 1, 1, "leak"), *MACHINES.leaves[1:]))
    svg = dendrogram_svg(name, f"`{name}` leaks.", [Picture(name, level)])
    root = ET.fromstring(svg)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == {
        "svg", "title", "desc", "style", "rect", "text", "g", "path",
    }  # fmt: skip
    assert "\x1b" not in svg
    assert "\x1b" not in drawn(level)


def test_a_p_value_that_is_not_known_is_not_told() -> None:
    unknown = replace(MACHINES, p_values=(math.nan,) * 3)
    assert not re.search(r"[┤┬]\d", drawn(unknown))
    svg = dendrogram_svg("t", "d", [Picture("h", unknown)])
    assert "au p-value" not in svg
    assert 'class="p"' not in svg


def test_all_alike_lie_at_the_bottom() -> None:
    level = LevelOutput("", (Leaf("a"), Leaf("b"), Leaf("c")), (Merge(0, 1, 0.0, 2), Merge(2, 3, 0.0, 3)), (50.0,) * 2)
    assert drawn(level).splitlines()[:3] == ["  a ─┐", "  b ─┼50", "  c ─┘"]
    paths = [
        each.get("d") for each in ET.fromstring(dendrogram_svg("t", "d", [Picture("h", level)])).iter(f"{SVG}path")
    ]
    assert all(path and len(set(re.findall(r"(?:V| )([\d.]+)", path))) == 1 for path in paths[1:])


def test_long_labels_keep_their_ends_and_wide_characters_take_two_columns() -> None:
    def long(leaf: Leaf) -> Any:
        return replace(leaf, label=f"{'x' * 90}-{leaf.label}")

    level = replace(MACHINES, leaves=tuple(map(long, MACHINES.leaves)))
    text = drawn(level, 72)
    assert re.search(r"● \.\.\.x+-machine4 different ", text)
    assert "...xxx" in dendrogram_svg("t", "d", [Picture("h", level)])
    level = replace(MACHINES, leaves=(Leaf("工人"), *MACHINES.leaves[1:]))
    ends = {cell_len(line) for line in drawn(level).splitlines()[1:2] + drawn(MACHINES).splitlines()[1:2]}
    assert len(ends) == 1


def test_a_group_with_members_that_deviate_is_told_to_have_them() -> None:
    machines = replace(MACHINES, path="rack-1")
    inside = frozenset({"rack-1/machine2"})
    lines = [line.plain for line in dendrogram_lines(machines, Page(80), inside)]
    assert [line for line in lines if "inside" in line] == [lines[1]]
    assert lines[1].startswith("  machine2 inside ")
    root = ET.fromstring(dendrogram_svg("t", "d", [Picture("h", machines, inside)]))
    assert {"machine1", "machine2 inside"} <= {each.text for each in root.iter(f"{SVG}text")}
