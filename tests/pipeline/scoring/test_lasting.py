"""Anomalies that last, from recorded frames to incidents: open while they go on, closed when they are over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.records.json_lines import write_line
from laggard.pipeline.core.records.outputs import Anomaly, Progress, write_output
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.wiring import wire
from tests.pipeline.core.engine.conftest import INPUT, moved, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.pipeline.conftest import Replaying

INTERVAL_S: Final = 15.0
MINUTE_S: Final = 60.0
BEGIN: Final = 1.7e9
ONSET: Final = BEGIN + 120 * MINUTE_S
LAYOUT = make_layout(
    ("nginx[1]", "report[2]", "dump[3]"),
    ("nginx", "report", "dump"),
    ("cpu_user_ratio", "io_write_bytes_per_s", "memory_rss_bytes"),
)
USUAL: Final = np.array([[0.1, 2e5, 5e7], [0.01, 1e4, 9e7], [0.02, 3e5, 4e7]])


class Fault(NamedTuple):
    """A fault: more of a feature of one row than usual, in minutes since the onset of the first fault."""

    row: str
    feature: str
    more: float
    begin_min: float
    end_min: float


COMPUTES: Final = Fault("report[2]", "cpu_user_ratio", 0.9, 0.0, 30.0)
WRITES: Final = Fault("dump[3]", "io_write_bytes_per_s", 4e7, 12.0, 48.0)


def frames(minutes: float, *faults: Fault) -> Iterator[Frame]:
    """Two hours of ordinary work, and these minutes with faults in them."""
    random = np.random.default_rng(1)
    for tick in range(round((120.0 + minutes) * MINUTE_S / INTERVAL_S)):
        ts = BEGIN + tick * INTERVAL_S
        values = random.normal(USUAL, USUAL * [0.1, 0.1, 2e-4])
        for fault in faults:
            place = LAYOUT.rows.index(fault.row), LAYOUT.features.index(fault.feature)
            values[place] += fault.more * (fault.begin_min < (ts - ONSET) / MINUTE_S <= fault.end_min)
        yield Frame("host", "web-1", "process", ts, tick, LAYOUT, np.abs(values))


def replayed(
    replay: Replaying, lines: Iterable[str | dict[str, Any]], *flags: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """The anomalies, their progress, and the incidents that come of recorded lines."""
    found, _ = replay.json(lines, "--operators", "gaussian", *flags)
    anomalies, progress, incidents = (
        [each for each in found if each["kind"] == kind] for kind in ("anomaly", "progress", "incident")
    )
    return anomalies, progress, incidents


def minute(ts: float) -> float:
    return (ts - ONSET) / MINUTE_S


def test_an_incident_is_open_while_a_trouble_lasts(replay: Replaying) -> None:
    anomalies, progress, incidents = replayed(replay, map(write_line, frames(45, COMPUTES)))
    (anomaly,) = anomalies
    assert 0.0 < minute(anomaly["ts"]) <= 0.5
    assert (anomaly["blame"]["name"], anomaly["blame"]["feature"]) == ("report", "cpu_user_ratio")
    assert anomaly["blame"]["resources"] == ["cpu"]
    assert 0.005 < anomaly["blame"]["usual"] < 0.02
    opened, *_, closed = incidents
    assert {each["id"] for each in incidents} == {opened["id"]}
    assert opened["change"] == "opened"
    assert "`report` (pid 2) is behaving unusually: it uses 91.1 % of one core in user mode" in opened["sentence"]
    assert closed["change"] == "closed"
    assert minute(closed["opened_ts"]) == pytest.approx(0.0, abs=0.26)
    assert 29.5 <= minute(closed["until_ts"]) <= 31.0
    assert minute(closed["ts"]) <= 36.0
    assert not any(each["accepted"] for each in (*progress, *incidents))


def test_what_began_suddenly_goes_on_under_the_same_id(replay: Replaying) -> None:
    anomalies, progress, _ = replayed(replay, map(write_line, frames(45, COMPUTES)))
    (anomaly,) = anomalies
    assert anomaly["onset_ts"] is None
    assert {each["id"] for each in progress} == {anomaly["id"]}
    assert [each["number"] for each in progress] == list(range(1, len(progress) + 1))
    first, *_, ended = progress
    assert first["change"] == "extended"
    assert minute(first["ts"]) <= 1.5
    assert {minute(each["onset_ts"]) for each in progress} == {0.0}
    assert first["sentence"].endswith(" in user mode. It has done so for 30 s; its baseline is 0.01 cores.")
    # The Gaussian alone would have ended it five minutes after it had learned the new level.
    assert ended["change"] == "ended"
    assert 29.5 <= minute(ended["until_ts"]) <= 31.0


def test_two_processes_that_take_different_resources_are_two_incidents(replay: Replaying) -> None:
    anomalies, progress, incidents = replayed(replay, map(write_line, frames(60, COMPUTES, WRITES)))
    assert [each["blame"]["name"] for each in anomalies] == ["report", "dump"]
    assert [each["blame"]["resources"] for each in anomalies] == [["cpu"], ["disk"]]
    ends = {each["id"]: each for each in progress if each["change"] == "ended"}
    closed = {each["blame"]["name"]: each for each in incidents if each["change"] == "closed"}
    assert ends.keys() == {each["id"] for each in anomalies}
    assert len({each["id"] for each in incidents}) == len(closed) == 2
    for anomaly, fault in zip(anomalies, (COMPUTES, WRITES), strict=True):
        ended, incident = ends[anomaly["id"]], closed[anomaly["blame"]["name"]]
        assert minute(ended["onset_ts"]) == pytest.approx(fault.begin_min, abs=0.26)
        assert fault.end_min <= minute(ended["until_ts"]) <= fault.end_min + 1.0
        assert (incident["opened_ts"], incident["until_ts"]) == (ended["onset_ts"], ended["until_ts"])
        assert {each["anomaly"] for each in incident["evidence"]} == {anomaly["id"]}


def accepted(replay: Replaying) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """The anomalies, their progress, and the incidents where a fault lasts longer than it takes to be accepted."""
    lines = map(write_line, frames(90, COMPUTES._replace(end_min=999.0)))
    return replayed(replay, lines, "--set", "gaussian.accepted_after=1h")


def test_what_lasts_too_long_is_usual_from_then_on(replay: Replaying) -> None:
    anomalies, progress, incidents = accepted(replay)
    *others, ended = (each for each in progress if each["id"] == anomalies[0]["id"])
    assert (ended["change"], ended["accepted"]) == ("ended", True)
    assert not any(each["accepted"] for each in others)
    assert minute(ended["ts"]) == pytest.approx(60.0, abs=0.26)
    assert ended["sentence"].startswith("It persists after 60 min and is treated as usual from now on.")
    closed = next(each for each in incidents if each["change"] == "closed")
    assert closed["accepted"] is True
    assert "It persists after 60 min and is treated as usual from now on." in closed["sentence"]


def test_what_is_usual_from_now_on_is_not_opened_again(replay: Replaying) -> None:
    anomalies, _, incidents = accepted(replay)
    assert [each["blame"]["name"] for each in anomalies] == ["report"]
    assert [each["change"] for each in incidents if each["change"] != "extended"] == ["opened", "closed"]


def test_a_mark_half_an_hour_later_names_who_began_it(replay: Replaying) -> None:
    lines: list[str | dict[str, Any]] = [*map(write_line, frames(30.5, COMPUTES._replace(end_min=999.0)))]
    lines.insert(-1, {"ts": ONSET + 30 * MINUTE_S + 1.0, "host": "web-1", "mark": "slow"})
    found, _ = replay.json(lines, "--operators", "gaussian")
    (ranking,) = (each for each in found if each["kind"] == "ranking")
    assert (ranking["mark"], ranking["rows"][0]["name"]) == ("slow", "report")
    # That of the anomaly, which is higher than that of the last seconds.
    assert ranking["score"] == ranking["rows"][0]["score"] == pytest.approx(2.0, abs=0.05)
    cpu = ranking["rows"][0]["features"][0]
    assert cpu["feature"] == "cpu_user_ratio"
    assert cpu["mean"] == pytest.approx(0.01, rel=0.1)
    assert ranking["sentence"].startswith("`report` (pid 2) is behaving unusually: it uses 9")


def test_only_processes_have_lasting_anomalies(replay: Replaying) -> None:
    """Of a host the same features are shares of all its processors: it uses no cores, and its score is sudden alone."""
    layout, random = make_layout(("web-1",), ("web-1",), ("cpu_user_ratio", "load_1m")), np.random.default_rng(1)
    given = []
    for tick in range(round(140.0 * MINUTE_S / INTERVAL_S)):
        ts = BEGIN + tick * INTERVAL_S
        busy = 0.5 if ts > ONSET else 0.0
        values = np.abs(random.normal([[0.04 + busy, 0.5]], [[0.004, 0.05]]))
        given.append(Frame("host", "web-1", "host", ts, tick, layout, values))
    anomalies, progress, _ = replayed(replay, map(write_line, given))
    assert [each["sentence"] for each in (*anomalies, *progress) if each["onset_ts"] is not None] == []


WIRED = next(each for each in wire(read_settings(environ={}, flags=[])) if each.name == "gaussian")


@pytest.fixture(scope="module")
def stream() -> tuple[list[Frame], list[Any]]:
    """Frames with two faults at a time, and all that is reported about them."""
    given = [*frames(60, COMPUTES, WRITES)]
    return given, told(Task(WIRED, INPUT, snapshot_records=1000), given)


# Before the first goes on as what lasts, while both are open, and while the first is calm.
@pytest.mark.parametrize("cut_min", [5.0, *(pytest.param(cut, marks=pytest.mark.slow) for cut in (0.5, 20.0, 32.0))])
def test_a_state_that_was_restored_in_the_middle_tells_the_same(
    stream: tuple[list[Frame], list[Any]], cut_min: float
) -> None:
    given, want = stream
    assert all(isinstance(each, Anomaly | Progress) for each in want)
    cut = round((120.0 + cut_min) * MINUTE_S / INTERVAL_S)
    one, two = (Task(WIRED, INPUT, snapshot_records=1000) for _ in range(2))
    got = told(one, given[:cut])
    assert 0 < len(got) < len(want)
    got += told(moved(one, two), given[cut:])
    assert [write_output(each) for each in got] == [write_output(each) for each in want]
