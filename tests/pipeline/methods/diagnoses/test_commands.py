"""`laggard diagnose` as a person or a program meets it, on real processes and on what is recorded."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.cli.exits import FAILED, NO_DATA, USAGE
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis, write_diagnosis
from laggard.pipeline.core.topics import DIAGNOSES, Topics
from laggard.pipeline.processes import by_use, candidates, process, runs
from tests.pipeline.methods.diagnoses.conftest import NOTHING, ON_DISK, START, TWO_DIPS, UNTRUSTWORTHY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.pipeline.conftest import Called

    Start = Callable[..., subprocess.Popen[bytes]]

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]
BURN = "while True: sum(range(1000))"
SLEEP = "import time; time.sleep(60)"
NAMED = "import ctypes; ctypes.CDLL(None).prctl(15, {name!r}.encode()); "
"""PR_SET_NAME of linux/prctl.h."""


pytestmark = pytest.mark.usefixtures("nowhere")


@pytest.fixture
def diagnose(laggard: Called) -> Called:
    return partial(laggard, "diagnose")


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python programs of a name; what still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(name: str, code: str) -> subprocess.Popen[bytes]:
        program = NAMED.format(name=name) + "print(flush=True); " + "\n" + code
        begun = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        running.append(begun)
        assert begun.stdout is not None
        begun.stdout.readline()
        return begun

    yield begin
    for each in running:
        each.kill()
        with each:  # closes its pipe and waits for it
            pass


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A bus with three diagnoses."""
    path = tmp_path / "recorded.db"
    append(path, replace(ON_DISK, id="d15c0001"), TWO_DIPS, replace(TWO_DIPS, id="d15c0002", host="web-2"))
    return path


def append(path: Path, *told: Any) -> None:
    topics = Topics()
    with EmbeddedBus(path) as bus:
        bus.create(topics.specs())
        for each in told:
            bus.append([Outgoing(topics.name(DIAGNOSES), each.host, write_diagnosis(each).encode(), each.ts)])


@pytest.mark.slow
def test_a_process_is_looked_at_now(diagnose: Called, start: Start) -> None:
    burner = start("lag-burner", BURN)
    code, out, err = diagnose(str(burner.pid), "--samples", "8", "--method", "proc")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"`lag-burner` (pid {burner.pid}, `{sys.executable} -c ")
    # Where others leave it more than a little, that it is in unknown functions, see test_page.py.
    assert " of one core" in lines[0]
    assert f"lag-burner  {burner.pid}" in lines[3]
    assert ", 8 times, with proc." in lines[1]
    assert "of CPU time" in out
    assert lines[-1] == f"Next: `laggard diagnose {burner.pid} --svg flames.svg` samples again, and draws a flame graph"
    assert burner.poll() is None


