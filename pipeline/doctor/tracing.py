"""Checks that this machine's kernel can trace requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.probing import probes_of, services_of
from laggard.pipeline.settings.producing import TraceSettings
from laggard.producers.trace.boundaries.elf import ProgramError
from laggard.producers.trace.ftrace.instance import TracingError
from laggard.producers.trace.ftrace.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.settings import Settings

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
    wanted = settings[TraceSettings].marker is not None or bool(services_of(settings))
    try:
        wanted = bool(probes_of(settings)) or wanted
    except ProgramError as error:
        wanted, missing = True, str(error)
    return finding_of(wanted=wanted, refusal=refusal, missing=missing, notes=notes)


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
