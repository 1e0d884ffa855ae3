"""Folded stacks, speedscope's format and the flame graph: what their readers take, with every sample in it once."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from hypothesis import given
from jsonschema import Draft7Validator

from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, Phase, Stack
from laggard.pipeline.methods.diagnoses.flame_graph import MARGIN, NARROWEST, WIDTH, flame_graph
from laggard.pipeline.methods.diagnoses.folded import folded
from laggard.pipeline.methods.diagnoses.speedscope import speedscope
from tests.deploy.files import schema
from tests.pipeline.core.records.test_diagnosis_json import DIAGNOSES
from tests.pipeline.methods.diagnoses.conftest import (
    COMPUTE,
    LOOP,
    NOTHING,
    ON_DISK,
    ONE_HOT,
    START,
    TWO_DIPS,
    UNTRUSTWORTHY,
    diagnosis,
    thread,
)

ALL = (ONE_HOT, TWO_DIPS, ON_DISK, UNTRUSTWORTHY, NOTHING)
SVG = "{http://www.w3.org/2000/svg}"
SPEEDSCOPE = Draft7Validator(schema("speedscope-1.25.0"))
LINE = re.compile(r"^(?P<stack>.*) (?P<samples>\d+)$")
"""How flamegraph.pl tells a stack from its count."""


def samples(told: Diagnosis, state: str | None = None) -> int:
    stacks = (stack for phase in told.phases for thread in phase.threads for stack in thread.stacks)
    return sum(stack.samples for stack in stacks if state in {None, stack.state})


def test_folded_stacks_name_process_thread_and_functions_outermost_first() -> None:
    assert list(folded(ONE_HOT)) == [
        "python3;python3 (26801);[blocked];run_forever (hot.py);pthread_cond_wait;futex_[k];futex_do_wait_[k] 100",
        "python3;worker (26810);run_forever (hot.py);compute (hot.py) 92",
        "python3;worker (26810);run_forever (hot.py);parse (hot.py) 8",
        "python3;writer (26811);[blocked];run_forever (hot.py);fsync;fsync_[k];folio_wait_bit_common_[k] 97",
    ]
    phases = list(folded(TWO_DIPS))
    assert "python3;phase 1;worker (26810);run_forever (hot.py);compute (hot.py) 45" in phases
    assert "python3;phase 3;worker (26810);run_forever (hot.py);parse (hot.py) 45" in phases
    assert "python3;phase 5;worker (26810);run_forever (hot.py);libfast.so.1+0x1d7b 45" in phases


def test_the_kernels_own_functions_are_not_told_twice() -> None:
    kernel = (Location("folio_wait_bit_common", "[kernel]", 9), Location("ksys_read", "[kernel]", 9), COMPUTE)
    stack = Stack(kernel, 3, "blocked", "folio_wait_bit_common", "read")
    told = diagnosis(Phase(True, START, START + 1, 3, (thread(1, "a;b", 0.1, stack),)))
    assert list(folded(told)) == [
        "python3;a:b (1);[blocked];compute (hot.py);ksys_read_[k];folio_wait_bit_common_[k] 3"
    ]


@pytest.mark.parametrize("told", ALL)
def test_every_sample_is_in_each_export_once_and_a_flame_graph_needs_nothing_else(told: Diagnosis) -> None:
    lines = [LINE.fullmatch(line) for line in folded(told)]
    assert all(lines)
    assert sum(int(line["samples"]) for line in lines if line) == samples(told)
    file = speedscope(told)
    SPEEDSCOPE.validate(file)
    assert sum(sum(each["weights"]) for each in file["profiles"]) == samples(told)
    for profile in file["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert {each for stack in profile["samples"] for each in stack} <= set(range(len(file["shared"]["frames"])))
    graph = flame_graph(told)
    assert graph.count("http") == 1  # the name of the form itself
    assert not re.search(r"<script|href|url\(|@import|\bon\w+=", graph), "it runs nothing"
    headings = [each.text or "" for each in ET.fromstring(graph).iter(f"{SVG}text") if each.get("class")]
    counts = [
        int(found[1].replace(",", "")) for each in headings if (found := re.search(r": ([\d,]+) samples?$", each))
    ]
    assert sum(counts) == samples(told)


@given(told=DIAGNOSES)
def test_whatever_processes_call_themselves_readers_can_read_it(told: Diagnosis) -> None:
    for line in folded(told):
        assert LINE.fullmatch(line)
        assert line.isprintable()
    SPEEDSCOPE.validate(json.loads(json.dumps(speedscope(told))))
    root = ET.fromstring(flame_graph(told))
    assert all(text.isprintable() for each in root.iter(f"{SVG}text") if (text := each.text or ""))
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {"svg", "title", "style", "rect", "text", "g"}


def test_speedscope_gets_a_profile_for_each_thread_of_each_phase_and_one_frame_for_each_function() -> None:
    file = speedscope(TWO_DIPS)
    assert [each["name"] for each in file["profiles"]] == [
        "phase 1, worker (26810)",
        "phase 1, worker (26812)",
        "dip 2, worker (26810)",
        "phase 3, worker (26810)",
        "phase 3, worker (26812)",
        "dip 4, worker (26810)",
        "phase 5, worker (26810)",
        "phase 5, worker (26812)",
    ]
    frames = file["shared"]["frames"]
    assert [frames[each]["name"] for each in file["profiles"][0]["samples"][0]] == [
        "run_forever (hot.py)",
        "compute (hot.py)",
    ]
    assert max(Counter((each["name"], each.get("file")) for each in frames).values()) == 1
    assert len(speedscope(ONE_HOT)["profiles"][0]["samples"]) == 3  # two of them are of one function, on two lines
    assert len({json.dumps(each) for each in speedscope(ONE_HOT)["profiles"][0]["samples"]}) == 2


def test_a_flame_graph_has_boxes_as_wide_as_they_were_found_often_on_those_that_called_them() -> None:
    boxes = drawn(ONE_HOT)
    whole = WIDTH - 2 * MARGIN
    compute, parse, loop = (boxes[name] for name in ("compute (hot.py)", "parse (hot.py)", "run_forever (hot.py)"))
    assert [box[2] for box in (compute, parse, loop)] == pytest.approx([0.92 * whole, 0.08 * whole, whole], abs=0.1)
    assert compute[1] == parse[1] == loop[1] - 17
    assert compute[0] + compute[2] == pytest.approx(parse[0], abs=0.1)
    assert compute[3] == "compute (hot.py): 92 samples, 92 %\n/srv/app/hot.py"


def test_what_is_blocked_is_drawn_apart_and_in_blue() -> None:
    text = flame_graph(ONE_HOT)
    assert headings(ONE_HOT) == ["Running: 100 samples", "Blocked: 197 samples"]
    hues = {
        name: int(re.search(rf"hsl\((\d+) [^>]*/><text[^>]*>{re.escape(name)}<", text)[1])  # type: ignore[index]
        for name in ("compute (hot.py)", "folio_wait_bit_common_[k]", "pthread_cond_wait")
    }
    assert hues["compute (hot.py)"] < 30
    assert all(200 <= hues[name] <= 220 for name in ("folio_wait_bit_common_[k]", "pthread_cond_wait"))


def test_each_phase_has_a_graph_of_its_own() -> None:
    assert headings(TWO_DIPS) == [
        "Running, phase 1, 22:14:10 to 22:15:08: 90 samples",
        "Running, phase 3, 22:15:12 to 22:15:48: 90 samples",
        "Running, phase 5, 22:15:52 to 22:16:10: 90 samples",
        "Blocked: 200 samples",
    ]


@pytest.mark.parametrize(
    ("often", "labelled", "boxed"),
    [(1, False, False), (100, False, True), (10_000, True, True)],
    ids=["too narrow to be seen", "too narrow for a text", "wide enough"],
)
def test_a_box_is_drawn_and_labeled_where_it_is_wide_enough(often: int, labelled: bool, boxed: bool) -> None:
    whole = 100_000 + often
    stacks = Stack((COMPUTE, LOOP), 100_000), Stack((Location("rare"), LOOP), often)
    told = diagnosis(Phase(True, START, START + 1, whole, (thread(1, "a", 1.0, *stacks),)))
    assert boxed == (often / whole * (WIDTH - 2 * MARGIN) >= NARROWEST)
    assert drawn(told).keys() - {"rare"} == {"a (1)", "run_forever (hot.py)", "compute (hot.py)"}
    assert ("rare" in drawn(told)) == labelled
    title = f"<title>rare: {often:,} samples, {100 * often / whole:.2g} %</title><rect x="
    assert (title in flame_graph(told), "rare" in flame_graph(told)) == (boxed and not labelled, boxed)


def test_a_stack_of_2000_functions_is_drawn() -> None:
    deep = Stack(tuple(Location(f"f{number}") for number in range(2000)), 1)
    assert len(drawn(diagnosis(Phase(True, START, START + 1, 1, (thread(1, "a", 1.0, deep),))))) == 2001


def headings(told: Diagnosis) -> list[str]:
    return [each.text or "" for each in ET.fromstring(flame_graph(told)).iter(f"{SVG}text") if each.get("class") == "h"]


def drawn(told: Diagnosis) -> dict[str, tuple[float, float, float, str]]:
    """By label: x, y, width and title of the first box of this name that has text."""
    found: dict[str, tuple[float, float, float, str]] = {}
    for group in ET.fromstring(flame_graph(told)).iter(f"{SVG}g"):
        box, title = group.find(f"{SVG}svg"), group.find(f"{SVG}title")
        assert title is not None
        if box is None:
            continue
        label = box.findtext(f"{SVG}text") or ""
        x, y, width = (float(box.get(name, "nan")) for name in ("x", "y", "width"))
        found.setdefault(label, (x, y, width, title.text or ""))
    return found
