"""The sampling of the processes of events: their sessions, and the records of these."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records.diagnosis_json import diagnosis_id
from laggard.pipeline.core.records.limits import MAX_NOTES
from laggard.pipeline.methods.diagnoses.suspicion import MAX_SUSPECTS
from laggard.pipeline.methods.diagnoses.triggers import RESOURCES
from laggard.producers.diagnosis.session import Session
from laggard.producers.diagnosis.target import TargetError, find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from laggard.pipeline.core.records.diagnosis import Diagnosis, Progress
    from laggard.pipeline.methods.diagnoses.triggers import Change, Event, Key
    from laggard.producers.diagnosis.bounds import Budget, Limits
    from laggard.producers.system.clock import Clock

MAX_SESSIONS: Final = 6
"""The most processes that are sampled at once, `MAX_SUSPECTS` of them for pressure alone. Others wait; those with most
use come first."""

FIRST_PUBLISHED_S: Final = 2.0
"""The first record is published after this time, in seconds. The age of a session doubles until each next one, but
these are at least ..."""

PUBLISHED_EVERY_S: Final = 10.0
"""... this many seconds apart."""

FAILED: Final = "profiling failed; see the agent's log"


@dataclass(slots=True)
class Sampling:
    """The sampling of one process.

    Attributes:
        session: the session that samples it.
        high: whether each of its events is in high use now.
        begun_ns: its begin, by the monotonic clock.
        next_ns: the time of its next record, likewise.
        published: whether a record was published.

    """

    session: Session
    high: dict[Key, bool]
    begun_ns: int
    next_ns: int
    published: bool = False


class Samplings:
    """Samples the processes of events, a few at a time.

    Parameters:
        publish: publishes a diagnosis.
        guarded: runs an action, described for the log, and returns whether it succeeded.
        host: this machine's name.
        budget: the CPU budget of all sessions.
        methods, command_lines, limits, clock, root: see `Diagnosing`.

    """

    def __init__(
        self,
        publish: Callable[[Diagnosis], None],
        guarded: Callable[[str, Callable[[], object]], bool],
        host: str,
        budget: Budget,
        *,
        methods: Sequence[str] | None,
        command_lines: bool,
        limits: Limits | None,
        clock: Clock,
        root: str,
    ) -> None:
        self._publish = publish
        self._guarded = guarded
        self._host = host
        self._budget = budget
        self._methods = methods
        self._command_lines = command_lines
        self._limits = limits
        self._clock = clock
        self._root = root
        self._each: dict[int, Sampling] = {}
        self._waiting: dict[Key, list[int]] = {}  # the processes of each event that have no session yet

    def __len__(self) -> int:
        return len(self._each)

    def sample(self) -> None:
        """Sample the process that is due first, if it is due."""
        pid = min(self._each, key=lambda each: self._each[each].session.delay_s(), default=None)
        if pid is not None and self._each[pid].session.delay_s() <= 0.0:
            self._with(pid, self._each[pid].session.sample)

    def delay_s(self) -> float:
        """Return the seconds until the next sample is due; infinite without any process."""
        return min((sampling.session.delay_s() for sampling in self._each.values()), default=math.inf)

    def follow(
        self, changes: Sequence[Change], events: Mapping[Key, Event], used: Callable[[], Mapping[int, float]]
    ) -> None:
        """Begin, continue or end sessions after changes of events.

        Args:
            changes: the changes.
            events: the events that last.
            used: returns the use of each process by its id, in cores.

        """
        for key, what in changes:
            match what:
                case "begun":
                    self._waiting[key] = list(events[key].pids)
                case "over":
                    self._waiting.pop(key, None)
                    self._end(key)
                case "dipped" | "returned":
                    self._turn(key, high=what == "returned")
        if any(self._waiting.values()):
            self._fill(events, used())

    def close(self, note: str) -> None:
        """Close all sessions early; their diagnoses have the note."""
        for pid in list(self._each):
            self._close(pid, note)
        self._waiting.clear()

    def _turn(self, key: Key, *, high: bool) -> None:
        """Follow an event into a dip, or back from one."""
        for pid, sampling in list(self._each.items()):
            if key in sampling.high:
                sampling.high[key] = high
                self._phase(pid, sampling)

    def _phase(self, pid: int, sampling: Sampling) -> None:
        """Set the phase of a session: high use if any of its events is in high use, otherwise a dip."""
        self._with(pid, partial(sampling.session.phase, high=any(sampling.high.values())))

    def _end(self, key: Key) -> None:
        """End an event, and each session without another one."""
        for pid, sampling in list(self._each.items()):
            if sampling.high.pop(key, None) is None:
                continue
            if sampling.high:
                self._phase(pid, sampling)
                continue
            self._with(pid, sampling.session.sample)  # for the last use, and to notice the end of the process
            if pid in self._each:
                self._close(pid)

    def _fill(self, events: Mapping[Key, Event], used: Mapping[int, float]) -> None:
        """Begin sessions of waiting processes, within the limits."""
        waiting = sorted(
            (
                (key[0] in RESOURCES, -used.get(pid, 0.0), pid, key)
                for key, pids in self._waiting.items()
                if events[key].high
                for pid in pids
            ),
            key=itemgetter(0, 1, 2),
        )
        for is_suspect, _, pid, key in waiting:
            if pid in self._each:
                self._each[pid].high[key] = True
                self._phase(pid, self._each[pid])
            else:
                suspects = sum(all(each[0] in RESOURCES for each in sampling.high) for sampling in self._each.values())
                if len(self._each) >= MAX_SESSIONS or (is_suspect and suspects >= MAX_SUSPECTS):
                    continue
                self._guarded(f"starting to profile process {pid}", partial(self._begin, pid, key, events[key]))
            self._waiting[key].remove(pid)

    def _begin(self, pid: int, key: Key, event: Event) -> None:
        """Begin a session. A process that has ended is left out."""
        try:
            target = find(pid, root=self._root, command_lines=self._command_lines)
        except TargetError:
            return
        reason = key[0]
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
        self._each[pid] = Sampling(session, {key: True}, now, now + round(FIRST_PUBLISHED_S * 1e9))

    def publish_due(self) -> None:
        """Publish the records that are due, and close sessions that have ended."""
        now = self._clock.monotonic()
        for pid, sampling in list(self._each.items()):
            if sampling.session.ended:
                self._close(pid)
            elif now >= sampling.next_ns:
                sampling.next_ns = now + max(round(PUBLISHED_EVERY_S * 1e9), now - sampling.begun_ns)
                self._publish_record(sampling, "extended" if sampling.published else "opened")

    def _with(self, pid: int, action: Callable[[], object]) -> None:
        """Run an action on a session, and close the session if the action fails."""
        if not self._guarded(f"profiling process {pid}", action):
            self._close(pid, FAILED)

    def _close(self, pid: int, note: str = "") -> None:
        """Close a session, and publish its diagnosis."""
        sampling = self._each.pop(pid)
        self._guarded(f"releasing process {pid}", sampling.session.close)
        self._publish_record(sampling, "closed", note)

    def _publish_record(self, sampling: Sampling, progress: Progress, note: str = "") -> None:
        def publish() -> None:
            diagnosis = sampling.session.diagnosis(progress)
            sampling.published = True
            self._publish(ended_early(diagnosis, note) if note else diagnosis)

        self._guarded(f"publishing the diagnosis of {sampling.session.target.row}", publish)


def ended_early(diagnosis: Diagnosis, note: str) -> Diagnosis:
    """Return a diagnosis as closed before the end of its event, with the reason."""
    return replace(diagnosis, progress="closed", complete=False, notes=(note, *diagnosis.notes)[:MAX_NOTES])
