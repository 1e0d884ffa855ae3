"""Checks that this machine's kernel can trace requests."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.explaining.units import readable
from laggard.pipeline.probing import probes_of, services_of
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.settings.producing import TraceSettings
from laggard.pipeline.tracing import COMPLETE, LATE_S, STATUS, read_figures
from laggard.producers.trace.boundaries.elf import ProgramError
from laggard.producers.trace.ftrace.session import Session
from laggard.producers.trace.ftrace.tracefs import TracingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.settings import Settings
    from laggard.pipeline.tracing import Figures

CHECK: Final = "tracing"

ELSEWHERE: Final = "what was recorded elsewhere, and spans of OpenTelemetry, can still be read (`laggard trace read`)"


def examine_tracing(settings: Settings) -> Finding:
    """Check that everything in the settings can be traced, by a trial that is undone."""
    refusal = missing = ""
    notes: Sequence[str] = ()
    try:
        with Session() as session:
            notes = session.notes
    except TracingError as error:
        refusal = error.strerror or str(error)
    if not refusal and (late := late_of(_figures(settings), time.time())) is not None:
        return late
    wanted = settings[TraceSettings].marker is not None or bool(services_of(settings))
    try:
        wanted = bool(probes_of(settings)) or wanted
    except ProgramError as error:
        wanted, missing = True, str(error)
    return finding_of(wanted=wanted, refusal=refusal, missing=missing, notes=notes)


def _figures(settings: Settings) -> Figures | None:
    """Return the figures of the tracer that runs here; None without one."""
    state = settings[GeneralSettings].state
    with suppress(OSError):
        holder = holder_of(settings[BusSettings].location, state, "trace")
        return None if holder is None else read_figures(state / STATUS, holder.pid)
    return None


def late_of(figures: Figures | None, now: float) -> Finding | None:
    """Return the finding on a tracer that reads too late or misses events; None for another one."""
    if figures is None or figures.output or not figures.recording:
        return None
    lag_s = figures.behind_s(now)
    if lag_s <= LATE_S and figures.recorded_ratio >= COMPLETE:
        return None
    missing = readable("share_ratio", 1.0 - figures.recorded_ratio)
    lost = readable("share_ratio", figures.lost_ratio)
    return Finding(
        CHECK,
        "warning",
        f"the tracer is {readable('_s', lag_s)} behind; it lost {lost} of the events, and missed some in {missing} "
        "of the time, so requests are missing",
        f"its priority is {figures.priority or 'unknown'}; raise it, trace.buffer_bytes or trace.events_per_s",
    )


def finding_of(*, wanted: bool, refusal: str, missing: str, notes: Sequence[str]) -> Finding:
    """Return the finding of this check.

    Args:
        wanted: whether the settings name requests to trace.
        refusal: why the kernel's tracer cannot be used; empty if it can.
        missing: the place in a program that bounds requests and cannot be found; empty without.
        notes: the limitations of the tracing.

    """
    if not wanted:
        able = "could be traced" if not refusal else "could not be traced either"
        why = f": {refusal}" if refusal else ""
        return Finding(CHECK, "ok", f"no requests are traced (trace.php, trace.marker, ...); they {able}{why}")
    if refusal:
        return Finding(CHECK, "warning", f"requests cannot be traced: {refusal}", ELSEWHERE)
    if missing:
        return Finding(
            CHECK,
            "warning",
            f"the begin and end of requests are unknown: {missing}",
            "use trace.marker with laggard's middleware, trace.functions or trace.ports",
        )
    if notes:
        return Finding(CHECK, "warning", f"requests can be traced, but {'; '.join(notes)}", "run the tracing as root")
    return Finding(CHECK, "ok", "requests can be traced, with the names of files and sockets")
