"""`laggard why` and `laggard watch` as a person or a program meets them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import NO_DATA, USAGE
from laggard.pipeline.cli.pages import tick_line
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.claims import Claim
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.records.diagnosis import Phase
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from laggard.pipeline.core.topics import COUNTERS, DIAGNOSES
from laggard.pipeline.history.why import History
from tests.pipeline.history.conftest import HOG, MARKED, START, TICKS, TOPICS, append, at, frames, work
from tests.pipeline.methods.diagnoses.conftest import ON_DISK, ONE_HOT, TWO_DIPS
from tests.pipeline.methods.incidents.joined import closed, incident
from tests.programs import started

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pipeline.conftest import Called

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]


@pytest.fixture(autouse=True)
def _here(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGGARD_GAUSSIAN_CONTEXT", "40m")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def why(recorded, laggard: Called) -> Called:
    return partial(laggard, "why", "--bus", str(recorded.path))


@pytest.mark.parametrize("command", [["why", "--host", "db-9"], ["mark", "--host", "db-9"], ["doctor"]])
def test_a_name_on_the_bus_does_nothing_to_the_terminal(empty, capsys, command: list[str]) -> None:
    empty.bus.append([Outgoing(TOPICS.name(COUNTERS), "\x1b[2Jweb", b"junk", START)])
    run([*command, "--bus", str(empty.path)])
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert "\\x1b[2Jweb" in shown
    assert "\x1b" not in shown


def test_where_a_page_is_served_a_person_is_told_where_it_shows_this(why: Called, recorded, tmp_path: Path) -> None:
    moment = str(at(155))
    assert "Page:" not in why("--at", moment)[1]
    with Claim(str(recorded.path), tmp_path / "state", "serve") as claim:
        claim.write("http://127.0.0.1:1234")
        assert why("--at", moment)[1].endswith(f"\nPage: http://127.0.0.1:1234/?host=web-1&at={at(155):.3f}\n")
        assert "Page:" not in why("--at", moment, "--json")[1]


def test_rows_that_say_little_are_shown_on_request(why: Called) -> None:
    calm = why("--at", str(at(100)))[1]
    every = why("--at", str(at(100)), "--all")[1]
    hint = "Rows with a score below 0.1 are left out; --all shows them."
    row = re.compile(r"^  0\.0\d  \S+", re.MULTILINE)
    assert hint in calm
    assert not row.search(calm)
    assert len(calm.splitlines()) < 12
    assert hint not in every
    assert len(row.findall(every)) > 2
    slow = why("--at", str(at(155)))[1]
    assert "`hog` (pid 4711" in slow
    assert not row.search(slow)


def test_a_person_is_told_what_was_slow(why: Called):
    code, out, err = why("--at", str(at(155)))
    assert (code, err) == (0, "")
    assert out.startswith("web-1: incident, at 2023-11-14 22:26:15, ")
    assert "`hog` (pid 4711, `python3 hog.py`) is behaving unusually: it writes 212 MB/s to disk," in out
    assert "The model has learned for 13 min." in out
    assert "hog  4711  python3 hog.py\n        io_write_" in out
    assert "^ 22:26:15" in out
    assert "load 0.5, CPU 25 %, memory available 2 GB" in out
    assert "\nNext: `laggard why --bus" in out
    assert "\x1b" not in out


def test_a_program_gets_one_object(why: Called):
    code, out, err = why("--at", str(at(155) + 1), "--json", "--rows", "2", "--features", "1")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["kind"] == "ranking"
    assert (told["ts"], told["frame_ts"], told["host"], told["mark"]) == (at(155) + 1, at(155), "web-1", "")
    assert [len(row["features"]) for row in told["rows"]] == [1, 1]
    assert [(row["basis"], row["waits"]) for row in told["rows"]] == [("itself", False)] * 2
    assert told["sentence"].startswith(
        "`hog` (pid 4711, `python3 hog.py`) is behaving unusually: it writes 212 MB/s to"
    )
    assert told["rows"][0]["row"] == HOG
    assert told["rows"][0]["features"][0].keys() == {"feature", "value", "mean", "standard_deviation", "score"}


@pytest.mark.slow
def test_another_operator_is_asked(why: Called):
    asked = ["--mark", "last", "--json", "--rows", "1", "--set", "river.parameters=n_trees=4,window_size=20"]
    (code, out, _), (_, usual, _) = why(*asked, "--operator", "river"), why(*asked)
    assert code == 0
    assert json.loads(out)["rows"][0]["score"] != json.loads(usual)["rows"][0]["score"]
    assert why("--operator", "rivers")[0] == USAGE


def test_now_is_the_newest_frame_and_it_says_whether_the_agent_is_running(why: Called, recorded, tmp_path: Path):
    code, out, err = why()
    assert code == 0
    assert out.startswith("The agent of web-1 is not running now; this is about its last frame, ")
    assert "web-1: calm, at 2023-11-14 22:34:55" in out
    code, out, err = why("--json")
    assert json.loads(out)["ts"] == at(TICKS - 1)
    assert "is not running now" in err
    with Claim(str(recorded.path), tmp_path, "agent"):
        out = why()[1]
    assert out.startswith("The agent of web-1 runs, but has published nothing newer; this is about its last frame, ")


def test_a_mark_is_answered(why: Called):
    code, listed, _ = why("--marks")
    assert code == 0
    assert "2023-11-14 22:26:17  web-1  checkout hangs\n" in listed
    mark = next(line.split()[0] for line in listed.splitlines() if "checkout" in line)
    code, out, _ = why("--mark", mark[:5])
    assert code == 0
    assert "ago: marked checkout hangs" in out.splitlines()[0]
    assert "`hog`" in out
    _, out, _ = why("--mark", mark, "--json")
    told = json.loads(out)
    assert (told["ts"], told["mark"], told["rows"][0]["row"]) == (MARKED, "checkout hangs", HOG)


def test_marks_are_those_of_the_host_asked_about(why: Called):
    assert json.loads(why("--mark", "last", "--json")[1])["mark"] == "checkout hangs"
    assert json.loads(why("--mark", "last", "--host", "web-2", "--json")[1])["mark"] == "slow too"
    lines = [json.loads(line) for line in why("--marks", "--json", "--host", "web-1")[1].splitlines()]
    assert [(each["ts"], each["host"], each["mark"]) for each in lines] == [(MARKED, "web-1", "checkout hangs")]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--host", "db-9"], NO_DATA, "there are no records of host db-9; recorded: web-1, web-2"),
        (["--at", str(START - 1000)], NO_DATA, "its history goes from 2023-11-14 22:13:20 to 2023-11-14 22:34:55"),
        (["--at", str(at(205))], NO_DATA, "22:34:55, with a gap there"),
        (["--mark", "zz"], NO_DATA, "no mark has the id zz; `laggard why --marks"),
        (["--mark", ""], NO_DATA, "more than one mark has the id"),
        (["--mark", "last", "--at", "now"], USAGE, "--at, --mark and --marks exclude each other"),
        (["--at", "yesterday-ish"], USAGE, "is not a time; expected"),
        (["--at", "2199-01-01"], USAGE, "--at 2199-01-01 is in the future"),
    ],
)
def test_what_cannot_be_answered_is_said(why: Called, arguments, code, said):
    ended, out, err = why(*arguments)
    assert (ended, out) == (code, "")
    assert said in err


def test_before_anything_is_recorded_and_soon_after(empty, capsys):
    assert run(["why"]) == NO_DATA
    assert "start `laggard up` first" in capsys.readouterr().err
    assert run(["why", "--bus", str(empty.path)]) == NO_DATA
    assert "there are no records yet; start `laggard up --bus" in capsys.readouterr().err
    append(empty.bus, frames("web-1", range(3)))
    assert run(["why", "--bus", str(empty.path), "--mark", "last"]) == NO_DATA
    assert "there are no marks; when it is slow, run `laggard mark" in capsys.readouterr().err
    assert run(["why", "--bus", str(empty.path), "--marks"]) == 0
    assert "There are no marks" in capsys.readouterr().out
    # The first answer comes after seconds.
    assert run(["why", "--bus", str(empty.path)]) == 0
    assert "The model is young: it has learned for 10 s only." in capsys.readouterr().out


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A bus whose last frame is of now."""
    path = tmp_path / "fresh.db"
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        shift = time.time() - at(155)
        append(bus, (moved(each, shift) for each in frames("web-1", range(156))))
    return path


