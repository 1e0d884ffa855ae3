"""The tracer's own metrics, like those of an agent: a frame of one row with its costs and losses since it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import UNNUMBERED, Frame, make_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

SCOPE: Final = "trace"

OWN_FEATURES: Final = (
    "trace_cpu_s",
    "trace_events",
    "trace_lost_events",
    "trace_requests",
    "trace_discarded_requests",
    "trace_recorded_ratio",
    "trace_waiting_records",
    "trace_dropped_records",
    "trace_lag_s",
)
"""CPU time in seconds; events read, and dropped by the kernel; requests published, and discarded. Then the share of the
time that was recorded; requests that wait for the bus, and that were dropped. Last is the longest delay of reading
since the figures before. Counts are since it began."""

OWN_EVERY_S: Final = 10.0


def own_frame(host: str, ts: float, values: Mapping[str, float]) -> Frame:
    """Return the frame of a host at a time, in seconds since the Unix epoch; unknown values are NaN."""
    matrix = np.array([[values.get(name, np.nan) for name in OWN_FEATURES]], dtype=np.float64)
    return Frame("host", host, SCOPE, ts, UNNUMBERED, make_layout((SCOPE,), (SCOPE,), OWN_FEATURES), matrix)
