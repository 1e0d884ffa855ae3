"""Java processes: compiled methods by samples of the kernel and a map of the code, waiting threads by thread dumps.

Measured: the map costs the virtual machine 10 ms and no safepoint. A thread dump of 17 threads takes 0.7 to 1.6 ms with
the collector G1, and finds the busy method in 12 of 12. It takes 47 to 76 ms with the serial collector, whose
safepoints wait for the end of counted loops. Then it finds the caller instead, in 12 of 12. Samples of the kernel find
the busy method in all with both. The busy thread did 1.001 (G1) and 0.995 (serial) of its rounds for the same CPU time
(medians of 8 pairs, 0.983 to 1.019: `tests/benchmarks/profilers.py`). This used 0.4 % of a core. The program `jcmd`
would start a Java of its own for each command.
"""

from __future__ import annotations

import contextlib
import re
import stat
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis import perf
from laggard.producers.diagnosis.contract import ProfilerError, Sample
from laggard.producers.diagnosis.dumps import hidden
from laggard.producers.diagnosis.helper import HelperError
from laggard.producers.diagnosis.jvm import Jvm
from laggard.producers.diagnosis.states import credentials, inner_pid, thread_states
from laggard.producers.diagnosis.symbols import symbolizer
from laggard.producers.system.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "jcmd"
STOPS = False

DUMP_EVERY_S = 5.0
"""The time between two thread dumps, in seconds, if the kernel samples running threads ..."""

DUMP_ALONE_EVERY_S = 0.2
"""... and if dumps are the only method."""

STOPPED_SHARE = 0.01
"""The limit of the time of a dump, as a share of the time until the next one: all threads wait for a dump."""

MAP_FIRST_S = 0.5
"""The time until the map of the code is requested again, in seconds, if code ran that the last one lacks: busy code is
compiled again. The time doubles at each request, up to ..."""

MAP_EVERY_S = 5.0
"""... this time, while there is code that no map has."""

FRAMES = 64
"""The most functions of a stack, the innermost ones."""

_SIGNATURE = re.compile(r"^(?:\S+ )?([^\s(]+)\(.*\)$")


