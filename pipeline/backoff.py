"""Ever longer pauses between attempts at what is not possible for now."""

from __future__ import annotations

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0


class Backoff:
    """When to try again.

    Attributes:
        at: not before this time, on the clock that `failed` is told.
        failures: how many attempts have failed since one went well.
        pause_s: how long the last pause was; 0 when the last attempt went well.

    """

    def __init__(self) -> None:
        self.at = 0.0
        self.failures = 0
        self.pause_s = 0.0

    def failed(self, now: float) -> None:
        """The attempt failed: pause for twice as long as before."""
        self.failures += 1
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S) or FIRST_PAUSE_S
        self.at = now + self.pause_s

    def went_well(self) -> None:
        """The attempt went well: the next one may come at once."""
        self.failures = 0
        self.pause_s = self.at = 0.0
