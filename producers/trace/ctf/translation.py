"""Translate the events of LTTng and perf to laggard's, by their old and new names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.diagnosis import system_calls
from laggard.producers.trace.boundaries.markers import parse_marker
from laggard.producers.trace.ctf.addresses import packet_id
from laggard.producers.trace.ctf.arguments import Extra, accepted, connected, named
from laggard.producers.trace.events import EVENT, NO_TEXT, Flags, Kind
from laggard.producers.trace.steady import asked_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.producers.trace.ctf.columns import Columns

UNKNOWN_THREAD: Final = -1

SWITCHES: Final = frozenset(["sched_switch", "sched:sched_switch"])
"""One of these is needed to know the running threads."""

_COULD_RUN: Final = 0xFF
"""The bits of a thread's state for why it does not run; higher bits show whether it was preempted."""

_SECTOR_BYTES: Final = 512
_HARD_FLAG, _SOFT_FLAG = 0x08, 0x10  # of `common_flags`, as ftrace and perf have it


class Boundary(NamedTuple):
    """A pair of a program's own events that bound a request on the thread that they come from.

    Attributes:
        begin: the full name of the first event, `php:request_start`.
        end: the full name of the last event.
        service: the service of the requests; may be empty.

    """

    begin: str
    end: str
    service: str = ""


BOUNDARIES: Final = (
    Boundary("ust_php:request_entry", "ust_php:request_exit", "php"),
    Boundary("ust_php:request_start", "ust_php:request_exit", "php"),
    Boundary("php:request_start", "php:request_exit", "php"),
)
"""The names in the versions of the tracing extension of PHP (https://github.com/naser/LTTng-enabled-PHP)."""

_ASKED: Final = ("uri", "request_uri", "url", "path", "route", "name", "request")

_MARKERS: Final = {"lttng_ust_tracef:event": "msg", "lttng_python:event": "msg", "ust_php:trace_print": "marker"}
"""Events with a free text, and its field; a text in laggard's form bounds a request."""

# The kernel's own names of system calls, used by LTTng, where they differ from those of the manual.
_CALLS: Final = {
    "newstat": "stat",
    "newfstat": "fstat",
    "newlstat": "lstat",
    "newuname": "uname",
    "sendfile64": "sendfile",
    "umount": "umount2",
    "sysctl": "_sysctl",
}
_ENTRY: Final = re.compile(
    r"(?:(?:compat_)?(?:syscall_entry_|sys_)|syscalls:sys_enter_)(?P<call>\w+)|(?P<raw>raw_syscalls:sys_enter)"
)
_EXIT: Final = re.compile(
    r"(?:(?:compat_)?syscall_exit_|syscalls:sys_exit_)(?P<call>\w+)|(?P<raw>raw_syscalls:sys_exit|exit_syscall)"
)
_VECTOR: Final = re.compile(r"(?:irq_vectors:|x86_irq_vectors_)(?P<name>\w+)_(?P<edge>entry|exit)")

_OPENS: Final = frozenset(["open", "openat", "openat2", "creat"])

Rule = Callable[["Translation", "Columns", "NDArray[np.void]"], "Sequence[Extra]"]
"""Fills in the kind and the columns of events of one class; events without a kind are skipped."""


@dataclass(slots=True)
class Translation:
    """Turns columns into events; remembers data of one event that another one needs.

    Attributes:
        boundaries: the events that bound requests.
        devices: names of block devices by number.
        tables: the process of each known table of descriptors.
        has_waking: whether the trace has `sched_waking`, so that `sched_wakeup` adds nothing.

    """

    boundaries: Sequence[Boundary] = BOUNDARIES
    devices: dict[int, str] = field(default_factory=dict)
    tables: dict[int, int] = field(default_factory=dict)
    has_waking: bool = False
    _rules: dict[str, Rule | None] = field(default_factory=dict)

    def rule(self, name: str) -> Rule | None:
        """Return the rule for the events of a class; None to skip them."""
        if name not in self._rules:
            self._rules[name] = self._found(name)
        return self._rules[name]

    def _found(self, name: str) -> Rule | None:
        for boundary in self.boundaries:
            if name in (boundary.begin, boundary.end):
                return _begin(boundary.service) if name == boundary.begin else _plain(Kind.END)
        provider, _, short = name.rpartition(":")
        if name in _MARKERS:
            return _marker
        if self.has_waking and short == "sched_wakeup":
            return None
        return _NAMED.get(name) or (_NAMED.get(short) if provider in _PERF else None) or _by_form(name)

    def events(self, columns: Columns, ts: NDArray[np.int64], cpu: int) -> tuple[NDArray[np.void], Sequence[Extra]]:
        """Return the events of one class, without a kind if they are skipped."""
        rows = blank(columns.count)
        rows["ts"] = ts
        rows["cpu"] = cpu
        rule = self.rule(columns.name)
        if rule is None:
            return rows, ()
        # A program's own number of its thread may be valid in its container only.
        fields = ("context.tid", "perf_tid", "common_pid", *(("context.vtid",) if ":" in columns.name else ()))
        tid = columns.integers(*fields)
        if tid is not None:
            rows["tid"] = tid
        flags = columns.integers("common_flags")
        if flags is not None:
            rows["flags"] = (
                int(Flags.KNOWN)
                | np.where(flags & _HARD_FLAG, int(Flags.HARD), 0)
                | np.where(flags & _SOFT_FLAG, int(Flags.SOFT), 0)
            )
        return rows, rule(self, columns, rows)


