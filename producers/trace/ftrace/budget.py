"""The share of the time that is recorded, so that tracing can stay on: a limit of events per second, on average."""

from __future__ import annotations

from typing import Final

HOLDS_S: Final = 5.0
"""The seconds of budget that may be spent at once. Requests that are longer than an uninterrupted recording are never
complete. On a machine with twice the events of its budget, tracing is 5 s on and 5 s off."""


class Budget:
    """A bucket that fills with time and empties with events: tracing stops when it is empty, and resumes when full.

    Args:
        events_per_s: the most events per second, on average.

    """

    def __init__(self, events_per_s: float) -> None:
        if not events_per_s > 0:
            raise ValueError(f"events_per_s: expected more than 0, got {events_per_s!r}")
        self._events_per_s = events_per_s
        self._most = self._left = events_per_s * HOLDS_S
        self._on = True

    def spend(self, events: int, passed_s: float) -> bool:
        """Count events in a time, and return whether tracing must be on from now on."""
        self._left = min(self._most, self._left + passed_s * self._events_per_s) - events
        if self._on and self._left <= 0:
            self._on = False
        elif not self._on and self._left >= self._most:
            self._on = True
        return self._on
