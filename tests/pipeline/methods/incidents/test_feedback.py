"""Feedback from the command line and by the API, with a worker between."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.alarms import tolerance
from laggard.pipeline.alarms.tolerance import LONGEST_S, Tolerance, cases_of
from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import NO_DATA, USAGE
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Case, Feedback, encode
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.outputs import Blame, Evidence
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.history.report import plain_findings
from laggard.pipeline.history.why import History
from laggard.pipeline.methods.incidents.queries import past_feedback, past_incidents, past_notices
from laggard.pipeline.methods.incidents.stage import Joining
from tests.pipeline.investigator.serving import get, served
from tests.pipeline.methods.incidents.joined import notice
from tests.pipeline.scoring.test_lasting import COMPUTES, ONSET, WIRED, WRITES, frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from laggard.pipeline.core.records.outputs import Incident

TOPICS = Topics()
NOW = ONSET + 600.0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bus on which two programs are at fault."""
    path = tmp_path_factory.mktemp("feedback") / "laggard.db"
    faults = (COMPUTES, WRITES._replace(begin_min=4.0))
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        given = [each for each in frames(10, *faults) if each.ts <= NOW]
        bus.append([Outgoing(TOPICS.name(COUNTERS), each.key, encode(each), each.ts) for each in given])
    return worked(path)


@pytest.fixture
def bus(recorded: Path, tmp_path: Path) -> Path:
    path = tmp_path / "laggard.db"
    with closing(sqlite3.connect(recorded)) as given, closing(sqlite3.connect(path)) as copy:
        given.backup(copy)
    return path


def worked(path: Path) -> Path:
    """The same bus once a worker has taken all that is there."""
    with EmbeddedBus(path) as bus:
        runner, stop = Runner(bus, [WIRED, Joining()], TOPICS), threading.Event()
        while runner.recovering() or lags(bus):
            runner.step(stop)
        stop.set()
        runner.run(stop)
    return path


def lags(bus: EmbeddedBus) -> bool:
    return any(
        bus.committed(TOPICS.group(stage.name), partition) < bus.bounds(partition)[1]
        for stage in (WIRED, Joining())
        for partition in bus.partitions(TOPICS.name(stage.topic))
    )


def why(path: Path) -> str:
    with EmbeddedBus(path) as bus:
        answer = History(bus, TOPICS, WIRED).ask("web-1", None, 5, 5)
    return " ".join(plain_findings(answer))


def incidents(path: Path) -> dict[str, Incident]:
    """By whom they blame."""
    with EmbeddedBus(path) as bus:
        found = past_incidents(bus, TOPICS, -math.inf).incidents
    return {each.blame.name: each for each in found if each.blame is not None}


@pytest.fixture
def call(bus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("time.time", lambda: NOW)

    def call(*arguments: str) -> tuple[int, str, str]:
        given = ["--set", f"bus.location={bus}", "--set", "host=web-1"]
        code = run(["feedback", *arguments, *given])
        return code, *capsys.readouterr()

    return call


def test_an_incident_that_is_none_is_closed_and_the_other_is_not(bus: Path, call: Any) -> None:
    before = incidents(bus)
    assert [(name, each.change) for name, each in before.items()] == [("dump", "extended"), ("report", "extended")]
    code, out, _ = call()
    assert (code, out.partition("`")[0]) == (0, "There is no feedback. ")
    code, out, err = call("usual", before["report"].id[:8], "--note", "month end")
    assert (code, err) == (0, "")
    first, following = out.splitlines()
    assert first == "On web-1: `report` is usual. month end"
    assert re.fullmatch(
        r"Next: `laggard feedback .*` lists it; `laggard feedback withdraw \w{8} .*` takes it back", following
    )
    after = incidents(worked(bus))
    assert (after["report"].change, after["report"].feedback) == ("closed", "usual")
    assert "By feedback it is usual, and is no longer reported." in after["report"].sentence
    assert after["dump"].change == "extended"
    assert "Feedback: `report` is usual. month end" in why(bus)
    code, out, _ = call()
    assert out.endswith("web-1  holds      `report` is usual. month end\n")
    (told,) = [json.loads(line) for line in call("show", "--json")[1].splitlines()]
    assert (told["says"], told["incident"], told["holds"]) == ("usual", before["report"].id, True)
    assert {each["name"] for each in told["cases"]} == {"report"}


def test_what_was_said_is_taken_back(bus: Path, call: Any) -> None:
    said = json.loads(call("expected", "--until", "2h", "--name", "report", "--name", "dump", "--json")[1])
    assert (said["keyed_by"], said["key"], said["until_ts"]) == ("host", "web-1", NOW + 7200.0)
    assert {each.change for each in incidents(worked(bus)).values()} == {"closed"}
    assert call("withdraw", said["id"][:6])[0] == 0
    worked(bus)
    assert "withdrawn  `report`, `dump` is expected until " in call()[1]
    assert call("withdraw", said["id"])[0] == NO_DATA, "it is withdrawn already"


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["usual", "nothing"], NO_DATA, "no incident has an id that begins with nothing; `laggard incidents --since"),
        (
            ["withdraw", "nothing"],
            NO_DATA,
            "no entry has an id that begins with nothing; `laggard feed",
        ),
        (
            ["expected", "--until", "yesterday"],
            USAGE,
            "'yesterday' is not a time; expected 2h, 18:00, 2026-01-02 18:00",
        ),
        (["expected", "--until", "1700000000"], USAGE, "'1700000000' is over; expected a time to come: 2h, 18:00"),
        (
            ["expected", "abc", "--until", "2h", "--name", "x"],
            USAGE,
            "INCIDENT and --host or --name exclude each other",
        ),
        (["expected", "abc"], USAGE, "Missing option '--until'"),
    ],
)
def test_what_cannot_be_said_is_told(arguments: Sequence[str], code: int, wanted: str, call: Any) -> None:
    got, out, err = call(*arguments)
    assert (got, out) == (code, "")
    assert wanted in " ".join(err.split())


