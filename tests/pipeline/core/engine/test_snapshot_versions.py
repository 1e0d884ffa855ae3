"""Today's snapshots, pinned: a change of their form without a new version fails here.

The files in `golden/` are what laggard of these versions wrote: `OPERATOR-FORM.STATE.snapshot`. Those of older versions
stay, for they are still in somebody's bus: each must be migrated, or be listed as rebuilt from the input.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.pipeline.core.bus import Incoming, Partition, Snapshot
from laggard.pipeline.core.engine import snapshots
from laggard.pipeline.core.engine.snapshots import BASE_KEY, decode_state
from laggard.pipeline.core.records import Frame, Mark, encode, make_layout
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.wiring import wire

if TYPE_CHECKING:
    from laggard.pipeline.scoring.wired import Wired

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.snapshot"))
INPUT = Partition("laggard.counters", 0)
WIRES = {wired.name: wired for wired in wire(read_settings(environ={}, flags=[]))}

FEATURES = {
    "gaussian": [f"f{n}_bytes" for n in range(12)],
    "cpu": ["cpu_user_ratio", "cpu_system_ratio", "cpus", *(f"f{n}_bytes" for n in range(9))],
    "saturation": ["cpu_user_ratio", "memory_rss_bytes", "descriptors", *(f"f{n}_bytes" for n in range(9))],
}
"""By operator, those of processes of which it keeps something."""

OF_HOST = {"saturation": ["pressure_cpu_some_ratio", "memory_used_bytes", "memory_available_bytes"]}
"""By operator, those of the host, where it is not just any."""

REBUILT: set[str] = set()
"""Names of files of versions that no migration leads on from: their states are learned from the input again."""


def current(wired: Wired) -> str:
    return f"{wired.name}-{snapshots.VERSION}.{wired.state_version}"


def taken(wired: Wired) -> dict[str, bytes]:
    """The snapshots that a task takes of a short stream with everything in it that a state can hold."""
    task = Task(wired, INPUT, snapshot_records=1000)
    draw = np.random.default_rng(7)
    layout, later = (
        make_layout([f"p{n}[{n}@1]" for n in range(rows)], [f"p{n}" for n in range(rows)], FEATURES[wired.name])
        for rows in (4, 5)
    )
    of_host = OF_HOST.get(wired.name, ["load_1m", "cpu_busy_ratio"])
    own = make_layout(["web-1"], ["web-1"], of_host)
    for offset in range(0, 90, 3):
        ts = 1_700_000_000.0 + offset
        seen = layout if offset < 60 else later
        values = draw.normal(5.0, 1.0, (len(seen.rows), 12))
        values[0, 0] = np.nan
        records: list[Frame | Mark] = [
            Frame("host", "web-1", "process", ts, offset, seen, values),
            Frame("host", "web-1", "host", ts, offset + 1, own, draw.normal(1.0, 0.1, (1, len(of_host)))),
            Mark("web-1", ts + 0.5, "slow", offset + 2),
        ]
        for at, record in enumerate(records):
            task.process(Incoming(INPUT, offset + at, "web-1", encode(record), record.ts))
    task.states.save_all(task.position)
    return {snapshot.key: snapshot.value for snapshot in task.states.take(task.position)}


def form(value: Any) -> Any:
    """What a state is made of, without its numbers and names."""
    match value:
        case np.ndarray():
            return f"{value.dtype.str} in {value.ndim} dimensions"
        case dict():
            return {key: form(part) for key, part in value.items()}
        case list():
            return sorted({str(form(part)) for part in value})
    return type(value).__name__


@pytest.mark.parametrize("name", WIRES)
def test_the_form_is_what_it_was(name: str, request: pytest.FixtureRequest) -> None:
    wired = WIRES[name]
    value = taken(wired)["web-1"]
    path = GOLDEN / f"{current(wired)}.snapshot"
    if request.config.getoption("--update-golden") and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(value)
    now, then = form(decode_state(value, "now")), form(decode_state(path.read_bytes(), "then"))
    # A scope may come without a new version: what is kept of each is read for itself.
    now["streams"] = {scope: kept for scope, kept in now["streams"].items() if scope in then["streams"]}
    assert now == then, (
        "states are written in another form: raise the operator's state_version, or snapshots.VERSION for what the "
        "task keeps, and add a migration (see migrations.py); keep the old file, and add a new one with --update-golden"
    )


@pytest.mark.parametrize("name", WIRES)
def test_the_base_is_what_it_was(name: str) -> None:
    assert decode_state(taken(WIRES[name])[BASE_KEY], "now") == {"base": 90, "counted": 90}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_version_that_there_ever_was_can_be_taken_over(path: Path) -> None:
    name, _, versions = path.stem.rpartition("-")
    wired = WIRES[name]
    task = Task(wired, INPUT)
    loaded = task.states.load([Snapshot(wired.snapshots, INPUT, "web-1", 90, 1_700_000_087.0, path.read_bytes())])
    if path.name in REBUILT:
        assert loaded.damaged.keys() == {"web-1"}
        return
    assert not loaded.damaged
    assert loaded.migrated == (versions != f"{snapshots.VERSION}.{wired.state_version}")
    keyed = task.states.get("web-1")
    assert keyed is not None
    assert keyed.records == (90 if wired.answers_marks else 60)
    scores = keyed.streams["process"].scores()
    assert scores is not None
    assert np.isfinite(scores.score)


@pytest.mark.parametrize("name", WIRES)
def test_what_is_loaded_is_saved_the_same(name: str) -> None:
    value = taken(WIRES[name])["web-1"]
    task = Task(WIRES[name], INPUT)
    task.states.load([Snapshot(WIRES[name].snapshots, INPUT, "web-1", 90, 1_700_000_087.0, value)])
    task.states.loaded(90)
    task.states.counted = 91
    task.states.note("web-1", 90)
    task.states.save_all(91)
    (again,) = (each.value for each in task.states.take(91) if each.key)
    first, second = decode_state(value, "first"), decode_state(again, "second")
    answered = 30 if WIRES[name].answers_marks else 0
    assert (first.pop("records"), second.pop("records")) == (60 + answered, 61 + answered)
    assert (first.pop("heard"), second.pop("heard")) == (89 if answered else 88, 90)
    assert snapshots.encode_state(first) == snapshots.encode_state(second)


def test_every_older_version_has_a_file() -> None:
    there = {(path.stem.rpartition("-")[0], path.stem.rpartition(".")[2]) for path in FILES}
    for wired in WIRES.values():
        wanted = {(wired.name, str(version)) for version in range(1, wired.state_version + 1)}
        assert wanted <= there, "a version that was released has a file with one of its snapshots"
        assert current(wired) in {path.stem for path in FILES}
