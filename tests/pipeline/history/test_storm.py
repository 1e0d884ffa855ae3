"""A storm of short-lived children: their parent is blamed, and their names are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.history.watch import Watch
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import wire
from tests.pipeline.history.conftest import HOST_LAYOUT, append, at, work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pipeline.history.conftest import Recorded

FEATURES = (
    "cpu_user_ratio",
    "cpu_system_ratio",
    "cpu_wait_ratio",
    "cpu_children_ratio",
    "timeslices_per_s",
    "page_faults_minor_per_s",
    "switches_voluntary_per_s",
    "switches_involuntary_per_s",
    "io_read_operations_per_s",
    "io_write_operations_per_s",
    "memory_rss_bytes",
    "descriptors",
)
MAKE = "make[77@9]"
USUAL = (MAKE, *(f"worker[{pid}@7]" for pid in range(100, 111)))
STORM = range(150, 160)
TOLD = "Short-lived processes seen meanwhile: `cc1` (10) and `as` (5)."


def frames(ticks: range) -> Iterator[Frame]:
    noise = np.random.default_rng(5)
    for tick in ticks:
        compilers = [f"cc1[{1000 + 3 * tick + n}@{tick}]" for n in range(2)] + [f"as[{1002 + 3 * tick}@{tick}]"]
        rows = (*USUAL, *(compilers if tick in STORM else ()))
        values = noise.normal(100.0, 5.0, (len(rows), len(FEATURES)))
        values[:, :4] /= 1000.0
        values[len(USUAL) :] /= 100.0
        if tick in STORM:
            values[0, FEATURES.index("cpu_children_ratio")] = 1.8
        layout = make_layout(rows, [row.partition("[")[0] for row in rows], FEATURES)
        yield Frame("host", "web-1", "process", at(tick), 2 * tick, layout, values)
        yield Frame("host", "web-1", "host", at(tick), 2 * tick + 1, HOST_LAYOUT, np.array([[0.5, 0.25, 2e9]]))


@pytest.fixture
def stormy(empty: Recorded) -> Recorded:
    append(empty.bus, frames(range(170)))
    work(empty.bus, [empty.wired])
    return empty


def test_the_parent_is_blamed_and_its_children_are_named(stormy, capsys):
    asked = ["why", "--bus", str(stormy.path), "--host", "web-1", "--set", "gaussian.context=40m"]
    moment = ["--at", str(at(STORM.start + 6))]
    assert run([*asked, *moment]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith(
        "`make` (pid 77) is behaving unusually: its short-lived child processes use 180 % of one core,"
    )
    assert lines[3] == TOLD
    assert run([*asked, *moment, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sentence"].endswith(TOLD)
    assert run([*asked, "--at", str(at(STORM.start - 1))]) == 0
    assert "Short-lived" not in capsys.readouterr().out


def test_who_watches_is_told_the_same(empty):
    append(empty.bus, frames(range(STORM.start + 7)))
    watched = Watch(empty.history, "web-1").answer(5, 3)
    assert watched is not None
    assert watched.short_lived == empty.history.ask("web-1", None, 5, 3).short_lived == (("cc1", 10), ("as", 5))


@pytest.mark.parametrize("worked", [STORM.start - 1, STORM.start, 170], ids=["before", "at", "never"])
def test_an_anomaly_names_those_that_have_just_begun(empty, worked):
    """Also where the worker was started anew just before it."""
    wired = wire(read_settings(environ={}, flags=[Given("gaussian.false_alarms", "1000/day", "test")]))
    for ticks in (range(worked), range(worked, 170)):
        append(empty.bus, frames(ticks))
        work(empty.bus, wired)
    (partition,) = empty.bus.partitions("laggard.anomalies")
    anomalies = [json.loads(record.value) for record in empty.bus.read(partition, 0)]
    (told,) = [each["sentence"] for each in anomalies if each["sentence"].startswith("`make`")]
    assert told.endswith(". Processes that have just begun: `cc1` (2) and `as` (1).")
