"""The stage of performance models: what comes out of an application's records, and that it follows from them alone."""

from __future__ import annotations

import json
import math
import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.regression import Regression
from laggard.pipeline.core.bus import Incoming, Outgoing, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, DeadLetter, Rekeyed
from laggard.pipeline.core.records import UNNUMBERED, Case, Feedback, Frame, Mark, Request, Wish, encode, make_layout
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.models import ModelOutput, PredictionOutput
from laggard.pipeline.core.records.outputs import Anomaly, Incident, Progress, read_output, write_output
from laggard.pipeline.core.topics import ANOMALIES, APPLICATIONS, DEAD_LETTERS, MODELS, Topics
from laggard.pipeline.methods.applications.resources import trait
from laggard.pipeline.methods.applications.stage import RegressionStage, RegressionTask
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.scoring.observers import Observer
from tests.pipeline.core.engine.conftest import ONE_BY_ONE, Refusing
from tests.pipeline.methods.applications.records import SLOW, T0, Remembering, counted, measured, tick

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from laggard.operators.contract import Scores
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.engine.stage import Output, Stage
    from laggard.pipeline.core.records import Received

TOPICS = Topics("t.")
INPUT = Partition(TOPICS.name(APPLICATIONS), 0)
STAGE = RegressionStage(Remembering, Remembering.state_version, {"limit": 1.0})
REAL = RegressionStage(lambda: Regression(trait=trait), Regression.state_version, {})


def key_of(one: Received) -> str:
    match one:
        case Frame():
            return one.key
        case Wish():
            return one.application
        case Mark():
            return one.host
        case Feedback():
            return one.key
        case _:
            return one.service


def incoming(one: Received | bytes, offset: int, **headers: bytes) -> Incoming:
    if isinstance(one, bytes):
        return Incoming(INPUT, offset, "shop", one, T0)
    return Incoming(INPUT, offset, key_of(one), encode(one), one.ts, tuple(headers.items()))


def give(task: RegressionTask, records: Iterable[Received | bytes], **headers: bytes) -> list[Output]:
    for one in records:
        task.process(incoming(one, task.position, **headers))
    found = list(task.outputs)
    task.outputs.clear()
    return found


def new_task(stage: RegressionStage = STAGE, **options: Any) -> RegressionTask:
    task = stage.task(INPUT, **options)
    task.states.follow()
    return task


def run_of(values: Iterable[float], begin: float = 0.0, wait: float = 0.1) -> Iterator[Frame]:
    """Ticks of two hosts every 5 s, and a response time every 10 s; where it is slow web-1's nginx waits for a CPU."""
    yield measured(begin)
    for number, value in enumerate(values):
        for second in (3.0, 8.0):
            ts = begin + 10.0 * number + second
            share = {"cpu_wait_ratio": 0.9 if value > 1.0 else wait}
            yield counted(ts, {"web-1/nginx": share}, scope="process")
            yield tick(ts, 0.05, "db-1")
        yield measured(begin + 10.0 * number + 10.0, performance={SLOW: value})


def test_a_model_is_told_when_it_is_built() -> None:
    wishes = [Wish("shop", T0, "web-1:x", "pin", 1), Wish("shop", T0, "db-1:y", "pin", 2)]
    free = Wish("shop", T0, "db-1:y", "free", 3)
    found = give(new_task(), [*wishes, free, wishes[0], *run_of([0.2] * 11), tick(113.0, 0.0), *run_of([], 500.0)])
    (model,) = found
    assert isinstance(model, ModelOutput)
    assert (model.ts, model.application, model.performance, model.live) == (T0 + 100.0, "shop", SLOW, True)
    assert [each.metric.row for each in model.terms] == ["web-1", "web-1/nginx"]
    assert [each.metric.host for each in model.terms] == ["web-1", "web-1"]
    assert model.terms[1].metric.description == "time that `nginx` on web-1 waited for a free CPU"
    assert model.terms[1].metric.resource == "cpu"
    assert read_output(write_output(model), "here").to_json() == model.to_json()


