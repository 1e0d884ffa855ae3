"""The choice of a profiler for a process, in addition to procfs: the first one that can be used."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from laggard.producers.diagnosis import eustack, jcmd, perf, pyspy
from laggard.producers.diagnosis.contract import ProfilerError, Unsuited
from laggard.producers.diagnosis.helper import thread_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.producers.diagnosis.aside import Answer, Aside
    from laggard.producers.diagnosis.contract import Method, Profiler, Sample

METHODS: Final[tuple[Method, ...]] = (pyspy, jcmd, perf, eustack)
"""By preference: those that know the language first, those that stop the process last."""

PATIENCE_S = 10.0
"""The timeout of a call of a profiler, in seconds: machines with diagnoses are mostly busy."""


def chosen(names: Sequence[str] | None) -> tuple[Method, ...]:
    """Return the methods of these names, in this order; all of them for None.

    Raises:
        ValueError: a name is unknown.

    """
    known = {method.NAME: method for method in METHODS}
    if names is None:
        return METHODS
    for name in names:
        if name not in known:
            raise ValueError(f"methods: expected some of {', '.join(known)}, got {name!r}")
    return tuple(known[name] for name in names)


class _Calls:
    """Calls of profilers in a thread aside, with their CPU time.

    Args:
        aside: the thread.

    Attributes:
        cpu_s: the CPU time of all of them so far, late ones too, in seconds.

    """

    def __init__(self, aside: Aside) -> None:
        self.cpu_s = 0.0
        self._aside = aside

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer to a question. Raises TimeoutError, and what the question raises."""
        return self._aside.ask(self._timed(question), PATIENCE_S)

    def submit(self, question: Callable[[], object]) -> None:
        """Ask a question whose answer is not needed."""
        self._aside.submit(self._timed(question))

    def _timed(self, question: Callable[[], Answer]) -> Callable[[], Answer]:
        """Return the same question, with its CPU time counted even if the answer is late."""

        def timed() -> Answer:
            begun = thread_time()
            try:
                return question()
            finally:
                self.cpu_s += thread_time() - begun

        return timed


class Profiling:
    """The profilers of one session: one at a time.

    Args:
        pid: the pid of the process.
        methods: the methods, by preference.
        told: whether notes include those for processes of another kind.
        aside: the thread that calls them, so that one that hangs delays nothing else.

    Attributes:
        used: the names of those that were started.
        on: whether one is running.

    """

    def __init__(self, pid: int, methods: Sequence[Method], aside: Aside, *, told: bool = True) -> None:
        self.used: list[str] = []
        self.on = False
        self._pid = pid
        self._left = list(methods)
        self._told = told
        self._calls = _Calls(aside)
        self._profiler: Profiler | None = None
        self._before_s = 0.0  # what the results of the profiler covered when it was last started
        self._given_up: list[Profiler] = []
        self._notes: list[str] = []
        self._samples: deque[Sample] = deque()  # also those of late answers

    @property
    def children_s(self) -> float:
        """The CPU time of all processes that profilers started, in seconds."""
        return sum(profiler.cpu_s for profiler in self._all())

    @property
    def cpu_s(self) -> float:
        """The CPU time of profilers, in seconds: of those processes, and of the thread that calls them."""
        return self._calls.cpu_s + self.children_s

    @property
    def covered_s(self) -> float:
        """The time that the results of the present profiler cover, in seconds."""
        return self._profiler.covered_s if self._profiler is not None else 0.0

    @property
    def answered(self) -> bool:
        """Whether the present profiler has had results since it was last started."""
        return self.covered_s > self._before_s

    @property
    def possible(self) -> bool:
        """Whether one is running, or could be."""
        return self._profiler is not None or bool(self._left)

    @property
    def stopped_s(self) -> float:
        """The total time for which they have stopped the process, in seconds."""
        return sum(profiler.stopped_s for profiler in self._all())

    @property
    def notes(self) -> list[str]:
        """The reasons for this choice, and the gaps in the results."""
        return [*self._notes, *(note for profiler in self._all() for note in profiler.notes)]

    def start(self, *, may_stop: bool) -> None:
        """Start the profiler that was paused, or the next one that can be used, unless one is running.

        Args:
            may_stop: whether it may stop the process.

        """
        if self.on:
            return
        if self._profiler is not None and self._begin(self._profiler):
            return
        self._next(may_stop=may_stop)

    def replace(self, *, may_stop: bool, why: str) -> None:
        """Replace the profiler by the next one that can be used, if there is one."""
        before = self._profiler
        if before is None or not self._left:
            return
        self.pause()
        if self._next(may_stop=may_stop):
            self._notes.append(f"{before.name}: replaced, {why}")
        else:
            self._profiler = before
            self.start(may_stop=may_stop)

    def take(self) -> list[Sample]:
        """Return the samples since the last call."""
        profiler = self._profiler
        if self.on and profiler is not None:
            try:
                self._calls.ask(lambda: self._samples.extend(profiler.take()))
            except TimeoutError:
                pass  # its samples come later
            except ProfilerError as error:
                self._notes.append(str(error))
                self.pause()
                self._given_up.append(profiler)
                self._profiler = None
        samples = []
        while self._samples:
            samples.append(self._samples.popleft())
        return samples

    def pause(self) -> None:
        """Pause the profiler. Its last samples can still be taken."""
        profiler = self._profiler
        if not self.on or profiler is None:
            return
        self.on = False

        def stop() -> None:
            self._samples.extend(profiler.stop())

        try:
            self._calls.ask(stop)
        except TimeoutError:
            self._calls.submit(stop)

    def _all(self) -> list[Profiler]:
        return self._given_up if self._profiler is None else [*self._given_up, self._profiler]

    def _next(self, *, may_stop: bool) -> bool:
        before = self._profiler
        for method in list(self._left):
            if method.STOPS and not may_stop:
                continue
            self._left.remove(method)
            try:
                why_not = self._calls.ask(partial(method.available, self._pid))
            except TimeoutError as error:
                why_not = f"{method.NAME}: {error}"
            if why_not:
                if self._told or not isinstance(why_not, Unsuited):
                    self._notes.append(why_not)
            elif self._begin(profiler := method.attach(self._pid)):
                if before is not None:
                    self._given_up.append(before)
                self._profiler = profiler
                return True
        return False

    def _begin(self, profiler: Profiler) -> bool:
        try:
            self._calls.ask(profiler.start)
        except (ProfilerError, TimeoutError) as error:
            self._notes.append(str(error) if isinstance(error, ProfilerError) else f"{profiler.name}: {error}")
            self._calls.submit(profiler.stop)
            self._given_up.append(profiler)
            if profiler is self._profiler:
                self._profiler = None
            return False
        self._before_s = profiler.covered_s
        if profiler.name not in self.used:
            self.used.append(profiler.name)
        self.on = True
        return True