def blank(count: int) -> NDArray[np.void]:
    """Return `count` empty events."""
    rows = np.zeros(count, EVENT)
    rows["tid"] = UNKNOWN_THREAD
    rows["text"] = rows["host"] = NO_TEXT
    return rows


@cache
def call_numbers() -> Mapping[str, int]:
    """Return the numbers of system calls on x86-64, by name."""
    names = {number: system_calls.name(number, machine="x86_64") for number in range(600)}
    return {name: number for number, name in names.items() if not name.startswith("syscall_")}


@cache
def call_name(number: int) -> str:
    """Return the name of a system call of x86-64."""
    return system_calls.name(number, machine="x86_64")


def _by_form(name: str) -> Rule | None:
    """Return the rule for a system call or an interrupt whose name is part of the event's."""
    for form, kind in ((_EXIT, Kind.SYSCALL_EXIT), (_ENTRY, Kind.SYSCALL_ENTER)):
        match = form.fullmatch(name)
        if match is not None:
            return _raw_call(kind) if match["raw"] else _call(kind, match["call"])
    vector = _VECTOR.fullmatch(name)
    if vector is not None:
        return _vector(Kind.IRQ_ENTER if vector["edge"] == "entry" else Kind.IRQ_EXIT, vector["name"])
    return None


def _fill(rows: NDArray[np.void], column: str, values: NDArray[np.generic] | None) -> None:
    if values is not None:
        rows[column] = values


