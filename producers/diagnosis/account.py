"""The CPU time that one session uses of the budget of all, and the time at which it is paid back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.producers.diagnosis.bounds import Budget
    from laggard.producers.system.clock import Clock

_BURST_S = 2.5  # a profiler pauses when it owes more CPU time than its session's share of this time ...
_LONGEST_S = 20.0  # ... or of this time while it has no results: a pause would waste what its start has used


class Account:
    """The CPU time of one session within a `Budget`.

    Args:
        budget: the budget of all sessions.
        clock: the clock.
        others: returns the CPU time so far of other threads and processes that work for the session, in seconds, and
            the part of it that is for profilers.

    Attributes:
        cpu_s: the total CPU time of the session so far, in seconds.
        alone: whether there is no profiler, so that the rounds have all of the share.

    """

    def __init__(self, budget: Budget, clock: Clock, others: Callable[[], tuple[float, float]]) -> None:
        self.cpu_s = 0.0
        self.alone = False
        self._budget = budget
        self._clock = clock
        self._others = others
        self._others_s = self._profiled_s = 0.0  # already counted
        self._paid_ns = clock.monotonic()  # when rounds have paid back their CPU time
        self._owed_s = 0.0  # by profilers ...
        self._owed_ns = self._paid_ns  # ... at that time
        budget.sessions += 1

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the CPU time of this thread within, and that of the others since the last time."""
        begun_ns = self._clock.cpu()
        try:
            yield
        finally:
            others_s, profiled_s = self._others()
            profiled_since_s = profiled_s - self._profiled_s
            spent_s = (self._clock.cpu() - begun_ns) / 1e9 + others_s - self._others_s
            self._others_s, self._profiled_s = others_s, profiled_s
            self.cpu_s += spent_s
            self._budget.spent_s += spent_s
            self._owed_s = self._owes_s() + profiled_since_s
            share = self._budget.share * (1.0 if self.alone else 0.5)
            pays_ns = round((spent_s - profiled_since_s) / share * 1e9)
            self._paid_ns = max(self._paid_ns, self._clock.monotonic()) + pays_ns

    @property
    def paid_ns(self) -> int:
        """The time at which rounds have paid back their CPU time, by the monotonic clock."""
        return self._paid_ns

    @property
    def may_begin(self) -> bool:
        """Whether profilers have paid back their CPU time."""
        return not self._owes_s()

    def must_pause(self, *, answered: bool) -> bool:
        """Return whether profilers owe more than a burst.

        Args:
            answered: whether the present one has had results since its start.

        """
        return self._owes_s() > (_BURST_S if answered else _LONGEST_S) * self._budget.share

    def close(self) -> None:
        """Leave the share to the other sessions."""
        self._budget.sessions -= 1

    def _owes_s(self) -> float:
        now = self._clock.monotonic()
        self._owed_s = max(0.0, self._owed_s - 0.5 * self._budget.share * (now - self._owed_ns) / 1e9)
        self._owed_ns = now
        return self._owed_s
