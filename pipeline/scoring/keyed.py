"""The state of one key: a stream for each scope, and the feedback on its anomalies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from laggard.pipeline.alarms.tolerance import Tolerance, restored
from laggard.pipeline.core.eventtime import SILENT_S, Sequences
from laggard.pipeline.scoring.stream import Operator, Stream

if TYPE_CHECKING:
    from laggard.pipeline.core.records import Decoder


@dataclass(slots=True, eq=False)
class Keyed:
    """An operator's state of one key.

    Attributes:
        streams: the streams by scope.
        marks: the sequence numbers of its marks.
        tolerance: the feedback on its anomalies.
        records: the number of records that have changed it: those that were neither duplicates nor late, and late ones
            that reveal a clock that was set back.
        last_number: see `KeyState`.

    """

    streams: dict[str, Stream]
    marks: Sequences = field(default_factory=Sequences)
    tolerance: Tolerance = field(default_factory=Tolerance)
    records: int = 0
    last_number: int = -1

    @property
    def ts(self) -> float:
        """The time of the newest frame; 0 before the operator has accepted one."""
        return max((stream.ts for stream in self.streams.values() if stream.begun), default=0.0)

    @property
    def awaited_until(self) -> float:
        """The time until which frames of the host are awaited; infinite if it has no open anomaly."""
        until = [stream.awaited_until for stream in self.streams.values() if stream.courses]
        # One scope may have no frames while those of another one still come.
        return max(self.ts + SILENT_S, *until) if until else math.inf

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "records": self.records,
            "heard": self.last_number,
            "marks": self.marks.snapshot(),
            **self.tolerance.snapshot(),
            "streams": {scope: stream.snapshot() for scope, stream in self.streams.items()},
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        self.marks, self.tolerance = Sequences(state["marks"]), restored(state)
        self.records, self.last_number = int(state["records"]), int(state["heard"])
        # A scope that is not in the snapshot starts from scratch.
        for scope in self.streams.keys() & state["streams"].keys():
            self.streams[scope].restore(state["streams"][scope], decoder, place)

    def begin_anew(self, scope: str, operator: Operator) -> Stream:
        """Forget one scope, and return its new stream with a new operator."""
        stream = self.streams[scope] = Stream(operator)
        return stream
