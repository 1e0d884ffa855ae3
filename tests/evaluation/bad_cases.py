"""Processes of which not all can be known: what a look at them tells."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records.diagnosis_json import read_diagnosis, write_diagnosis
from laggard.producers.diagnosis.bounds import Budget, Limits
from laggard.producers.diagnosis.session import Session
from laggard.producers.diagnosis.target import TargetError, find
from tests.evaluation.watched import table
from tests.misbehaving.programs import compiled, in_own_pid_namespace, misbehaving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from tests.misbehaving.programs import Misbehaving

ROOT: Final = Path(__file__).parents[2]
SAMPLES: Final = 40
NOBODY: Final = 65534

# Looks at a process as another user does, and says what it found on its standard output.
AS_ANOTHER: Final = """
import os
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from tests.evaluation.bad_cases import looked_at
os.setgid({user})
os.setuid({user})
print(write_diagnosis(looked_at({pid})))
"""


def looked_at(pid: int, during: Callable[[], object] | None = None) -> Diagnosis:
    """What a look at a process tells, of up to a number of samples; something may happen a third of the way."""
    session = Session(find(pid), id="1", host="-", reason="asked", budget=Budget(), limits=Limits(samples=SAMPLES))
    try:
        number = 0
        while not session.ended:
            time.sleep(session.delay_s())
            session.sample()
            number += 1
            if number == SAMPLES // 3 and during is not None:
                during()
        return read_diagnosis(write_diagnosis(session.diagnosis("closed")), "diagnosis")
    finally:
        session.close()


@contextmanager
def _burning() -> Iterator[Misbehaving]:
    with misbehaving([compiled("burning")]) as program:
        yield program


def _exits() -> Diagnosis:
    with _burning() as program:

        def end() -> None:
            program.process.kill()
            program.process.wait()

        return looked_at(program.pid, end)


def _zombie() -> Diagnosis:
    with _burning() as program:
        program.process.send_signal(signal.SIGKILL)
        while _state(program.pid) != "Z":
            time.sleep(0.01)
        return looked_at(program.pid)


def _gone() -> str:
    with _burning() as program:
        program.process.kill()
        program.process.wait()
        try:
            find(program.pid)
        except TargetError as error:
            return str(error)
    raise AssertionError("expected an error for a process that has ended")


def _headless() -> Diagnosis:
    with misbehaving([compiled("headless")]) as program:
        while _state(program.pid) != "Z":
            time.sleep(0.01)
        return looked_at(program.pid)


def _another_users() -> Diagnosis:
    with _burning() as program:
        code = AS_ANOTHER.format(user=NOBODY, pid=program.pid)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return read_diagnosis(done.stdout, "diagnosis")


def _own_namespace() -> Diagnosis:
    command = in_own_pid_namespace([compiled("burning")])
    with misbehaving(command) as program:
        return looked_at(int(Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text()))


def _crowd() -> Diagnosis:
    with misbehaving([compiled("crowd")]) as program:
        return looked_at(program.pid)


def _deleted() -> Diagnosis:
    with tempfile.TemporaryDirectory(prefix="laggard-") as folder:
        path = Path(folder, "burning")
        shutil.copy(compiled("burning"), path)
        with misbehaving([path]) as program:
            path.unlink()
            return looked_at(program.pid)


def _stuck() -> Diagnosis:
    with misbehaving([compiled("stuck")], busy=False) as program:
        while _state(program.pid) != "D":
            time.sleep(0.01)
        return looked_at(program.pid)


def _stopped() -> Diagnosis:
    with _burning() as program:
        program.process.send_signal(signal.SIGSTOP)
        return looked_at(program.pid)


CASES: Final[Mapping[str, Callable[[], Diagnosis | str]]] = {
    "ends while it is looked at": _exits,
    "has ended before": _gone,
    "is a zombie": _zombie,
    "its first thread has ended, another one burns": _headless,
    "belongs to another user, and laggard has no rights": _another_users,
    "lives in its own pid namespace": _own_namespace,
    "has 5,000 threads, one of which burns": _crowd,
    "its program was deleted": _deleted,
    "sleeps uninterruptibly": _stuck,
    "is stopped by somebody": _stopped,
}


def told() -> str:
    """Run all of them; the table."""
    rows = []
    for name, run in CASES.items():
        found = run()
        rows.append([name, *([found, "", "", ""] if isinstance(found, str) else _cells(found))])
        print(rows[-1], file=sys.stderr, flush=True)
    return table(["the process", "laggard says", "complete", "first thread", "it was found in"], rows)


def _cells(found: Diagnosis) -> list[str]:
    bound = f"it reached the limit of {SAMPLES} samples"
    notes = "; ".join(note for note in found.notes if bound not in note)
    complete = "yes" if any(bound in note for note in found.notes) else "no"
    threads = found.phases[0].threads
    if not threads:
        return [notes, complete, "none", ""]
    first = threads[0]
    used = f"`{first.name}`, {first.user_s + first.system_s:.2f} s of CPU"
    most = max(first.stacks, key=lambda stack: (stack.state == "running", stack.samples), default=None)
    if most is None or not most.locations:
        return [notes, complete, used, (most.system_call or most.wait_channel) if most is not None else ""]
    place = most.locations[0]
    where = f"`{place.function or place.module}`" + (f" in {most.system_call}" if most.system_call else "")
    return [notes, complete, used, where]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
