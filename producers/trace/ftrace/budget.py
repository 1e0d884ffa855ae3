"""How much of the time is recorded, so that tracing can stay on: events a second, on average, and no more."""

from __future__ import annotations

from typing import Final

HOLDS_S: Final = 5.0
"""The budget of so many seconds may be spent at once. Requests that take longer than what is recorded in one go are
never whole: on a machine with twice the events of its budget that is 5 s on and 5 s off."""


class Budget:
    """A bucket that fills with time and empties with events: empty, tracing stops; full, it goes on.

    Args:
        events_per_s: at most, on average.

    """

    def __init__(self, events_per_s: float) -> None:
        if not events_per_s > 0:
            raise ValueError(f"events_per_s: expected more than 0, got {events_per_s!r}")
        self._events_per_s = events_per_s
        self._most = self._left = events_per_s * HOLDS_S
        self._on = True

    def spend(self, events: int, passed_s: float) -> bool:
        """So many events came in so much time; whether tracing is to be on from now on."""
        self._left = min(self._most, self._left + passed_s * self._events_per_s) - events
        if self._on and self._left <= 0:
            self._on = False
        elif not self._on and self._left >= self._most:
            self._on = True
        return self._on
