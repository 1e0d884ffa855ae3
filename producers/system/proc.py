"""Parsers of the texts below /proc: bytes in, plain values out, no I/O.

Source of all formats: proc(5) and Documentation/filesystems/proc.rst of Linux. A malformed text raises `ProcError`,
which names the file, the field and what was expected.
"""

from __future__ import annotations

from typing import NamedTuple

from laggard.producers.system.redaction import redact

PF_KTHREAD = 0x00200000
"""The flag of `stat` that marks a kernel thread (include/linux/sched.h)."""

PF_FORKNOEXEC = 0x00000040
"""The flag of a process that was forked and has called no exec: it still runs the program of its parent."""

COMMAND_BYTES = 800
"""The read limit of a command line: at most four bytes for each published character."""

_COMMAND_LENGTH = 200
_STAT_FIELDS = 22  # of `stat` behind the comm, up to rss, the last used one
_DELAY_FIELD = 39  # delayacct_blkio_ticks, counted behind the comm from 0
_IO_KEYS = [b"rchar:", b"wchar:", b"syscr:", b"syscw:", b"read_bytes:", b"write_bytes:", b"cancelled_write_bytes:"]
_SWITCH_KEYS = [b"voluntary_ctxt_switches:", b"nonvoluntary_ctxt_switches:"]
_EXCERPT = 60


class ProcError(ValueError):
    """A text below /proc does not have the format of proc(5)."""

    def __init__(self, file: str, field: str, expected: str, text: bytes) -> None:
        excerpt = text if len(text) <= _EXCERPT else text[:_EXCERPT] + b"..."
        super().__init__(f"{file}, {field}: expected {expected}, got {excerpt!r}")


class Stat(NamedTuple):
    """The used fields of `/proc/PID/stat`; times in clock ticks, `rss_pages` in pages."""

    comm: bytes
    state: bytes
    parent: int
    flags: int
    faults_minor: int
    faults_major: int
    user_ticks: int
    system_ticks: int
    children_ticks: int
    threads: int
    start_ticks: int
    virtual_bytes: int
    rss_pages: int
    io_delay_ticks: int
    children_faults: int


class Status(NamedTuple):
    """The used fields of `/proc/PID/status`; memory is 0 if missing (kernel threads, zombies)."""

    shared_bytes: int
    swap_bytes: int
    switches_voluntary: int
    switches_involuntary: int


class Schedstat(NamedTuple):
    """`/proc/PID/schedstat` of one thread."""

    run_ns: int
    wait_ns: int
    timeslices: int


class Io(NamedTuple):
    """`/proc/PID/io` of the whole process, including its ended threads and the children that it has waited for.

    Also `/proc/PID/task/TID/io` of one thread alone.
    """

    read_characters: int
    write_characters: int
    read_operations: int
    write_operations: int
    read_bytes: int
    write_bytes: int
    cancelled_write_bytes: int


class Cpu(NamedTuple):
    """A `cpu` line of `/proc/stat`, in clock ticks. Guest time is part of user (and niced guest of nice) time."""

    user: int
    nice: int
    system: int
    idle: int
    io_wait: int
    interrupt: int
    soft_interrupt: int
    steal: int
    guest: int
    guest_nice: int


class SystemStat(NamedTuple):
    """`/proc/stat`; `boot` in seconds since the Unix epoch."""

    total: Cpu
    cpus: dict[bytes, Cpu]
    interrupts: int
    switches: int
    forks: int
    running: int
    blocked: int
    soft_interrupts: int
    boot: int


class Vmstat(NamedTuple):
    """The used fields of `/proc/vmstat`: events since boot; `paged_...` in KiB, `swapped_...` in pages."""

    faults: int
    faults_major: int
    paged_in: int
    paged_out: int
    swapped_in: int
    swapped_out: int
    scanned: int
    kills: int


_VMSTAT_NAMES = (
    (b"pgfault",),
    (b"pgmajfault",),
    (b"pgpgin",),
    (b"pgpgout",),
    (b"pswpin",),
    (b"pswpout",),
    (b"pgscan_kswapd", b"pgscan_direct"),
    (b"oom_kill",),
)


class Meminfo(NamedTuple):
    """The used fields of `/proc/meminfo`, in bytes."""

    total: int
    free: int
    available: int
    buffers: int
    cached: int
    active: int
    inactive: int
    shared: int
    slab: int
    dirty: int
    writeback: int
    swap_total: int
    swap_free: int


