"""`laggard confirm` on real processes: the guilty, the innocent, and what must be left alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.confirm.brake import Brake, own_group
from laggard.pipeline.confirm.suspect import RefusedError, check, hold
from laggard.pipeline.processes import UnknownProcessError, find, process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]

# Above all else on this machine, where that may be, so that what others do here matters less.
PINNED = """
import contextlib, os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with contextlib.suppress(OSError):
    os.nice(-20)
"""
HOG = PINNED + "print(flush=True)\nwhile True: pass"
VICTIM = (
    PINNED
    + """
while True:
    began = time.perf_counter()
    for _ in range(400_000): pass
    with open(sys.argv[1] + ".new", "w") as file: file.write(str(time.perf_counter() - began))
    os.replace(sys.argv[1] + ".new", sys.argv[1])
    print(flush=True)
"""
)
IDLE = "import time\nprint(flush=True)\nwhile True: time.sleep(0.5)"

Start = "Callable[..., subprocess.Popen[bytes]]"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a program and waits for its first line."""
    running: list[subprocess.Popen[bytes]] = []

    def start_one(code: str, *arguments: str) -> subprocess.Popen[bytes]:
        started = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
        running.append(started)
        assert started.stdout is not None
        started.stdout.readline()
        return started

    yield start_one
    for each in running:
        each.kill()
        each.communicate()


def confirmed(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAGGARD, "confirm", *arguments], capture_output=True, text=True, check=False, timeout=240, **options
    )


def state(pid: int) -> str:
    found = process(pid)
    return "gone" if found is None else found.state


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 90.0
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def stays_running(pid: int) -> None:
    """It is soon stopped no more. What slows it may do so until it hears of its end."""

    def runs() -> bool:
        for _ in range(30):
            if (now := state(pid)) == "T":
                return False
            assert now != "gone"
            time.sleep(0.01)
        return True

    wait_until(runs, "still stopped")


# How often out of five a process is seen to run: less of it while it is slowed, whatever else this machine has to do.
SEEN_RUNNING = """
seen=5
for each in 0 1 2 3 4; do
    read -r line </proc/{pid}/stat
    case $line in *') T '*) seen=$((seen - 1)) ;; esac
    sleep 0.021
done
echo $seen
"""