def test_it_is_said_and_listed_by_the_api(bus: Path) -> None:
    which = incidents(bus)
    with served(bus) as page:
        page.reading.clock = lambda: NOW
        assert get(page, "/feedback") == {"feedback": []}
        new: dict[str, Any] = {"says": "usual", "incident": which["report"].id, "note": "month end"}
        answer = page.client.post("/api/v1/feedback", json=new)
        assert answer.status_code == 201, answer.text
        usual = answer.json()
        assert (usual["key"], usual["sentence"], usual["holds"]) == ("web-1", "`report` is usual. month end", True)
        assert usual["until"] == NOW + LONGEST_S
        new = {"says": "expected", "host": "web-1", "until": NOW + 60.0}
        expected = page.client.post("/api/v1/feedback", json=new).json()
        assert expected["sentence"].startswith("Everything is expected until ")
        worked(bus)
        assert sorted(get(page, "/feedback")["feedback"], key=lambda each: -each["until"]) == [usual, expected]
        assert get(page, "/feedback", incident=which["report"].id)["feedback"] == [usual]
        assert get(page, "/feedback", key="web-2")["feedback"] == []
        answer = page.client.post("/api/v1/feedback", json={"says": "withdrawn", "id": usual["id"]})
        assert (answer.status_code, answer.json()["holds"]) == (201, False)
        worked(bus)
        assert [each["holds"] for each in get(page, "/feedback", incident=which["report"].id)["feedback"]] == [False]


@pytest.mark.parametrize(
    ("new", "status", "error"),
    [
        ({"says": "odd"}, 400, "field 'says' is wrong"),
        ({"says": "usual"}, 400, "field 'incident' is empty"),
        ({"says": "usual", "incident": "nothing"}, 404, "no incident has an id that begins with 'nothing'"),
        ({"says": "expected", "host": "web-1"}, 400, "field 'until' is None"),
        ({"says": "expected", "host": "web-1", "until": NOW - 1.0}, 400, f"field 'until' is {NOW - 1.0}"),
        ({"says": "expected", "host": "web-9", "until": NOW + 9.0}, 404, "there are no records of host 'web-9'"),
        ({"says": "expected", "names": ["\0"], "until": NOW + 9.0}, 400, "field 'cases[0].name' is '\\x00'"),
        ({"says": "withdrawn", "id": "nothing"}, 404, "nothing was said under the id 'nothing'"),
    ],
)
def test_what_the_api_cannot_take_is_told(new: dict[str, Any], status: int, error: str, bus: Path) -> None:
    with served(bus) as page:
        page.reading.clock = lambda: NOW
        answer = page.client.post("/api/v1/feedback", json=new)
        assert (answer.status_code, answer.json()["error"]) == (status, error)


def test_feedback_and_notices_of_one_key_are_looked_for_in_its_partition(tmp_path: Path) -> None:
    said = [Feedback("host", f"web-{number}", NOW, f"{number}", "usual") for number in range(8)]
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs(partitions=4))
        bus.append([outgoing(FeedbackOutput.of(each, "gaussian", live=True), TOPICS) for each in said])
        bus.append([outgoing(replace(notice(1, NOW), key=each.key, id=each.id), TOPICS) for each in said])
        for number, each in enumerate(said):
            assert [found.feedback for found in past_feedback(bus, TOPICS, 0.0, key=each.key)] == [each]
            assert [found.opened.id for found in past_notices(bus, TOPICS, 0.0, key=each.key)] == [f"{number}"]
        assert len(past_feedback(bus, TOPICS, 0.0)) == len(past_notices(bus, TOPICS, 0.0)) == 8


