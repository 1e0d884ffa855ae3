"""The trigger of an anomaly: a score that passes 1, after it has stayed at most 1 for a while."""

from __future__ import annotations

from typing import NamedTuple


class Trigger(NamedTuple):
    """A trigger that fires when a score rises above 1, and again only after it has stayed at most 1 for a while.

    Attributes:
        armed: whether the next score above 1 fires.
        calm_since: while not armed, the time since which scores have stayed at most 1.

    """

    armed: bool = True
    calm_since: float | None = None

    def after(self, ts: float, score: float, quiet_s: float) -> tuple[bool, Trigger]:
        """Return whether this score fires, and the trigger after it; `ts` and `quiet_s` are seconds of event time."""
        armed = self.armed or (self.calm_since is not None and ts - self.calm_since >= quiet_s)
        if score > 1.0:
            return armed, Trigger(armed=False)
        if armed:
            return False, Trigger()
        return False, Trigger(armed=False, calm_since=ts if self.calm_since is None else self.calm_since)
