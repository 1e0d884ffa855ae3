"""The samples of the threads of a process, added up phase by phase, and cut to size."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from laggard.pipeline.core.records.diagnosis import Location, Phase, Stack, ThreadUse
from laggard.producers.diagnosis.symbols import KERNEL
from laggard.producers.diagnosis.threads import ThreadSample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from laggard.producers.diagnosis.contract import Sample
    from laggard.producers.diagnosis.threads import Thread

STACKS = 512
"""The most different stacks of a thread in a phase. If there are more, the rarer half is counted by state alone."""

ENDED = 2048
"""The number of ended threads that stay in a phase when twice as many have ended: those with the most CPU time."""

_THREAD_BYTES, _STACK_BYTES, _LOCATION_BYTES, _PHASE_BYTES, _RECORD_BYTES = 220, 110, 60, 120, 600
_REFERENCE_BYTES = 6
_SLACK = 0.005  # of all CPUs: a smaller excess is not noted
_FIRST_SHARE = 4  # the stacks of one thread may use one part in this many of what is left of a phase's bytes

# The callers of a thread's first function: in C libraries, in the kernel and in Java; Python's are in one file.
_STUBS = frozenset(
    [
        *("_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main"),
        *("__clone", "clone", "__clone3", "clone3", "start_thread", "thread_start"),
        *("ret_from_fork", "ret_from_fork_asm", "kthread"),
        *("java.lang.Thread.run", "java.lang.Thread.runWith"),
    ]
)
_LIBRARIES = ("libc.so", "libc-", "libpthread", "ld-musl")  # their stubs have no exported symbols


def entry(stack: Sequence[Location]) -> Location:
    """Return where a thread with this stack began: the outermost function that is not the same for all threads.

    Empty if the stack may be incomplete: a native one has to end in a function that all threads have. One of
    interpreted code, which has lines, is always complete.
    """
    if not stack or not (_is_stub(stack[-1]) or stack[-1].line):
        return Location()
    found = next((location for location in reversed(stack) if not _is_stub(location)), Location())
    # For a thread of a program, a function of the kernel shows only that its own functions are unknown.
    return found if found.module != KERNEL or stack[-1].module == KERNEL else Location()


def _is_stub(location: Location) -> bool:
    file = location.module.rpartition("/")[2]
    if not location.function:
        return file.startswith(_LIBRARIES)
    return location.function in _STUBS or file == "threading.py"


class ThreadRecord:
    """One thread in one phase.

    Attributes:
        name: its name; empty if only a profiler has sampled it.
        samples: how often it was sampled, without the samples of profilers.
        base_s: the CPU time in user mode and in the kernel that does not belong to the phase.
        used_s: the CPU time in user mode and in the kernel since it began.

    """

    __slots__ = ("_looks", "_profiled", "base_s", "first_ts", "last_ts", "name", "samples", "tid", "used_s")

    def __init__(self, tid: int, ts: float) -> None:
        self.tid = tid
        self.name = ""
        self.first_ts = self.last_ts = ts
        self.samples = 0
        self.base_s = self.used_s = (0.0, 0.0)
        self._looks: Counter[ThreadSample] = Counter()
        self._profiled: Counter[ThreadSample] = Counter()

    @property
    def cpu_s(self) -> float:
        """The CPU time in this phase, in seconds."""
        return sum(self.used_s) - sum(self.base_s)

    @property
    def found(self) -> bool:
        """Whether a profiler has found where it ran."""
        return any(sample.state == "running" and sample.locations for sample in self._profiled)

    def add(self, thread: Thread, ts: float) -> None:
        """Add a sample. The use since the sample before belongs to the phase, too."""
        if not self.samples:
            self.base_s = thread.before_s
        self.name, self.last_ts = thread.name, ts
        self.used_s = thread.cpu.user_s, thread.cpu.system_s
        self.samples += 1
        self._looks[thread.look] += 1
        _bound(self._looks)

    def add_sample(self, sample: Sample, last: ThreadSample) -> None:
        """Add a sample of a profiler. If it does not show in what the thread is blocked, `last` does."""
        _, _, locations, state, channel, call = sample
        if state == "blocked" == last.state and not channel and not call:
            channel, call = last.wait_channel, last.system_call
        self._profiled[ThreadSample(locations, state, channel, call)] += 1
        _bound(self._profiled)

    def entry(self) -> Location:
        """Return where it began, by most of its complete stacks."""
        entries: Counter[Location] = Counter()
        for sample, count in chain(self._profiled.items(), self._looks.items()):
            entries[entry(sample.locations)] += count
        del entries[Location()]
        return entries.most_common(1)[0][0] if entries else Location()

    def stacks(self) -> list[Stack]:
        """Return its stacks, the most frequent first.

        The agent's samples and those of a profiler have different rates. For each state only the finer ones count:
        those of the profiler, if there are any.
        """
        finer = {sample.state for sample in self._profiled}
        counts = Counter({sample: count for sample, count in self._looks.items() if sample.state not in finer})
        counts.update(self._profiled)
        return [
            Stack(sample.locations, count, sample.state, sample.wait_channel, sample.system_call)
            for sample, count in counts.most_common()
        ]


def _bound(counts: Counter[ThreadSample]) -> None:
    if len(counts) <= STACKS:
        return
    frequent = dict(counts.most_common(STACKS // 2))
    for sample, count in counts.items():
        if sample not in frequent:
            rest = ThreadSample((), sample.state)
            frequent[rest] = frequent.get(rest, 0) + count
    counts.clear()
    counts.update(frequent)


class PhaseRecord:
    """One phase, during it and after.

    Attributes:
        high: whether it is one of high use.
        begin_ts: seconds since the Unix epoch.
        end_ts: the time of its last round; its begin without one.
        samples: the number of its rounds.

    """

    def __init__(self, begin_ts: float, *, high: bool) -> None:
        self.high = high
        self.begin_ts = self.end_ts = begin_ts
        self.samples = 0
        self._living: dict[int, ThreadRecord] = {}
        self._ended: list[ThreadRecord] = []
        self._left_out = 0

    def add(self, ts: float, looked: Iterable[Thread], ended: Iterable[Thread]) -> None:
        """Add a round."""
        self.samples += 1
        self.end_ts = max(self.end_ts, ts)
        for thread in ended:
            self._end(thread.tid)
        for thread in looked:
            record = self._living.get(thread.tid)
            if record is None:
                record = self._living[thread.tid] = ThreadRecord(thread.tid, ts)
            record.add(thread, ts)

    def add_sample(self, sample: Sample, last: ThreadSample) -> None:
        """Add a sample of a profiler."""
        tid = sample.tid
        record = self._living.get(tid) or next((each for each in reversed(self._ended) if each.tid == tid), None)
        if record is None:
            record = self._living[tid] = ThreadRecord(tid, sample.ts)
        record.add_sample(sample, last)

    def hottest(self) -> ThreadRecord | None:
        """Return the thread with the most CPU time; None if no thread has any."""
        records = list(chain(self._living.values(), self._ended))
        first = max(records, key=lambda record: record.cpu_s, default=None)
        return first if first and first.cpu_s > 0 else None

    def phase(self, size_bytes: int, told: set[Location]) -> tuple[Phase, int]:
        """Return this phase as in a record, and its size in bytes.

        Args:
            size_bytes: its limit, approximately.
            told: locations that the record already has; those of this phase are added.

        """
        records = sorted(chain(self._living.values(), self._ended), key=lambda record: record.cpu_s, reverse=True)
        left = size_bytes - _PHASE_BYTES
        threads: list[ThreadUse] = []
        for record in records:
            # The stacks of the first threads may use more bytes than those of the later ones.
            cut = _cut(record.stacks(), max(left // _FIRST_SHARE, _THREAD_BYTES), told)
            size = _THREAD_BYTES + _text_bytes(record.name) + cut.size_bytes
            if size > left:
                break
            left -= size
            told |= cut.locations
            user_s, system_s = (max(0.0, now - base) for now, base in zip(record.used_s, record.base_s, strict=True))
            threads.append(
                ThreadUse(
                    record.tid,
                    record.name,
                    record.entry(),
                    record.first_ts,
                    record.last_ts,
                    user_s,
                    system_s,
                    record.samples,
                    tuple(cut.stacks),
                )
            )
        left_out = self._left_out + len(records) - len(threads)
        phase = Phase(self.high, self.begin_ts, self.end_ts, self.samples, tuple(threads), left_out)
        return phase, size_bytes - left

    def _end(self, tid: int) -> None:
        record = self._living.pop(tid, None)
        if record is None:
            return
        self._ended.append(record)
        if len(self._ended) > 2 * ENDED:
            self._ended.sort(key=lambda record: record.cpu_s, reverse=True)
            self._left_out += len(self._ended) - ENDED
            del self._ended[ENDED:]


class _Cut:
    """The stacks of a thread that fit, the most frequent first; the others are counted by state alone."""

    def __init__(self) -> None:
        self.stacks: list[Stack] = []
        self.locations: set[Location] = set()
        self.size_bytes = 0


def _cut(stacks: list[Stack], size_bytes: int, recorded: set[Location]) -> _Cut:
    cut = _Cut()
    rest: Counter[str] = Counter()
    for stack in stacks:
        new = {location for location in stack.locations if location not in recorded and location not in cut.locations}
        size = (
            _STACK_BYTES
            + _REFERENCE_BYTES * len(stack.locations)
            + _text_bytes(stack.wait_channel)
            + _text_bytes(stack.system_call)
            + sum(_LOCATION_BYTES + _text_bytes(location.function) + _text_bytes(location.module) for location in new)
        )
        if cut.size_bytes + size > size_bytes:
            rest[stack.state] += stack.samples
            continue
        cut.size_bytes += size
        cut.locations |= new
        cut.stacks.append(stack)
    for state in ("running", "blocked"):
        if rest[state]:
            cut.size_bytes += _STACK_BYTES
            cut.stacks.append(Stack((), rest[state], state))
    return cut


def _text_bytes(text: str) -> int:
    """Return the approximate size of a text in a JSON string in ASCII, in bytes."""
    return len(text) if text.isascii() else 12 * len(text)


def phases(records: Sequence[PhaseRecord], size_bytes: int) -> tuple[Phase, ...]:
    """Return all phases, within about this many bytes as JSON: each has an equal part of what the earlier ones left."""
    left = size_bytes - _RECORD_BYTES
    locations: set[Location] = set()
    found = []
    for number, record in enumerate(records):
        phase, size = record.phase(left // (len(records) - number), locations)
        left -= size
        found.append(phase)
    return tuple(found)


def beyond(found: Sequence[Phase], cpus: int) -> Iterator[str]:
    """Yield a note, with the reason, for each phase that used more than these CPUs have."""
    for phase in found:
        length_s = phase.end_ts - phase.begin_ts
        used_s = sum(thread.user_s + thread.system_s for thread in phase.threads)
        if used_s > cpus * length_s * (1.0 + _SLACK) and length_s > 0.0:
            yield (
                f"{100.0 * used_s / length_s:.0f} % of one core in {length_s:.2g} s exceeds the {cpus} CPUs: the kernel"
                " updates CPU time once per tick, and threads are not all read at the same moment"
            )