def _plain(kind: Kind, *, a: Iterable[str] = (), b: Iterable[str] = (), text: Iterable[str] = ()) -> Rule:
    """Return the rule that copies fields to columns."""
    a, b, text = tuple(a), tuple(b), tuple(text)

    def rule(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
        rows["kind"] = kind
        _fill(rows, "a", columns.integers(*a))
        _fill(rows, "b", columns.integers(*b))
        _fill(rows, "text", columns.texts(*text))
        return ()

    return rule


def _switch(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
    rows["kind"] = Kind.SWITCH
    _fill(rows, "tid", columns.integers("prev_tid", "prev_pid"))
    _fill(rows, "a", columns.integers("next_tid", "next_pid"))
    _fill(rows, "text", columns.texts("next_comm"))
    state = columns.integers("prev_state")
    if state is not None:
        rows["b"] = (state & _COULD_RUN) == 0
        rows["c"] = state
    return ()


def _fork(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
    rows["kind"] = Kind.FORK
    child = columns.integers("child_tid")
    _fill(rows, "a", columns.integers("child_pid") if child is None else child)
    if child is not None:
        _fill(rows, "b", columns.integers("child_pid"))
    _fill(rows, "text", columns.texts("child_comm"))
    return ()


def _state(translation: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
    """Translate a thread that existed when the recording began."""
    _plain(Kind.NAMED, a=("tid",), b=("pid",), text=("name",))(translation, columns, rows)
    tables = columns.integers("file_table_address")
    if tables is not None:
        translation.tables.update(zip(tables.tolist(), rows["b"].tolist(), strict=True))
    return ()


def _descriptor(translation: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
    """Translate a descriptor that was open when the recording began."""
    process, tables = columns.integers("pid"), columns.integers("file_table_address")
    if process is None and tables is not None:
        known = [translation.tables.get(table, UNKNOWN_THREAD) for table in tables.tolist()]
        process = np.array(known, np.int64)
    if process is None:
        return ()
    rows["kind"] = np.where(process > 0, int(Kind.OPENED), 0)
    rows["tid"] = process
    _fill(rows, "a", columns.integers("fd"))
    _fill(rows, "text", columns.texts("filename"))
    return ()


def _device(translation: Translation, columns: Columns, _: NDArray[np.void]) -> Sequence[Extra]:
    numbers, names = columns.integers("dev"), columns.bytes("diskname")
    if numbers is not None and names is not None:
        for number, name in zip(numbers.tolist(), names, strict=True):
            translation.devices[number] = name.decode(errors="replace")
    return ()


def _block(kind: Kind) -> Rule:
    def rule(translation: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
        rows["kind"] = kind
        device, sectors = columns.integers("dev"), columns.integers("nr_sector")
        _fill(rows, "a", device)
        _fill(rows, "b", columns.integers("sector"))
        size = columns.integers("bytes")
        if sectors is not None and (size is None or not size.any()):
            size = sectors * _SECTOR_BYTES
        _fill(rows, "c", size)
        for number in set(device.tolist()) if device is not None else ():
            name = translation.devices.get(number) or f"{number >> 20}:{number & 0xFFFFF}"
            rows["text"][rows["a"] == number] = columns.table.place(name)
        return ()

    return rule


def _vector(kind: Kind, name: str) -> Rule:
    def rule(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
        rows["kind"] = kind
        rows["text"] = columns.table.place(name)
        _fill(rows, "a", columns.integers("vector"))
        return ()

    return rule


def _network(kind: Kind) -> Rule:
    def rule(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
        walked = columns.walked()
        if walked:
            identities = np.array([packet_id(fields) for fields in walked], np.int64)
            rows["a"] = identities
            rows["kind"] = np.where(identities != 0, int(kind), 0)
        return ()

    return rule


def _call(kind: Kind, call: str) -> Rule:
    """Return the rule for a system call whose event has its name."""
    call = _CALLS.get(call, call)
    number = call_numbers().get(call, -1)

    def rule(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
        rows["kind"] = kind
        rows["a"] = number
        rows["text"] = columns.table.place(call)
        if kind is Kind.SYSCALL_EXIT:
            _fill(rows, "b", columns.integers("ret"))
            return accepted(columns, rows) if call in ("accept", "accept4") else ()
        own = [name for name in columns.fields() if not name.startswith(("common_", "_", "perf_"))][:2]
        for column, name in zip("bc", own, strict=False):
            _fill(rows, column, columns.integers(name))
        if call == "connect":
            return connected(columns, rows)
        return named(columns, rows, opens=call in _OPENS)

    return rule


def _raw_call(kind: Kind) -> Rule:
    """Return the rule for a system call by its number, from perf; or for the old LTTng's exit, without one."""

    def rule(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
        rows["kind"] = kind
        numbers = columns.integers("id")
        rows["a"] = -1 if numbers is None else numbers
        if kind is Kind.SYSCALL_EXIT:
            _fill(rows, "b", columns.integers("ret"))
        else:
            _fill(rows, "b", columns.integers("args[0]"))
            _fill(rows, "c", columns.integers("args[1]"))
        if numbers is not None:
            places = {number: columns.table.place(call_name(number)) for number in set(numbers.tolist())}
            rows["text"] = [places[number] for number in numbers.tolist()]
        return ()

    return rule


def _begin(service: str) -> Rule:
    def rule(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
        rows["kind"] = Kind.BEGIN
        requests, methods = columns.bytes(*_ASKED), columns.bytes("method")
        names = [b""] * len(rows) if requests is None else requests
        for index, name in enumerate(names):
            full = (methods[index] + b" " + name if methods else name).decode(errors="replace")
            rows["text"][index] = columns.table.place(f"{service}\t{asked_for(full)}")
        return ()

    return rule


def _marker(_: Translation, columns: Columns, rows: NDArray[np.void]) -> Sequence[Extra]:
    """Translate a text of a program; one in laggard's form bounds a request."""
    for index, text in enumerate(columns.bytes(_MARKERS[columns.name]) or ()):
        mark = parse_marker(text.decode(errors="replace"))
        if mark is not None:
            rows["kind"][index] = mark.kind
            rows["a"][index] = mark.request
            rows["text"][index] = columns.table.place(mark.text) if mark.kind is Kind.BEGIN else NO_TEXT
    return ()


_PERF: Final = frozenset(["sched", "irq", "timer", "block", "net"])

_NAMED: Final[dict[str, Rule]] = {
    "sched_switch": _switch,
    **dict.fromkeys(
        ("sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_ttwu"), _plain(Kind.WAKE, a=("tid", "pid"))
    ),
    "sched_process_fork": _fork,
    "sched_process_exec": _plain(Kind.EXEC, text=("filename",)),
    "sched_process_exit": _plain(Kind.EXIT),
    "lttng_statedump_process_state": _state,
    "lttng_statedump_file_descriptor": _descriptor,
    "lttng_statedump_block_device": _device,
    "irq_handler_entry": _plain(Kind.IRQ_ENTER, a=("irq",), text=("name",)),
    "irq_handler_exit": _plain(Kind.IRQ_EXIT, a=("irq",)),
    **dict.fromkeys(("irq_softirq_entry", "softirq_entry"), _plain(Kind.SOFTIRQ_ENTER, a=("vec",))),
    **dict.fromkeys(("irq_softirq_exit", "softirq_exit"), _plain(Kind.SOFTIRQ_EXIT, a=("vec",))),
    **dict.fromkeys(("timer_hrtimer_expire_entry", "hrtimer_expire_entry"), _plain(Kind.TIMER_ENTER)),
    **dict.fromkeys(("timer_hrtimer_expire_exit", "hrtimer_expire_exit"), _plain(Kind.TIMER_EXIT)),
    "block_rq_issue": _block(Kind.BLOCK_ISSUE),
    "block_rq_complete": _block(Kind.BLOCK_COMPLETE),
    "net_dev_queue": _network(Kind.NET_SEND),
    **dict.fromkeys(("net_if_receive_skb", "netif_receive_skb"), _network(Kind.NET_RECEIVE)),
}
