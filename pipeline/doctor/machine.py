"""Checks of the data that the machine gives to an agent: permissions, kernel features, limits and the clock."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES_PER_PROCESS = 5
"""The files that the agent keeps open for each process, if it may."""

_RESERVED_FILES = 256
_NAMED = 3
_UNSYNCHRONISED = 5


def examine_machine(proc: Path = Path("/proc")) -> Iterator[Finding]:
    """Run all checks of the machine.

    Args:
        proc: where procfs is mounted.

    """
    processes = [entry for entry in proc.iterdir() if entry.name.isdecimal()]
    yield permissions(processes)
    yield visibility(proc, len(processes))
    yield run_queue(proc)
    yield pressure(proc)
    yield block_delay(proc)
    yield descriptors(len(processes), *resource.getrlimit(resource.RLIMIT_NOFILE))
    yield synchronisation(_clock_state())


def permissions(processes: list[Path]) -> Finding:
    """Check that the hidden counters of other users' processes are readable."""
    unreadable = [path for path in processes if not _readable(path / "io")]
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    if not unreadable:
        return Finding("permissions", "ok", f"all counters of all {len(processes)} processes, as user {user}")
    which = f"{len(unreadable)} of {len(processes)} processes"
    if len(unreadable) <= _NAMED:
        which = f"PID {', '.join(path.name for path in unreadable)}"
    return Finding(
        "permissions",
        "warning",
        f"cannot read I/O and descriptors of {which}: permission denied{' even' * (user == 'root')} for user {user}",
        f"give the agent CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH{'' if os.geteuid() == 0 else ', or run it as root'} "
        "(systemd: AmbientCapabilities=, containers: --cap-add); all else is read without",
    )


def visibility(proc: Path, processes: int) -> Finding:
    """Check that procfs shows other users' processes at all."""
    options = next((mount[3] for mount in mounts(proc) if mount[1] == "/proc" and mount[2] == "proc"), "")
    hidden = next((option for option in options.split(",") if option.startswith("hidepid=")), "hidepid=0")
    if hidden.removeprefix("hidepid=") in {"0", "off"} or os.geteuid() == 0:
        return Finding("processes", "ok", f"{processes} are seen")
    return Finding(
        "processes",
        "warning",
        f"{processes} are seen, others' are not: /proc is mounted with {hidden}",
        "run the agent as root or in the group that the mount option gid= names, or mount -o remount,hidepid=0 /proc",
    )


def run_queue(proc: Path) -> Finding:
    """Check that the kernel counts how long processes wait for a CPU."""
    text = _text(proc / "self/schedstat")
    if any(field != "0" for field in text.split()):
        return Finding("run-queue wait", "ok", "the kernel counts it (schedstat)")
    return Finding(
        "run-queue wait",
        "warning",
        "the kernel does not count how long processes wait for a CPU",
        "use a kernel with CONFIG_SCHED_INFO; cpu_wait_ratio is missing without",
    )


def pressure(proc: Path) -> Finding:
    """Check that the kernel has pressure stall information."""
    missing = [kind for kind in ("cpu", "io", "memory") if not _text(proc / "pressure" / kind)]
    if not missing:
        return Finding("pressure", "ok", "pressure stall information of cpu, io and memory")
    return Finding(
        "pressure",
        "warning",
        f"no pressure stall information of {', '.join(missing)}",
        "boot with psi=1 a kernel of 4.20 or newer with CONFIG_PSI; the host's pressure is missing without",
    )


def block_delay(proc: Path) -> Finding:
    """Check that the kernel counts how long processes wait for block I/O."""
    # Before Linux 5.14 there was no switch: it was on, unless booted with nodelayacct.
    if _text(proc / "sys/kernel/task_delayacct").strip() in {"1", ""}:
        return Finding("block-I/O delay", "ok", "the kernel counts it")
    return Finding(
        "block-I/O delay",
        "warning",
        "the kernel does not count how long processes wait for block I/O",
        "sysctl kernel.task_delayacct=1 (and in /etc/sysctl.d to keep it); io_delay_ratio is missing without",
    )


def descriptors(processes: int, soft: int, hard: int) -> Finding:
    """Check that the agent may keep the files of all processes open, which makes it cheap."""
    wanted = processes * FILES_PER_PROCESS + _RESERVED_FILES
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return Finding("open files", "ok", f"the limit allows the {wanted} that the agent wants")
    return Finding(
        "open files",
        "warning",
        f"the limit is {hard} (soft {soft}), the agent wants {wanted}",
        "raise it (ulimit -Hn, systemd: LimitNOFILE=65536); the agent costs more without",
    )


def synchronisation(state: int | None) -> Finding:
    """Check that the clock is synchronized.

    Args:
        state: the result of adjtimex(2); None if it is not available.

    """
    if state is None:
        return Finding("clock", "ok", "unknown whether it is synchronized")
    if state != _UNSYNCHRONISED:
        return Finding("clock", "ok", "synchronized")
    return Finding(
        "clock",
        "warning",
        "not synchronized",
        "install chrony or systemd-timesyncd; on one machine laggard works without, times of several do not agree",
    )


def mounts(proc: Path) -> list[list[str]]:
    """Return the fields of all mounts: device, mount point, type, options and the rest."""
    return [fields for line in _text(proc / "self/mounts").splitlines() if len(fields := line.split(" ")) >= 4]


def _clock_state() -> int | None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "adjtimex"):
        return None
    # struct timex has about 208 bytes; with all zeros adjtimex changes nothing.
    state = library.adjtimex(ctypes.create_string_buffer(512))
    return None if state < 0 else int(state)


def _readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except PermissionError:
        return False
    except OSError:
        return True  # the process has ended
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
