"""The clauses that describe the value of a feature, by scope and feature."""

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
"""The features that the operator `cpu` derives from a process's counters."""

PROLONGED: Final[Mapping[str, str]] = {
    "cpu_system_wide_ratio": "used {} of all processors",
    "cpu_single_ratio": "used {} of one processor",
    "cpu_spikes_per_s": "used most of all processors in short spikes, {} a minute,",
    **{each.name: each.prolonged for each in CATALOGUE if each.prolonged},
}
"""Clauses on a row in an event, with a place for the mean of the stretches of high use."""

LACKED: Final[Mapping[str, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disk throughput",
    "network": "network throughput",
    "lock": "locks",
}
"""The scarce resource of a host in words, by resource."""

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
"""Clauses by scope and feature, with a place for the value; in a clause that ends with "a second", without its `/s`."""

DEVICES: Final[Mapping[str, Mapping[str, str]]] = {
    device: {each.name: each.host for each in CATALOGUE if each.host and each.device == device}
    for device in sorted({each.device for each in CATALOGUE if each.device})
}
"""Clauses on devices of a host, by the first word and the end of a feature; the device's name is between them."""