_MEMINFO_NAMES = (
    b"MemTotal",
    b"MemFree",
    b"MemAvailable",
    b"Buffers",
    b"Cached",
    b"Active",
    b"Inactive",
    b"Shmem",
    b"Slab",
    b"Dirty",
    b"Writeback",
    b"SwapTotal",
    b"SwapFree",
)


def parse_stat(text: bytes, delays: bool = False, file: str = "stat") -> Stat:
    """Parse `/proc/PID/stat`. The block-I/O delay, far behind the rest, is parsed only with `delays`, otherwise 0."""
    begin = text.find(b"(")
    end = text.rfind(b")")  # a comm may hold parentheses, spaces and newlines
    if begin < 0 or end < begin:
        raise ProcError(file, "comm", "a name in parentheses", text)
    fields = text[end + 2 :].split(None, _DELAY_FIELD + 1 if delays else _STAT_FIELDS)
    try:
        return Stat(
            text[begin + 1 : end],
            fields[0],
            int(fields[1]),
            int(fields[6]),
            int(fields[7]),
            int(fields[9]),
            int(fields[11]),
            int(fields[12]),
            int(fields[13]) + int(fields[14]),
            int(fields[17]),
            int(fields[19]),
            int(fields[20]),
            int(fields[21]),
            int(fields[_DELAY_FIELD]) if delays else 0,
            int(fields[8]) + int(fields[10]),
        )
    except (IndexError, ValueError):
        wanted = _DELAY_FIELD + 1 if delays else _STAT_FIELDS
        raise ProcError(file, "the fields behind comm", f"a state and {wanted - 1} integers", text[end + 2 :]) from None


def parse_schedstat(text: bytes, file: str = "schedstat") -> Schedstat:
    """Parse `/proc/PID/schedstat`: time on a CPU, time waiting for one, number of times that it got one."""
    try:
        run, wait, timeslices = text.split()
        return Schedstat(int(run), int(wait), int(timeslices))
    except ValueError:
        raise ProcError(file, "run time, wait time, timeslices", "three integers", text) from None


def parse_io(text: bytes, file: str = "io") -> Io:
    """Parse `/proc/PID/io`."""
    words = text.split()
    if words[0::2] != _IO_KEYS:
        raise ProcError(file, "keys", b" ".join(_IO_KEYS).decode(), text)
    try:
        return Io(*map(int, words[1::2]))
    except (TypeError, ValueError):
        raise ProcError(file, "values", "one integer for each key", text) from None


def parse_status(text: bytes, file: str = "status") -> Status:
    """Parse `/proc/PID/status`."""
    switches = parse_switches(text, file)
    at = text.find(b"\nRssFile:")
    if at < 0:
        return Status(0, 0, *switches)
    # RssFile and RssShmem are neighbors; the kernel may have other lines between them and VmSwap.
    words = text[at : at + 2 * _EXCERPT].split(None, 5)
    swap = text.find(b"\nVmSwap:", at)
    try:
        shared = (int(words[1]) + int(words[4])) * 1024
        swapped = int(text[swap + 8 : text.index(b"k", swap)]) * 1024 if swap >= 0 else 0
    except (IndexError, ValueError):
        raise ProcError(file, "RssFile, RssShmem, VmSwap", "sizes in kB", text[at : at + _EXCERPT]) from None
    return Status(shared, swapped, *switches)


def parse_switches(text: bytes, file: str = "status") -> tuple[int, int]:
    """Parse the last two lines of `/proc/PID/status`: voluntary and involuntary context switches of this thread."""
    words = text[-2 * _EXCERPT :].rsplit(None, 4)[-4:]
    if words[0::2] != _SWITCH_KEYS or not (words[1].isdigit() and words[3].isdigit()):
        raise ProcError(file, "context switches", "two counters at the end", text[-_EXCERPT:])
    return int(words[1]), int(words[3])


def parse_command(text: bytes) -> str:
    """Parse `/proc/PID/cmdline`: the arguments joined by spaces, secrets hidden, unprintable characters as `?`.

    Returns at most 200 characters, out of its first `COMMAND_BYTES`; the empty string for kernel threads and zombies.
    """
    line = text[:COMMAND_BYTES].rstrip(b"\0").decode("utf-8", "replace")
    return printable(redact(line).replace("\0", " "))[:_COMMAND_LENGTH]


