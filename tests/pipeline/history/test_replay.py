from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.cli.exits import FAILED, NO_DATA
from laggard.pipeline.core.records import UNNUMBERED, Decoder, Frame, Mark, Request, make_layout, write_line
from laggard.pipeline.core.records.outputs import Anomaly, Incident, Progress, RankingOutput, ScoreOutput
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.replay import Replay
from laggard.pipeline.scoring.task import Task
from tests.pipeline.history.conftest import GAP, HOG, MARKED, TOPICS, WRONG, at, frames

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.core.records.outputs import ReplayOutput
    from tests.pipeline.conftest import Called, Replaying

LASTS, CALM = 153, 162
"""Ticks: from which on what is wrong lasts, and from which on the last 15 seconds are calm again."""


@pytest.fixture(scope="module")
def recording() -> list[str]:
    """The history of one host as JSON lines."""
    return [write_line(each) for each in frames("web-1", range(170))]


def taken(wired, records, scores=False):
    told: list[ReplayOutput] = []
    problems: list[str] = []
    replay = Replay(wired, told.append, problems.append, scores=scores)
    for number, each in enumerate(records):
        replay.take(f"day:{number}", each)
    replay.finish()
    return replay, told, problems


def test_what_comes_out_is_what_the_worker_gave(recorded, wired):
    partition = recorded.bus.partition_of(TOPICS.name(COUNTERS), "web-1")
    task, decoder = Task(wired[0], partition, live=False), Decoder()
    records = list(recorded.bus.read(partition, 0))
    for record in records:
        task.process(record)
    _, told, problems = taken(wired, (decoder.decode(record.value, "") for record in records))
    assert problems == []
    found = [each for each in told if not isinstance(each, Incident)]
    assert [evidence(each) for each in found] == [evidence(each) for each in task.outputs]
    (anomaly,) = (each for each in told if isinstance(each, Anomaly))
    assert anomaly.ts == at(WRONG.start)
    assert not anomaly.live
    assert anomaly.sentence.startswith("`hog` (pid 4711, `python3 hog.py`) is behaving unusually")


def evidence(output):
    """All of it but the id, which names the place in the input."""
    return replace(output, id="") if isinstance(output, Anomaly | Progress) else output


def test_anomalies_are_joined_to_incidents(wired):
    replay, told, _ = taken(wired, frames("web-1", range(260)))
    anomaly, opened, extended, grown, _, ended, closed = told
    assert [type(each) for each in told] == [
        *(Anomaly, Incident),
        *(Progress, Incident, RankingOutput),  # it lasts
        *(Progress, Incident),
    ]
    assert (opened.change, opened.evidence[0].anomaly, opened.live) == ("opened", anomaly.id, False)
    assert (extended.change, extended.id, extended.onset_ts) == ("extended", anomaly.id, at(WRONG.start))
    assert (grown.change, grown.id, grown.ts) == ("extended", opened.id, at(LASTS))
    # Until the last 15 s are calm again.
    assert (ended.change, ended.id, ended.until_ts) == ("ended", anomaly.id, at(CALM - 1))
    assert (closed.change, closed.id, closed.ts) == ("closed", opened.id, at(GAP.stop))
    assert (replay.anomalies, replay.incidents) == (1, 1)
    (task,) = replay.tasks
    assert (task.outputs, task.states.take(0)) == ([], []), "memory does not grow with the recording"


def test_every_host_and_tick_has_one_score(wired):
    records = sorted((*frames("web-1", range(170)), *frames("web-2", range(20), 2)), key=lambda each: each.ts)
    _, told, _ = taken(wired, records, scores=True)
    scores = [each for each in told if isinstance(each, ScoreOutput)]
    assert sorted((each.key, each.ts) for each in scores) == [
        *(("web-1", at(tick)) for tick in range(170)),
        *(("web-2", at(tick)) for tick in range(20)),
    ]
    # First it is sudden, then it lasts, with no gap between.
    assert {each.ts for each in scores if each.score > 1.0} == {at(tick) for tick in range(WRONG.start, CALM)}


def test_the_score_of_a_tick_is_told_before_the_ranking_of_a_mark_behind_it(wired):
    _, told, _ = taken(wired, frames("web-1", range(158)), scores=True)
    place = next(number for number, each in enumerate(told) if isinstance(each, RankingOutput))
    before, _, after = told[place - 1 : place + 2]
    assert isinstance(before, ScoreOutput)
    assert isinstance(after, ScoreOutput)
    assert (before.ts, after.ts) == (at(155), at(156))
    place = next(number for number, each in enumerate(told) if isinstance(each, Progress))
    extended, grown, score = told[place : place + 3]
    assert (type(extended), type(grown)) == (Progress, Incident), "at this tick it lasts"
    assert isinstance(score, ScoreOutput)
    assert (extended.ts, score.ts) == (at(LASTS), at(LASTS))
    # A frame of that tick that comes behind the mark is reported again only if it is worse.
    records = list(frames("web-1", range(158)))
    marked = next(number for number, each in enumerate(records) if isinstance(each, Mark))
    records[marked - 1], records[marked] = records[marked], records[marked - 1]
    _, again, _ = taken(wired, records, scores=True)
    assert sum(isinstance(each, ScoreOutput) and each.ts == at(155) for each in again) == 1


def test_what_is_late_is_named_by_its_place_and_a_duplicate_changes_nothing(wired):
    records = list(frames("web-1", range(20)))
    _, _, problems = taken(
        wired, [*records, records[3], Frame("host", "web-1", "process", at(1), -1, *unnumbered(records[0]))]
    )
    assert problems == [f"day:41: late: expected a time of at least {at(19)!r}, got {at(1)!r}"]


