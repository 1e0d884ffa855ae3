"""The clauses that tell what a feature says of its row, by scope and feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.counters import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Mapping

PROCESS: Final = {each.name: each.process for each in CATALOGUE if each.process}
HOST: Final = {each.name: each.host for each in CATALOGUE if each.host and not each.device}

MEASURED: Final = {
    "cpu_system_wide_ratio": "it uses {} of all processors",
    "cpu_single_ratio": "it uses {} of one processor",
    "cpu_spikes_per_s": "for a moment it uses most of all processors {} times a second",
}
"""What the operator `cpu` makes of a process's counters."""

PROLONGED: Final[Mapping[str, str]] = {
    "cpu_system_wide_ratio": "used {} of all processors",
    "cpu_single_ratio": "used {} of one processor",
    "cpu_spikes_per_s": "used most of all processors in short spikes, {} a minute,",
    **{each.name: each.prolonged for each in CATALOGUE if each.prolonged},
}
"""What a row did that was in an event, with a place for the mean in stretches of high use."""

LACKED: Final[Mapping[str, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disk throughput",
    "network": "network throughput",
    "lock": "locks",
}
"""What a host is short of, by resource."""

AGENT: Final = {
    "cpu_ratio": "it uses {} of one core",
    "memory_rss_bytes": "it holds {} of memory",
}

PHRASES: Final[Mapping[str, Mapping[str, str]]] = {
    "process": PROCESS | MEASURED,
    "thread": PROCESS,
    "host": HOST,
    "agent": AGENT,
}
"""By scope and feature, a clause with a place for the value; before "a second" the value has no unit of time."""

DEVICES: Final[Mapping[str, Mapping[str, str]]] = {
    device: {each.name: each.host for each in CATALOGUE if each.host and each.device == device}
    for device in sorted({each.device for each in CATALOGUE if each.device})
}
"""Of a host: by the first word of a feature and by its end; what is between them names the device."""
