"""Another version of laggard on the same bus: forward, back and forward again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import msgpack
import numpy as np
import pytest
import zstandard

from laggard.pipeline.core.engine import snapshots
from laggard.pipeline.core.engine.migrations import migrate, newest_snapshots
from laggard.pipeline.core.engine.snapshots import SnapshotError, decode_state, encode_state
from tests.pipeline.core.engine.conftest import INPUT, TOPICS, WIRED, Drift, append, drain, frame, result, runner, stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus.embedded import EmbeddedBus
    from laggard.pipeline.scoring.wired import Wired


@pytest.fixture
def other_bus(new_bus: Callable[[], EmbeddedBus]) -> EmbeddedBus:
    return new_bus()


class Newer(Drift):
    """The same statistic with its state in another form."""

    state_version: ClassVar[int] = 2

    def snapshot(self) -> dict[str, Any]:
        return {"count": self.learned, "mean": float(self.mean[0])}

    def restore(self, state: dict[str, Any]) -> None:
        self.learned, self.mean = state["count"], np.array([state["mean"]])


def from_1(state: dict[str, Any]) -> dict[str, Any]:
    return {"count": state["learned"], "mean": float(state["mean"][0])}


OLDER = WIRED
OLDER_NAME = WIRED.snapshots
NEWER = replace(WIRED, make=Newer, state_version=2, migrations={1: from_1})


def through(bus: EmbeddedBus, wired: Wired) -> Any:
    """Run one version until everything is processed; gives what it counted."""
    one = runner(bus, [wired])
    drain(one, bus)
    stop(one)
    return one.telemetry.tasks()[0]


def frames(first: int, last: int) -> list[Any]:
    return [frame(f"h{tick % 3}", tick, 5.0 + tick % 7) for tick in range(first, last)]


def means(bus: EmbeddedBus, wired: Wired) -> dict[str, float]:
    """What the newest states of a version say is usual, by host."""
    found = {}
    for each in bus.snapshots(wired.snapshots, INPUT):
        if each.key:
            state = decode_state(each.value, each.key)["streams"]["process"]["operator"]
            found[each.key] = float(np.ravel(state["mean"])[0])
    return found


def undisturbed(bus: EmbeddedBus, last: int) -> dict[str, float]:
    """The same of one version that saw all from the beginning."""
    append(bus, frames(0, last))
    through(bus, OLDER)
    return means(bus, OLDER)


def test_an_older_version_is_migrated_and_stays_as_it_was(
    bus: EmbeddedBus, other_bus: EmbeddedBus, caplog: pytest.LogCaptureFixture
) -> None:
    append(bus, frames(0, 30))
    through(bus, OLDER)
    before = result(bus).states
    append(bus, frames(30, 60))
    counted = through(bus, NEWER)
    assert counted.snapshots_migrated == 3
    assert counted.snapshots_unusable == 0
    assert "3 snapshots of an older version were migrated" in caplog.text
    assert result(bus).states == before, "the older version finds what it wrote"
    assert means(bus, NEWER) == undisturbed(other_bus, 60)


def test_going_back_and_forward_again_loses_nothing(
    bus: EmbeddedBus, other_bus: EmbeddedBus, caplog: pytest.LogCaptureFixture
) -> None:
    for number, version in enumerate([OLDER, NEWER, OLDER, NEWER, NEWER]):
        append(bus, frames(20 * number, 20 * number + 20))
        assert through(bus, version).snapshots_unusable == 0
    assert means(bus, NEWER) == undisturbed(other_bus, 100)
    assert "cannot be used" not in caplog.text
    assert bus.committed(TOPICS.group("drift"), INPUT) == 100


def test_a_host_that_is_silent_after_the_upgrade_keeps_its_state(bus: EmbeddedBus, other_bus: EmbeddedBus) -> None:
    def of(host: str, first: int, last: int) -> list[Any]:
        return [frame(host, tick, 5.0 + tick % 7) for tick in range(first, last)]

    everything = of("silent", 0, 10) + of("h1", 10, 40) + of("silent", 40, 43)
    append(bus, everything[:20])
    through(bus, OLDER)
    append(bus, everything[20:30])
    died = runner(bus, [NEWER])
    drain(died, bus)
    append(bus, everything[30:])
    through(bus, NEWER)
    append(other_bus, everything)
    through(other_bus, OLDER)
    assert means(bus, NEWER) == means(other_bus, OLDER)


def test_the_generation_that_got_furthest_is_taken(bus: EmbeddedBus) -> None:
    append(bus, frames(0, 10))
    through(bus, OLDER)
    assert {each.operator for each in newest_snapshots(bus, NEWER, INPUT)} == {OLDER.snapshots}
    append(bus, frames(10, 20))
    through(bus, NEWER)
    assert {each.operator for each in newest_snapshots(bus, NEWER, INPUT)} == {NEWER.snapshots}
    assert {each.operator for each in newest_snapshots(bus, NEWER, INPUT, 10)} == {OLDER.snapshots}, "of that moment"
    assert {each.operator for each in newest_snapshots(bus, OLDER, INPUT)} == {OLDER.snapshots}
    append(bus, frames(20, 30))
    through(bus, OLDER)
    assert {each.operator for each in newest_snapshots(bus, NEWER, INPUT)} == {OLDER.snapshots}


def test_a_newer_state_under_an_older_name_is_rebuilt_and_said(
    bus: EmbeddedBus, other_bus: EmbeddedBus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No version writes that; whatever does, nothing crashes."""
    monkeypatch.setattr(type(NEWER), "snapshots", property(lambda _: OLDER_NAME))
    append(bus, frames(0, 30))
    through(bus, NEWER)
    append(bus, frames(30, 60))
    counted = through(bus, OLDER)
    assert counted.snapshots_unusable == 3
    assert "expected state version 1 of drift, got 2: a newer laggard wrote it" in caplog.text
    assert means(bus, OLDER) == undisturbed(other_bus, 60)