def test_feedback_of_another_key_is_left_out(bus: Path, call: Any) -> None:
    call("expected", "--until", "2h", "--host", "web-2")
    with EmbeddedBus(worked(bus)) as opened:
        assert len(past_feedback(opened, TOPICS, 0.0)) == 1
        assert past_feedback(opened, TOPICS, 0.0, key="web-1") == []
        assert past_feedback(opened, TOPICS, NOW + 1.0) == []


# What is excused.

DISK = Blame("backup[1]", "backup", "io_write_bytes_per_s", 9e7, 1e7, 1e6, ("disk",))


@pytest.mark.parametrize(
    ("case", "excused"),
    [
        (Case(), True),
        (Case("backup"), True),
        (Case("other"), False),
        (Case("backup", ("disk",)), True),
        (Case("backup", ("cpu",)), False),
        (Case("", ("disk", "cpu")), True),
        (Case("backup", (), "io_write_bytes_per_s"), True),
        (Case("backup", (), "io_read_bytes_per_s"), False),
        (Case("backup", ("disk",), "io_read_bytes_per_s", 6e7), True),
        (Case("backup", ("disk",), "io_read_characters_per_s", 6e7), True),
        (Case("backup", ("disk",), "io_read_bytes_per_s", 1.0), False),
        (Case("backup", ("disk",), "io_delay_ratio", 6e7), False),
        (Case("backup", ("disk",), "io_write_bytes_per_s", 6e7), True),
        (Case("backup", ("disk",), "io_write_bytes_per_s", 5e7), False),
    ],
)
def test_what_a_case_excuses(case: Case, *, excused: bool) -> None:
    said = Tolerance((Feedback("host", "web-1", NOW, "a", "usual", (case,)),))
    assert said.excused(DISK, NOW) == ("usual" if excused else "")
    assert said.excused(None, NOW) == ""


def test_of_several_cases_that_of_the_same_counter_decides() -> None:
    cases = (Case("backup", ("disk",)), Case("backup", ("disk",), "io_write_bytes_per_s", 5e7))
    said = Feedback("host", "web-1", NOW, "a", "usual", cases)
    assert Tolerance((said,)).excused(DISK, NOW) == ""
    assert Tolerance((replace(said, cases=cases[:1]),)).excused(DISK, NOW) == "usual"


def test_what_is_expected_is_so_however_large_and_whatever_it_takes() -> None:
    said = Feedback("host", "web-1", NOW, "a", "expected", (Case("backup", ("cpu",), "x", 1.0),), NOW + 60.0)
    assert Tolerance((said,)).excused(DISK, NOW) == "expected"
    assert Tolerance((said,)).excused(replace(DISK, name="other"), NOW) == ""


def test_nothing_is_said_in_the_future() -> None:
    ahead = Feedback("host", "web-1", NOW + 1e9, "a", "usual")
    before = Feedback("host", "web-1", NOW, "b", "usual")
    said = Tolerance((before,)).after(ahead, NOW + 60.0).feedback
    assert [(each.id, each.ts) for each in said] == [("b", NOW), ("a", NOW + 60.0)]


def test_what_is_usual_outlives_what_is_expected() -> None:
    usual = Feedback("host", "web-1", NOW, "a", "usual")
    expected = Feedback("host", "web-1", NOW, "b", "expected", until_ts=NOW + 60.0)
    assert Tolerance((expected, usual)).excused(None, NOW + 59.0) == "usual"
    assert Tolerance((expected,)).excused(None, NOW + 59.0) == "expected"
    assert Tolerance((expected,)).excused(None, NOW + 60.0) == ""
    assert Tolerance((usual,)).excused(None, NOW + LONGEST_S) == ""


def test_a_state_is_read_as_it_was_written() -> None:
    said = Tolerance((Feedback("host", "web-1", NOW, "a", "usual", (Case("backup", ("disk",), "x", math.nan),)),))
    assert repr(tolerance.restored(json.loads(json.dumps(said.snapshot())))) == repr(said)
    assert (Tolerance().snapshot(), tolerance.restored({})) == ({}, Tolerance())


def test_an_incident_is_about_all_that_its_evidence_blames() -> None:
    def seen(blame: Blame | None) -> Evidence:
        return Evidence("id", "gaussian", "process", NOW, math.nan, 2.0, young=False, sentence="", blame=blame)

    larger, unknown = replace(DISK, value=2e8), Blame("backup[1]", "backup")
    found = cases_of([seen(DISK), seen(larger), seen(None), seen(unknown), seen(DISK)])
    assert repr(found) == repr((Case("backup", ("disk",), "io_write_bytes_per_s", 1.9e8), Case("backup")))
