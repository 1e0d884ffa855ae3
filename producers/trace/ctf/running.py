"""The thread of an event, if the recorder does not report it: the one that ran on its CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.trace.events import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNKNOWN = -1

_OWN = (Kind.BEGIN, Kind.END)
"""Events of programs, which may know their threads by other numbers than the kernel's."""


class Running:
    """Follows the switches of all CPUs of a host.

    If no switch to a thread was seen, or not since events were lost, the next switch shows it: the thread that left the
    CPU.
    """

    def __init__(self) -> None:
        self._now: dict[int, int] = {}

    def fill(self, events: NDArray[np.void]) -> None:
        """Fill in `tid` where it is missing, or reported by a program.

        Args:
            events: the events, of dtype `EVENT`, in the order of time, after those of the last call; changed in place.

        """
        cpus = events["cpu"]
        order = np.argsort(cpus, kind="stable")
        present, starts = np.unique(cpus[order], return_index=True)
        for cpu, at in zip(present.tolist(), np.split(order, starts[1:]) if len(order) else (), strict=True):
            self._fill(events, cpu, at)

    def _fill(self, events: NDArray[np.void], cpu: int, at: NDArray[np.intp]) -> None:
        kinds, tids, comes = events["kind"][at], events["tid"][at], events["a"][at]
        switch = kinds == Kind.SWITCH
        lost = kinds == Kind.LOST
        count = len(at)
        places = np.arange(count)
        last = np.maximum.accumulate(np.where(switch | lost, places, -1))
        known = np.where(switch[last], comes[last], UNKNOWN)
        forward = np.where(last >= 0, known, self._now.get(cpu, UNKNOWN))
        following = np.minimum.accumulate(np.where(switch | lost, places, count)[::-1])[::-1]
        ahead = np.minimum(following, count - 1)
        backward = np.where((following < count) & switch[ahead], tids[ahead], UNKNOWN)
        running = np.where(forward != UNKNOWN, forward, backward)
        own = np.isin(kinds, _OWN) & (running > 0)
        missing = (tids == UNKNOWN) & ~switch & ~lost
        events["tid"][at] = np.where(missing | own, running, tids)
        self._now[cpu] = int(forward[-1])
