"""When something is wrong on this host, what the processes concerned are doing: the watch of the agent (S1).

`Triggers` say twice a second what is wrong. The processes concerned are looked into until that is over, and what is
found is published when the first samples are there, now and then, and at the end. All of it runs in one thread of its
own; nothing that goes wrong in it reaches the agent's ticks.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from laggard.pipeline.backoff import Backoff
from laggard.pipeline.diagnoses.triggers import LOOK_RATIO, LOOK_S, MAX_SUSPECTS, RESOURCES, Triggers
from laggard.pipeline.records.diagnosis_json import diagnosis_id
from laggard.pipeline.records.limits import MAX_NOTES
from laggard.producers.diagnosis import jcmd, perf
from laggard.producers.diagnosis.bounds import Budget
from laggard.producers.diagnosis.helper import HelperError, helpers_time
from laggard.producers.diagnosis.session import Session
from laggard.producers.diagnosis.symbols import kernel_symbols, symbolizer
from laggard.producers.diagnosis.target import TargetError, find
from laggard.producers.system.clock import Clock, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from laggard.pipeline.diagnoses.triggers import Key, Machine
    from laggard.pipeline.diagnoses.unfinished import Unfinished
    from laggard.pipeline.records.diagnosis import Diagnosis, Progress
    from laggard.producers.diagnosis.bounds import Limits

LONGEST_LOOK_S: Final = 2.0
"""Between two looks at the host, where they are expensive (`LOOK_RATIO`)."""

MAX_SESSIONS: Final = 6
"""So many processes are looked into at once, `MAX_SUSPECTS` of them for pressure at most. Others wait; those with most
use come first."""

FIRST_TOLD_S: Final = 2.0
"""After so long the first samples are there. Each next time is twice as late, at least ..."""

TOLD_S: Final = 10.0
"""... this much after the one before."""

MAX_SAID: Final = 100
"""So many things that went wrong are said once each, before they may be said again."""

CLOSING_S: Final = 3.0
"""How long a clean stop waits for what is looked into to be let go."""

STOPPED: Final = "the agent was stopped while it lasted"
KILLED: Final = "the agent ended while it lasted"
FAILED: Final = "looking into it failed; the agent's log says how"

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Look:
    """One process as it is looked into.

    Attributes:
        session: what looks.
        high: by event that it is for, whether that is in high use now.
        begun_ns: when it began, by the monotonic clock.
        next_ns: when it is to be told next.
        told: whether it was told already.

    """

    session: Session
    high: dict[Key, bool]
    begun_ns: int
    next_ns: int
    told: bool = False


class Diagnosing:
    """Looks into processes while something is wrong, in a thread of its own.

    Args:
        publish: takes a diagnosis; what it raises is logged and counted.
        host: this machine's name.
        conditions: by name, S1's machine for it. Some of `triggers.CONDITIONS`.
        unfinished: where those that are open are kept.
        budget_ratio: CPU time that looking into processes may take, of one core.
        methods: see `Session`.
        command_lines: whether diagnoses have the processes' command lines, which may hold secrets.
        limits: of each look.
        clock: what tells the time.
        root: where procfs is mounted.
        groups: where control groups are mounted.

    Attributes:
        failures: how often something went wrong since it began.

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
        self._host = host
        self._unfinished = unfinished
        self._methods = methods
        self._command_lines = command_lines
        self._limits = limits
        self._clock = clock or Clock()
        self._root = root
        self._triggers = Triggers(conditions, self._clock, Timeline(self._clock), root, groups)
        self._budget = Budget(budget_ratio)
        self._looks: dict[int, _Look] = {}
        self._waiting: dict[Key, list[int]] = {}  # of each event, the processes that were not looked into yet
        self._look_s = 0.0
        self._looked_ns: int | None = None
        self._own_s = 0.0  # CPU time, but for that of sessions
        self._open: dict[str, Diagnosis] = {}  # by id, what was told last of those that are not closed
        self._failed: set[str] = set()  # what was said to have gone wrong
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="diagnosing", daemon=True)

    @property
    def running(self) -> int:
        """How many processes are looked into now."""
        return len(self._looks)

    @property
    def cpu_s(self) -> float:
        """CPU time that all of it took since it began, with what runs beside, in seconds."""
        return self._own_s + self._budget.spent_s

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Let all processes go, tell what was found so far, and end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSING_S)

    def finish(self) -> None:
        """Close what an earlier agent left open. What cannot be published stays in the file, and is said."""
        self._open = {each.id: each for each in self._unfinished.read()}
        for each in list(self._open.values()):
            closed = each if each.progress == "closed" else _ended_early(each, KILLED)
            self._guarded(f"closing diagnosis {each.id}, of {each.row},", partial(self._keep, closed))

    def step(self) -> None:
        """Do what is due: look at the host, at one process, and tell what was found."""
        now, begun, spent_s = self._clock.monotonic(), self._clock.cpu(), self._budget.spent_s
        aside_s = self._triggers.aside_s
        if self._looked_ns is None or now - self._looked_ns >= self._look_s * 1e9:
            self._look(now)
        pid = min(self._looks, key=lambda each: self._looks[each].session.delay_s(), default=None)
        if pid is not None and self._looks[pid].session.delay_s() <= 0.0:
            self._with(pid, self._looks[pid].session.sample)
        self._tell()
        # What sessions took is counted by themselves.
        self._own_s += max(0.0, (self._clock.cpu() - begun) / 1e9 - (self._budget.spent_s - spent_s))
        self._own_s += self._triggers.aside_s - aside_s

    def delay_s(self) -> float:
        """Seconds until the next step is due."""
        if self._looked_ns is None:
            return 0.0
        look_s = self._look_s - (self._clock.monotonic() - self._looked_ns) / 1e9
        return max(0.0, min([look_s, *(look.session.delay_s() for look in self._looks.values())]))

    def let_go(self, note: str) -> None:
        """Let all processes go, and tell why."""
        for pid in list(self._looks):
            self._close(pid, note)
        self._waiting.clear()

    def _run(self) -> None:
        backoff = Backoff()
        self._guarded("loading what looking into processes takes", self._load)
        self._guarded("closing what an earlier agent left open", self.finish)
        while not self._stop.is_set():
            if self._guarded("watching for processes to look into", self.step):
                backoff.went_well()
                self._stop.wait(self.delay_s())
            else:
                # What is known may be half of a reading's: it starts anew.
                self.let_go(FAILED)
                self._triggers.forget()
                backoff.failed(self._clock.monotonic() / 1e9)
                self._stop.wait(max(backoff.pause_s, LOOK_S))
        self.let_go(STOPPED)
        self._triggers.close()

    def _load(self) -> None:
        """Load what is large and the same for all processes, while nothing is wrong.

        The kernel's symbols take 0.2 s of CPU time and 5 MB, the child that reads those of programs 0.1 s and 28 MB.
        Loaded when something is wrong for the first time, they would take it from a machine that is short of it, and
        make the agent the process that is most unlike itself.
        """
        begun, helped_s = self._clock.cpu(), helpers_time()
        if self._methods is None or {perf.NAME, jcmd.NAME} & set(self._methods):
            kernel_symbols()
        with contextlib.suppress(HelperError):  # told where it is needed
            symbolizer().helper()
        self._own_s += (self._clock.cpu() - begun) / 1e9 + helpers_time() - helped_s

    def _look(self, now: int) -> None:
        """Look at the host: begin to look into processes, go on, or end."""
        late = self._looked_ns is None or now - self._looked_ns >= 1.5 * self._look_s * 1e9
        # A look that was a little late does not move the next one. Two are at least half of that time apart, so that no
        # reading rests on a sliver of it, of which the kernel has not counted what runs just now.
        self._looked_ns = now if late or self._looked_ns is None else self._looked_ns + round(self._look_s * 1e9)
        changes = self._triggers.look()
        self._look_s = max(self._triggers.interval_s, min(self._triggers.took_s / LOOK_RATIO, LONGEST_LOOK_S))
        for key, what in changes:
            match what:
                case "begun":
                    self._waiting[key] = list(self._triggers.events[key].pids)
                case "over":
                    self._waiting.pop(key, None)
                    self._end(key)
                case "dipped" | "returned":
                    self._turn(key, high=what == "returned")
        if any(self._waiting.values()):
            self._fill()

    def _turn(self, key: Key, *, high: bool) -> None:
        """An event goes into a dip, or comes back from one."""
        for pid, look in list(self._looks.items()):
            if key in look.high:
                look.high[key] = high
                self._phase(pid, look)

    def _phase(self, pid: int, look: _Look) -> None:
        """Let what is found belong to high use while any of the events that it is for is in that, else to a dip."""
        self._with(pid, partial(look.session.phase, high=any(look.high.values())))

    def _end(self, key: Key) -> None:
        """An event is over."""
        for pid, look in list(self._looks.items()):
            if look.high.pop(key, None) is None:
                continue
            if look.high:
                self._phase(pid, look)
                continue
            self._with(pid, look.session.sample)  # the last use; and whether the process itself has ended
            if pid in self._looks:
                self._close(pid)

    def _fill(self) -> None:
        """Look into processes that wait for that, as far as there is room."""
        used = self._triggers.used()
        waiting = sorted(
            (
                (key[0] in RESOURCES, -used.get(pid, 0.0), pid, key)
                for key, pids in self._waiting.items()
                if self._triggers.events[key].high
                for pid in pids
            ),
            key=itemgetter(0, 1, 2),
        )
        for is_suspect, _, pid, key in waiting:
            if pid in self._looks:
                self._looks[pid].high[key] = True
                self._phase(pid, self._looks[pid])
            else:
                suspects = sum(all(each[0] in RESOURCES for each in look.high) for look in self._looks.values())
                if len(self._looks) >= MAX_SESSIONS or (is_suspect and suspects >= MAX_SUSPECTS):
                    continue
                self._guarded(f"beginning to look into process {pid}", partial(self._begin, pid, key))
            self._waiting[key].remove(pid)

    def _begin(self, pid: int, key: Key) -> None:
        """Begin to look into a process. One that has ended in between is left out."""
        try:
            target = find(pid, root=self._root, command_lines=self._command_lines)
        except TargetError:
            return
        event, reason = self._triggers.events[key], key[0]
        session = Session(
            target,
            id=diagnosis_id(self._host, target.row, reason, event.begin_ts),
            host=self._host,
            reason=reason,
            value=event.value,
            threshold=event.threshold,
            budget=self._budget,
            limits=self._limits,
            methods=self._methods,
            clock=self._clock,
            root=self._root,
        )
        now = self._clock.monotonic()
        self._looks[pid] = _Look(session, {key: True}, now, now + round(FIRST_TOLD_S * 1e9))

    def _tell(self) -> None:
        """Publish what is due."""
        now = self._clock.monotonic()
        for pid, look in list(self._looks.items()):
            if look.session.ended:
                self._close(pid)
            elif now >= look.next_ns:
                look.next_ns = now + max(round(TOLD_S * 1e9), now - look.begun_ns)
                self._told(look, "extended" if look.told else "opened")

    def _with(self, pid: int, action: Callable[[], object]) -> None:
        """Do something with a session; where that goes wrong, it is over."""
        if not self._guarded(f"looking into process {pid}", action):
            self._close(pid, FAILED)

    def _close(self, pid: int, note: str = "") -> None:
        """Let a process go, and tell what was found."""
        look = self._looks.pop(pid)
        self._guarded(f"letting process {pid} go", look.session.close)
        self._told(look, "closed", note)

    def _told(self, look: _Look, progress: Progress, note: str = "") -> None:
        def tell() -> None:
            diagnosis = look.session.diagnosis(progress)
            look.told = True
            self._keep(_ended_early(diagnosis, note) if note else diagnosis)

        self._guarded(f"telling what {look.session.target.row} was doing", tell)

    def _keep(self, diagnosis: Diagnosis) -> None:
        """Publish a diagnosis, and keep on disk which are open: whoever comes after this process closes them.

        One that is being closed is among them until it is published. So it may go out twice, as the same record.
        """
        self._open[diagnosis.id] = diagnosis
        self._unfinished.write(self._open.values())
        self._publish(diagnosis)
        if diagnosis.progress == "closed":
            del self._open[diagnosis.id]
            self._unfinished.write(self._open.values())

    def _guarded(self, what: str, action: Callable[[], object]) -> bool:
        """Whether something went well; else it is logged and counted."""
        try:
            action()
        except Exception:
            self.failures += 1
            if what not in self._failed:
                _logger.exception("%s failed", what)
            self._failed = (self._failed | {what}) if len(self._failed) < MAX_SAID else {what}
            return False
        return True


def _ended_early(diagnosis: Diagnosis, note: str) -> Diagnosis:
    """A diagnosis that is closed before what it is of was over, and why."""
    return replace(diagnosis, progress="closed", complete=False, notes=(note, *diagnosis.notes)[:MAX_NOTES])