def moved(record, shift: float):
    return replace(record, ts=record.ts + shift)


def test_here_and_now_it_says_how_to_look_closer(fresh: Path, capsys):
    assert run(["why", "--bus", str(fresh)]) == 0
    out = capsys.readouterr().out
    assert "is not running" not in out
    assert "Look closer: what it has open: `ls -l /proc/4711/fd`" in out
    assert "Next: `laggard diagnose 4711 --bus" in out
    assert "` for what it is doing; `laggard watch" in out


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_the_header_is_about_the_frame_that_was_judged(why: Called):
    def header(ts: float) -> str:
        code, out, _ = why("--at", f"{ts!r}")
        assert code == 0
        return out.splitlines()[0]

    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at(155)))
    assert header(at(155)).startswith(f"web-1: incident, at {shown}, ")
    assert header(at(155)).endswith(" ago")
    later = header(at(155) + 2.0)
    assert later.startswith(f"web-1: incident, at {shown}, ")
    assert later.endswith(f", the frame nearest to {shown[:-2]}{int(shown[-2:]) + 2:02}")


def test_a_line_of_a_tick_does_not_say_what_its_score_says(recorded, wired):
    history = History(recorded.bus, TOPICS, wired[0])
    calm = tick_line(history.ask("web-1", at(140), 5, 3))
    assert "alert" not in calm
    assert "is behaving unusually: `hog`" not in calm
    assert "behaving unusually" in tick_line(history.ask("web-1", at(155), 5, 3))


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
def test_watch_writes_a_line_for_each_tick_into_a_pipe(fresh: Path, as_json: bool):
    arguments = [*LAGGARD, "watch", "--bus", str(fresh), *(["--json"] if as_json else [])]
    with started(arguments, stdout=subprocess.PIPE, text=True) as process:
        first = lines_of(process, 1)
        with EmbeddedBus(fresh) as bus:
            shift = time.time() - at(155)
            append(bus, [moved(each, shift) for each in frames("web-1", range(156, 158))])
        second = lines_of(process, 1)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
        assert process.returncode == 0
    told = [*first, *second, *rest.splitlines()]
    assert len(told) in {2, 3}
    if as_json:
        assert {json.loads(line)["rows"][0]["row"] for line in told} == {HOG}
    else:
        assert all("`hog` (pid 4711, `python3 hog.py`) is behaving unusually" in line for line in told)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "columns"), [(b"q", 100), (b"\x03", 30)])