def unnumbered(frame):
    return frame.layout, frame.values


def test_records_that_no_operator_wants_are_counted(wired):
    layout = make_layout(("a",), ("a",), ("x",))
    values = np.ones((1, 1))
    others = [Frame("pool", "workers", "member", 1.0, -1, layout, values), Request("shop", 2.0, "r1", 0.1)]
    replay, told, problems = taken(wired, others)
    assert (told, problems, replay.unused, replay.records, replay.frames) == ([], [], 2, 2, 1)


def test_a_mark_without_a_frame_near_it_has_no_rows(wired):
    (mark,) = [each for each in frames("web-1", range(156)) if not isinstance(each, Frame)]
    _, told, _ = taken(wired, [mark])
    assert [(each.ts, each.ranking.rows) for each in told if isinstance(each, RankingOutput)] == [(MARKED, ())]


def test_json(recording, replay: Replaying):
    (anomaly, incident, extended, grown, ranking), err = replay.json(recording)
    assert (incident["kind"], incident["change"], incident["evidence"][0]["anomaly"]) == (
        "incident",
        "opened",
        anomaly["id"],
    )
    assert (anomaly["kind"], anomaly["host"], anomaly["live"], anomaly["operator"]) == (
        "anomaly",
        "web-1",
        False,
        "gaussian",
    )
    assert (ranking["kind"], ranking["mark"], ranking["rows"][0]["row"]) == ("ranking", "checkout hangs", HOG)
    assert (extended["kind"], extended["change"], extended["id"]) == ("progress", "extended", anomaly["id"])
    assert (extended["onset_ts"], anomaly["onset_ts"]) == (at(WRONG.start), None)
    assert (grown["kind"], grown["change"], grown["id"]) == ("incident", "extended", incident["id"])
    assert err.startswith("Replayed 340 frames of 1 key over 14 min, 1 mark, 1 anomaly of 1 incident, ")


def test_scores_are_asked_for_and_parameters_are_set(recording, replay: Replaying):
    told, _ = replay.json(recording, "--scores", "--set", "gaussian.minimum_features=1000")
    operators = ["gaussian", "cpu", "saturation"]
    assert [each["operator"] for each in told if each["kind"] == "score"] == operators * 170
    assert {tuple(each) for each in told if each["kind"] == "score"} == {("kind", "ts", "operator", "host", "score")}
    for operator in operators:
        scores = [each["ts"] for each in told if each["kind"] == "score" and each["operator"] == operator]
        assert scores == [at(tick) for tick in range(170)]
    anomaly = next(each for each in told if each["kind"] == "anomaly")
    assert anomaly["parameters"]["minimum_features"] == 1000


def test_what_is_late_is_named_once_however_many_operators_find_it_so(replay: Replaying):
    early, *others = frames("web-1", range(5))
    _, err = replay.text(map(write_line, (early, *others, replace(early, sequence=UNNUMBERED))), code=FAILED)
    assert err.count("recorded.jsonl:11: late: expected a time of at least") == 1


def test_text(replay: Replaying):
    out, _ = replay.text(map(write_line, frames("web-1", range(260))), "--scores")
    assert "`hog` (pid 4711, `python3 hog.py`) is behaving unusually: it writes " in out
    assert "  web-1  marked checkout hangs\n" in out
    assert "  web-1  gaussian  0." in out
    assert "Resolved on web-1 after 55 s (2023-11-14 22:25:50 to 22:26:45 UTC). The most likely" in out
    assert "the worst score is 2.\n" in out
    assert "\x1b" not in out


def test_compressed_and_several_files_are_the_same(recording, replay: Replaying, laggard: Called, nowhere: Path):
    whole, _ = replay.text(recording, "--json", "--scores")
    # Of two records of one time that of the first file comes first, here as there.
    rest, host = ("".join(f"{each}\n" for each in recording if ("load_1m" in each) == of_host) for of_host in (0, 1))
    (nowhere / "rest.jsonl").write_text(rest)
    (nowhere / "host.jsonl.gz").write_bytes(gzip.compress(host.encode()))
    assert laggard("replay", "rest.jsonl", "host.jsonl.gz", "--json", "--scores")[:2] == (0, whole)


def test_bad_lines_are_named_and_counted_and_the_rest_goes_on(recording, replay: Replaying):
    told, err = replay.json(["nonsense", *recording, '{"ts": 5}'], code=FAILED)
    assert len(told) == 5
    first, second, said = err.splitlines()
    assert first.startswith("laggard: recorded.jsonl:1: expected JSON with ")
    assert second.startswith("laggard: recorded.jsonl:343: expected one of the fields 'host', ")
    assert said.endswith(", 2 lines that could not be used")
    # A flood of them is only counted.
    lines = replay.text(["nonsense"] * 1000, code=FAILED)[1].splitlines()
    assert len(lines) == 102
    assert lines[-1].endswith("1,000 lines that could not be used")


@pytest.mark.parametrize(("content", "said"), [(None, "x.jsonl: cannot be opened"), (b"", "the input has no records")])
def test_nothing_to_replay(nowhere: Path, laggard: Called, content, said):
    if content is not None:
        (nowhere / "x.jsonl").write_bytes(content)
    code, _, err = laggard("replay", "x.jsonl")
    assert (code, said in err) == (NO_DATA, True)


@pytest.mark.slow
def test_the_standard_input_is_read_until_its_end(recording):
    arguments = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "replay", "-", "--json"]
    ended = subprocess.run(arguments, input="\n".join(recording), capture_output=True, check=True, text=True)
    assert len(ended.stdout.splitlines()) == 5
