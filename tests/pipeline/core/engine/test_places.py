"""A state depends on the records alone: not on their offsets, nor on where commits are, nor on kills."""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import replace
from functools import cache
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from laggard.pipeline.core.bus import Snapshot
from laggard.pipeline.core.engine import states
from laggard.pipeline.core.engine.migrations import snapshot_name
from laggard.pipeline.core.engine.recovery import Recovery
from laggard.pipeline.core.engine.snapshots import BASE_KEY
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.records import Decoder, Frame
from tests.pipeline.core.engine.every_stage import STAGES, partition_of, parts, placed, published, records_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Incoming, Outgoing, Partition
    from laggard.pipeline.core.engine.stage import StageTask

FORM_1 = Path(__file__).parent / "golden" / "form-1"
"""What a laggard with offsets in its states had saved behind the first part of each stage's records."""

every_stage = pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each not in {"gaussian", "incidents"})) for each in STAGES]
)


@pytest.fixture(params=[pytest.param("usual", marks=pytest.mark.slow), "soon silent"])
def _distances(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    records(request.node.callspec.params["name"])  # those of incidents are made by stages: as they usually are
    if request.param == "soon silent":
        for name, distance in {"FORGOTTEN_RECORDS": 60, "SILENT_RECORDS": 20, "_SILENT_ROUNDS": 0.3}.items():
            monkeypatch.setattr(states, name, distance)


@cache
def records(name: str) -> list[Incoming]:
    return records_of(STAGES[name])


def spread(found: Sequence[Incoming], seed: int) -> list[Incoming]:
    """The same records, with gaps between their offsets as those that the ends of transactions leave."""
    draw, offset, moved = random.Random(seed), 1000 * seed, []
    for each in found:
        offset += 1 + (draw.random() < 0.3) * draw.randrange(1, 20)
        moved.append(replace(each, offset=offset))
    return moved


class Made:
    """What a task makes of records: it commits after a number of them, and is killed at some commits.

    Another one takes over: in turns one that begins then, and a standby, which has followed and goes on where it is.

    Attributes:
        outputs: as they are published.
        saved: the values of all snapshots, by key in their order.

    """

    def __init__(self, name: str, found: Sequence[Incoming], every: int = 1, kills: int = 0) -> None:
        self.stage = STAGES[name]
        self.outputs: list[Outgoing] = []
        self.saved: dict[str, list[bytes]] = {}
        self._found = found
        self._newest: dict[str, Snapshot] = {}
        self._task = self._new()
        self._standby = Recovery(self, self._new())  # type: ignore[arg-type]
        draw = random.Random(every)
        commits = range(every, len(found) + every, every)
        killed = draw.sample(commits, kills)
        for commit in commits:
            for each in found[commit - every : commit]:
                self._task.process(each)
            if commit in killed:  # before it is committed: all of that is done again
                self._recover(commit - every, warm=killed.index(commit) % 2 == 0)
                for each in found[commit - every : commit]:
                    self._task.process(each)
            self._commit()
            if kills and commit < len(found):
                self._follow(found[commit].offset)
        self._task.states.save_all(self._task.position)
        self._commit()

    def _new(self) -> StageTask:
        return self.stage.task(partition_of(self.stage), snapshot_records=50)

    def _commit(self) -> None:
        assert not [each for each in self._task.outputs if isinstance(each, DeadLetter)]
        self.outputs += published(self._task.outputs)
        self._task.outputs.clear()
        for each in self._task.states.take(self._task.position):
            self._newest[each.key] = each
            if each.key != BASE_KEY:
                self.saved.setdefault(each.key, []).append(each.value)

    def _follow(self, committed: int) -> None:
        assert self._standby.advance(committed, lambda: False)
        self._standby.follow()
        saved = {each.key: each.offset for each in self._newest.values()}
        self._standby.task.states.confirm(saved, self._standby.position)

    def _recover(self, committed: int, *, warm: bool) -> None:
        recovery = Recovery(self, self._new())  # type: ignore[arg-type]
        if warm:
            recovery, self._standby = self._standby, recovery
        assert recovery.advance(self._found[committed].offset, lambda: False)
        recovery.finish()
        self._task = recovery.task

    # What a recovery asks a bus for.

    def bounds(self, partition: Partition) -> tuple[int, int]:
        return self._found[0].offset, self._found[-1].offset + 1

    def read(self, partition: Partition, start: int, stop: int, key: str | None = None) -> Iterator[Incoming]:
        first = bisect_left(self._found, start, key=lambda each: each.offset)
        there = takewhile(lambda each: each.offset < stop, islice(self._found, first, None))
        return (each for each in there if key in {None, each.key})

    def snapshots(self, operator: str, partition: Partition, at_or_before: int | None = None) -> list[Snapshot]:
        return list(self._newest.values()) if operator == self.stage.snapshots else []


@cache
def undisturbed(name: str, silent_records: int) -> Made:
    """What a stage makes of its records, one by one."""
    return Made(name, records(name))


@every_stage
@pytest.mark.usefixtures("_distances")
def test_it_is_the_same_at_any_offsets_and_with_any_commits(name: str) -> None:
    want = undisturbed(name, states.SILENT_RECORDS)
    assert len(want.outputs) >= 5
    assert min(map(len, want.saved.values())) > 1
    for seed, every in ((1, 7), (2, 100)):
        got = Made(name, spread(records(name), seed), every)
        assert got.outputs == want.outputs
        assert got.saved == want.saved


@every_stage
@pytest.mark.usefixtures("_distances")
@pytest.mark.parametrize("_distances", ["soon silent"], indirect=True)
def test_it_is_the_same_after_kills(name: str) -> None:
    want = undisturbed(name, states.SILENT_RECORDS)
    got = Made(name, spread(records(name), 1), 20, kills=6)
    assert got.outputs == want.outputs
    # One that was killed before it was silent for long enough may have been saved less often, or one time more often.
    assert newest(got.saved) == newest(want.saved)


def newest(saved: Mapping[str, list[bytes]]) -> dict[str, bytes]:
    return {key: values[-1] for key, values in saved.items()}


def test_incidents_are_the_same_wherever_they_stand_between_anomalies() -> None:
    found = records("incidents")
    want = undisturbed("incidents", states.SILENT_RECORDS)
    for lag in (0, 5, 40):
        among: list[Any] = []
        told = iter(want.outputs)
        for at, each in enumerate(found):
            among.append(each)
            if at >= lag:
                among += [one for one, _ in zip(told, range(2), strict=False)]
        got = Made("incidents", placed(among, partition_of(STAGES["incidents"])))
        assert got.outputs == want.outputs
        assert got.saved == want.saved


def without_empty(found: Sequence[Incoming]) -> list[Incoming]:
    """The same records without empty frames, which were not published then."""
    decoder = Decoder()
    frames = ((each, decoder.decode(each.value, "a record") if each.value[:1] != b"{" else None) for each in found)
    left = [each for each, frame in frames if not (isinstance(frame, Frame) and not frame.layout.rows)]
    return [replace(each, offset=at) for at, each in enumerate(left)]


@every_stage
def test_a_state_with_offsets_in_it_is_taken_over_and_goes_on(name: str) -> None:
    stage, partition = STAGES[name], partition_of(STAGES[name])
    first, others = parts(without_empty(records(name)))
    whole = stage.task(partition)
    for each in first:
        whole.process(each)
    whole.outputs.clear()
    values: dict[str, bytes] = msgpack.unpackb((FORM_1 / f"{name}.snapshots").read_bytes())
    former = snapshot_name(name, stage.generation - 1)
    task = stage.task(partition)
    loaded = task.states.load(Snapshot(former, partition, key, len(first), 0.0, value) for key, value in values.items())
    assert (loaded.base, loaded.damaged, loaded.migrated) == (len(first), {}, len(values) - 1)
    task.states.loaded(len(first))
    assert task.states.counted == len(first), "it goes on where offsets were"
    assert task.states.keys() == whole.states.keys()
    taken = task.states.take(len(first))
    assert {each.key for each in taken} == set(values), "all are saved once more, in the form of now"
    assert {each.operator for each in taken} == {stage.snapshots}
    for each in others:
        whole.process(each)
        task.process(each)
    told, want = published(task.outputs), published(whole.outputs)
    assert [(one.key, one.ts, kind(one)) for one in told] == [(one.key, one.ts, kind(one)) for one in want]
    assert len(want) > 5


def kind(one: Outgoing) -> bytes:
    return dict(one.headers)["ce_type"]
