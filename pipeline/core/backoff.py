"""Growing pauses between attempts at an operation that is not possible now."""

from __future__ import annotations

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0


class Backoff:
    """The time of the next attempt.

    Attributes:
        at: the earliest time of the next attempt, on the clock of `failed`.
        failures: the number of failed attempts since the last success.
        pause_s: the last pause, in seconds; 0 after a success.

    """

    def __init__(self) -> None:
        self.at = 0.0
        self.failures = 0
        self.pause_s = 0.0

    def failed(self, now: float) -> None:
        """Note a failed attempt: pause for twice as long as before."""
        self.failures += 1
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S) or FIRST_PAUSE_S
        self.at = now + self.pause_s

    def went_well(self) -> None:
        """Note a success: the next attempt may follow at once."""
        self.failures = 0
        self.pause_s = self.at = 0.0
