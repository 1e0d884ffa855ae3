"""`laggard models`: what a person reads of models, what would be if, and wishes that outlive the worker."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.operators.regression import Regression
from laggard.pipeline.cli.exits import NO_DATA, USAGE
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.records.models import Described, ModelOutput, TermOutput
from laggard.pipeline.core.records.outputs import read_output
from laggard.pipeline.core.topics import APPLICATIONS, MODELS, Topics
from laggard.pipeline.explaining.names import nearest
from laggard.pipeline.methods.applications.queries import application_now, known_metrics, past_models
from laggard.pipeline.methods.applications.report import equation_with_units, model_lines
from laggard.pipeline.methods.applications.resources import trait
from laggard.pipeline.methods.applications.stage import RegressionStage
from tests.monitoring.servers import awaited
from tests.monitoring.worker import running_worker
from tests.pipeline.methods.applications.records import T0, counted, measured
from tests.pipeline.methods.applications.test_replay import lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.core.records import Frame
    from tests.pipeline.conftest import Called, Replaying

TOPICS = Topics()
STAGE = RegressionStage(lambda: Regression(trait=trait), Regression.state_version, {})
WAIT, BUSY = "web-1:pressure_cpu_some_ratio", "db-1:cpu_busy_ratio"


def records(intervals: int, begin: float = 0.0, application: str = "shop") -> Iterator[Frame]:
    """Response times that follow how long tasks on web-1 wait for a CPU: 50 ms and 1.5 s for all of the time."""
    draw = random.Random(5)
    yield measured(begin, application=application)
    for number in range(intervals):
        ts, wait = begin + 10.0 * number, draw.uniform(0.02, 0.4)
        for second in (4.0, 9.0):
            for host, waits in (("web-1", wait), ("db-1", draw.uniform(0.02, 0.4))):
                row = {"pressure_cpu_some_ratio": waits, "cpu_busy_ratio": draw.uniform(0.2, 0.4)}
                yield counted(ts + second, {host: row}, host=host, application=application)
        performance = {"response_time_mean_s": 0.05 + 1.5 * wait, "throughput_per_s": draw.uniform(90.0, 110.0)}
        yield measured(ts + 10.0, performance, application=application)


def append(bus: EmbeddedBus, *frames: Frame) -> None:
    bus.append([Outgoing(TOPICS.name(APPLICATIONS), each.key, encode(each), each.ts) for each in frames])


@pytest.fixture
def call(nowhere: Path, laggard: Called) -> Called:
    """Runs `laggard models` on a bus in this folder."""

    def call(*arguments: str) -> tuple[int, str, str]:
        return laggard("models", *arguments, *([] if "--file" in arguments else ["--bus", str(nowhere / "laggard.db")]))

    return call


def now(frames: list[Frame]) -> list[Frame]:
    """Records whose last is of now, so that nothing is too old."""
    shift = time.time() - max(each.ts for each in frames)
    return [replace(each, ts=each.ts + shift) for each in frames]


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    """A bus on which a worker has learned 25 intervals of `shop` and 5 of `blog`."""
    path = tmp_path / "laggard.db"
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        append(bus, *now([*records(25), *records(5, application="blog")]))
        drain(Runner(bus, (STAGE,), TOPICS), bus)
    return path


def drain(runner: Runner, bus: EmbeddedBus) -> None:
    stop = threading.Event()
    (partition,) = bus.partitions(TOPICS.name(APPLICATIONS))
    while bus.committed(TOPICS.group(STAGE.name), partition) < bus.bounds(partition)[1]:
        runner.step(stop)
    stop.set()
    runner.run(stop)


def test_the_present_models_are_told_with_units_and_words(worked: Path, call: Called) -> None:
    code, out, _ = call()
    assert code == 0
    assert out.startswith("shop\n")
    assert f"  response_time_mean_s = 0.05 s + 1.5 s * {WAIT}\n" in out
    assert f"      {WAIT}  CPU of web-1\n" in out
    assert "time that some task on web-1 waited for a CPU; with 10 % more of it 150 ms more\n" in out
    assert re.search(r"      R2 1\.00; learned from \d+ intervals, 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d to ", out)
    assert "ago), for there were more intervals to learn from" in out
    assert "The same metrics; R2 was 1.00." in out
    assert "blog" not in out
    assert "Next: `laggard models shop --bus" in out


def test_nothing_has_to_be_said(worked: Path, laggard: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGGARD_STATE", str(worked.parent))
    code, out, _ = laggard("models")
    assert (code, out.splitlines()[0]) == (0, "shop")


def test_of_one_application_all_is_told(worked: Path, call: Called) -> None:
    code, out, _ = call("shop")
    assert code == 0
    assert out.startswith("Mean response time of shop\n")
    assert re.search(rf"      1\.000 +\S+  {WAIT}  \(in the model\)\n", out)
    assert "  Earlier models:\n" in out
    assert "        it is the first one\n" in out
    assert f"Next: `laggard models what-if shop {WAIT}=VALUE --bus" in out


def test_programs_read_the_records(worked: Path, call: Called) -> None:
    code, out, _ = call("--json")
    present = [read_output(line.encode(), "out") for line in out.splitlines()]
    assert code == 0
    assert [(one.application, one.performance) for one in present if isinstance(one, ModelOutput)] == [
        ("shop", "response_time_mean_s"),
        ("shop", "throughput_per_s"),
    ]
    _, out, _ = call("shop", "--json")
    everything = [json.loads(line) for line in out.splitlines()]
    assert everything[0] == json.loads(call("--json")[1].splitlines()[0])
    times = [one["ts"] for one in everything if one["performance"] == "response_time_mean_s"]
    assert len(times) > 1
    assert times == sorted(times, reverse=True)
    _, out, _ = call("--since", "1s", "shop", "--json")
    assert len(out.splitlines()) == 2, "the present ones are older, and are told all the same"


def test_the_newest_records_of_a_large_topic_are_enough(worked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBus(worked) as bus:
        before = past_models(bus, TOPICS, 0.0)
        (partition,) = bus.partitions(TOPICS.name(MODELS))
        monkeypatch.setattr("laggard.pipeline.methods.applications.queries.MOST_RECORDS", 1)
        (only,) = past_models(bus, TOPICS, 0.0)
        assert [only.present] == [each.present for each in before if each.present.ts == only.present.ts][-1:]
        assert only.before is None
        bus.append([Outgoing(partition.topic, "shop", b"junk", 0.0), Outgoing(partition.topic, "shop", b"{}", 0.0)])
        assert past_models(bus, TOPICS, 0.0) == []


def test_a_file_of_what_was_replayed_is_read(tmp_path: Path, call: Called, replay: Replaying) -> None:
    told = tmp_path / "told.jsonl"
    told.write_text(replay.text(lines(40, hosts=["web-1", "db-1"]), "--json", "--scores")[0])
    code, out, _ = call("--file", str(told))
    assert code == 0
    assert f"{WAIT}" in out
    assert "It was learned from recorded data." in out
    code, out, _ = call("shop", "--file", str(told))
    assert "Candidate metrics (8):" in out
    code, _, err = call("blog", "--file", str(told))
    assert (code, "there is no model of blog in it" in err) == (NO_DATA, True)
    told.write_text("no JSON\n")
    code, _, err = call("--file", str(told))
    assert (code, f"{told}:1" in err, "expected what `laggard replay --json` prints" in err) == (USAGE, True, True)
    code, _, err = call("--file", str(tmp_path / "none"))
    assert (code, "No such file" in err) == (NO_DATA, True)


def test_what_is_lacking_is_said(tmp_path: Path, call: Called) -> None:
    code, _, err = call()
    assert (code, "there are no records at" in err) == (NO_DATA, True)
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        code, _, err = call()
        assert code == NO_DATA
        assert "there are no records of any application; it needs its performance, which [[sources]] give" in err
        append(bus, *records(2))
    code, _, err = call()
    assert (code, "there is no model of shop yet: it takes ten intervals" in err) == (NO_DATA, True)
    assert "no counters are recorded" not in err
    code, _, err = call("shop")
    assert (code, "there is no model of shop yet" in err) == (NO_DATA, True)
    assert "no counters are recorded" not in err
    code, _, err = call("shap")
    assert (code, "there are no records of application shap; recorded: shop" in err) == (NO_DATA, True)
    code, _, err = call("pin", "shap", WAIT)
    assert (code, "there are no records of application shap; recorded: shop" in err) == (NO_DATA, True)
    code, _, err = call("what-if", "shop", f"{WAIT}=1")
    assert (code, "there is no model of shop yet" in err) == (NO_DATA, True)
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        append(bus, *(measured(10.0 * number, application="blog") for number in range(12)))
    for asked in ((), ("blog",)):
        code, _, err = call(*asked)
        assert (code, "; of blog no counters are recorded (applications.hosts says" in err) == (NO_DATA, True)


# What if.


def test_what_would_be_is_what_the_workers_model_says(worked: Path, call: Called) -> None:
    with EmbeddedBus(worked) as bus:
        state = application_now(bus, TOPICS, STAGE, "shop")
    assert state is not None
    wait = state.operator.newest[WAIT]
    code, out, _ = call("what-if", "shop", f"{WAIT}=20%")
    assert code == 0
    more = "more" if wait < 0.2 else "less"
    assert out.startswith("The mean response time of shop would be 350 ms, ")
    assert f" {more} than by its model now.\n" in out
    assert f"{WAIT} is {100.0 * wait:.1f} %; this is for 20 %, all other metrics as they are.\n" in out
    _, out, _ = call("what-if", "shop", f"{WAIT}=0.2", "--json")
    found = json.loads(out)
    assert (found["application"], found["metric"], found["value"], found["newest"]) == ("shop", WAIT, 0.2, wait)
    assert found["performance"]["response_time_mean_s"] == {
        "now": pytest.approx(0.05 + 1.5 * wait, rel=1e-3),
        "then": pytest.approx(0.35, rel=1e-3),
    }


@pytest.mark.parametrize(
    ("assumed", "code", "said"),
    [
        *(
            (each, USAGE, "expected a metric, an equals sign and a number")
            for each in (WAIT, f"{WAIT}=", f"{WAIT}=much", "=1", f"{WAIT}=nan")
        ),
        (f"{BUSY}=0.5", NO_DATA, f"{BUSY} is in no model; the models have {WAIT}"),
    ],
)
def test_what_cannot_be_assumed(worked: Path, call: Called, assumed: str, code: int, said: str) -> None:
    found, _, err = call("what-if", "shop", assumed)
    assert (found, said in err) == (code, True)


# Wishes.


def test_an_unknown_metric_is_told_with_near_ones(worked: Path, call: Called) -> None:
    code, _, err = call("pin", "shop", "web1:pressure_cpu_some_ratio")
    assert code == NO_DATA
    assert "shop has no metric web1:pressure_cpu_some_ratio among its 4; similar: " in err
    assert WAIT in err
    code, _, err = call("pin", "shop", "nothing")
    assert (code, "a row and a feature such as 'web-1/nginx:cpu_wait_ratio'" in err) == (USAGE, True)
    with EmbeddedBus(worked) as bus:
        before = len(list(bus.read(bus.partitions(TOPICS.name(APPLICATIONS))[0], 0)))
        assert before == len([*records(25), *records(5)]), "nothing was published"
        assert known_metrics(bus, TOPICS, "shop") == sorted(
            f"{host}:{feature}"
            for host in ("web-1", "db-1")
            for feature in ("cpu_busy_ratio", "pressure_cpu_some_ratio")
        )


def test_nearest_begins_with_what_contains_it() -> None:
    known = ["web-1:load_1m", "web-1/nginx:cpu_wait_ratio", "db-1/nginx:cpu_wait_ratio", "db-1/nginx:x"]
    assert nearest("nginx:cpu_wait_ratio", known)[:2] == ["db-1/nginx:cpu_wait_ratio", "web-1/nginx:cpu_wait_ratio"]
    assert nearest("web1:load_1m", known)[0] == "web-1:load_1m"
    assert nearest("z", known) == []


@pytest.mark.slow
def test_a_wish_outlives_the_worker(tmp_path: Path, call: Called) -> None:
    path = tmp_path / "laggard.db"
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        begin = time.time() - T0 - 255.0
        append(bus, *records(25, begin))

        def terms() -> set[str]:
            courses = past_models(bus, TOPICS, 0.0, "shop")
            of = [each.present for each in courses if each.present.performance == "response_time_mean_s"]
            return {f"{term.metric.row}:{term.metric.feature}" for each in of for term in each.terms}

        with running_worker(path, operators="regression", snapshot_records="10") as (_, process):
            awaited(lambda: terms() == {WAIT}, within_s=60)
            for wish, metric in (("pin", BUSY), ("ban", WAIT)):
                code, out, _ = call(wish, "shop", metric)
                assert code == 0
                assert f"{metric}: this holds from the next interval of shop on." in out
            process.kill()
            process.wait()
        _, out, _ = call("shop")
        assert f"From the next interval on: pin {BUSY}\n" in out
        with running_worker(path, operators="regression", snapshot_records="10") as (_, process):
            append(bus, *list(records(30, begin + 250.0 + 100.0)))
            awaited(lambda: BUSY in terms(), within_s=60)
            process.kill()
            process.wait()
        state = application_now(bus, TOPICS, STAGE, "shop")
        assert state is not None
        assert (tuple(state.operator.pinned), tuple(state.operator.banned)) == ((BUSY,), (WAIT,))
        (partition,) = bus.partitions(TOPICS.name(APPLICATIONS))
        (saved,) = (each for each in bus.snapshots(STAGE.snapshots, partition) if each.key == "shop")
        operator = decode_state(saved.value, "here")["streams"]["application"]["operator"]
        assert (operator["pinned"], operator["banned"]) == ([BUSY], [WAIT])
        _, out, _ = call("shop")
        assert f"Pinned: {BUSY}\nBanned: {WAIT}\n" in out
        assert call("free", "shop", BUSY)[0] == 0


# Equations.


def model(performance: str, intercept: float, **coefficients: float) -> ModelOutput:
    terms = tuple(
        TermOutput(Described("web-1", "web-1", feature, "", ""), value, ()) for feature, value in coefficients.items()
    )
    return ModelOutput(
        T0, "id", "shop", performance, "linear", "as it is", intercept, terms,
        0.9, float("nan"), T0, T0, 10, "first", (), True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (model("response_time_mean_s", 0.05, x_ratio=1.5), "response_time_mean_s = 0.05 s + 1.5 s * web-1:x_ratio"),
        (
            model("response_time_mean_s", 0.05, free_bytes=-2e-9),
            "response_time_mean_s = 0.05 s - 2e-09 s per B * web-1:free_bytes",
        ),
        (model("throughput_per_s", 0.0, in_per_s=0.5), "throughput_per_s = 0 1/s + 0.5 * web-1:in_per_s"),
        (model("errors", 1.0, load_1m=2.0), "errors = 1 + 2 * web-1:load_1m"),
        (model("errors", 1.0, x_seconds=3.0), "errors = 1 + 3 per s * web-1:x_seconds"),
        (model("errors", -1e-15), "errors = 0"),
        # Text that is not an equation is shown verbatim.
        (replace(model("errors", 1.0), type="tree", equation="errors by a tree"), "errors by a tree"),
    ],
)  # fmt: skip
def test_coefficients_have_units(one: ModelOutput, told: str) -> None:
    assert equation_with_units(one) == told


def test_what_nothing_explains_is_told_to_be_its_mean() -> None:
    told = [line.plain for line in model_lines(model("throughput_per_s", 90.0), None, T0)]
    assert told[0] == "  throughput_per_s = 90 1/s"
    assert told[1].endswith("No metric of its hosts explains the throughput: its model is the mean.")