def test_steps_follow_each_other_and_a_missing_one_is_named() -> None:
    def state() -> dict[str, Any]:
        return {"operator": "drift", "state_version": 1, "streams": {"process": {"operator": {"n": 1}}}}

    steps = {1: lambda old: {"n": old["n"] + 1}, 2: lambda old: {"n": old["n"] * 10}}
    migrated = state()
    assert migrate(migrated, replace(WIRED, state_version=3, migrations=steps), "here")
    assert migrated["streams"]["process"]["operator"] == {"n": 20}
    assert migrated["state_version"] == 3
    assert not migrate(migrated, replace(WIRED, state_version=3), "here")
    with pytest.raises(SnapshotError, match=r"here: expected state version 3 of drift, got 2: an older laggard"):
        migrate(state(), replace(WIRED, state_version=3, migrations={1: steps[1]}), "here")
    with pytest.raises(SnapshotError, match="expected a state of drift, got one of gaussian"):
        migrate(state() | {"operator": "gaussian"}, WIRED, "here")


@pytest.mark.parametrize("kind", ["frame", "mark"])
def test_a_record_of_a_newer_major_version_is_a_dead_letter_that_says_what_to_do(bus: EmbeddedBus, kind: str) -> None:
    newer = msgpack.packb({"v": [2, 1], "kind": kind, "everything": "else"})
    append(bus, [frame("h1", 0, 5.0), newer, frame("h1", 1, 5.0)])
    counted = through(bus, WIRED)
    assert (counted.records, counted.dead_letters) == (3, 1)
    ((_, _, value, _, headers),) = result(bus).outputs
    assert value == newer
    assert dict(headers)["laggard-reason"].decode() == (
        "t.counters[0]@1: field 'v': expected 1.x, got 2.1, which is newer: update laggard here first"
    )


def test_an_older_form_is_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    value = encode_state({"base": 7})
    monkeypatch.setattr(snapshots, "VERSION", 4)
    with pytest.raises(SnapshotError, match="here: expected form 4, got 2: an older laggard wrote it"):
        decode_state(value, "here")
    monkeypatch.setattr(
        snapshots, "MIGRATIONS", {2: lambda old: {"from": old["base"]}, 3: lambda old: {"start": old["from"] + 1}}
    )
    assert decode_state(value, "here") == {"start": 8}
    assert WIRED.generation == 4
    assert WIRED.snapshots == "drift.4"


def test_additions_of_a_newer_format_beside_the_state_are_skipped() -> None:
    value = zstandard.compress(msgpack.packb({"v": snapshots.VERSION, "state": {"base": 7}, "writer": "9.9"}))
    assert decode_state(value, "here") == {"base": 7}
