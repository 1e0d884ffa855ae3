"""Notices of one stream: suspicious deviations, which are too small for an incident.

The budget of notices is `NOTICES` times that of incidents. A notice opens when the suspicion of the rows without an
open anomaly passes 1. It ends when that has stayed at most 1 for `QUIET_S`, or when it has become an anomaly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.alarms.courses import restored as restored_course
from laggard.pipeline.alarms.trigger import Trigger

if TYPE_CHECKING:
    from laggard.pipeline.alarms.courses import Course

_KEY = "notices"


class Notices(NamedTuple):
    """The notices of a stream.

    Attributes:
        opened: the number of live ones so far.
        open: the open one; None without one.
        trigger: the trigger of the next one.

    """

    opened: int = 0
    open: Course | None = None
    trigger: Trigger = Trigger()

    @property
    def is_live(self) -> bool:
        """Whether a live notice is open."""
        return self.open is not None and self.open.live

    def after(self, ts: float, suspicion: float) -> tuple[bool, Notices]:
        """Return whether to open a notice, and the notices after this score; `ts` as in `Trigger`."""
        if suspicion <= 1.0 and self.open is None and self.trigger.armed:
            return False, self
        fires, trigger = self.trigger.after(ts, suspicion, QUIET_S)
        still = self.open.after(ts, suspicion) if self.open is not None and suspicion > 1.0 else self.open
        return fires and still is None, Notices(self.opened, still, trigger)

    def opening(self, course: Course) -> Notices:
        """Return them after one was opened."""
        return Notices(self.opened + course.live, course, self.trigger)

    def ended(self) -> Notices:
        """Return them after the one that was open has ended."""
        return Notices(self.opened, None, self.trigger)

    def given_up(self) -> Notices:
        """Return them after the stream has fallen silent."""
        return Notices(self.opened)

    def snapshot(self) -> dict[str, Any]:
        """Return them as plain data; nothing if there was none."""
        if self == Notices():
            return {}
        course = None if self.open is None else self.open.snapshot()
        return {_KEY: {"opened": self.opened, "open": course, "trigger": list(self.trigger)}}


def restored(state: dict[str, Any]) -> Notices:
    """Read a `snapshot` in a stream's state. Raises `ValueError`, `TypeError` or `KeyError` if it does not fit."""
    if (found := state.get(_KEY)) is None:
        return Notices()
    armed, calm_since = found["trigger"]
    course = None if found["open"] is None else restored_course(found["open"])
    return Notices(int(found["opened"]), course, Trigger(bool(armed), calm_since))
