"""What was slow at a moment, rows, series and timelines, as the page asks for them; what is kept changes no answer."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.records import Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.history.why import History
from laggard.pipeline.investigator.columns import Columns
from laggard.pipeline.investigator.moments import Moments
from laggard.pipeline.investigator.thinning import thin
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import wire
from tests.monitoring.servers import awaited
from tests.pipeline.history.conftest import (
    FEATURES,
    GAP,
    HOG,
    HOST_FEATURES,
    MARKED,
    ROWS,
    START,
    TICK_S,
    TICKS,
    WRONG,
    append,
    at,
    frames,
    work,
)
from tests.pipeline.investigator.serving import get, refused, served
from tests.pipeline.methods.incidents.joined import incident
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.pipeline.investigator.serving import Served

TOPICS = Topics()
SETTINGS = {"operators": "gaussian", "gaussian_context": "40m"}
WRITES = "io_write_bytes_per_s"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory, wired: Any) -> Path:
    """Two hosts, the last ticks not yet worked through. To be read only."""
    path: Path = tmp_path_factory.mktemp("moment") / "laggard.db"
    with EmbeddedBus(path) as made:
        made.create(TOPICS.specs())
        records = sorted(
            (*frames("web-1", range(TICKS)), *frames("web-2", range(40), seed=2)), key=lambda each: each.ts
        )
        append(made, records[:-10])
        work(made, wired)
        append(made, records[-10:])
    return path


@pytest.fixture(scope="module")
def wired() -> Any:
    flags = {name.replace("_", ".", 1): value for name, value in SETTINGS.items()}
    return wire(read_settings(environ={}, flags=[Given(name, value, "test") for name, value in flags.items()]))


@pytest.fixture(scope="module")
def page(bus: Path) -> Iterator[Served]:
    with served(bus, **SETTINGS) as shown:
        yield shown


def whole(page: Served, path: str, /, **asked: Any) -> Any:
    """A series, or a timeline, with all that it is to have."""
    return awaited(lambda: get(page, path, **asked), lambda found: found["complete"], 120.0)


# A moment.


@pytest.mark.parametrize("tick", [3, 49, 155, 179, TICKS - 1])
def test_a_moment_is_what_laggard_why_says_of_it(
    page: Served, bus: Path, tick: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGGARD_GAUSSIAN_CONTEXT", "40m")
    asked = ["why", "--bus", str(bus), "--host", "web-1", "--at", f"{at(tick)!r}", "--rows", "1000"]
    assert run([*asked, "--features", "1000", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = get(page, "/moment", at=at(tick), features=100)
    ranked = [each for each in found["rows"] if each["score"] is not None]
    assert (found["ts"], found["score"]) == (at(tick), said["score"])
    assert [(each["row"], each["name"], each["score"]) for each in ranked] == [
        (each["row"], each["name"], each["score"]) for each in said["rows"]
    ]
    for one, other in zip(ranked, said["rows"], strict=True):
        assert [{name: each[name] for name in other["features"][0]} for each in one["features"]] == other["features"]
    assert run(asked) == 0
    text = " ".join(capsys.readouterr().out.split())
    # Where the command tells the time of day, the page's sentence tells how long ago: it may be read in another zone.
    text = re.sub(r", since [0-9: -]+ \(([^)]+)\)", r", for \1", text)
    assert all(" ".join(each.split()) in text for each in (*found["sentences"], found["belief"]["sentence"]))


def test_the_culprit_is_distinguished_from_others_with_its_use(page: Served) -> None:
    found = get(page, "/moment", at=at(155), features=2)
    worst, *others = found["rows"]
    assert (worst["row"], worst["role"], worst["pid"], worst["command"]) == (HOG, "culprit", 4711, "python3 hog.py")
    assert worst["took"] == "it writes 212 MB/s to disk"
    assert [each["feature"] for each in worst["features"]] == [WRITES, "io_write_operations_per_s"]
    assert worst["features_left_out"] == len(FEATURES) - 2
    assert {each["role"] for each in others} == {"other"}
    assert found["subject"] == {"scope": "process", "row": HOG, "feature": WRITES}
    assert found["began"] == at(WRONG.start)
    assert [each["note"] for each in found["marks"]] == ["checkout hangs"]
    assert (found["live"], found["asked_ts"], found["tick_s"]) == (False, at(155), TICK_S)
    assert found["host_row"]["row"] == "host"
    assert {each["label"] for each in found["host_summary"]} == {"load", "CPU", "memory available"}


def test_now_is_the_newest_frame_however_old_and_what_is_left_out_is_counted(page: Served) -> None:
    found = get(page, "/moment", rows=3, features=0)
    assert (len(found["rows"]), found["rows_left_out"]) == (3, len(ROWS) - 3)
    assert [each["features"] for each in found["rows"]] == [[]] * 3
    assert (found["ts"], found["live"], found["asked_ts"]) == (at(TICKS - 1), True, None)
    assert found["silent_s"] > 1e6


def test_outside_of_the_history_it_is_said_from_when_to_when_it_is(page: Served) -> None:
    first, last = at(0), at(TICKS - 1)
    reach = f"a moment from {first!r} to {last!r}, in seconds since the Unix epoch"
    assert refused(page, "/moment", at=START - 1e6) == (404, f"there are no records at {START - 1e6!r}", reach)
    middle = at((GAP.start + GAP.stop) / 2)
    for _ in range(2):  # whatever was asked about before
        status, error, expected = refused(page, "/moment", at=middle)
        assert (status, error) == (404, f"there are no records at {middle!r}")
        assert expected.startswith(f"a moment from {first!r} to ")
        assert get(page, "/moment", at=at(GAP.start - 1) + 1.0)["ts"] == at(GAP.start - 1)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/moment", {"at": "nan"}),
        ("/moment", {"at": "-1"}),
        ("/moment", {"at": "1e300"}),
        ("/moment", {"rows": "0"}),
        ("/row", {}),
        ("/row", {"row": "x" * 5000}),
        ("/series", {"row": HOG}),
        ("/series", {"row": HOG, "feature": WRITES, "from": at(9), "to": at(3)}),
        ("/series", {"row": HOG, "feature": WRITES, "points": 10**9}),
        ("/timeline", {"from": "inf"}),
        ("/compare", {"at": at(3)}),
    ],
)
def test_questions_that_are_wrong_are_refused(page: Served, path: str, asked: dict[str, Any]) -> None:
    assert refused(page, path, **asked)[0] == 400


def test_what_is_kept_changes_no_answer(bus: Path, wired: Any) -> None:
    random = np.random.default_rng(1)
    ticks = [
        *random.integers(0, GAP.start, 25),
        *range(150, 160),
        *range(159, 149, -2),
        *random.integers(231, TICKS, 9),
    ]
    with EmbeddedBus(bus) as opened:
        kept = Moments(History(opened, TOPICS, wired[0]))
        for tick in map(int, ticks):
            ts = at(tick) + float(random.uniform(0.0, TICK_S / 2))
            fresh = History(opened, TOPICS, wired[0]).ask("web-1", ts, 200, 1000)
            found = kept.at("web-1", ts).why
            assert repr((found.ranking, found.host_ranking, found.verdict)) == repr(
                (fresh.ranking, fresh.host_ranking, fresh.verdict)
            )
            assert repr((found.began, found.grown, found.since)) == repr((fresh.began, fresh.grown, fresh.since))


def test_the_next_frame_is_told_as_soon_as_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    with EmbeddedBus(path) as made:
        made.create(TOPICS.specs())
        append(made, frames("web-1", range(150)))
    with served(path, **SETTINGS) as page:
        for tick in range(150, 157):
            append(page.reading.bus, frames("web-1", [tick]))  # type: ignore[arg-type]
            found = get(page, "/moment")
            assert (found["ts"], found["rows"][0]["row"] == HOG) == (at(tick), tick in WRONG)
            series = get(page, "/series", row=HOG, feature=WRITES)
            assert (series["ts"][-1], series["values"][-1] == 212e6) == (at(tick), tick in WRONG)


def test_an_empty_bus_says_what_to_do(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db", **SETTINGS) as page:
        for path in ("/moment", "/timeline", "/row?row=x", "/series?row=x&feature=y", "/compare?with=5"):
            answer = page.client.get(f"/api/v1{path}")
            told = {"error": "there are no records yet", "expected": "an agent that runs: laggard up"}
            assert (answer.status_code, answer.json()) == (404, told)


# A row.


def test_a_row_has_all_its_features_wherever_it_is_ranked_the_hosts_own_too(page: Served) -> None:
    listed = get(page, "/moment", at=at(155), features=100)["rows"]
    for each in (listed[0], listed[-1]):
        found = get(page, "/row", at=at(155), row=each["row"])
        assert found["row"] == each
        assert len(found["row"]["features"]) == len(FEATURES)
    found = get(page, "/row", at=at(155), row="host")
    assert (found["scope"], {each["feature"] for each in found["row"]["features"]}) == ("host", set(HOST_FEATURES))
    assert refused(page, "/row", at=at(155), row="<b>[1@1]") == (
        404, "no row '<b>[1@1]' in the frame of that moment", "the id of one that /moment has",
    )  # fmt: skip


# Series.


def values_of(feature: str, row: str = HOG, ticks: int = TICKS) -> dict[float, float]:
    """What was appended."""
    found = {}
    for each in frames("web-1", range(ticks)):
        if isinstance(each, Frame) and each.scope == "process":
            found[each.ts] = float(each.values[ROWS.index(row), FEATURES.index(feature)])
    return found


def test_a_series_has_every_tick_and_breaks_where_there_is_none(page: Served) -> None:
    found = whole(page, "/series", row=HOG, feature=WRITES, at=at(155), **{"from": START, "to": at(TICKS)})
    points = dict(zip(found["ts"], found["values"], strict=True))
    broken = {ts for ts, value in points.items() if value is None}
    assert {ts: value for ts, value in points.items() if ts not in broken} == values_of(WRITES)
    assert len(broken) == 1
    assert at(GAP.start - 1) < broken.pop() < at(GAP.stop)
    assert found["low"] == found["high"] == found["values"]
    assert (found["tick_s"], found["step_s"], found["moment"]) == (TICK_S, TICK_S, at(155))
    judged = get(page, "/row", at=at(155), row=HOG)["row"]["features"][0]
    assert found["usual"] == {name: judged[name] for name in ("mean", "standard_deviation", "score")}
    spread = judged["standard_deviation"]
    assert found["band"] == {"low": judged["mean"] - spread, "high": judged["mean"] + spread}
    assert [each["ts"] for each in found["marks"]] == [MARKED]


def test_a_thinned_series_loses_no_spike(page: Served) -> None:
    found = whole(page, "/series", row=HOG, feature=WRITES, at=at(155), points=20, **{"from": START, "to": at(TICKS)})
    told = values_of(WRITES)
    there = [number for number, each in enumerate(found["values"]) if each is not None]
    assert len(there) <= 20
    assert min(found["low"][number] for number in there) == min(told.values())
    assert max(found["high"][number] for number in there) == max(told.values()) == 212e6
    assert all(found["low"][number] <= found["values"][number] <= found["high"][number] for number in there)


def test_the_first_answer_is_there_at_once_and_the_rest_soon(tmp_path: Path) -> None:
    path, last = tmp_path / "bus.db", 2000
    with EmbeddedBus(path) as made:
        made.create(TOPICS.specs())
        append(made, frames("web-1", range(last)))
    with served(path, **SETTINGS) as page:
        asked = {"row": ROWS[3], "feature": WRITES, "at": at(20), "from": START, "to": at(last), "points": 5000}
        first = get(page, "/series", **asked)
        assert not first["complete"]
        told = values_of(WRITES, ROWS[3], last)
        near = {ts: value for ts, value in zip(first["ts"], first["values"], strict=True) if ts <= at(80)}
        assert near == {ts: value for ts, value in told.items() if ts <= at(80)}
        far = {ts: value for ts, value in zip(first["ts"], first["values"], strict=True) if ts > at(200)}
        assert far
        assert all(value == pytest.approx(told[ts], rel=1e-6) for ts, value in far.items())
        last_answer = whole(page, "/series", **asked)
        points = zip(last_answer["ts"], last_answer["values"], strict=True)
        assert {ts: value for ts, value in points if value is not None} == told


def test_a_host_has_a_series_too_without_a_range_that_of_the_context_of_the_moment(page: Served) -> None:
    found = whole(page, "/series", row="host", scope="host", feature="load_1m", at=at(155))
    assert (found["from"], found["to"]) == (at(155) - 4 * 3600.0, at(155) + 300.0)
    assert {each for each in found["values"] if each is not None} == {0.5}


@pytest.mark.parametrize(
    "asked",
    [{"row": "nobody", "feature": WRITES}, {"row": HOG, "feature": "x"}, {"row": HOG, "feature": WRITES, "scope": "x"}],
)
def test_what_has_no_series_is_named(page: Served, asked: dict[str, str]) -> None:
    until(lambda: page.client.get("/api/v1/series", params=asked).status_code != 200)
    status, error, expected = refused(page, "/series", **asked)
    assert (status, expected) == (404, "a row, and a feature of it, that /row has")
    assert repr(asked["row"]) in error


def test_beside_an_open_incident_nothing_is_said_not_to_be_enough(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path / "bus.db") as made:
        made.create(TOPICS.specs())
        append(made, frames("web-1", range(130, 153)))
    with served(tmp_path / "bus.db", **SETTINGS) as page:
        assert "Below the alert level" in " ".join(get(page, "/moment", host="web-1", at=at(151))["sentences"])
        page.reading.bus.append([outgoing(incident(1, at(150)), TOPICS)])
        found = get(page, "/moment", host="web-1", at=at(152))
        assert [each["to"] for each in found["incidents"]] == [None]
        assert "Below the alert level" not in " ".join(found["sentences"])


def test_an_answer_is_not_complete_because_the_rest_is_being_read(
    bus: Path, wired: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Columns, "_begin", lambda self, job: job.blocks.clear())  # a thread that is quick
    monkeypatch.setattr("laggard.pipeline.investigator.columns.BLOCK", 16)
    with EmbeddedBus(bus) as opened:
        columns = Columns(History(opened, TOPICS, wired[0]))
        found = columns.thinned("web-1", "process", ROWS[3], WRITES, begin=START, end=at(TICKS), points=1000)
        assert not found.complete


def test_little_room_costs_time_and_no_answer(bus: Path, wired: Any) -> None:
    with EmbeddedBus(bus) as opened:
        columns = Columns(History(opened, TOPICS, wired[0]), blocks_bytes=20_000, samples_bytes=20_000)
        for row in (*ROWS, *reversed(ROWS)):
            asked = partial(columns.thinned, "web-1", "process", row, WRITES, begin=START, end=at(TICKS), points=1000)
            found = awaited(partial(asked, moment=at(100)), lambda found: found.complete, 120.0)
            there = {ts: value for ts, value in zip(found.ts, found.values, strict=True) if value is not None}
            assert there == values_of(WRITES, row)


@pytest.mark.slow
def test_of_processes_that_come_and_go_no_more_is_kept_than_is_said(tmp_path: Path, wired: Any) -> None:
    room, random = 80_000, np.random.default_rng(1)
    with EmbeddedBus(tmp_path / "bus.db") as opened:
        opened.create(TOPICS.specs())
        columns = Columns(History(opened, TOPICS, wired[0]), blocks_bytes=room, samples_bytes=room)
        tracemalloc.start()
        try:
            for number in range(160):
                rows = [f"worker[{each}@{each}]" for each in range(number, number + 40)]
                layout = make_layout(rows, ["worker"] * len(rows), FEATURES)
                values = random.random((len(rows), len(FEATURES)))
                append(opened, [Frame("host", "web-1", "process", at(number), number + 1, layout, values)])
                for whole in (True, False):
                    row = rows[0] if whole else f"nobody[{number}@1]"
                    columns.thinned(
                        "web-1", "process", row, WRITES, begin=at(number - 20), end=at(number), points=100, whole=whole
                    )
            gc.collect()
            full, _ = tracemalloc.get_traced_memory()
            columns._tracks.clear()
            gc.collect()
            assert 0.3 * 2 * room < full - tracemalloc.get_traced_memory()[0] < 1.2 * 2 * room
        finally:
            tracemalloc.stop()


def test_where_no_frame_was_one_is_seen_once_it_is_there(
    tmp_path: Path, wired: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laggard.pipeline.investigator.columns.MOST_SAMPLES", 4)
    monkeypatch.setattr("laggard.pipeline.investigator.tracks.MOST_EMPTY", 6)
    with EmbeddedBus(tmp_path / "bus.db") as opened:
        opened.create(TOPICS.specs())
        columns = Columns(History(opened, TOPICS, wired[0]))

        def looked_at(host: str) -> list[float]:
            return columns.thinned(
                host, "process", ROWS[0], WRITES, begin=0.0, end=at(TICKS), points=1000, whole=False
            ).ts

        append(opened, frames("web-2", range(9)))
        for number in range(9, 40):
            append(opened, frames("web-2", range(number, number + 1)))
            assert looked_at("web-1") == []
        append(opened, frames("web-1", range(40, 41)))
        assert looked_at("web-1") == [at(40)]
        (track,) = columns._tracks.values()
        assert len(track.empty) == 6


def test_a_history_that_is_cut_while_it_is_looked_at_begins_later(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    with EmbeddedBus(path) as made:
        made.create(TOPICS.specs())
        append(made, frames("web-1", range(120)))
    with served(path, **SETTINGS) as page:
        assert get(page, "/moment", at=at(10))["ts"] == at(10)
        assert get(page, "/timeline")["first_ts"] == at(0)
        opened = page.reading.bus
        assert isinstance(opened, EmbeddedBus)
        partition = opened.partition_of(TOPICS.name(COUNTERS), "web-1")
        opened.discard(partition, opened.offset_at(partition, at(60)))
        assert get(page, "/timeline")["first_ts"] == at(60)
        found = whole(page, "/series", row=HOG, feature=WRITES, at=at(119), **{"from": START, "to": at(119)})
        assert found["ts"][0] == at(60)
        assert get(page, "/moment", at=at(100))["ts"] == at(100)
        status, _, expected = refused(page, "/moment", at=at(10))
        assert (status, expected.startswith(f"a moment from {at(60)!r} to ")) == (404, True)


def test_points_are_means_between_the_least_and_the_greatest_of_their_ticks() -> None:
    random = np.random.default_rng(3)
    ts = np.cumsum(random.uniform(0.5, 1.5, 1000))
    values = random.lognormal(0.0, 2.0, 1000)
    values[random.random(1000) < 0.1] = np.nan
    found = thin(ts, values, points=50, tick_s=1.0, complete=True, breaks=True)
    step_s = (ts[-1] - ts[0]) / 50
    assert found.step_s == pytest.approx(step_s)
    for number in range(50):
        last = number == 49
        inside = (ts >= ts[0] + number * step_s) & ((ts < ts[0] + (number + 1) * step_s) | last)
        there = values[inside & np.isfinite(values)]
        assert found.ts[number] == pytest.approx(ts[inside].mean())
        assert (found.values[number], found.low[number], found.high[number]) == pytest.approx(
            (there.mean(), there.min(), there.max())
        )


def test_nothing_is_thinned_to_nothing() -> None:
    empty = thin(np.empty(0), np.empty(0), points=10, tick_s=0.0, complete=True, breaks=True)
    assert (empty.ts, empty.values, empty.step_s) == ([], [], 0.0)
    same = thin(np.full(30, 5.0), np.arange(30.0), points=10, tick_s=0.0, complete=True, breaks=True)
    assert max(each for each in same.high if each is not None) == 29.0


# A host over time, and two moments.


def test_a_timeline_reaches_over_all_that_is_there(page: Served) -> None:
    found = whole(page, "/timeline")
    assert (found["first_ts"], found["last_ts"], found["from"], found["to"]) == (
        START,
        at(TICKS - 1),
        START,
        at(TICKS - 1),
    )
    assert found["feature"] == "cpu_busy_ratio"
    assert {each for each in found["values"] if each is not None} == {0.25}
    assert [each["note"] for each in found["marks"]] == ["checkout hangs"]
    assert get(page, "/timeline", host="web-2")["last_ts"] == at(39)


def test_two_moments_are_told_by_what_differs_most(page: Served) -> None:
    found = get(page, "/compare", at=at(155), **{"with": at(100)})
    worst = found["rows"][0]
    assert (worst["row"], worst["there"], worst["features"][0]["feature"]) == (HOG, "both", WRITES)
    one, other = (get(page, "/row", at=ts, row=HOG)["row"] for ts in (at(155), at(100)))
    assert (worst["score_at"], worst["score_with"]) == (one["score"], other["score"])
    assert worst["differs"] == one["score"] - other["score"]
    assert worst["features"][0]["at"] == one["features"][0]
    assert (found["at"], found["with"]) == (at(155), at(100))
    same = get(page, "/compare", at=at(100), **{"with": at(100) + 1.0})
    assert {each["differs"] for each in same["rows"]} == {0.0}


def test_rows_of_one_moment_only_are_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    with EmbeddedBus(path) as made:
        made.create(TOPICS.specs())
        append(made, frames("web-1", range(60)))
        fewer = make_layout(ROWS[:-1], [row.partition("[")[0] for row in ROWS[:-1]], FEATURES)
        for each in frames("web-1", range(60, 70)):
            if isinstance(each, Frame) and each.scope == "process":
                each = replace(each, layout=fewer, values=each.values[:-1])  # noqa: PLW2901
            append(made, [each])
    with served(path, **SETTINGS) as page:
        found = {each["row"]: each for each in get(page, "/compare", at=at(69), **{"with": at(50)})["rows"]}
        assert (found[HOG]["there"], found[HOG]["score_at"]) == ("with", None)
        assert {each["there"] for row, each in found.items() if row != HOG} == {"both"}


# Names.


def test_hostile_names_stay_what_they_are(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\u202egpj.exe", "x\x1b[31m", "${7*7}"]
    rows = [f"{name}[{number}@1]" for number, name in enumerate(names, 1)]
    layout = make_layout(rows, names, FEATURES, names, users=names, containers=names)
    path = tmp_path / "bus.db"
    random = np.random.default_rng(1)
    host = "<b>web</b>&?#"
    with EmbeddedBus(path) as made:
        made.create(TOPICS.specs())
        for tick in range(30):
            frame = Frame("host", host, "process", at(tick), tick, layout, random.random((len(rows), len(FEATURES))))
            made.append([Outgoing(TOPICS.name(COUNTERS), host, encode(frame), frame.ts)])
        mark = Mark(host, at(29), "<i>slow</i>\u202e")
        made.append([Outgoing(TOPICS.name(COUNTERS), host, encode(mark), mark.ts)])
    with served(path, **SETTINGS) as page:
        found = get(page, "/moment", host=host)
        assert {
            each["row"]: (each["name"], each["user"], each["container"], each["command"]) for each in found["rows"]
        } == {row: (name,) * 4 for row, name in zip(rows, names, strict=True)}
        assert [each["note"] for each in found["marks"]] == ["<i>slow</i>\u202e"]
        for row in rows:
            assert get(page, "/row", host=host, row=row)["row"]["row"] == row
            assert len(whole(page, "/series", host=host, row=row, feature=FEATURES[0])["ts"]) == 30