def test_what_a_person_says_is_usual_ends_and_is_not_told_again() -> None:
    said = Feedback("application", "shop", T0 + 75.0, "a", "usual", (Case("web-1", ("cpu",)),))
    slow, again = run_of([0.2] * 5 + [2.0] * 2), run_of([2.0] * 3 + [0.2] * 40 + [2.0] * 3, 70.0)
    task = new_task()
    found = give(task, [*slow, said, *again, said])
    anomaly, ended, told = (each for each in found if isinstance(each, Anomaly | Progress | FeedbackOutput))
    assert isinstance(anomaly, Anomaly)
    assert isinstance(ended, Progress)
    assert (ended.id, ended.change, ended.feedback) == (anomaly.id, "ended", "usual")
    assert told == FeedbackOutput.of(said, "regression", live=True)
    assert task.telemetry.duplicates == 1


def test_an_anomaly_blames_host_and_resource_and_ends() -> None:
    values = [0.2] * 5 + [2.0] * 4 + [0.2] * 40
    found = give(new_task(), run_of(values))
    anomaly, *rest = (each for each in found if isinstance(each, Anomaly | Progress))
    assert isinstance(anomaly, Anomaly)
    assert (anomaly.keyed_by, anomaly.key, anomaly.scope, anomaly.ts) == (
        "application",
        "shop",
        "performance",
        T0 + 60.0,
    )
    assert anomaly.blame is not None
    assert (anomaly.blame.row, anomaly.blame.feature, anomaly.blame.resources) == (
        "web-1/nginx",
        "cpu_wait_ratio",
        ("cpu",),
    )
    assert anomaly.sentence == (
        "The mean response time of shop is 2 s, by its model 200 ms. Most likely web-1 is short of CPU: time that "
        "`nginx` on web-1 waited for a free CPU: 90 %, usually 10 ± 1 %."
    )
    assert [row.row for row in anomaly.ranking.rows] == ["web-1/nginx", "shop"]
    (ended,) = rest
    assert isinstance(ended, Progress)
    assert (ended.id, ended.change, ended.until_ts) == (anomaly.id, "ended", T0 + 90.0)
    assert ended.sentence == "Resolved after 30 s. Most likely web-1 was short of CPU."


def test_an_incident_names_host_and_resource(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(TOPICS.specs())
        append(bus, run_of([0.2] * 5 + [2.0] * 4 + [0.2] * 40))
        run_to_the_end(bus, [STAGE, Joining()])
        records = [read_output(one.value, "") for one in bus.read(Partition("t.anomalies", 0), 0)]
    opened, closed = (each for each in records if isinstance(each, Incident))
    assert (opened.keyed_by, opened.key, opened.change, closed.change) == ("application", "shop", "opened", "closed")
    assert "On application shop since" in opened.sentence
    assert "Most likely web-1 is short of CPU" in opened.sentence
    assert "Most likely web-1 was short of CPU." in closed.sentence


def test_what_was_recorded_earlier_is_not_live() -> None:
    found = give(new_task(), run_of([0.2] * 5 + [2.0] * 6), **{REPLAY_HEADER: b""})
    assert [each.live for each in found if isinstance(each, Anomaly | ModelOutput)] == [False, False]
    found = give(new_task(live=False), run_of([0.2] * 5 + [2.0] * 6))
    assert [each.live for each in found if isinstance(each, Anomaly | ModelOutput)] == [False, False]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (b"junk", "expected a MessagePack map"),
        (Mark("shop", T0), "expected a frame, a wish or feedback, got a mark"),
        (Request("shop", T0, "r", 1.0), "expected a frame, a wish or feedback, got a request"),
        (
            Frame("host", "shop", "host", T0, 1, make_layout(["a"], ["a"], ["x"]), np.ones((1, 1))),
            "expected a frame of an application, got one of a host",
        ),
        (
            Frame("application", "shop", "performance", T0, 1, make_layout(["a", "b"], "ab", ["x"]), np.ones((2, 1))),
            "expected one row of performance, got 2",
        ),
    ],
)
def test_what_cannot_be_used_is_a_dead_letter_that_says_why(wrong: Received | bytes, told: str) -> None:
    (letter,) = give(new_task(), [wrong])
    assert isinstance(letter, DeadLetter)
    assert told in letter.reason
    assert letter.operator == "regression"