def test_watch_is_live_in_a_terminal_and_a_key_ends_it(fresh: Path, key: bytes, columns: int):
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"}
        os.execv(LAGGARD[0], [*LAGGARD, "watch", "--bus", str(fresh)])
    shown = b""
    deadline = time.monotonic() + 120
    pressed = False
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
        if b"hog" in shown and not pressed:
            os.write(terminal, key)
            pressed = True
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"\x1b[?1049l" in shown
    assert b"4711" in shown


@pytest.fixture
def diagnosed(tmp_path: Path, wired) -> Path:
    """A history whose culprit was looked at while it was one, and another process too; and a third one, long before."""
    path = tmp_path / "diagnosed.db"
    high = Phase(True, at(151), at(154), 20, TWO_DIPS.phases[0].threads)
    dip = Phase(False, at(154), at(155), 5, TWO_DIPS.phases[1].threads)
    hog = replace(TWO_DIPS, id="hog00000-1", row=HOG, name="hog", pid=4711, command="python3 hog.py")
    hog = replace(hog, phases=(high, dip), ts=at(155))
    stuck = replace(high, threads=ON_DISK.phases[0].threads)
    other = replace(ON_DISK, id="disk0000-1", row="worker[100@7]", phases=(stuck,), ts=at(156))
    before = replace(ONE_HOT, id="before00-1", ts=at(10))
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        append(bus, frames("web-1", range(170)))
        topic = TOPICS.name(DIAGNOSES)
        for each in (before, hog, other):
            bus.append([Outgoing(topic, "web-1", write_diagnosis(each).encode(), each.ts)])
        bus.append([Outgoing(topic, "web-1", b"junk", at(157))])
        work(bus, wired)
    return path


