"""S0's Tables 1 and 2 once more, on slowdowns that are injected into running processes of this machine.

    python -m tests.evaluation.slowdowns --cases 36
    python -m tests.evaluation.slowdowns --replay DIR...

See `README.md` for what is done and what the columns mean.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.records import Mark
from laggard.producers.agent import Agent
from tests.evaluation.faults import FAULTS, MIB, Io
from tests.evaluation.recording import Case, Decoy, Recorder, read_cases, read_frames, thinned
from tests.evaluation.roles import ROLES
from tests.evaluation.scoring import METHODS, evaluate
from tests.evaluation.tables import tables
from tests.evaluation.workload import PR_SET_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.evaluation.scoring import Outcome

ROOT = Path(__file__).parents[2]
HOST = "evaluation"
FAULT_S = 12.0
MARK_S = (8.0, 10.0)
"""Of a fault that lasts `FAULT_S`: when the user asks, after its onset."""
DECOY_S = (1.0, 4.0)
"""When others begin their usual burst, before the mark."""
START_S = 30.0
"""Within which all processes have to be at work."""
LAST_S = 5.0
"""What is still recorded after the last fault."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One case before it happens. Times are in seconds after the start."""

    kind: str
    strength: float
    name: str
    onset: float
    mark: float
    decoys: tuple[tuple[str, float], ...]


def names(workers: int) -> list[str]:
    """Of the processes: the roles in turn, numbered."""
    roles = list(ROLES)
    return [f"{roles[index % len(roles)]}-{index // len(roles)}" for index in range(workers)]


@dataclass(frozen=True, slots=True)
class Setting:
    """How a recording is made.

    Attributes:
        seed: of all that is random.
        cases: slowdowns to inject.
        workers: processes at work.
        warm_up_s: seconds before the first slowdown.
        pause_s: mean seconds from the end of one to the onset of the next; it varies by a sixth.

    """

    seed: int = 1
    cases: int = 36
    workers: int = 40
    warm_up_s: float = 120.0
    pause_s: float = 30.0


def plan(setting: Setting) -> list[Planned]:
    """What will happen: each kind equally often, in a random order, each time in another process if possible."""
    chance = random.Random(setting.seed)
    cases, workers = setting.cases, names(setting.workers)
    kinds: list[str] = []
    culprits: list[str] = []
    while len(kinds) < cases:
        kinds += chance.sample(list(FAULTS), len(FAULTS))
    while len(culprits) < cases:
        culprits += chance.sample(workers, len(workers))
    planned = []
    onset = setting.warm_up_s
    for kind, name in zip(kinds[:cases], culprits[:cases], strict=True):
        mark = onset + chance.uniform(*MARK_S)
        others = [other for other in workers if other != name]
        decoys = [(other, mark - chance.uniform(*DECOY_S)) for other in chance.sample(others, chance.randrange(3))]
        planned.append(Planned(kind, chance.random(), name, onset, mark, tuple(decoys)))
        onset += FAULT_S + setting.pause_s * chance.uniform(5 / 6, 7 / 6)
    return planned


class Workload:
    """Processes at work, which end with this object, or with this process."""

    def __init__(self, folder: Path, workers: int, seed: int) -> None:
        data = folder / "data"
        block = random.Random(seed).randbytes(MIB)
        with data.open("wb") as file:
            for _ in range(Io.SIZE // MIB):
                file.write(block)
            os.fsync(file.fileno())
        self._processes: dict[str, subprocess.Popen[str]] = {}
        for name in names(workers):
            role, number = name.split("-")
            arguments = [role, number, str(seed), str(folder / name), str(data)]
            command = [sys.executable, "-SE", "-m", "tests.evaluation.workload", *arguments]
            self._processes[name] = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True, bufsize=1)
        deadline = time.monotonic() + START_S
        for name, process in self._processes.items():
            while Path(f"/proc/{process.pid}/comm").read_text().strip() != name:
                if process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise RuntimeError(f"{name}: expected to be at work within {START_S:g} s, got {process.poll()}")
                time.sleep(0.01)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def tell(self, name: str, line: str) -> None:
        """Say what it should do. Raises RuntimeError when it has ended."""
        process = self._processes[name]
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}; expected it to work until the end")
        assert process.stdin
        process.stdin.write(line + "\n")

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.communicate()


