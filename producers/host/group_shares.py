"""Throttling and pressure of control groups, as features of the processes in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.host.groups import all_members, members
from laggard.producers.host.pressures import RESOURCES, Pressures
from laggard.producers.host.process import MAX_THREADS, RATES
from laggard.producers.host.quotas import Quotas
from laggard.producers.host.suspects import blocked_threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.producers.host.process import Process
    from laggard.producers.system.clock import Clock
    from laggard.producers.system.patience import Patience

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]
    Indices = NDArray[np.intp]

_SIGNS: Final = {
    "io": ("page_faults_major_per_s", "io_delay_ratio", "io_read_bytes_per_s", "io_write_bytes_per_s"),
    "memory": ("page_faults_major_per_s", "page_faults_minor_per_s"),
}
"""By resource: among processes that share a control group, those with any of these may have waited for it."""

_SIGN_COLUMNS: Final = {resource: [RATES.index(sign) for sign in signs] for resource, signs in _SIGNS.items()}


class GroupShares:
    """The shares of time in which the control groups of processes were throttled, and waited.

    Args:
        clock: the clock of the rates.
        procfs: the mount point of procfs.
        groups: the mount point of control groups.
        patience: reads the threads of processes that may hang.

    """

    def __init__(self, clock: Clock, procfs: str, groups: str, patience: Patience) -> None:
        self._quotas = Quotas(clock, groups)
        self._pressures = Pressures(clock, procfs, groups)
        self._patience = patience

    def close(self) -> None:
        """Close all files."""
        self._quotas.close()
        self._pressures.close()

    def throttled(self, processes: Mapping[str, Process], slots: Indices) -> Vector:
        """Return the share of periods in which a quota throttled each process, in the order of `slots`."""
        groups, _, ratios = self._quotas.read()
        by_slot = np.zeros(int(slots.max(initial=-1)) + 1)
        for place in np.flatnonzero(ratios > 0.0).tolist():
            for pid in all_members(groups[place]):
                if (process := processes.get(str(pid))) is not None:
                    by_slot[process.slot] = max(by_slot[process.slot], ratios[place])
        return by_slot[slots]

    def pressed(self, processes: Mapping[str, Process], slots: Indices, rates: Matrix) -> Matrix:
        """Return the share of time in which the group of each process waited for I/O, and for memory.

        0 if it cannot have been the process that waited.

        Args:
            processes: the processes, by pid.
            slots: the slots of the rows. Shape (rows,).
            rates: the rates of the processes. Shape (rows, `RATES`).

        Returns:
            Shape (rows, `RESOURCES`).

        """
        waited = np.zeros((len(slots), len(RESOURCES)))
        groups, _, ratios = self._pressures.read()
        places = {resource: np.flatnonzero(each > 0.0).tolist() for resource, each in ratios.items()}
        if not any(places.values()):
            return waited
        rows = {slot: row for row, slot in enumerate(slots.tolist())}
        for column, (resource, pressed) in enumerate(places.items()):
            for place in pressed:
                found = [processes.get(str(pid)) for pid in members(groups[place])]
                there = [process for process in found if process is not None]
                for process in there:
                    row = rows[process.slot]
                    if len(there) == 1 or np.any(rates[row, _SIGN_COLUMNS[resource]] > 0.0) or self._is_stuck(process):
                        waited[row, column] = ratios[resource][place]
        return waited

    def _is_stuck(self, process: Process) -> bool:
        """Return whether a thread of a process waits for a device. Without a run its state is that of before."""
        if process.stat.threads <= 1 or process.stat.state == b"D":
            return process.stat.state == b"D"
        if process.stat.threads > MAX_THREADS:
            return False
        (blocked,) = self._patience.each([process], lambda each: blocked_threads(each.path))
        return not isinstance(blocked, Exception) and blocked > 0