@pytest.mark.slow
def test_the_function_that_burns_is_named(diagnose: Called, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.producers.diagnosis.profiling.PATIENCE_S", 60.0)
    burner = start("lag-burner", "def squander():\n    while True: sum(range(1000))\nsquander()")
    counts = [0, 0]
    for samples in (25, 100, 1000):  # enough that py-spy has found something on a machine that is full, too
        code, out, err = diagnose(str(burner.pid), "--samples", str(samples), "--method", "py-spy", "--folded", "-")
        assert (code, err) == (0, "")
        running = [line for line in out.splitlines() if "[blocked]" not in line]
        named = [line for line in running if line.rpartition(" ")[0].endswith(";squander (<string>)")]
        counts = [sum(int(line.rpartition(" ")[2]) for line in lines) for lines in (named, running)]
        if counts[0]:
            break
    assert counts[0] >= 0.9 * counts[1] > 0


@pytest.mark.slow
def test_a_program_gets_one_object_within_the_time_that_it_gives(diagnose: Called, start: Start) -> None:
    burner = start("lag-burner", BURN)
    began = time.monotonic()
    code, out, _ = diagnose(f"lag-burner[{burner.pid}]", "--duration", "1s", "--json", "--method", "proc")
    assert code == 0
    assert time.monotonic() - began >= 0.8
    told = read_diagnosis(out, "test")
    assert (told.pid, told.name, told.host, told.reason, told.progress) == (
        burner.pid,
        "lag-burner",
        "web-1",
        "asked",
        "closed",
    )
    assert told.phases[0].end_ts - told.phases[0].begin_ts >= 0.5
    assert told.phases[0].threads[0].user_s > 0.0


@pytest.mark.slow
def test_of_several_with_one_name_the_busiest_is_looked_at(diagnose: Called, start: Start) -> None:
    sleeper, burner = start("lag-name-that-is-long", SLEEP), start("lag-name-that-is-long", BURN)
    code, out, err = diagnose("lag-name-that-is-long", "--samples", "3", "--method", "proc")
    assert code == 0
    assert f"(pid {burner.pid}, " in out
    assert err.startswith(
        f"2 processes are called lag-name-that-is-long; this is about the busiest, lag-name-that-i[{burner.pid}@"
    )
    assert f"of one core. Others: lag-name-that-i[{sleeper.pid}@" in err
    both = candidates("lag-name-that-is-long")
    sleeper.kill()
    sleeper.wait()
    assert [each.pid for each, _ in by_use(both, 0.1)] == [burner.pid]


def test_a_script_is_found_by_its_name_and_what_else_names_it_is_hinted_at(
    diagnose: Called, start: Start, tmp_path: Path
) -> None:
    script = tmp_path / "lag-shop.py"
    script.write_text(f"print(flush=True)\n{SLEEP}")
    editor = start("lag-editor", f"{SLEEP} # lag-shop.py")
    with subprocess.Popen([sys.executable, "-u", "-W", "ignore", script, "lag-port=8"], stdout=subprocess.PIPE) as shop:
        try:
            assert shop.stdout
            shop.stdout.readline()
            for name in ("lag-shop.py", str(script)):
                code, out, err = diagnose(name, "--samples", "2", "--method", "proc")
                assert (code, err) == (0, "")
                assert f"(pid {shop.pid}, " in out
            code, _, err = diagnose("lag-port=8")
            assert code == NO_DATA
            assert "a process id or a name; lag-port=8 is in the command line of " in err
            assert f"[{shop.pid}@" in err
        finally:
            shop.kill()
    code, _, err = diagnose("lag-shop.py")
    assert code == NO_DATA
    assert f"; lag-shop.py is in the command line of lag-editor[{editor.pid}@" in err


@pytest.mark.parametrize(
    ("command", "name", "expected"),
    [
        ("python3 shop.py --port 8", "shop.py", True),
        ("/usr/bin/python3.11 -Xdev -W error /srv/shop.py", "shop.py", True),
        ("python3 /srv/shop.py", "/srv/shop.py", True),
        ("python3 -m shop.web", "shop.web", True),
        ("java -Xmx64m -cp classes:lib com.shop.Main", "com.shop.Main", True),
        ("java -jar /srv/shop.jar", "shop.jar", True),
        ("-bash shop.sh", "shop.sh", True),
        ("node --require trace server.js", "server.js", True),
        ("node --require trace server.js", "trace", False),
        ("python3 shop.py other.py", "other.py", False),
        ("python3 -c shop.py", "shop.py", False),
        ("vim shop.py", "shop.py", False),
        ("python3", "python3", False),
        ("python3 -m", "-m", False),
        ("", "", False),
    ],
)
def test_what_an_interpreter_runs(command: str, name: str, expected: bool) -> None:
    assert runs(name, command.split()) is expected


def opened(pid: int) -> Iterator[str]:
    """What a process has open."""
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            yield str(each.readlink())


@pytest.mark.slow
def test_interrupted_it_shows_what_there_is(start: Start) -> None:
    burner = start("lag-burner", BURN)
    looking = subprocess.Popen(
        [*LAGGARD, "diagnose", str(burner.pid), "--samples", "5000", "--method", "proc"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60.0
    while not any(each.startswith(f"/proc/{burner.pid}/task/") for each in opened(looking.pid)):
        assert time.monotonic() < until, "it does not look"
        time.sleep(0.05)
    looking.send_signal(signal.SIGINT)
    out, err = looking.communicate(timeout=60)
    assert (looking.returncode, err) == (0, "")
    assert f"lag-burner  {burner.pid}" in out


@pytest.mark.slow
def test_a_terminal_shows_how_far_it_is(start: Start) -> None:
    burner = start("lag-burner", BURN)
    ours, theirs = pty.openpty()
    looking = subprocess.Popen(
        [*LAGGARD, "diagnose", str(burner.pid), "--samples", "15", "--method", "proc"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(theirs)
    seen = b""
    while looking.poll() is None or select.select([ours], [], [], 0.1)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                seen += os.read(ours, 65536)
            except OSError:
                break
    os.close(ours)
    assert looking.wait(20) == 0
    assert f"sampling lag-burner[{burner.pid}@".encode() in seen
    assert b"^C shows the result so far" in seen


def test_files_for_other_tools(diagnose: Called, recorded: Path, tmp_path: Path) -> None:
    names = {name: str(tmp_path / f"told.{name}") for name in ("folded", "speedscope", "svg")}
    asked = [word for name, path in names.items() for word in (f"--{name}", path)]
    code, out, err = diagnose("--last", "--bus", str(recorded), *asked)
    assert (code, out.startswith("From 22:14:10 to 22:15:08 `python3`")) == (0, True)
    assert err == "".join(f"Wrote {path}\n" for path in names.values())
    lines = (tmp_path / "told.folded").read_text().splitlines()
    assert "python3;phase 1;worker (26810);run_forever (hot.py);compute (hot.py) 45" in lines
    assert len(json.loads((tmp_path / "told.speedscope").read_text())["profiles"]) == 8
    assert ET.parse(tmp_path / "told.svg").getroot().tag.endswith("svg")
    for name in names:
        code, out, err = diagnose("--last", "--bus", str(recorded), f"--{name}", "-")
        assert (code, out, err) == (0, (tmp_path / f"told.{name}").read_text(), "")


def test_what_is_recorded_is_found_by_process_and_by_id(diagnose: Called, recorded: Path) -> None:
    where = ["--bus", str(recorded)]
    for asked in (["--last", "postgres"], ["--id", "d15c"], ["--id", "D15C0001"]):
        code, out, err = diagnose(*asked, *where)
        assert (code, err) == (0, "")
        assert out.startswith("`postgres` (pid 26801) used 3 % of one core;")
    for asked in (["--last"], ["--last", "python3"], ["--last", "26801"], ["--last", "python3[26801@99]"]):
        assert diagnose(*asked, *where)[1].startswith("From 22:14:10 to 22:15:08 `python3` (pid 26801,")
    code, out, _ = diagnose("--last", "--host", "web-2", *where)
    assert "Recorded on web-2 as d15c0002.\nNext: `laggard diagnose --id d15c0002 --svg flames.svg --bus" in out
    code, out, _ = diagnose("--last", "--json", *where)
    assert read_diagnosis(out, "test") == TWO_DIPS


def test_what_is_recorded_is_listed(diagnose: Called, recorded: Path) -> None:
    code, out, err = diagnose("--list", "--bus", str(recorded))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("5a0a0c5e  2023-11-14 22:14:10  From 22:14:10 to 22:15:08 `python3` (pid 26801,")
    assert lines[1].startswith("d15c0001  2023-11-14 22:13:20  `postgres` (pid 26801) used 3 % of one core; ")
    assert lines[-1].startswith("Next: `laggard diagnose --id d15c0001 --bus")
    code, out, _ = diagnose("--list", "postgres", "--json", "--bus", str(recorded))
    (told,) = [json.loads(line) for line in out.splitlines()]
    assert (told["id"], told["ts"], told["row"], told["reason"]) == (
        "d15c0001",
        START,
        "python3[26801@99]",
        "io_pressure",
    )
    code, out, _ = diagnose("--list", "nobody", "--bus", str(recorded))
    assert code == 0
    assert out == f"No diagnosis is recorded; to diagnose now: `laggard diagnose nobody --bus {recorded}`\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], USAGE, "expected a PID or NAME, or --last, --id or --list"),
        (["--last", "--list"], USAGE, "--last, --id and --list exclude each other"),
        (["1", "--host", "web-2"], USAGE, "--host applies to recorded diagnoses"),
        (["1", "--json", "--svg", "-"], USAGE, "only one of --json and the files can go to standard output"),
        (["1", "--svg", "nowhere/a.svg"], USAGE, "nowhere/a.svg: there is no such folder"),
        (["1", "--method", "gdb"], USAGE, '--method: diagnosis.method is "gdb"; expected one of auto, proc, perf'),
        (["1", "--duration", "soon"], USAGE, "'soon'; expected a duration such as"),
        (["4194304"], NO_DATA, "there is no process 4194304 any more"),
        (["lag-nobody"], NO_DATA, "there is no process called lag-nobody; expected"),
        (["lag-nobody[1@5]"], NO_DATA, "lag-nobody[1@5] has ended; process 1 is another one now"),
        (["--last"], NO_DATA, "there are no records at "),
        (["--last", "--bus", "recorded.db", "x"], NO_DATA, "no diagnosis of x is recorded on web-1; `laggard diagnose"),
        (["--id", "ff", "--bus", "recorded.db"], NO_DATA, "no diagnosis with the id ff is recorded on web-1"),
        (["--id", "", "--bus", "recorded.db"], NO_DATA, "more than one diagnosis has the id"),
        (["--last", "--host", "web-9", "--bus", "recorded.db"], NO_DATA, "is recorded on web-9; `laggard diagnose"),
    ],
)
@pytest.mark.usefixtures("recorded")
def test_what_cannot_be_done_is_said(diagnose: Called, arguments: list[str], code: int, said: str) -> None:
    ended = diagnose(*arguments)
    assert ended[0] == code
    assert said in " ".join(ended[2].split())


def test_a_process_that_has_ended_is_told_to_have(diagnose: Called, start: Start) -> None:
    ended = start("lag-ended", "raise SystemExit")
    while process(ended.pid).state != "Z":  # type: ignore[union-attr]
        time.sleep(0.01)
    code, out, _ = diagnose(str(ended.pid))
    assert code == FAILED
    assert out.startswith(f"What `lag-ended` (pid {ended.pid}) did is unknown: there are no samples.\nProfiled from ")
    assert "Note: sampling stopped: the process ended: it is a zombie" in out
    assert "Next:" not in out


def test_of_what_could_not_be_seen_the_reason_is_told(diagnose: Called, tmp_path: Path) -> None:
    append(tmp_path / "a.db", NOTHING)
    code, out, _ = diagnose("--last", "--bus", str(tmp_path / "a.db"))
    assert code == FAILED
    assert "did is unknown: there are no samples." in out
    assert "Note: the process ended before it could be looked at" in out


def test_a_file_that_cannot_be_written_is_named(diagnose: Called, recorded: Path) -> None:
    code, _, err = diagnose("--last", "--bus", str(recorded), "--svg", "/proc/told.svg")
    assert code in {FAILED, USAGE}
    assert "/proc/told.svg" in err


def test_no_name_does_anything_to_the_terminal(diagnose: Called, tmp_path: Path) -> None:
    append(tmp_path / "a.db", UNTRUSTWORTHY)
    for asked in (["--last"], ["--list"], ["--last", "--json"], ["--last", "--svg", "-"], ["--last", "--folded", "-"]):
        _, out, err = diagnose(*asked, "--bus", str(tmp_path / "a.db"))
        assert all(each.isprintable() or each == "\n" for each in out + err)
