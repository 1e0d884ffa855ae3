"""The configured tracing, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.settings.producing import TraceSettings

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings


def traces(settings: Settings) -> bool:
    """Return whether the settings name anything to trace."""
    trace = settings[TraceSettings]
    return bool(trace.php or trace.marker or trace.functions or trace.ports)


def traced_text(settings: Settings) -> str:
    """Return the traced programs and ports, in words."""
    trace = settings[TraceSettings]
    parts = [f"PHP as {trace.php}"] if trace.php else []
    if trace.marker:
        parts.append("programs that mark their requests")
    parts += [f"{function} as {service}" for service, function in trace.functions.items()]
    parts += [f"port {port} as {service}" for service, port in trace.ports.items()]
    return ", ".join(parts)
