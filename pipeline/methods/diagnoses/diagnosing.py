"""Diagnoses of the processes of an event on this host: the watch of the agent (S1).

`Triggers` find events twice a second. The processes concerned are sampled until their event is over. A diagnosis is
published with the first samples, at growing intervals, and at the end. All of it runs in one thread of its own, and its
failures do not reach the agent's ticks.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.backoff import Backoff
from laggard.pipeline.methods.diagnoses.samplings import FAILED, Samplings, ended_early
from laggard.pipeline.methods.diagnoses.triggers import CHECK_RATIO, CHECK_S, Triggers
from laggard.producers.diagnosis import jcmd, perf
from laggard.producers.diagnosis.bounds import Budget
from laggard.producers.diagnosis.helper import HelperError, helpers_time
from laggard.producers.diagnosis.symbols import kernel_symbols, symbolizer
from laggard.producers.system.clock import Clock, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.methods.diagnoses.triggers import Machine
    from laggard.pipeline.methods.diagnoses.unfinished import Unfinished
    from laggard.producers.diagnosis.bounds import Limits

LONGEST_CHECK_S: Final = 2.0
"""The longest time between two checks of the host, if checks are expensive (`CHECK_RATIO`), in seconds."""

MOST_LOGGED: Final = 100
"""The most kinds of failures that are remembered as logged. Beyond, all of them may be logged again."""

CLOSING_S: Final = 3.0
"""The longest wait of a clean stop for the sessions to end, in seconds."""

STOPPED: Final = "the agent was stopped while it lasted"
KILLED: Final = "the agent ended while it lasted"

_logger = logging.getLogger(__name__)


class Diagnosing:
    """Diagnoses processes while an event lasts, in a thread of its own.

    Args:
        publish: publishes a diagnosis; its errors are logged and counted.
        host: this machine's name.
        conditions: S1's state machines by condition, some of `triggers.CONDITIONS`.
        unfinished: the file of open diagnoses.
        budget_ratio: the most CPU time of sessions, in cores.
        methods: see `Session`.
        command_lines: whether diagnoses have the processes' command lines, which may hold secrets.
        limits: the limits of each session.
        clock: the clock.
        root: the mount point of procfs.
        groups: the mount point of control groups.

    Attributes:
        failures: the number of failures since it began.

    """

    def __init__(
        self,
        publish: Callable[[Diagnosis], None],
        host: str,
        conditions: Mapping[str, Machine],
        unfinished: Unfinished,
        *,
        budget_ratio: float,
        methods: Sequence[str] | None = None,
        command_lines: bool = True,
        limits: Limits | None = None,
        clock: Clock | None = None,
        root: str = "/proc",
        groups: str = "/sys/fs/cgroup",
    ) -> None:
        self.failures = 0
        self._publish = publish
        self._unfinished = unfinished
        self._methods = methods
        self._clock = clock or Clock()
        self._triggers = Triggers(conditions, self._clock, Timeline(self._clock), root, groups)
        self._budget = Budget(budget_ratio)
        self._samplings = Samplings(
            self._keep, self._guarded, host, self._budget,
            methods=methods, command_lines=command_lines, limits=limits, clock=self._clock, root=root,
        )  # fmt: skip
        self._check_s = 0.0
        self._checked_ns: int | None = None
        self._own_s = 0.0  # CPU time without that of sessions
        self._open: dict[str, Diagnosis] = {}  # the last records of open diagnoses by id
        self._failed: set[str] = set()  # the logged failures
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="diagnosing", daemon=True)

    @property
    def running(self) -> int:
        """The number of processes that are sampled now."""
        return len(self._samplings)

    @property
    def cpu_s(self) -> float:
        """All CPU time since it began, with that of auxiliary threads and processes, in seconds."""
        return self._own_s + self._budget.spent_s

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Close all sessions, publish their findings, and end the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSING_S)

    def finish(self) -> None:
        """Close the diagnoses that an earlier agent left open. Unpublished ones stay in the file, and are logged."""
        self._open = {each.id: each for each in self._unfinished.read()}
        for each in list(self._open.values()):
            closed = each if each.progress == "closed" else ended_early(each, KILLED)
            self._guarded(f"closing diagnosis {each.id}, of {each.row},", partial(self._keep, closed))

    def step(self) -> None:
        """Do the work that is due: check the host, sample one process, and publish findings."""
        now, begun, spent_s = self._clock.monotonic(), self._clock.cpu(), self._budget.spent_s
        aside_s = self._triggers.suspicion.aside_s
        if self._checked_ns is None or now - self._checked_ns >= self._check_s * 1e9:
            self._check(now)
        self._samplings.sample()
        self._samplings.publish_due()
        # Sessions count their own CPU time.
        self._own_s += max(0.0, (self._clock.cpu() - begun) / 1e9 - (self._budget.spent_s - spent_s))
        self._own_s += self._triggers.suspicion.aside_s - aside_s

    def delay_s(self) -> float:
        """Return the seconds until the next step is due."""
        if self._checked_ns is None:
            return 0.0
        check_s = self._check_s - (self._clock.monotonic() - self._checked_ns) / 1e9
        return max(0.0, min(check_s, self._samplings.delay_s()))

    def let_go(self, note: str) -> None:
        """Close all sessions early; their diagnoses have the note."""
        self._samplings.close(note)

    def _run(self) -> None:
        backoff = Backoff()
        self._guarded("loading the profilers", self._load)
        self._guarded("closing diagnoses that an earlier agent left open", self.finish)
        while not self._stop.is_set():
            if self._guarded("watching for processes to profile", self.step):
                backoff.went_well()
                self._stop.wait(self.delay_s())
            else:
                # The state may be from half of a reading: start from scratch.
                self.let_go(FAILED)
                self._triggers.forget()
                backoff.failed(self._clock.monotonic() / 1e9)
                self._stop.wait(max(backoff.pause_s, CHECK_S))
        self.let_go(STOPPED)
        self._triggers.close()

    def _load(self) -> None:
        """Load the large data that is the same for all processes before any event.

        The kernel's symbols cost 0.2 s of CPU time and 5 MB, the child that reads those of programs 0.1 s and 28 MB.
        During the first event, the host may be short of these resources, and the agent could become its worst outlier.
        """
        begun, helped_s = self._clock.cpu(), helpers_time()
        if self._methods is None or {perf.NAME, jcmd.NAME} & set(self._methods):
            kernel_symbols()
        with contextlib.suppress(HelperError):  # reported where it is needed
            symbolizer().helper()
        self._own_s += (self._clock.cpu() - begun) / 1e9 + helpers_time() - helped_s

    def _check(self, now: int) -> None:
        """Check the host, and begin, continue or end sessions."""
        late = self._checked_ns is None or now - self._checked_ns >= 1.5 * self._check_s * 1e9
        # A slightly late check does not move the next one. Two are at least half of the interval apart. In a shorter
        # time the kernel may not have counted the use of running processes yet.
        self._checked_ns = now if late or self._checked_ns is None else self._checked_ns + round(self._check_s * 1e9)
        changes = self._triggers.check()
        self._check_s = max(self._triggers.interval_s, min(self._triggers.took_s / CHECK_RATIO, LONGEST_CHECK_S))
        self._samplings.follow(changes, self._triggers.events, self._triggers.used)

    def _keep(self, diagnosis: Diagnosis) -> None:
        """Publish a diagnosis, and store the open ones on disk: the next agent closes them.

        A closing one is among them until it is published, so the same record may be published twice.
        """
        self._open[diagnosis.id] = diagnosis
        self._unfinished.write(self._open.values())
        self._publish(diagnosis)
        if diagnosis.progress == "closed":
            del self._open[diagnosis.id]
            self._unfinished.write(self._open.values())

    def _guarded(self, what: str, action: Callable[[], object]) -> bool:
        """Run an action, and return whether it succeeded; failures are logged and counted."""
        try:
            action()
        except Exception:
            self.failures += 1
            if what not in self._failed:
                _logger.exception("%s failed", what)
            self._failed = (self._failed | {what}) if len(self._failed) < MOST_LOGGED else {what}
            return False
        return True