def printable(text: str) -> str:
    """Replace control and formatting characters, which could forge a terminal's output, by `?`."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def parse_name(comm: bytes, kernel_thread: bool) -> str:
    """Return the name of a process by its comm. A kernel worker's lacks the part that changes with its work."""
    if kernel_thread and comm.startswith(b"kworker/"):
        return "kworker"
    return printable(redact(comm.decode("utf-8", "replace"))) or "?"


def parse_system_stat(text: bytes, file: str = "/proc/stat") -> SystemStat:
    """Parse `/proc/stat`."""
    cpus: dict[bytes, Cpu] = {}
    scalars: dict[bytes, int] = {}
    line = b""
    try:
        for line in text.splitlines():
            if line.startswith(b"cpu"):
                key, *ticks = line.split()
                # Kernels before 2.6.33 have fewer modes; the missing ones are 0.
                cpus[key] = Cpu(*(list(map(int, ticks)) + [0] * 10)[:10])
            else:
                key, value, *_ = line.split(None, 2)
                scalars[key] = int(value)
    except ValueError:
        raise ProcError(file, "line", "a key and integers", line) from None
    try:
        return SystemStat(
            cpus.pop(b"cpu"),
            cpus,
            scalars[b"intr"],
            scalars[b"ctxt"],
            scalars[b"processes"],
            scalars[b"procs_running"],
            scalars[b"procs_blocked"],
            scalars[b"softirq"],
            scalars[b"btime"],
        )
    except KeyError as missing:
        raise ProcError(file, missing.args[0].decode(), "a line with this key", text) from None


def parse_load(text: bytes, file: str = "/proc/loadavg") -> tuple[float, float, float]:
    """Parse `/proc/loadavg`: tasks running or in uninterruptible sleep, means over 1, 5 and 15 minutes."""
    try:
        one, five, fifteen = map(float, text.split()[:3])
    except ValueError:
        raise ProcError(file, "load", "three numbers", text) from None
    return one, five, fifteen


def parse_pressure(text: bytes, file: str = "/proc/pressure") -> dict[str, int]:
    """Parse a file of `/proc/pressure`: microseconds stalled since boot, of `some` and, if present, `full`."""
    totals = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(b" ")
        _, found, total = rest.rpartition(b"total=")
        if not found or not total.isdigit():
            raise ProcError(file, kind.decode("ascii", "replace"), "total= and an integer", line)
        totals[kind.decode("ascii", "replace")] = int(total)
    return totals


def parse_vmstat(text: bytes, file: str = "/proc/vmstat") -> Vmstat:
    """Parse `/proc/vmstat`; events that this kernel does not have (no swap, say) are 0."""
    words = text.split()
    values = dict(zip(words[0::2], words[1::2], strict=False))
    if b"pgfault" not in values:
        raise ProcError(file, "pgfault", "a line with this name", text)
    try:
        return Vmstat(*[sum(int(values.get(name, b"0")) for name in names) for names in _VMSTAT_NAMES])
    except ValueError:
        raise ProcError(file, "lines", "a name and an integer each", text) from None


def parse_meminfo(text: bytes, file: str = "/proc/meminfo") -> Meminfo:
    """Parse `/proc/meminfo`."""
    values = {}
    for line in text.splitlines():
        name, _, rest = line.partition(b":")
        values[name] = rest
    try:
        return Meminfo(*[int(values[name].split(None, 1)[0]) * 1024 for name in _MEMINFO_NAMES])
    except KeyError as missing:
        raise ProcError(file, missing.args[0].decode(), "a line with this name", text) from None
    except (IndexError, ValueError):
        raise ProcError(file, "lines", "a name and a size in kB each", text) from None


def whole_disks(names: set[str]) -> set[str]:
    """Return the block devices that are not partitions of another one (`sda1` of `sda`, `nvme0n1p2` of `nvme0n1`)."""
    return {name for name in names if _disk_of(name) not in names}


def _disk_of(partition: str) -> str | None:
    """Return the disk of which this would be a partition, by the kernel's rule for their names."""
    stem = partition.rstrip("0123456789")
    if stem == partition or not stem:
        return None
    if stem[-1] == "p" and stem[-2:-1].isdigit():
        return stem[:-1]
    return stem