@pytest.mark.slow
def test_who_makes_something_better_is_confirmed_and_who_does_not_is_not(start: Any) -> None:
    guilty, innocent = start(IDLE), start(IDLE)
    confirming = [
        popen(find(str(guilty.pid)).row, "--json", "--share=90%", f"--measure={SEEN_RUNNING.format(pid=guilty.pid)}"),
        popen(str(innocent.pid), "--measure=sleep 0.1; echo 2"),
    ]
    (better, _), (same, _) = (each.communicate(timeout=240) for each in confirming)
    assert [each.returncode for each in confirming] == [0, 0]
    found = json.loads(better)
    (response,) = [each for each in found["measures"] if each["measure"] == "response_s"]
    assert found["verdict"] == "better", better
    assert found["decided_by"] == ["response_s"]
    assert response["p"] < 0.05
    assert response["low"] <= response["difference"] <= response["high"] < 0.0
    assert response["slowed"] < 0.9 * response["not_slowed"]
    assert found["pid"] == guilty.pid
    stays_running(guilty.pid)
    assert "made no difference that chance does not explain" in same
    assert "What the command measures:" in same


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_hog_is_confirmed_by_its_victims_response_time(start: Any, tmp_path: Path) -> None:
    hog, timing = start(HOG), tmp_path / "took"
    start(VICTIM, str(timing))
    began = time.monotonic()
    for seed in (1, 2, 3):  # what others do on this machine may hide it, but not each time
        ran = confirmed(
            str(hog.pid),
            "--yes",
            "--json",
            "--duration=16s",
            "--share=80%",
            f"--seed={seed}",
            f"--measure=cat {timing}",
        )
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
        if found["verdict"] == "better" or time.monotonic() - began > 240.0:
            break
    assert found["verdict"] == "better", ran.stdout
    assert found["decided_by"] == ["response_s"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_innocent_process_is_not_confirmed(start: Any, tmp_path: Path) -> None:
    idle, timing = start(IDLE), tmp_path / "took"
    start(VICTIM, str(timing))
    # By chance alone one time in 40 it seems to get better: that it does twice would be one in 1,600.
    verdicts = []
    for _ in range(2):
        ran = confirmed(str(idle.pid), "--yes", "--duration=6s", f"--measure=cat {timing}")
        assert ran.returncode == 0, ran.stderr
        verdicts.append(ran.stdout)
        if "made no difference that chance does not explain" in ran.stdout:
            break
    assert "made no difference" in verdicts[-1], verdicts


def popen(row: str, *arguments: str) -> subprocess.Popen[str]:
    """`laggard confirm` for as short as may be, in a session of its own."""
    return subprocess.Popen(
        [*LAGGARD, "confirm", row, "--yes", "--duration=5s", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def slowing(pid: int) -> subprocess.Popen[str]:
    """One that slows soon, and for a while."""
    return popen(str(pid), "--duration=20s", "--pairs=12", "--share=90%")


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_the_suspect_goes_on_however_it_ends(start: Any) -> None:
    ways = ("SIGKILL", "SIGTERM", "SIGINT", "the brake", "the group", "both", "the suspect")
    suspects = {how: start(IDLE) for how in ways}
    confirming = {how: slowing(suspect.pid) for how, suspect in suspects.items()}
    with contextlib.ExitStack() as stack:
        for each in confirming.values():
            stack.callback(end, each)
        for how in ways:
            end_it(how, suspects[how], confirming[how])


def end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.communicate()


def end_it(how: str, suspect: subprocess.Popen[bytes], confirming: subprocess.Popen[str]) -> None:
    """End one that slows a suspect, which goes on; or the suspect, which is told."""
    wait_until(lambda: state(suspect.pid) == "T", f"{how}: never stopped")
    (brake,) = children(confirming.pid)
    (guard,) = children(brake)
    match how:
        case "the suspect":
            suspect.kill()
            suspect.wait()
        case "the brake":
            os.kill(brake, signal.SIGKILL)
        case "the group":
            os.killpg(confirming.pid, signal.SIGKILL)
        case "both":
            for pid in (brake, confirming.pid):
                os.kill(pid, signal.SIGKILL)
        case _:
            os.kill(confirming.pid, signal.Signals[how])
    if how == "the suspect":
        _, said = confirming.communicate(timeout=90)
        assert confirming.returncode == 1
        assert "has ended meanwhile" in said
    else:
        stays_running(suspect.pid)
    if how in {"SIGTERM", "SIGINT"}:
        assert confirming.wait(90) == 130
    wait_until(lambda: state(guard) in {"gone", "Z"}, f"{how}: the guard stays")
    if how != "the brake":
        wait_until(lambda: state(brake) in {"gone", "Z"}, f"{how}: the brake stays")


def test_what_must_be_left_alone_is(start: Any, tmp_path: Path) -> None:
    idle = start(IDLE)
    with pytest.raises(RefusedError, match="process 1 holds the system together"):
        check(find("1"))
    with pytest.raises(RefusedError, match="to slow that would slow laggard itself"):
        check(find(str(os.getpid())))
    parent = os.getppid()  # which may be the machine's first process
    said = "to slow that would slow laggard itself" if parent > 1 else "process 1 holds the system together"
    with pytest.raises(RefusedError, match=said):
        check(find(str(parent)))
    os.kill(idle.pid, signal.SIGSTOP)
    wait_until(lambda: state(idle.pid) == "T", "never stopped")
    with pytest.raises(RefusedError, match="is stopped already"):
        check(find(str(idle.pid)))
    os.kill(idle.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"flags": 0x00200000 | 0x40}, "is a thread of the kernel"),
        ({"state": "Z"}, "has ended"),
        ({"state": "t"}, "is stopped by a debugger"),
        ({"terminal": 34816, "foreground": 4711}, "in the foreground of a terminal.*--force"),
        ({"pid": 4710}, r"leads the session that laggard runs in; --force"),
    ],
)
def test_what_a_file_of_proc_says_is_heeded(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    def written(pid: int = 4711, **changed: Any) -> None:
        every = {"state": "S", "parent": 1, "group": pid, "session": 4710, "terminal": 0, "foreground": -1, "flags": 64}
        values = " ".join(str(value) for value in (every | changed).values())
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {values} {'0 ' * 12}99 0 0\n")

    written(os.getpid(), group=4710)
    written(**fields)
    suspect = find(str(fields.get("pid", 4711)), tmp_path)
    assert suspect.row == f"a) b[{suspect.pid}@99]"
    with pytest.raises(RefusedError, match=said):
        check(suspect, proc=tmp_path)
    if "--force" in said:
        check(suspect, force=True, proc=tmp_path)


def test_a_row_is_found_by_id_pid_or_name_and_only_while_it_is_itself(start: Any) -> None:
    idle = start("import ctypes; ctypes.CDLL(None).prctl(15, b'lag-idle'); " + IDLE)
    suspect = find(str(idle.pid))
    assert suspect.name == "lag-idle"
    assert {find(row).row for row in (suspect.row, f"lag-idle[{idle.pid}]", "lag-idle")} == {suspect.row}
    with pytest.raises(UnknownProcessError, match=rf"has ended; process {idle.pid} is another one now"):
        find(f"lag-idle[{idle.pid}@1]")
    with pytest.raises(UnknownProcessError, match="is another one now"):
        find(f"nginx[{idle.pid}]")
    with pytest.raises(UnknownProcessError, match="there is no process called lag-nobody"):
        find("lag-nobody")
    start("import ctypes; ctypes.CDLL(None).prctl(15, b'lag-idle'); " + IDLE)
    with pytest.raises(UnknownProcessError, match=r"2 processes are called lag-idle; expected one of lag-idle\["):
        find("lag-idle")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as somebody else")
def test_a_process_of_another_user_is_refused(start: Any) -> None:
    idle = start(IDLE)
    code = (
        "import os, sys\nfrom laggard.pipeline.confirm.suspect import *\n"
        "from laggard.pipeline.processes import find\nos.setgid(65534); os.setuid(65534)\n"
        "try: hold(find(sys.argv[1]))\nexcept RefusedError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(idle.pid)], capture_output=True, text=True, check=True)
    assert "belongs to another user; expected the same user, root" in said.stdout


def test_a_thread_is_refused(start: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Its id has a folder in procfs as that of a process has."""
    child = start("import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nprint(flush=True)")
    (thread,) = {int(entry.name) for entry in Path(f"/proc/{child.pid}/task").iterdir()} - {child.pid}
    with pytest.raises(RefusedError, match=f"^{thread} is a thread, not a process; expected the id of its process$"):
        hold(find(str(thread)))
    assert run(["confirm", str(thread), "--yes"]) == 1
    said = f"laggard: {thread} is a thread, not a process; expected the id of its process\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.slow
def test_the_command_line_says_what_is_wrong(start: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code, said in (
        (["1", "--yes"], 1, "laggard: process 1 holds the system together; it is not slowed\n"),
        (["lag-nobody", "--yes"], 3, "laggard: there is no process called lag-nobody"),
        (["1", "--json"], 2, "--json cannot prompt"),
        (["1", "--share=100%"], 2, "expected a share from 5% to 90%"),
    ):
        assert run(["confirm", *arguments]) == code, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err
    idle = start(IDLE)
    asked = confirmed(str(idle.pid), input="n\n")
    assert asked.returncode == 130
    assert "stopped and let go" in asked.stdout
    failed = confirmed(str(idle.pid), "--yes", "--duration=5s", "--measure=echo broken >&2; exit 3")
    assert failed.returncode == 1
    assert "--measure: the command ended with code 3: broken" in failed.stderr
    stays_running(idle.pid)


def test_a_control_group_of_its_own_is_limited_and_set_free(start: Any, tmp_path: Path) -> None:
    """On files as the kernel has them: control groups of version 2 are not on every machine."""
    idle, group = start(IDLE), tmp_path / "groups/a.service"
    (tmp_path / f"proc/{idle.pid}").mkdir(parents=True)
    (tmp_path / f"proc/{idle.pid}/cgroup").write_text("1:name=systemd:/\n0::/a.service\n")
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(f"{idle.pid}\n")
    (group / "cpu.max").write_text("max 100000\n")
    file = own_group(idle.pid, tmp_path / "groups", tmp_path / "proc")
    assert file == group / "cpu.max"
    held = hold(find(str(idle.pid)))
    with Brake(held, 0.5, (file, 0.8)) as brake:
        brake.set(True)
        wait_until(lambda: file.read_text() == "40000 100000\n", "never limited")
        assert state(idle.pid) != "T"
    assert file.read_text() == "max 100000\n"
    with Brake(held, 0.5, (file, 0.8)) as brake:
        brake.set(True)
        wait_until(lambda: file.read_text() == "40000 100000\n", "never limited")
        brake._process.kill()
        wait_until(lambda: file.read_text() == "max 100000\n", "never set free")
    os.close(held)
    (group / "cgroup.procs").write_text(f"{idle.pid}\n4711\n")
    assert own_group(idle.pid, tmp_path / "groups", tmp_path / "proc") is None