def test_a_key_that_is_not_the_records_is_refused() -> None:
    task = new_task()
    records: list[Received] = [measured(0), Wish("shop", T0, "web-1:x", "pin")]
    for number, one in enumerate(records):
        task.process(replace(incoming(one, number), key="blog"))
    assert ["expected the record's key 'blog', got 'shop'" in each.reason for each in task.outputs] == [True, True]  # type: ignore[union-attr]


def test_late_and_duplicate_frames_are_counted_and_late_ones_told() -> None:
    task = new_task()
    frames = list(run_of([0.2] * 4))
    give(task, frames)
    again = give(task, [frames[1], measured(5.0), tick(4.0, 3.0, "new")])
    assert [each.reason.partition(": ")[2] for each in again if isinstance(each, DeadLetter)] == [
        f"late: expected a time after {T0 + 40.0!r} whose counters are still there, got {T0 + 5.0!r}",
        f"late: expected a time after {T0 + 30.0!r}, the end of the newest closed interval, got {T0 + 4.0!r}",
    ]
    assert (task.telemetry.duplicates, task.telemetry.late, task.telemetry.dead_letters) == (1, 2, 2)


def test_what_the_operator_refuses_is_a_dead_letter_and_the_rest_goes_on() -> None:
    task = new_task()
    frames = [
        tick(33.0, 1.0),
        measured(40.0, performance={"refused": 1.0}),
        tick(43.0, 1.0),
        measured(50.0, performance={"refused": 2.0}),
    ]
    more = [tick(53.0, 1.0), measured(60.0), *(tick(73.0, 1.0, host) for host in ("web-1", "db-1", "web-1"))]
    found = give(task, [*run_of([0.2] * 3), *frames, *more])
    assert [each.reason.partition(": ")[2] for each in found if isinstance(each, DeadLetter)] == [
        "not scored: ValueError: cannot score this",
        "not learned: ValueError: cannot learn this",
    ]
    letters = [each for each in found if isinstance(each, DeadLetter)]
    assert [each.record.ts - T0 for each in letters] == [40.0, 50.0]


def test_a_clock_that_was_set_back_begins_anew_and_keeps_wishes() -> None:
    task = new_task()
    give(task, [Wish("shop", T0, "web-1:x", "pin"), Wish("shop", T0, "web-1:y", "ban"), *run_of([0.2] * 3, 1e5)])
    found = give(task, [measured(10.0 * number) for number in range(12)])
    assert [each.reason.partition("; ")[2] for each in found if isinstance(each, DeadLetter)] == [
        f"{number} of 12 after which the clock counts as set back" for number in range(1, 12)
    ]
    assert task.telemetry.clocks_set_back == 1
    state = task.states.get("shop")
    assert state is not None
    assert (list(state.operator.pinned), list(state.operator.banned)) == (["web-1:x"], ["web-1:y"])
    (model,) = (each for each in give(task, run_of([0.2] * 12, 200.0)) if isinstance(each, ModelOutput))
    assert model.samples == 10


def test_an_anomaly_of_a_silent_application_ends_unobserved() -> None:
    task = new_task()
    give(task, run_of([0.2] * 5 + [2.0] * 4))
    others = [replace(each, key="blog") for each in run_of([0.2] * 500, 90.0)]
    ended = [each for each in give(task, others) if isinstance(each, Progress)]
    assert [(each.key, each.change, each.silent_since_ts) for each in ended] == [("shop", "ended", T0 + 90.0)]
    assert ended[0].sentence.startswith("Its end was not observed")
    assert [each for each in give(task, run_of([2.0] * 3, 6000.0)) if isinstance(each, Progress)] == []


class Seen(Observer):
    """Remembers what was shown."""

    def __init__(self) -> None:
        self.scores: list[tuple[str, str, float, bool]] = []
        self.predictions: list[PredictionOutput] = []
        self.received_scopes: list[str] = []
        self.keys: list[str] = []

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        assert scores.ranking(1, 1).rows
        self.scores.append((operator, frame.key, scores.score, bool(anomalies.open)))

    def predicted(self, prediction: PredictionOutput) -> None:
        self.predictions.append(prediction)

    def received(self, frame: Frame) -> None:
        self.received_scopes.append(frame.scope)

    def lost(self, operator: str, keys: Iterable[str]) -> None:
        self.keys += [f"{operator} {key}" for key in keys]


