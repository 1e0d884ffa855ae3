"""What one session takes of the budget of all, and when that is paid back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.producers.diagnosis.bounds import Budget
    from laggard.producers.system.clock import Clock

_BURST_S = 2.5  # so long a share is, in CPU time, what a profiler takes before it pauses to pay it back


class Account:
    """CPU time of one session, as `Budget` shares it out.

    Args:
        budget: of all sessions.
        clock: what tells the time.
        others: CPU time so far of other threads and processes that work for the session, in seconds; and of that, what
            is for profilers.

    Attributes:
        cpu_s: CPU time of all of it so far, in seconds.
        alone: whether there is no profiler: then the rounds have all of the share.

    """

    def __init__(self, budget: Budget, clock: Clock, others: Callable[[], tuple[float, float]]) -> None:
        self.cpu_s = 0.0
        self.alone = False
        self._budget = budget
        self._clock = clock
        self._others = others
        self._others_s = self._profiled_s = 0.0  # what is counted already
        self._paid_ns = clock.monotonic()  # when rounds have paid back what they took
        self._owed_s = 0.0  # by profilers ...
        self._owed_ns = self._paid_ns  # ... at that time
        budget.sessions += 1

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count what this thread does within, and what the others did since the last time."""
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
        """When rounds have paid back what they took, by the monotonic clock."""
        return self._paid_ns

    @property
    def may_begin(self) -> bool:
        """Whether profilers have paid back what they took."""
        return not self._owes_s()

    @property
    def must_pause(self) -> bool:
        """Whether a profiler took more than a burst."""
        return self._owes_s() > _BURST_S * self._budget.share

    def close(self) -> None:
        """Leave the share to the others."""
        self._budget.sessions -= 1

    def _owes_s(self) -> float:
        now = self._clock.monotonic()
        self._owed_s = max(0.0, self._owed_s - 0.5 * self._budget.share * (now - self._owed_ns) / 1e9)
        self._owed_ns = now
        return self._owed_s
