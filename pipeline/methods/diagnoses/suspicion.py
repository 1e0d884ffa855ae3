"""Suspects of high pressure, which has no process of its own: samples of all processes, within a CPU budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.producers.host.groups import members
from laggard.producers.host.suspects import Suspects
from laggard.producers.system.patience import Patience

if TYPE_CHECKING:
    from laggard.producers.system.clock import Clock

MAX_SUSPECTS: Final = 3
"""The most processes of an event of the host's pressure, which has no process of its own ..."""

MAX_OF_GROUP: Final = 2
"""... and of an event of a control group: its quota throttles it, or its own pressure is high."""

SUSPECT_S: Final = 1.0
"""The time between two samples of suspects while pressure is high, in seconds."""

SUSPECT_RATIO: Final = 0.01
"""The CPU budget of these samples, in cores."""

HOST: Final = ""
"""The name of the host in events that otherwise name control groups."""


class Suspicion:
    """Samples processes while pressure is high, to find those that cause it.

    Parameters:
        clock: the clock.
        root: the mount point of procfs.

    Attributes:
        cpu_ns: the CPU time of all samples in this thread, in nanoseconds.

    """

    def __init__(self, clock: Clock, root: str) -> None:
        self.cpu_ns = 0
        self._clock = clock
        self._root = root
        self._suspects: Suspects | None = None
        self._patience = Patience()
        self._undecided = False
        self._due_at_s = self._sampled_at_s = -math.inf

    @property
    def aside_s(self) -> float:
        """The CPU time of its own threads so far, in seconds."""
        return self._patience.cpu_ns / 1e9

    def close(self) -> None:
        """End its threads."""
        self._patience.close()

    def forget(self) -> None:
        """Forget all samples."""
        self._suspects = None

    def update(self, at_s: float, *, undecided: bool) -> None:
        """Sample processes while pressure is high, but the processes of its event are not decided yet."""
        due = at_s >= self._due_at_s
        # High pressure begins with a new first sample, unless there was one recently: it may flap around its threshold.
        if due and not (undecided and self._undecided):
            self._suspects = None
        self._undecided = undecided
        if undecided:
            self._suspects = self._suspects or Suspects(self._root, self._patience)
            if due:
                self._sample(self._suspects, at_s)

    def suspected(self, resource: str, name: str, at_s: float) -> tuple[int, ...]:
        """Return the processes of the host or a control group that wait for a resource, or use most of it."""
        among = None if name == HOST else members(name)
        if among is not None and len(among) == 1:
            return tuple(among)
        if self._suspects is None:
            return ()
        self._sample(self._suspects, at_s)  # the last sample after a first one, whatever the earlier ones cost
        return self._suspects.worst(resource, MAX_SUSPECTS if among is None else MAX_OF_GROUP, among)

    def _sample(self, suspects: Suspects, at_s: float) -> None:
        if at_s == self._sampled_at_s:
            return  # sampled for another event that began at the same time
        self._sampled_at_s = at_s
        begun, aside_ns = self._clock.cpu(), self._patience.cpu_ns
        suspects.sample()
        own_ns = self._clock.cpu() - begun
        took_ns = own_ns + self._patience.cpu_ns - aside_ns
        self.cpu_ns += own_ns
        self._due_at_s = at_s + max(SUSPECT_S, took_ns / 1e9 / SUSPECT_RATIO)
