from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import FAILED, NO_DATA
from laggard.pipeline.engine.task import Task
from laggard.pipeline.records import UNNUMBERED, Decoder, Frame, Mark, Request, make_layout, write_line
from laggard.pipeline.records.outputs import Anomaly, Incident, Progress, RankingOutput, ScoreOutput
from laggard.pipeline.replay import Replay
from laggard.pipeline.topics import COUNTERS
from tests.pipeline.history.conftest import GAP, HOG, MARKED, TOPICS, WRONG, at, frames

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.replay import Told


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of one host as JSON lines."""
    path = tmp_path_factory.mktemp("recorded") / "day.jsonl"
    path.write_text("".join(write_line(each) + "\n" for each in frames("web-1", range(170))))
    return path


def taken(wired, records, scores=False):
    told: list[Told] = []
    problems: list[str] = []
    replay = Replay(wired, told.append, problems.append, scores=scores)
    for number, each in enumerate(records):
        replay.take(f"day:{number}", each)
    replay.finish()
    return replay, told, problems


def objects(text: str):
    return [json.loads(line) for line in text.splitlines()]


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
    assert anomaly.sentence.startswith("`hog` (pid 4711, `python3 hog.py`) is most unlike itself")


def evidence(output):
    """All of it but the id, which names the place in the input."""
    return replace(output, id="") if isinstance(output, Anomaly | Progress) else output


def test_anomalies_are_joined_to_incidents(wired):
    replay, told, _ = taken(wired, frames("web-1", range(260)))
    anomaly, opened, _, ended, closed = told
    assert [type(each) for each in told] == [Anomaly, Incident, RankingOutput, Progress, Incident]
    assert (opened.change, opened.evidence[0].anomaly, opened.live) == ("opened", anomaly.id, False)
    assert (ended.change, ended.id, ended.until_ts) == ("ended", anomaly.id, at(WRONG.stop - 1))
    assert (closed.change, closed.id, closed.ts) == ("closed", opened.id, at(GAP.stop))
    assert (replay.anomalies, replay.incidents) == (1, 1)


def test_every_host_and_tick_has_one_score(wired):
    records = sorted((*frames("web-1", range(160)), *frames("web-2", range(20), 2)), key=lambda each: each.ts)
    _, told, _ = taken(wired, records, scores=True)
    scores = [each for each in told if isinstance(each, ScoreOutput)]
    assert sorted((each.key, each.ts) for each in scores) == [
        *(("web-1", at(tick)) for tick in range(160)),
        *(("web-2", at(tick)) for tick in range(20)),
    ]
    assert {each.ts for each in scores if each.score > 1.0} == {at(tick) for tick in WRONG}


def test_the_score_of_a_tick_is_told_before_the_ranking_of_a_mark_behind_it(wired):
    _, told, _ = taken(wired, frames("web-1", range(158)), scores=True)
    place = next(number for number, each in enumerate(told) if isinstance(each, RankingOutput))
    before, after = told[place - 1], told[place + 1]
    assert isinstance(before, ScoreOutput)
    assert isinstance(after, ScoreOutput)
    assert (before.ts, after.ts) == (at(155), at(156))
    # A frame of that tick that comes behind the mark is told once more only if it is worse.
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


def test_memory_does_not_grow_with_the_recording(wired):
    replay, _, _ = taken(wired, frames("web-1", range(170)))
    (task,) = replay.tasks
    assert task.outputs == []
    assert task.states.take(0) == []


def test_a_mark_without_a_frame_near_it_has_no_rows(wired):
    (mark,) = [each for each in frames("web-1", range(156)) if not isinstance(each, Frame)]
    _, told, _ = taken(wired, [mark])
    assert [(each.ts, each.ranking.rows) for each in told if isinstance(each, RankingOutput)] == [(MARKED, ())]


def test_json(recording, capsys):
    assert run(["replay", str(recording), "--json"]) == 0
    out, err = capsys.readouterr()
    anomaly, incident, ranking = objects(out)
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
    assert err.startswith("Replayed 340 frames of 1 key over 14 min, 1 mark, 1 anomaly of 1 incident, ")


def test_scores_are_asked_for_and_parameters_are_set(recording, capsys):
    assert run(["replay", str(recording), "--json", "--scores", "--set", "gaussian.minimum_features=1000"]) == 0
    told = objects(capsys.readouterr().out)
    assert [each["operator"] for each in told if each["kind"] == "score"] == ["gaussian", "cpu"] * 170
    assert {tuple(each) for each in told if each["kind"] == "score"} == {("kind", "ts", "operator", "host", "score")}
    for operator in ("gaussian", "cpu"):
        scores = [each["ts"] for each in told if each["kind"] == "score" and each["operator"] == operator]
        assert scores == [at(tick) for tick in range(170)]
    anomaly = next(each for each in told if each["kind"] == "anomaly")
    assert anomaly["parameters"]["minimum_features"] == 1000


def test_what_is_late_is_named_once_however_many_operators_find_it_so(tmp_path, capsys):
    early, *others = frames("web-1", range(5))
    lines = [write_line(each) for each in (early, *others, replace(early, sequence=UNNUMBERED))]
    (tmp_path / "late.jsonl").write_text("".join(line + "\n" for line in lines))
    assert run(["replay", "late.jsonl"]) == FAILED
    err = capsys.readouterr().err
    assert err.count("late.jsonl:11: late: expected a time of at least") == 1


def test_text(recording, capsys):
    assert run(["replay", str(recording), "--scores"]) == 0
    out, _ = capsys.readouterr()
    assert "`hog` (pid 4711, `python3 hog.py`) is most unlike itself: it writes " in out
    assert "  web-1  marked checkout hangs\n" in out
    assert "  web-1  gaussian  0." in out
    assert "\x1b" not in out


def test_that_an_incident_is_over_is_told_in_words(tmp_path, capsys):
    (tmp_path / "day.jsonl").write_text("".join(write_line(each) + "\n" for each in frames("web-1", range(260))))
    assert run(["replay", "day.jsonl"]) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines()[-1].endswith("the worst score is 1.4.")
    assert "On web-1 it is over: it began at 2023-11-14 22:25:50 UTC and lasted 45 s. Most likely" in out


def test_compressed_and_several_files_are_the_same(recording, tmp_path, capsys):
    assert run(["replay", str(recording), "--json", "--scores"]) == 0
    whole = capsys.readouterr().out
    lines = recording.read_bytes().splitlines(keepends=True)
    (tmp_path / "even.jsonl").write_bytes(b"".join(lines[0::2]))
    (tmp_path / "odd.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[1::2])))
    assert run(["replay", "even.jsonl", "odd.jsonl.gz", "--json", "--scores"]) == 0
    assert capsys.readouterr().out == whole


def test_bad_lines_are_named_and_counted_and_the_rest_goes_on(recording, tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_bytes(b"nonsense\n" + recording.read_bytes() + b'{"ts": 5}\n')
    assert run(["replay", "bad.jsonl", "--json"]) == FAILED
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    lines = err.splitlines()
    assert lines[0].startswith("laggard: bad.jsonl:1: expected JSON with ")
    assert lines[1].startswith("laggard: bad.jsonl:343: expected one of the fields 'host', ")
    assert lines[2].endswith(", 2 lines that could not be used")


def test_a_flood_of_bad_lines_is_only_counted(tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_bytes(b"nonsense\n" * 1000)
    assert run(["replay", "bad.jsonl"]) == FAILED
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 102
    assert lines[-1].endswith("1,000 lines that could not be used")


@pytest.mark.parametrize(("content", "said"), [(None, "x.jsonl: cannot be opened"), (b"", "there is no record")])
def test_nothing_to_replay(tmp_path, capsys, content, said):
    if content is not None:
        (tmp_path / "x.jsonl").write_bytes(content)
    assert run(["replay", "x.jsonl"]) == NO_DATA
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_standard_input_is_read_until_its_end(recording):
    arguments = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "replay", "-", "--json"]
    ended = subprocess.run(arguments, input=recording.read_bytes(), capture_output=True, check=True)
    assert len(ended.stdout.splitlines()) == 3