class Jcmd:
    """Samples Java methods of one process, and shows where its other threads wait.

    The kernel samples running code, as for `perf`. The machine is asked for the names of compiled code
    (`Compiler.perfmap`, from Java 17 on), which stops nothing. These stacks have no callers, since compiled code has no
    frame pointers unless it runs with `-XX:+PreserveFramePointer`. An inlined method has the name of its caller. The
    file that the machine writes is removed after reading.

    Thread dumps contain whole stacks with lines, also of threads that wait. For each the machine brings all threads to
    a safepoint, three times, and the share of time for that is limited. Dumps find running threads only where the
    machine can stop them: with the serial and parallel collectors not inside of counted loops, so that another method
    is named. So they report running threads only if samples of the kernel are not permitted. No dump is requested while
    a thread is in uninterruptible sleep: all others would wait for it.

    Args:
        pid: the pid of the process in laggard's pid namespace.
        clock: the clock.
        root: the mount point of procfs.

    """

    def __init__(self, pid: int, *, clock: Clock | None = None, root: str = "/proc") -> None:
        self.name = NAME
        self.stopped_s = 0.0
        self.cpu_s = 0.0
        self._pid = pid
        self._clock = clock or Clock()
        self._path = f"{root}/{pid}"
        self._jvm = Jvm(pid, root=root)
        self._perf = perf.Perf(pid, clock=self._clock, root=root)
        self._samples_running = self._started = self._unnamed = False
        self._map_ns = self._dump_ns = 0
        self._dumped_s = 0.0  # the time that dumps cover where they are the only method
        self._map_wait_s = MAP_FIRST_S
        self._nameless: list[Sample] = []  # samples in code that the next map may have
        self._notes: dict[str, None] = {}

    @property
    def covered_s(self) -> float:
        """The total time that its results so far cover, in seconds."""
        return self._perf.covered_s + self._dumped_s

    @property
    def notes(self) -> Sequence[str]:
        """The gaps in its results, and the reasons."""
        return [*self._notes, *(self._perf.notes if self._samples_running else ())]

    def start(self) -> None:
        """Start, or start again after a `stop`.

        Raises:
            ProfilerError: it cannot start.

        """
        reason = available(self._pid)
        if reason:
            raise ProfilerError(reason)
        self._unnamed = True
        self._map_wait_s = MAP_FIRST_S
        try:
            self._perf.start()
            self._samples_running = True
            self._map()
        except ProfilerError as error:
            self._note(str(error))
            if not self._samples_running:
                self._note("jcmd: only thread dumps show running threads; they may name a caller of the hot method")
        self._started = True

    def take(self) -> Sequence[Sample]:
        """Return all samples since the last call.

        Raises:
            ProfilerError: the machine no longer answers, and there are no other samples.

        """
        if not self._started:
            return ()
        samples = self._running()
        now = self._clock.monotonic()
        if self._unnamed and now >= self._map_ns:
            try:
                self._map()
            except ProfilerError as error:
                self._note(str(error))
            samples += self._named()
        if now >= self._dump_ns:
            try:
                samples += self._dump()
            except ProfilerError as error:
                if not self._samples_running and Path(self._path).exists():
                    raise
                self._note(str(error))
        return samples

    def stop(self) -> Sequence[Sample]:
        """Stop, and return the remaining samples. The machine continues to listen, as after any `jcmd`."""
        if not self._started:
            return ()
        self._started = False
        samples = self._running() + self._named()
        self._perf.stop()
        self._samples_running = False
        return samples

    def _running(self) -> list[Sample]:
        if not self._samples_running:
            return []
        samples = []
        for sample in self._perf.take():
            innermost = sample.locations[0] if sample.locations else None
            if innermost is not None and not innermost.function and not innermost.module:
                self._unnamed = True
                self._nameless.append(sample)
            else:
                samples.append(_in_java(sample))
        return samples

    def _named(self) -> list[Sample]:
        """Return the samples that waited for the map that has been read since."""
        locate = self._perf.space.locate
        found = [
            sample._replace(
                locations=(locate(sample.locations[0].offset) or sample.locations[0], *sample.locations[1:])
            )
            for sample in self._nameless
        ]
        self._nameless.clear()
        return [_in_java(sample) for sample in found]

    def _map(self) -> None:
        """Have the machine write the names of compiled code, and read them."""
        self._map_ns = self._clock.monotonic() + round(self._map_wait_s * 1e9)
        self._map_wait_s = min(2.0 * self._map_wait_s, MAP_EVERY_S)
        path = self._perf.space.code_map
        name = path.rpartition("/")[2]
        found = self._jvm.found(name)
        if found is not None:  # another program requested it, or wants the machine to write elsewhere
            self._note(self._was_there(path, *found))
            return
        try:
            self._jvm.ask("jcmd", "Compiler.perfmap")
            self._perf.space.read_code_map()
            self._unnamed = False
        finally:
            with contextlib.suppress(ProfilerError):  # it was not written
                self._jvm.remove(name)

    def _was_there(self, path: str, mode: int, uid: int) -> str:
        """Return what a map that was there already means, in words."""
        text = f"jcmd: {self._path}/root{path} already exists, so the virtual machine was not asked to write it"
        # As in `CodeMap`: any user may have put a file there.
        if stat.S_ISREG(mode) and uid in {credentials(self._path)[0], 0}:
            return f"{text}; methods that were compiled later have no names"
        what = f"belongs to user {uid}" if stat.S_ISREG(mode) else "is not a regular file"
        return f"{text}; it {what}, so compiled methods have no names; remove it and profile again"

    def _dump(self) -> list[Sample]:
        begin_ns = self._clock.monotonic()
        every_s = DUMP_EVERY_S if self._samples_running else DUMP_ALONE_EVERY_S
        self._dump_ns = begin_ns + round(every_s * 1e9)
        states = thread_states(self._path)  # before a dump makes all of them wait
        if b"D" in states.values():
            self._note("jcmd: skipped thread dumps while a thread was in uninterruptible sleep, which would block them")
            return []
        dump = self._jvm.ask("threaddump")
        took_ns = self._clock.monotonic() - begin_ns
        self.stopped_s += took_ns / 1e9  # an upper bound: it includes the time until the machine was scheduled
        self._dump_ns = max(self._dump_ns, begin_ns + round(took_ns / STOPPED_SHARE))
        if not self._samples_running:
            self._dumped_s += (self._dump_ns - begin_ns) / 1e9
        samples = []
        inner = self._inner(states)
        if dump.cut:
            self._note(f"jcmd: only the first {len(dump.text) >> 20} MiB of a thread dump were read")
        try:
            stacks = symbolizer().stacks(dump.text)
        except HelperError as error:
            raise ProfilerError(f"jcmd: cannot parse a thread dump of process {self._pid}: {error}") from error
        for nid, locations in stacks:
            tid = inner.get(nid, 0)
            running = states.get(tid) == b"R"
            if tid and locations and not (running and self._samples_running):
                ts = self._clock.wall() / 1e9
                samples.append(Sample(ts, tid, locations[:FRAMES], "running" if running else "blocked"))
        return samples

    def _inner(self, tids: dict[int, bytes]) -> dict[int, int]:
        """Return the ids of threads here by those in the process's own pid namespace, which its dumps contain."""
        if self._jvm.inner_pid == self._pid:
            return {tid: tid for tid in tids}
        found = {}
        for tid in tids:
            inner = inner_pid(f"{self._path}/task/{tid}")
            if inner:
                found[inner] = tid
        return found

    def _note(self, text: str) -> None:
        self._notes.setdefault(text)


def available(pid: int) -> str:
    """Return why the process cannot be asked for its Java methods, in words; empty if it can."""
    reason = Jvm(pid).refusal()
    return type(reason)(f"jcmd: {reason}") if reason else ""


def attach(pid: int) -> Jcmd:
    """Return a profiler of this process, not yet started."""
    return Jcmd(pid)


def _in_java(sample: Sample) -> Sample:
    return sample._replace(locations=tuple(_java(location) for location in sample.locations))


@lru_cache(maxsize=4096)
def _java(location: Location) -> Location:
    """Return a compiled method by its name alone, as in dumps: `long Shop.price(long)` is `Shop.price`."""
    signature = _SIGNATURE.match(location.function) if not location.module else None
    return Location(hidden(signature[1])) if signature else location