def test_observers_see_scores_and_predictions_but_nothing_of_a_replay() -> None:
    seen = Seen()
    task = new_task(observers=(seen,))
    frames = [incoming(one, number) for number, one in enumerate(run_of([0.2, 0.3, 2.0, 2.0]))]
    task.replay(frames[:8])
    assert seen.scores == []
    for one in frames[8:]:
        task.process(one)
    give(task, [replace(measured(60.0), scope="source")])
    assert seen.scores == [("regression", "shop", 0.3, False), ("regression", "shop", 2.0, True)]
    assert [(each.ts - T0, each.value, each.performance) for each in seen.predictions] == [
        (20.0, 0.3, SLOW),
        (30.0, 2.0, SLOW),
    ]
    assert seen.received_scopes == ["source"]
    task.lost()
    assert seen.keys == ["regression shop"]


# The same whoever runs it, and whatever ends it.


def append(bus: EmbeddedBus, records: Iterable[Received | bytes]) -> None:
    bus.append(
        [
            Outgoing(INPUT.topic, "shop", one, T0)
            if isinstance(one, bytes)
            else Outgoing(INPUT.topic, key_of(one), encode(one), one.ts)
            for one in records
        ]
    )


def run_to_the_end(bus: EmbeddedBus, stages: list[Stage]) -> None:
    worker, stop = Runner(bus, stages, TOPICS, snapshot_records=7), threading.Event()
    last = {stage.name: Partition(TOPICS.name(stage.topic), 0) for stage in stages}
    for _ in range(5000):
        # Not before the states are what they were: a worker that has none of them saves none.
        if not worker.recovering() and all(
            bus.committed(TOPICS.group(name), each) >= bus.bounds(each)[1] for name, each in last.items()
        ):
            break
        worker.step(stop)
    stop.set()
    worker.run(stop)


def mixed(length: int, seed: int) -> list[Received | bytes]:
    """Records of three applications with everything in them."""
    draw = random.Random(seed)
    records: list[Received | bytes] = []
    for number in range(length):
        application, ts = draw.choice(["shop", "blog", "wiki"]), float(number)
        kind = draw.random()
        if kind < 0.2:
            value = draw.choice([0.2, 0.3, 2.5]) + draw.random() / 10
            records.append(measured(ts, sequence=number, application=application, performance={SLOW: value}))
        elif kind < 0.23:
            wish = draw.choice(["pin", "ban", "free"])
            records.append(Wish(application, T0 + ts, f"web-{draw.randrange(3)}:x_ratio", wish, number))  # type: ignore[arg-type]
        elif kind < 0.26:
            records.append(b"junk %d" % number)
        elif kind < 0.29:
            records.append(
                measured(ts, sequence=number, application=application, performance={"refused": draw.choice([1.0, 2.0])})
            )
        elif kind < 0.35 and records:
            records.append(draw.choice(records))
        else:
            host = f"web-{draw.randrange(3)}"
            records.append(
                tick(ts - draw.choice([0, 0, 0, 9]), draw.random(), host, sequence=number, application=application)
            )
    return records


def left(bus: EmbeddedBus) -> tuple[Any, ...]:
    """All that a run leaves on the bus."""
    outputs = [
        (topic.name, one.key, one.value, one.headers)
        for topic in (MODELS, ANOMALIES, DEAD_LETTERS)
        for one in bus.read(Partition(TOPICS.name(topic), 0), 0)
    ]
    states = {one.key: (one.offset, one.value) for one in bus.snapshots(STAGE.snapshots, INPUT) if one.key}
    return outputs, states


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_workers_that_end_without_a_word_leave_what_an_undisturbed_one_leaves(tmp_path: Path, seed: int) -> None:
    records, draw, never = mixed(400, seed), random.Random(seed), threading.Event()
    with EmbeddedBus(tmp_path / "calm.db") as calm, EmbeddedBus(tmp_path / "wild.db") as wild:
        for bus in (calm, wild):
            bus.create(TOPICS.specs())
            append(bus, records)
        run_to_the_end(calm, [STAGE])
        refusing = Refusing(wild, 0.02)
        while wild.committed(TOPICS.group("regression"), INPUT) < len(records) - 20:
            worker = Runner(refusing, [STAGE], TOPICS, snapshot_records=7, pace=ONE_BY_ONE)
            for _ in range(draw.randrange(1, 120)):
                worker.step(never)
            for turn in worker._turns:
                turn.member.close()
        run_to_the_end(wild, [STAGE])
        outputs, states = left(calm)
        assert (outputs, states) == left(wild)
        assert {name for name, *_ in outputs} == {"models", "anomalies", "dead_letters"}
        assert len(states) == 3


