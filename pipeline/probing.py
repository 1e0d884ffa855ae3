"""From the settings to the tracing that they ask for."""

from __future__ import annotations

import grp
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.settings.producing import TraceSettings
from laggard.producers.trace.boundaries.elf import ProgramError
from laggard.producers.trace.boundaries.functions import Function, function_probes
from laggard.producers.trace.boundaries.php import php_probes, running_interpreters
from laggard.producers.trace.ftrace.live import Live
from laggard.producers.trace.ftrace.recorder import Recorder

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings
    from laggard.producers.trace.boundaries.probes import Probe


def probes_of(settings: Settings) -> list[Probe]:
    """Return the places in programs whose events the kernel reports.

    Raises:
        ProgramError: a program has no such place, or no PHP process runs.

    """
    probes: list[Probe] = []
    trace = settings[TraceSettings]
    if trace.php:
        interpreters = running_interpreters()
        if not interpreters:
            raise ProgramError("no process of PHP runs here; start PHP-FPM, or Apache with PHP's module, before")
        for number, path in enumerate(interpreters):
            probes += php_probes(path, trace.php, number=number)
    for number, (service, place) in enumerate(trace.functions.items()):
        binary, _, name = str(place).rpartition(":")
        probes += function_probes(Function(service, Path(binary), name), number=number)
    return probes


def marker_group_of(settings: Settings) -> int:
    """Return the id of the group whose programs may mark; root's if unset. Raises `ProgramError` for a missing one."""
    name = settings[TraceSettings].marker_group
    if not name:
        return 0
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        expected = "expected the name of one on this machine, such as www-data"
        raise ProgramError(
            f"{settings.place(TraceSettings.marker_group)}: there is no group {name}; {expected}"
        ) from None


def services_of(settings: Settings) -> dict[int, str]:
    """Return by port the service for which each connection to it is a request."""
    return {int(port): service for service, port in settings[TraceSettings].ports.items()}


def live_of(settings: Settings) -> Live:
    """Return the live tracing, which starts when it is entered.

    Raises:
        TracingError: the kernel's tracer cannot be used.
        ProgramError: see `probes_of`.

    """
    return Live(
        probes=probes_of(settings),
        ports=services_of(settings),
        marker=settings[TraceSettings].marker,
        marker_group=marker_group_of(settings),
        events_per_s=settings[TraceSettings].events_per_s,
        buffer_bytes=settings[TraceSettings].buffer_bytes,
    )


def recorder_of(settings: Settings, folder: Path) -> Recorder:
    """Return a recording to a new folder. Raises the errors of `live_of`, and `FileExistsError` if it is not empty."""
    return Recorder(
        folder,
        probes=probes_of(settings),
        ports=services_of(settings),
        marker=settings[TraceSettings].marker,
        marker_group=marker_group_of(settings),
        buffer_bytes=settings[TraceSettings].buffer_bytes,
    )
