"""Requests as calls of a function, from its entry to its return, in any program with a table of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laggard.producers.trace.boundaries.elf import Program
from laggard.producers.trace.boundaries.probes import Probe
from laggard.producers.trace.events import Kind

if TYPE_CHECKING:
    from pathlib import Path


class Function(NamedTuple):
    """A function whose calls are requests of a service."""

    service: str
    path: Path
    name: str


def function_probes(function: Function, *, number: int = 0) -> list[Probe]:
    """Return the probes of the entry and the return of a function.

    Args:
        function: the function.
        number: distinguishes several functions of a recording.

    Raises:
        ProgramError: the file has no such function, or is unreadable.

    """
    with Program(function.path) as program:
        offset = program.function(function.name)
    place = f"{function.path.resolve()}:{offset:#x}"
    return [
        Probe(f"function{number}_begin", place, Kind.BEGIN, function.service, name=function.name),
        Probe(f"function{number}_end", f"{place}%return", Kind.END, function.service),
    ]