def test_the_real_operator_goes_on_bit_for_bit_after_its_state_was_written_and_read() -> None:
    draw = random.Random(7)
    frames = list(run_of([0.2 + 0.02 * draw.random() if number % 40 < 25 else 2.0 for number in range(80)]))
    noisy = [
        each if each.scope == "performance" else replace(each, values=each.values * np.array(1.0 + 0.1 * draw.random()))
        for each in frames
    ]
    whole = new_task(REAL, snapshot_records=10_000)
    expected = [json.dumps(_plain(each)) for each in give(whole, noisy)]
    assert any("anomaly" in each for each in expected)
    for cut in (40, 150, 301):
        first = new_task(REAL, snapshot_records=10_000)
        got = [json.dumps(_plain(each)) for each in give(first, noisy[:cut])]
        first.states.loaded(first.position)
        first.states.save_all(first.position)
        second = REAL.task(INPUT, snapshot_records=10_000)
        loaded = second.states.load(first.states.take(first.position))
        assert loaded.damaged == {}
        second.states.loaded(first.position)
        second.position = first.position
        got += [json.dumps(_plain(each)) for each in give(second, noisy[cut:])]
        assert got == expected


def _plain(output: Output) -> Any:
    assert not isinstance(output, Rekeyed)
    return output.reason if isinstance(output, DeadLetter) else output.to_json()


def test_a_state_says_which_version_it_is_of() -> None:
    task = new_task(snapshot_records=1)
    task.states.loaded(0)
    give(task, run_of([0.2]))
    snapshot = task.states.take(task.position)[0]
    state = decode_state(snapshot.value, "here")
    assert (state["operator"], state["state_version"], snapshot.operator) == ("regression", 1, "regression.2")
    assert set(state["streams"]) == {"application"}


def test_a_wish_holds_from_the_interval_on_in_which_it_was_made_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    task = new_task()
    give(task, [Wish("shop", T0 + 25.0, "web-1:x", "pin"), Wish("shop", T0 + 15.0, "web-1:y", "pin")])
    give(task, [Wish("shop", T0 + 15.0, "web-1:y", "pin", UNNUMBERED), *run_of([0.2] * 3)])  # no number: taken again
    state = task.states.get("shop")
    assert state is not None
    assert list(state.operator.pinned) == ["web-1:y", "web-1:y"]  # the interval up to 30 waits
    give(task, [tick(31.0, 0.0, host) for host in ("web-1", "db-1")])
    give(task, [counted(31.0, {}, scope="process")])
    assert list(state.operator.pinned) == ["web-1:y", "web-1:y", "web-1:x"]
    assert math.isinf(state.awaited_until)
    # Those that wait are bounded.
    monkeypatch.setattr("laggard.pipeline.methods.applications.application.MAX_WISHES", 2)
    task = new_task()
    give(task, [Wish("shop", T0 + ts, f"web-1:{ts}", "pin") for ts in (9, 8, 7, 6)])
    state = task.states.get("shop")
    assert state is not None
    assert (list(state.operator.pinned), len(state.wishes)) == (["web-1:7", "web-1:6"], 2)


def test_more_metrics_than_are_looked_at_are_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("laggard.pipeline.methods.applications.metrics.MAX_METRICS", 1)
    assert [each for each in give(new_task(), run_of([0.2] * 5)) if isinstance(each, DeadLetter)] == []
    (told,) = caplog.messages
    assert told.startswith("regression: 'shop' has more metrics than the ")