class Script:
    """What the agent waits with between its ticks: it does what is due meanwhile, and is set when all is done."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, after_s: float, act: Callable[[], None]) -> None:
        """Do this so many seconds after the start."""
        self._due.append((after_s, len(self._due), act))
        self._due.sort(reverse=True)

    def is_set(self) -> bool:
        return not self._due

    def wait(self, timeout: float | None = None) -> bool:
        end = time.monotonic() + (timeout or 0.0)
        while self._due and self._begun + self._due[-1][0] <= end:
            time.sleep(max(0.0, self._begun + self._due[-1][0] - time.monotonic()))
            self._due.pop()[2]()
        time.sleep(max(0.0, end - time.monotonic()))
        return self.is_set()


def record(target: Path, setting: Setting) -> None:
    """Let processes work and go wrong as planned, and record what the agent sees of it at 1 s ticks."""
    planned = plan(setting)
    about = asdict(setting) | {"kernel": platform.release(), "cores": os.cpu_count()}
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what was started is cleared away
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"evaluation", 0, 0, 0)
    with ExitStack() as stack:
        # Not /tmp, which may be memory: reading and writing has to reach a disk.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laggard-", dir="/var/tmp")))
        recorder = stack.enter_context(Recorder(target, about))
        workload = Workload(folder, setting.workers, setting.seed)
        stack.callback(workload.close)
        script = Script()
        for number, each in enumerate(planned, 1):
            _schedule(script, number, each, workload, recorder)
        script.at(planned[-1].onset + FAULT_S + LAST_S, lambda: None)
        Agent(recorder.publish, HOST, 1.0, command_lines=False).run(script)


def _schedule(script: Script, number: int, planned: Planned, workload: Workload, recorder: Recorder) -> None:
    onset = 0.0
    decoys: list[Decoy] = []

    def begin() -> None:
        nonlocal onset
        onset = time.time()
        workload.tell(planned.name, f"fault {planned.kind} {planned.strength} {FAULT_S}")
        print(f"case {number}: {planned.kind} in {planned.name}", file=sys.stderr)

    def burst(name: str) -> None:
        decoys.append(Decoy(name, time.time()))
        workload.tell(name, "burst")

    def mark() -> None:
        mark = Mark(HOST, time.time(), f"case {number}")
        recorder.publish([mark])
        pid, end = workload.pid(planned.name), onset + FAULT_S
        case = Case(number, planned.kind, planned.strength, planned.name, pid, onset, mark.ts, end, tuple(decoys))
        recorder.add(case)

    script.at(planned.onset, begin)
    for name, at in planned.decoys:
        script.at(at, partial(burst, name))
    script.at(planned.mark, mark)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.slowdowns", description=__doc__)
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep the recording in this new folder")
    parser.add_argument("--replay", type=Path, metavar="DIR", nargs="+", help="score recordings instead of making one")
    usual = Setting()
    for name, value, text in (
        ("--cases", usual.cases, "slowdowns to inject"),
        ("--workers", usual.workers, "processes at work"),
        ("--warm-up", usual.warm_up_s, "seconds before the first slowdown"),
        ("--pause", usual.pause_s, "seconds between two, on average"),
        ("--seed", usual.seed, "of all that is random"),
    ):
        parser.add_argument(name, type=type(value), default=value, help=f"{text} (default: {value:g})")
    parser.add_argument(
        "--thin", type=int, default=1, metavar="N", help="score as if the agent had ticked every N seconds (default: 1)"
    )
    options = parser.parse_args(arguments)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in METHODS}
    with tempfile.TemporaryDirectory(prefix="laggard-") as temporary:
        folders = options.replay or [options.record or Path(temporary) / "cases"]
        if not options.replay:
            setting = Setting(options.seed, options.cases, options.workers, options.warm_up, options.pause)
            record(folders[0], setting)
        for folder in folders:
            frames = thinned(read_frames(folder, "process"), options.thin)
            for name, found in evaluate(frames, read_cases(folder)).items():
                outcomes[name] += found
    print(tables(outcomes))


if __name__ == "__main__":
    main()
