"""Decode the kernel's binary events to rows of `Events`: by columns, all events of a kind at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.diagnosis import system_calls
from laggard.producers.trace.boundaries.markers import parse_marker
from laggard.producers.trace.events import EVENT, NO_TEXT, Flags, Kind
from laggard.producers.trace.ftrace.fields import Fields, text_of
from laggard.producers.trace.ftrace.merging import merged
from laggard.producers.trace.ftrace.pages import LATEST_NS, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from laggard.producers.trace.boundaries.probes import Probe
    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.ftrace.formats import Format, Header
    from laggard.producers.trace.ftrace.pages import Located

MARKER: Final = "ftrace/print"
"""The event of a write to `trace_marker`."""

EVENTS: Final[Mapping[str, Kind]] = {
    "sched/sched_switch": Kind.SWITCH,
    "sched/sched_waking": Kind.WAKE,
    "task/task_newtask": Kind.FORK,  # not sched_process_fork, which does not distinguish threads from processes
    "task/task_rename": Kind.NAMED,
    "sched/sched_process_exec": Kind.EXEC,
    "sched/sched_process_exit": Kind.EXIT,
    "raw_syscalls/sys_enter": Kind.SYSCALL_ENTER,
    "raw_syscalls/sys_exit": Kind.SYSCALL_EXIT,
    "irq/irq_handler_entry": Kind.IRQ_ENTER,
    "irq/irq_handler_exit": Kind.IRQ_EXIT,
    "irq/softirq_entry": Kind.SOFTIRQ_ENTER,
    "irq/softirq_exit": Kind.SOFTIRQ_EXIT,
    "timer/hrtimer_expire_entry": Kind.TIMER_ENTER,
    "timer/hrtimer_expire_exit": Kind.TIMER_EXIT,
    "block/block_rq_issue": Kind.BLOCK_ISSUE,
    "block/block_rq_complete": Kind.BLOCK_COMPLETE,
}
"""The recorded events and their kinds; `irq_vectors/*_entry` and `_exit` are interrupts, too."""

VECTORS: Final = "irq_vectors/"

PREEMPTED: Final = 0x100
"""The bit of `prev_state` for preemption (TASK_REPORT_MAX of include/linux/sched.h)."""

_CLONE_THREAD: Final = 0x00010000
_HARD, _SOFT, _NMI = 0x08, 0x10, 0x40  # of common_flags (include/linux/trace_events.h)
_COMMON_BYTES: Final = 8  # type, flags, count and thread: the beginning of each event
_SECTOR: Final = 512
_NUMBERS: Final = 512  # of system calls in the table; others are named one by one
_COMM_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


class _ThreadNames:
    """The names of threads in events.

    Args:
        texts: the table to which texts are added.

    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._known = (np.zeros(0, np.uint64), np.zeros(0, np.int32))  # keys in order, and places

    def places(self, some: Fields, field: str) -> NDArray[np.int32]:
        """Return the places of the texts of a `char[16]`, for example names of threads: few are ever new."""
        columns = some.comm(field)
        pairs = columns.view(np.uint64)
        keys = pairs[:, 0] ^ (pairs[:, 1] * _COMM_MIX)
        known, places = self._known
        found = np.searchsorted(known, keys)
        found[found == len(known)] = 0
        new = known[found] != keys if len(known) else np.ones(len(keys), bool)
        if new.any():
            fresh, first = np.unique(keys[new], return_index=True)
            texts = columns[new][first].view("S16").ravel()
            entered = [self._texts.place(text_of(text)) for text in texts.tolist()]
            known, places = np.concatenate([known, fresh]), np.concatenate([places, np.array(entered, np.int32)])
            order = np.argsort(known)
            self._known = known, places = known[order], places[order]
            found = np.searchsorted(known, keys)
        return places[found]


class _SystemCalls:
    """The numbers and names of system calls in events.

    Args:
        texts: the table to which texts are added.
        machine: the recording machine by uname(2).

    """

    def __init__(self, texts: Texts, machine: str) -> None:
        self._texts = texts
        self._machine = machine
        names = [system_calls.name(number, machine=machine) for number in range(_NUMBERS)]
        numbers = {system_calls.name(number, machine="x86_64"): number for number in range(_NUMBERS)}
        # By the recording machine's number: the number on x86-64 (-1 for none), and the place of the name.
        self._numbers = np.array([numbers.get(name, -1) for name in names], np.int64)
        self._names = np.array([texts.place(name) for name in names], np.int32)

    def fill(self, some: Fields, rows: NDArray[np.void]) -> None:
        """Fill the rows of some entries or exits."""
        numbers = some.column("id")
        usual = (numbers >= 0) & (numbers < _NUMBERS)
        index = np.where(usual, numbers, 0)
        rows["a"][some.rows] = np.where(usual, self._numbers[index], -1)
        places = np.where(usual, self._names[index], NO_TEXT)
        for odd in np.unique(numbers[~usual]).tolist():
            places[numbers == odd] = self._texts.place(system_calls.name(odd, machine=self._machine))
        rows["text"][some.rows] = places
        if some.has("ret"):
            rows["b"][some.rows] = some.column("ret")
        else:
            rows["b"][some.rows], rows["c"][some.rows] = some.column("args"), some.column("args", 8)


