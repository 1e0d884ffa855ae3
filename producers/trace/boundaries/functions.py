"""Requests as calls of a function, from its entry to its return, in any program with a table of functions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from laggard.producers.trace.boundaries.elf import Program, ProgramError
from laggard.producers.trace.boundaries.probes import Probe
from laggard.producers.trace.events import Kind


class Function(NamedTuple):
    """A function whose calls are requests of a service."""

    service: str
    path: Path
    name: str


def parse_function(text: str) -> Function:
    """Read `SERVICE=BINARY:FUNCTION`.

    Raises:
        ProgramError: it is not of this form.

    """
    service, equals, rest = text.partition("=")
    path, colon, name = rest.rpartition(":")
    if not (service and equals and path and colon and name) or "\t" in text:
        raise ProgramError(f"expected SERVICE=BINARY:FUNCTION, as in shop=/usr/sbin/shopd:handle, got {text!r}")
    return Function(service, Path(path), name)


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
