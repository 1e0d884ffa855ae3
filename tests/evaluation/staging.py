"""What is planned happens: processes at work, some of which go wrong, while the agent records the machine."""

from __future__ import annotations

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
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.core.records import Mark
from laggard.producers.host.agent import Agent
from tests.evaluation.faults import MIB, Io
from tests.evaluation.planning import RESTART_S, Setting, names, plan, role_of
from tests.evaluation.recording import Case, Culprit, Decoy, Recorder
from tests.evaluation.workload import PR_SET_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.evaluation.planning import Newcomer, Planned

ROOT = Path(__file__).parents[2]
HOST = "evaluation"
START_S = 30.0
"""Within which all processes have to be at work."""
REPLACED_S = 1.0
"""After a case: when a process that ended is started again."""
LATE_S = 1.0
"""How far the time from onset to mark may be off before that is said."""
LAST_S = 5.0
"""What is still recorded after the last case."""


class Workload:
    """Processes at work, which end with this object, or with this process.

    Of several with the same name the one that was started last is meant.
    """

    def __init__(self, folder: Path, workers: int, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        self._data = folder / "data"
        self._started = 0
        self._running: dict[str, list[subprocess.Popen[str]]] = {}
        block = random.Random(seed).randbytes(MIB)
        with self._data.open("wb") as file:
            for _ in range(Io.SIZE // MIB):
                file.write(block)
            os.fsync(file.fileno())
        for name in names(workers):
            self.start(name, role_of(name))
        deadline = time.monotonic() + START_S
        for name, (process,) in self._running.items():
            while Path(f"/proc/{process.pid}/comm").read_text().strip() != name:
                if process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise RuntimeError(f"{name}: expected to be at work within {START_S:g} s, got {process.poll()}")
                time.sleep(0.01)

    def start(self, name: str, role: str) -> None:
        """Start a process of this name, beside others that may have it."""
        self._started += 1
        own = self._folder / f"{name}.{self._started}"  # stays until the end: to remove it is work that would be seen
        arguments = [name, role, str(self._seed + self._started), str(own), str(self._data)]
        command = [sys.executable, "-SE", "-m", "tests.evaluation.workload", *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True, bufsize=1)
        self._running.setdefault(name, []).append(process)

    def stop(self, name: str) -> None:
        """Kill it. Raises RuntimeError when it has ended by itself."""
        process = self._process(name)
        self._running[name].pop()
        process.kill()
        process.communicate()

    def restart(self, name: str) -> None:
        """Kill it, and start another one in its place."""
        self.stop(name)
        self.start(name, role_of(name))

    def pid(self, name: str) -> int:
        return self._process(name).pid

    def tell(self, name: str, line: str) -> None:
        """Say what it should do. Raises RuntimeError when it has ended by itself."""
        process = self._process(name)
        assert process.stdin
        process.stdin.write(line + "\n")

    def pin(self, these: Iterable[str], cores: set[int]) -> None:
        """Let these run on those cores only, all threads that they have now."""
        for name in these:
            for thread in os.listdir(f"/proc/{self.pid(name)}/task"):  # noqa: PTH208 - names
                try:
                    os.sched_setaffinity(int(thread), cores)
                except ProcessLookupError:  # it ended since
                    continue

    def close(self) -> None:
        running = [process for each in self._running.values() for process in each]
        for process in running:
            process.kill()
        for process in running:
            process.communicate()

    def _process(self, name: str) -> subprocess.Popen[str]:
        process = self._running[name][-1]
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}; expected it to work until the end")
        return process


class Script:
    """What the agent waits with between its ticks: it does what is due meanwhile, and is set when all is done."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, after_s: float, act: Callable[[], None]) -> None:
        """Do this some seconds after the start; what is due at the same time in the order of these calls."""
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


class Staged:
    """One case as it happens: `schedule` says when, the other methods do it."""

    def __init__(self, number: int, planned: Planned, workload: Workload, recorder: Recorder) -> None:
        self._number = number
        self._planned = planned
        self._workload = workload
        self._recorder = recorder
        self._onset = 0.0
        self._culprits: tuple[Culprit, ...] = ()
        self._decoys: list[Decoy] = []

    def schedule(self, script: Script, workers: list[str]) -> None:
        planned = self._planned
        if planned.restart is not None:
            for index, name in enumerate(workers):
                at = planned.restart + RESTART_S * index / len(workers)
                script.at(at, partial(self._workload.restart, name))
        for newcomer in planned.newcomers:
            script.at(newcomer.at, partial(self.start, newcomer))
            script.at(planned.over, partial(self._workload.stop, newcomer.name))
        script.at(planned.onset, self.begin)
        for name, at in planned.decoys:
            script.at(at, partial(self.burst, name))
        script.at(planned.mark, self.mark)
        if planned.form == "ended":
            name = planned.culprits[0].name
            script.at(planned.end, partial(self._workload.stop, name))
            script.at(planned.over + REPLACED_S, partial(self._workload.start, name, role_of(name)))
        if planned.situation == "victims":
            script.at(planned.end, partial(self.share, os.sched_getaffinity(0)))

    def start(self, newcomer: Newcomer) -> None:
        self._workload.start(newcomer.name, newcomer.role)
        if newcomer.name != self._planned.culprits[0].name:
            self._decoys.append(Decoy(newcomer.name, time.time(), "new"))

    def begin(self) -> None:
        """The culprits go wrong."""
        planned, workload = self._planned, self._workload
        self._onset = time.time()
        if planned.situation == "victims" and planned.culprits[0].kind == "cpu":
            self.share({max(os.sched_getaffinity(0))})
        for culprit in planned.culprits:
            what = f"storm {culprit.program}" if culprit.program else f"fault {culprit.kind}"
            workload.tell(culprit.name, f"{what} {culprit.amount!r} {planned.end - planned.onset!r}")
            print(f"case {self._number}: {planned.situation}: {what} in {culprit.name}", file=sys.stderr)
        self._culprits = tuple(replace(culprit, pid=workload.pid(culprit.name)) for culprit in planned.culprits)

    def share(self, cores: set[int]) -> None:
        """Let the culprit and those that wait for it run on these cores."""
        self._workload.pin((self._planned.culprits[0].name, *self._planned.waiting), cores)

    def burst(self, name: str) -> None:
        self._decoys.append(Decoy(name, time.time()))
        self._workload.tell(name, "burst")

    def mark(self) -> None:
        """The user asks; the case is known now."""
        planned = self._planned
        mark = Mark(HOST, time.time(), f"case {self._number}")
        self._recorder.publish([mark])
        late_s = mark.ts - self._onset - (planned.mark - planned.onset)
        if abs(late_s) > LATE_S:
            print(f"case {self._number}: its mark is {late_s:+.1f} s off: this machine has no time", file=sys.stderr)
        self._recorder.add(
            Case(
                self._number,
                planned.situation,
                planned.form,
                self._culprits,
                self._onset,
                mark.ts,
                self._onset + planned.end - planned.onset,
                tuple(self._decoys),
                planned.waiting,
            )
        )


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
            Staged(number, each, workload, recorder).schedule(script, names(setting.workers))
        script.at(planned[-1].over + LAST_S, lambda: None)
        Agent(recorder.publish, HOST, 1.0, command_lines=False).run(script)
