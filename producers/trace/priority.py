"""The priority of a tracer: it must get a CPU before the programs that it follows, or it loses their events.

An overloaded machine gives each runnable thread an equal share, so a tracer falls behind exactly when its results are
needed. It takes little time on average, so the others lose little. Source: sched(7), "The autogroup feature" and "The
nice value"; cgroup-v2.rst of Documentation/admin-guide of Linux, "CPU".
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

NICE: Final = -10
"""The nice value of the tracer: 9.5 times the share of a thread with 0."""

WEIGHT: Final = 1000
"""The CPU weight of a cgroup that has only the tracer: 10 times the usual one."""

_USUAL_WEIGHT: Final = "100"


def raise_priority(proc: Path = Path("/proc/self"), cgroups: Path = Path("/sys/fs/cgroup")) -> tuple[str, str]:
    """Raise the priority of this process, as far as it may.

    A nice value other than 0 stays: a user has chosen it. The nice value of a session (autogroup) is set only by its
    leader, and the weight of a cgroup only if no other process is in it.

    Returns:
        The priority in words, and why it is not raised; the latter is empty if it is.

    """
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    if nice:
        return f"nice {nice}", ""
    refusal = ""
    try:
        for thread in sorted(map(int, os.listdir(proc / "task"))):  # noqa: PTH208 - names only
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, NICE)
        if os.getsid(0) == os.getpid() and (proc / "autogroup").exists():
            (proc / "autogroup").write_text(str(NICE))
    except OSError as error:
        refusal = f"its priority is not raised ({error.strerror}): it needs CAP_SYS_NICE, or Nice={NICE} in its unit"
    weight = _own_weight(proc, cgroups)
    parts = [f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"]
    if weight is not None:
        with contextlib.suppress(OSError):
            weight.write_text(str(WEIGHT))
            parts.append(f"CPU weight {WEIGHT} of its cgroup")
            refusal = ""
    return ", ".join(parts), refusal


def _own_weight(proc: Path, cgroups: Path) -> Path | None:
    """Return the file with the weight of its cgroup if it is alone in it and the weight is the usual one."""
    with contextlib.suppress(OSError):
        lines = (proc / "cgroup").read_text().splitlines()
        inside = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
        folder = cgroups / inside
        weight = folder / "cpu.weight"
        alone = inside and (folder / "cgroup.procs").read_text().split() == [str(os.getpid())]
        if alone and weight.read_text().strip() == _USUAL_WEIGHT:
            return weight
    return None