def test_what_the_culprit_was_doing_is_told_and_then_the_others(diagnosed: Path, capsys) -> None:
    assert run(["why", "--bus", str(diagnosed), "--at", str(at(154) - 1.0)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    _, _, told = out.partition("load 0.5, CPU 25 %, memory available 2 GB\n\n")
    heading, relation, _, blamed, *lines = told.splitlines()
    assert heading == "What processes were doing"
    assert relation.startswith("Processes with high use or long waits are profiled, usual or not")
    assert blamed == "Culprit:"
    assert lines[0].startswith("From 22:25:55 to 22:26:10 `hog` (pid 4711, `python3 hog.py`) used ")
    assert " of it in `compute` (hot.py:12)" in lines[0]
    assert "because it used 93 % of all CPUs" in lines[1]
    assert lines[2].startswith("Phase 1, 22:25:55 to 22:26:10 (15 s), sampled 20 times: it used ")
    assert lines[3].endswith("all threads together")
    assert [line.partition(",")[0] for line in lines if line.startswith(("Phase", "Dip"))] == ["Phase 1", "Dip 2"]
    assert f"All of it: `laggard diagnose --id hog00000 --bus {diagnosed}`" in lines
    (other,) = (number for number, line in enumerate(lines) if line.startswith("`postgres` (pid 26801) used "))
    assert lines[other - 1] == "Not a culprit, and less unusual than those above:"
    assert "before" not in told
    assert lines[-1].startswith("Next: ")


def test_what_the_culprit_did_is_told_as_long_as_it_is_one_and_of_others_only_then(diagnosed: Path, capsys) -> None:
    def told(tick: float) -> list[str]:
        assert run(["why", "--bus", str(diagnosed), "--at", str(at(tick)), "--json"]) == 0
        return [each["id"] for each in json.loads(capsys.readouterr().out).get("diagnoses", [])]

    assert told(154) == ["hog00000-1", "disk0000-1"]
    assert told(159) == ["hog00000-1", "disk0000-1"]
    assert told(149) == []
    assert told(169) == []


def test_the_incidents_that_were_open_are_told_first(empty, laggard: Called) -> None:
    append(empty.bus, frames("web-1", range(130, 153)))
    ask = partial(laggard, "why", "--bus", str(empty.path), "--host", "web-1", "--at")
    assert "Below the alert level." in ask(str(at(151)))[1]
    before, now, later = closed(1, at(132), at(140)), incident(2, at(150)), incident(3, at(152))
    of_another = incident(4, at(150), host="web-2")
    empty.bus.append([outgoing(each, TOPICS) for each in (before, now, later, of_another)])
    found = {tick: ask(str(at(tick)))[1] for tick in (136, 145, 151, 152)}
    told = {
        tick: [one.id for one in (before, now, later, of_another) if one.id[:8] in page] for tick, page in found.items()
    }
    assert told == {136: [before.id], 145: [], 151: [now.id], 152: [now.id, later.id]}
    opened = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at(150)))
    assert f"Incident {now.id[:8]}, since {opened}: what gaussian saw" in found[151]
    assert "not enough for an alert" not in found[151]
