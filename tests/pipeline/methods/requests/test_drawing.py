"""Critical paths in a terminal and as SVG: pinned as people see them, and whole whatever threads call themselves."""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from laggard.pipeline.core.records import Request, Segment, read_line
from laggard.pipeline.history.report import Page
from laggard.pipeline.methods.requests.drawing import NARROWEST, STYLES, path_lines, state_lines
from laggard.pipeline.methods.requests.drawing_svg import path_svg
from laggard.pipeline.methods.requests.lanes import lanes_of, times_on
from laggard.pipeline.methods.requests.words import STATES
from tests.pipeline.methods.requests.paths import FIGURE_2, SPANS, contended, requests

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent / "golden"
RECORDED = read_line((Path(__file__).parent / "checkout.jsonl").read_bytes(), "test")
SVG = "{http://www.w3.org/2000/svg}"


def drawn(request: Request, width: int = 80, *, unicode: bool = True) -> str:
    return "".join(f"{line.plain.rstrip()}\n" for line in path_lines(request, Page(width, unicode)))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize(
    ("name", "request_", "width"),
    [
        ("figure-2", FIGURE_2, 80),
        ("narrow", FIGURE_2, 44),
        ("wide", FIGURE_2, 300),
        ("contended", contended(), 100),
        ("spans", SPANS, 80),
        ("ascii", FIGURE_2, 80),
    ],
)
def test_in_a_terminal(name: str, request_: Request, width: int, golden: Callable[[Path, str], None]) -> None:
    golden(GOLDEN / f"{name}.txt", drawn(request_, width, unicode=name != "ascii"))


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (GOLDEN / "figure-2.svg", FIGURE_2),
        (GOLDEN / "contended.svg", contended()),
        (GOLDEN / "spans.svg", SPANS),
        (Path(__file__).parents[4] / "deploy/docs/pictures/path.svg", RECORDED),  # in the documentation
    ],
    ids=lambda given: given.name if isinstance(given, Path) else "",
)
def test_as_svg(path: Path, request_: Request, golden: Callable[[Path, str], None]) -> None:
    golden(path, path_svg(request_))


def test_states_look_unlike_each_other() -> None:
    assert STYLES.keys() == STATES.keys()
    for parts in zip(*STYLES.values(), strict=True):
        assert len(set(parts)) == len(STYLES)
    assert all(cell_len(look.block) == 1 and look.ascii.isascii() for look in STYLES.values())


def test_colors_and_blocks_are_those_of_the_states() -> None:
    lanes = [line for line in path_lines(FIGURE_2, Page(80)) if "[" in line.plain]
    assert ["".join(sorted(set(line.plain[18:]) - set(" │"))) for line in lanes] == ["█▓", "█", "▓", "▄"]
    assert [
        {str(span.style) for span in line.spans} - {"dim", "bold"} for line in lanes
    ] == [{"blue", "green"}, {"green"}, {"blue"}, {"red"}]  # fmt: skip


def test_a_segment_too_short_for_a_column_is_still_drawn() -> None:
    path = (Segment(0, 0.0, 0.6, "RU", ""), Segment(1, 0.6, 0.600001, "BD", "vda"), Segment(0, 0.600001, 1.0, "RU", ""))
    request = replace(FIGURE_2, duration_s=1.0, path=path)
    lane = next(line for line in drawn(request).splitlines() if line.startswith("php-fpm"))
    assert lane.count("▄") == 1


@given(requests(), st.integers(10, 200), st.booleans())
def test_any_path_has_a_lane_for_each_thread_on_it(request: Request, width: int, unicode: bool) -> None:
    lanes = lanes_of(request)
    lines = [line.plain for line in path_lines(request, Page(width, unicode))]
    blocks = {look.block if unicode else look.ascii for look in STYLES.values()} | set("█▒▓░" if unicode else "ABCD")
    rows = lines[: 2 * len(lanes.names) - 1 : 2]
    longest = min(max(map(cell_len, lanes.names)), 32, max(width - NARROWEST - 2, 8))
    on_path = {piece.thread for piece in lanes.pieces}
    for lane, row in enumerate(rows):
        shown = row[len(row) - (cell_len(row) - longest - 2) :] if cell_len(row) > longest + 2 else ""
        assert bool(set(shown) & blocks) == (lane in on_path)
    drawing = lines[: 2 * len(lanes.names) + 1]
    assert max(map(cell_len, drawing)) <= max(width, longest + 2 + NARROWEST)
    assert math.isclose(math.fsum(times_on(lanes).values()), lanes.duration_s, abs_tol=1e-9)


@given(requests())
def test_any_path_is_whole_as_svg(request: Request) -> None:
    root = ET.fromstring(path_svg(request))
    lanes = lanes_of(request)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    bars = [each for group in root.iter(f"{SVG}g") for each in group.findall(f"{SVG}rect")]
    assert len(bars) == len(lanes.pieces)
    for bar in bars:
        x, y, wide, high = (float(bar.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0.0 <= x <= x + wide <= width
        assert 0.0 <= y <= y + high <= height
    arrows = [each for each in root.iter(f"{SVG}path") if each.get("class") == "w"]
    assert len(arrows) == len(lanes.links)
    numbers = [float(each) for path in root.iter(f"{SVG}path") for each in re.findall(r"-?[\d.]+", path.get("d", ""))]
    assert all(math.isfinite(each) for each in numbers)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b", '"><g', "\x1b[31mred", "w\u202eorker", "工人"])
def test_names_are_data(name: str) -> None:
    path = (*FIGURE_2.path[:-1], Segment(0, 0.118, 0.122, name, name))
    request = replace(FIGURE_2, request=name, name=name, service=name, threads=(name, *FIGURE_2.threads[1:]), path=path)
    svg = path_svg(request)
    root = ET.fromstring(svg)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == {
        "svg", "title", "desc", "style", "rect", "text", "g", "path",
    }  # fmt: skip
    assert "\x1b" not in svg
    assert "\x1b" not in drawn(request)


def test_states_without_a_path() -> None:
    lines = [line.plain for line in state_lines({"RU": 0.03, "BT": 0.09, "BD": 0.0, "TT": 0.12}, 0.12, Page(80))]
    assert lines == [
        "  BT  waits for a task     90 ms    75 %",
        "  RU  user mode            30 ms    25 %",
    ]
