# ruff: noqa: ARG002
"""One process while something is wrong: who drives it asks it to look, and when the machine of S1 changes its state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.records.diagnosis import Diagnosis, Progress
    from laggard.producers.clock import Clock
    from laggard.producers.diagnosis.bounds import Budget, Limits
    from laggard.producers.diagnosis.target import Target


class Session:
    """Looks at one process until it is closed, a bound is reached or the process has ended; never raises for these.

    Begins in a phase of high use. All sessions of a program are driven by one thread: its CPU time is what they cost.

        session = Session(find(pid), id=..., host=..., reason="asked", budget=Budget(), limits=Limits(samples=100))
        try:
            while not session.ended:
                stop.wait(session.delay_s())
                session.sample()
            diagnosis = session.diagnosis("closed")
        finally:
            session.close()

    Args:
        target: which process.
        id: of the event, as in `Diagnosis`.
        host: the machine's.
        reason: as in `Diagnosis`.
        value: likewise.
        threshold: likewise.
        budget: shared with the other sessions.
        limits: of this one.
        methods: the names of those to use beside `proc`, in the order of preference; no names for `proc` alone; None
            for what suits the process.
        clock: what tells the time.
        root: where procfs is mounted.

    Raises:
        ValueError: a method that does not exist.

    Attributes:
        target: which process.
        ended: why it does not look any more, in words; empty as long as it does.

    """

    def __init__(
        self,
        target: Target,
        *,
        id: str,  # noqa: A002 - as the record has it
        host: str,
        reason: str,
        value: float = math.nan,
        threshold: float = math.nan,
        budget: Budget,
        limits: Limits | None = None,
        methods: Sequence[str] | None = None,
        clock: Clock | None = None,
        root: str = "/proc",
    ) -> None:
        self.target = target
        self.ended = ""
        raise NotImplementedError

    def delay_s(self) -> float:
        """Seconds until the next round is due; 0 if it is. It grows with what rounds cost, see `Budget`."""
        raise NotImplementedError

    def sample(self) -> None:
        """Make one round: which threads there are, their use, and what each of them executes. Does nothing when ended.

        Who drives several takes the one first that has been due for the longest.
        """
        raise NotImplementedError

    def phase(self, ts: float, *, high: bool) -> None:
        """Close the phase at this time, in seconds since the Unix epoch, and begin the next."""
        raise NotImplementedError

    def diagnosis(self, progress: Progress) -> Diagnosis:
        """What is known so far, within the bound on bytes. Still there when it is closed."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop what runs beside, and give the share of the budget back. Asked again, does nothing."""
        raise NotImplementedError
