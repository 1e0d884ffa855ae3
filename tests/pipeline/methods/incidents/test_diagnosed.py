"""Diagnoses on a bus: which are found, and in which state."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from laggard.pipeline.core.topics import DIAGNOSES, Topics
from laggard.pipeline.methods.incidents.diagnosed import BEFORE_S, LONGEST_S, Recorded, concerning
from tests.pipeline.methods.diagnoses.conftest import ON_DISK, ONE_HOT, START, TWO_DIPS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.core.records.diagnosis import Diagnosis

TOPICS = Topics()
HOT = replace(ONE_HOT, id="hot", ts=START + 10.0)
DISK = replace(ON_DISK, id="disk", ts=START + 10.5, phases=(replace(ON_DISK.phases[0], end_ts=START + 10.5),))
BEGUN = replace(TWO_DIPS, id="dips", ts=START + 80.0, progress="opened", phases=TWO_DIPS.phases[:1])
WHOLE = replace(TWO_DIPS, id="dips", ts=START + 170.0)
ELSEWHERE = replace(ONE_HOT, id="elsewhere", host="web-2", ts=START + 171.0)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "laggard.db") as opened:
        opened.create(TOPICS.specs())
        yield opened


def append(bus: EmbeddedBus, *told: Diagnosis) -> None:
    topic = TOPICS.name(DIAGNOSES)
    bus.append([Outgoing(topic, each.host, write_diagnosis(each).encode(), each.ts) for each in told])


def test_the_newest_come_first_in_their_last_version_and_other_records_are_skipped(
    bus: EmbeddedBus,
) -> None:
    append(bus, HOT, DISK, BEGUN, WHOLE, ELSEWHERE)
    for value in (b"junk", write_diagnosis(ELSEWHERE).encode()):
        bus.append([Outgoing(TOPICS.name(DIAGNOSES), "web-1", value, START + 180.0)])
    assert list(Recorded(bus, TOPICS, "web-1").newest()) == [WHOLE, DISK, HOT]
    assert [each.id for each in Recorded(bus, TOPICS, "web-2").newest()] == ["elsewhere"]
    assert list(Recorded(bus, TOPICS, "web-3").newest()) == []


def test_many_are_read_in_steps(bus: EmbeddedBus) -> None:
    append(bus, *(replace(HOT, id=f"{number}") for number in range(100)))
    assert [each.id for each in Recorded(bus, TOPICS, "web-1").newest()] == [
        f"{number}" for number in range(99, -1, -1)
    ]


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (5.0, 5.0, ["disk", "hot"]),
        (10.0 + BEFORE_S - 1.0, 10.0 + BEFORE_S - 1.0, ["disk", "hot", "dips"]),
        (10.0 + BEFORE_S + 1.0, 10.0 + BEFORE_S + 1.0, ["dips"]),
        (110.0, 110.0, ["dips"]),
        (-100.0, -50.0, []),
        (-100.0, 49.0, ["disk", "hot"]),
        (170.0 + BEFORE_S + 1.0, 1000.0, []),
    ],
)
def test_those_of_a_moment(bus: EmbeddedBus, begin: float, end: float, found: list[str]) -> None:
    append(bus, HOT, DISK, BEGUN, WHOLE, ELSEWHERE)
    around = Recorded(bus, TOPICS, "web-1").around(START + begin, START + end)
    assert [each.id for each in around] == found
    assert all(each in {HOT, DISK, WHOLE} for each in around)


def test_what_is_far_behind_a_moment_is_not_read(bus: EmbeddedBus) -> None:
    append(bus, HOT, replace(DISK, ts=START + 5.0 + LONGEST_S + 1.0))
    assert [each.id for each in Recorded(bus, TOPICS, "web-1").around(START + 5.0, START + 5.0)] == ["hot"]


@pytest.mark.parametrize(
    ("ts", "began", "blamed", "found"),
    [
        (60.0, math.nan, [], ["dips", "disk", "hot"]),
        (60.0, math.nan, ["hot[1]"], ["hot", "dips", "disk"]),
        (60.0, 55.0, ["disk[1]", "hot[1]"], ["disk", "hot", "dips"]),
        (200.0, math.nan, ["hot[1]"], ["dips"]),
        (200.0, 5.0, ["hot[1]"], ["hot", "dips"]),
        (LONGEST_S + BEFORE_S + 20.0, 5.0, ["hot[1]"], []),
    ],
)
def test_what_concerns_a_moment(bus: EmbeddedBus, ts: float, began: float, blamed: list[str], found: list[str]) -> None:
    append(bus, replace(HOT, row="hot[1]"), replace(DISK, row="disk[1]"), BEGUN, replace(WHOLE, row="dips[1]"))
    told = concerning(Recorded(bus, TOPICS, "web-1"), START + ts, START + began, blamed)
    assert [each.id for each in told] == found