class Decoder:
    """Decodes the pages of all CPUs of a trace.

    Args:
        formats: the formats of the events, by `system/event`.
        header: the header of the pages.
        texts: the table to which texts are added.
        machine: the recording machine by uname(2), for the numbers of system calls.
        probes: the recorded boundaries, by `system/event`.
        devices: the names of block devices, by `major << 20 | minor`.

    Attributes:
        damaged: the number of pages with an invalid event, and of events that are too short for their kind or have an
            impossible time.

    """

    def __init__(
        self,
        formats: Mapping[str, Format],
        header: Header,
        texts: Texts,
        *,
        machine: str,
        probes: Mapping[str, Probe],
        devices: Mapping[int, str],
    ) -> None:
        self.damaged = 0
        self._header = header
        self._texts = texts
        self._devices = {number: texts.place(name) for number, name in devices.items()}
        self._probes = {formats[name].number: probe for name, probe in probes.items() if name in formats}
        self._formats = {form.number: form for form in formats.values()}
        self._kinds = np.zeros(1 << 16, np.uint8)
        self._sizes = np.full(1 << 16, _COMMON_BYTES, np.int32)
        for form in formats.values():
            self._sizes[form.number] = max(field.offset + field.size for field in form.fields.values())
        self._vectors: dict[int, int] = {}
        self._marker = -1
        for name, form in formats.items():
            self._know(name, form)
        self._interrupts: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._thread_names = _ThreadNames(texts)
        self._system_calls = _SystemCalls(texts, machine)
        self._fillers: dict[Kind, Callable[[Fields, NDArray[np.void]], None]] = {
            Kind.SWITCH: self._switch,
            Kind.WAKE: self._wake,
            Kind.FORK: self._fork,
            Kind.NAMED: self._named,
            Kind.EXEC: self._exec,
            Kind.SYSCALL_ENTER: self._system_calls.fill,
            Kind.SYSCALL_EXIT: self._system_calls.fill,
            Kind.IRQ_ENTER: self._interrupt,
            Kind.IRQ_EXIT: self._interrupt,
            Kind.SOFTIRQ_ENTER: self._soft,
            Kind.SOFTIRQ_EXIT: self._soft,
            Kind.BLOCK_ISSUE: self._block,
            Kind.BLOCK_COMPLETE: self._block,
        }

    def decode(self, pages: NDArray[np.uint8], cpus: NDArray[np.int16]) -> NDArray[np.void]:
        """Decode all events of some pages, in the order of time.

        Args:
            pages: the pages, shape (n, bytes of a page); those of one CPU in the order in which they were read.
            cpus: the CPU of each page, shape (n,).

        Returns:
            Rows of dtype `EVENT`.

        """
        located = locate(pages, self._header)
        self.damaged += len(located.damaged)
        lost = self._lost(located, cpus)
        words = located.words
        number = (words[located.at] & 0xFFFF).astype(np.int64)
        complete = (located.length >= self._sizes[number]) & (located.ts >= 0) & (located.ts <= LATEST_NS)
        order = np.argsort(located.ts, kind="stable")
        if not complete.all():
            self.damaged += int((~complete).sum())
            order = order[complete[order]]
        at, number = located.at[order], number[order]
        first = words[at]
        rows = np.zeros(len(at), EVENT)
        rows["ts"] = located.ts[order]
        rows["cpu"] = cpus[located.page[order]]
        rows["kind"] = self._kinds[number]
        rows["tid"] = words[at + 1].view(np.int32)
        rows["text"] = rows["host"] = NO_TEXT
        context = first >> 16
        rows["flags"] = (
            np.where(context & (_HARD | _NMI), Flags.HARD, 0) | np.where(context & _SOFT, Flags.SOFT, 0) | Flags.KNOWN
        )
        length = located.length[order]
        for value in np.unique(number).tolist():
            chosen = np.flatnonzero(number == value)
            some = Fields(self._formats.get(value), words, at[chosen], length[chosen], chosen)
            if value == self._marker:
                self._marked(some, rows)
            elif value in self._probes:
                self._probed(some, rows, self._probes[value])
            elif (kind := int(self._kinds[value])) in self._fillers:
                self._fillers[Kind(kind)](some, rows)
        # Markers of other programs are ignored.
        return merged([rows[rows["kind"] != 0], lost])

    def _know(self, name: str, form: Format) -> None:
        if name == MARKER:
            self._marker = form.number
        elif name in EVENTS:
            self._kinds[form.number] = EVENTS[name]
        elif name.startswith(VECTORS):
            vector, _, edge = name.removeprefix(VECTORS).rpartition("_")
            self._kinds[form.number] = Kind.IRQ_ENTER if edge == "entry" else Kind.IRQ_EXIT
            self._vectors[form.number] = self._texts.place(vector)

    def _lost(self, located: Located, cpus: NDArray[np.int16]) -> NDArray[np.void]:
        """Return the gaps before pages, each since the CPU's last event, and note the new last event of each CPU."""
        ends = np.flatnonzero(np.diff(located.page, append=-1)).tolist()
        last = {int(located.page[end]): int(located.ts[end]) for end in ends}
        gaps = {missing.page: missing for missing in located.missing}
        rows = np.zeros(len(gaps), EVENT)
        rows["kind"], rows["tid"], rows["text"], rows["host"] = Kind.LOST, -1, NO_TEXT, NO_TEXT
        filled = 0
        for page, cpu in enumerate(cpus.tolist()):
            missing = gaps.get(page)
            if missing is not None:
                begin = self._last.get(cpu, missing.begin_ns)
                row = rows[filled]
                row["cpu"], row["ts"], row["a"], row["b"], row["c"] = (
                    cpu,
                    missing.begin_ns,
                    begin,
                    missing.begin_ns,
                    missing.events,
                )
                filled += 1
            if page in last:
                self._last[cpu] = last[page]
        return rows

    def _switch(self, some: Fields, rows: NDArray[np.void]) -> None:
        state = some.column("prev_state")
        rows["a"][some.rows] = some.column("next_pid")
        rows["b"][some.rows] = (state == 0) | ((state & PREEMPTED) != 0)
        rows["c"][some.rows] = state
        rows["text"][some.rows] = self._thread_names.places(some, "next_comm")
        # The event names the leaving thread; `common_pid` is the same except for a thread that is just ending.
        rows["tid"][some.rows] = some.column("prev_pid")

    def _wake(self, some: Fields, rows: NDArray[np.void]) -> None:
        rows["a"][some.rows] = some.column("pid")

    def _fork(self, some: Fields, rows: NDArray[np.void]) -> None:
        children = some.column("pid")
        rows["a"][some.rows] = children
        # A new thread's process is that of its creator: `Processes` fills it in.
        rows["b"][some.rows] = np.where(some.column("clone_flags") & _CLONE_THREAD, 0, children)
        rows["text"][some.rows] = self._thread_names.places(some, "comm")

    def _named(self, some: Fields, rows: NDArray[np.void]) -> None:
        rows["a"][some.rows] = some.column("pid")
        rows["text"][some.rows] = self._thread_names.places(some, "newcomm")

    def _exec(self, some: Fields, rows: NDArray[np.void]) -> None:
        rows["text"][some.rows] = [self._texts.place(text) for text in some.texts("filename")]

    def _interrupt(self, some: Fields, rows: NDArray[np.void]) -> None:
        if some.has("vector"):
            rows["a"][some.rows] = some.column("vector")
            rows["text"][some.rows] = self._vectors[some.number]
            return
        numbers = some.column("irq")
        rows["a"][some.rows] = numbers
        if some.has("name"):
            different, first = np.unique(numbers, return_index=True)
            for number, index in zip(different.tolist(), first.tolist(), strict=True):
                if number not in self._interrupts:
                    self._interrupts[number] = self._texts.place(some.text(index, "name"))
            rows["text"][some.rows] = [self._interrupts[number] for number in numbers.tolist()]

    def _soft(self, some: Fields, rows: NDArray[np.void]) -> None:
        rows["a"][some.rows] = some.column("vec")

    def _block(self, some: Fields, rows: NDArray[np.void]) -> None:
        devices = some.column("dev")
        rows["a"][some.rows], rows["b"][some.rows] = devices, some.column("sector")
        rows["c"][some.rows] = some.column("bytes") if some.has("bytes") else some.column("nr_sector") * _SECTOR
        rows["text"][some.rows] = [self._devices.get(device, NO_TEXT) for device in devices.tolist()]

    def _marked(self, some: Fields, rows: NDArray[np.void]) -> None:
        for index, row in enumerate(some.rows.tolist()):
            mark = parse_marker(some.rest(index, "buf"))
            if mark is not None:
                rows["kind"][row], rows["a"][row] = mark.kind, mark.request
                rows["text"][row] = self._texts.place(mark.text) if mark.text else NO_TEXT

    def _probed(self, some: Fields, rows: NDArray[np.void], probe: Probe) -> None:
        rows["kind"][some.rows] = probe.kind
        if probe.kind == Kind.BEGIN:
            columns = [some.texts(name) for name in probe.texts]
            for index, row in enumerate(some.rows.tolist()):
                rows["text"][row] = self._texts.place(probe.text([column[index] for column in columns]))
