"""Open recordings of any origin: laggard's own, CTF traces of one host or several, OTLP spans."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.ctf.metadata import read_metadata
from laggard.producers.trace.ctf.trace import METADATA, CtfTrace, host_of
from laggard.producers.trace.ctf.translation import SWITCHES
from laggard.producers.trace.errors import TraceError
from laggard.producers.trace.ftrace.recorder import DESCRIPTION
from laggard.producers.trace.ftrace.recording import Recording
from laggard.producers.trace.hosts import Hosts, Trace
from laggard.producers.trace.other_formats import BYTES, other_format
from laggard.producers.trace.spans import read_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.producers.trace.ctf.translation import Boundary
    from laggard.producers.trace.ctf.types import Metadata
    from laggard.producers.trace.events import Events

__all__ = ["Trace", "TraceError", "open_trace", "read_spans"]


_NO_KERNEL: Final = "the trace has no kernel event sched_switch, which shows where requests spend their time: record it"


def open_trace(path: str | Path, *, boundaries: Sequence[Boundary] = ()) -> Trace:
    """Open the trace in a folder, or in the folders below it: all recordings of one host, or of several.

    Folders are grouped by the host that they name, or without one by the first folder below `path`. Traces of several
    hosts are put on one clock by the packets between them.

    Args:
        path: a recording of laggard, a CTF trace, or a folder with some.
        boundaries: pairs of a program's events in CTF that bound requests, in addition to the known ones.

    Raises:
        TraceError: the path is missing or unreadable, or has no trace.

    """
    top = Path(path)
    troubles: list[TraceError] = []
    recordings, folders = _found(top, troubles)
    hosts: dict[str, list[Callable[[], Trace]]] = {}
    for folder in recordings:
        try:
            hosts.setdefault(Recording(folder).host, []).append(partial(Recording, folder))
        except TraceError as error:
            troubles.append(error)
    traces: dict[str, dict[Path, Metadata]] = {}
    for folder in folders:
        try:
            metadata = read_metadata(folder / METADATA)
        except TraceError as error:
            troubles.append(error)
            continue
        below = folder.relative_to(top).parts
        traces.setdefault(host_of(metadata) or (below[0] if below else ""), {})[folder] = metadata
    for host, found in traces.items():
        if SWITCHES & {name for each in found.values() for name in each.names()}:
            hosts.setdefault(host, []).append(partial(CtfTrace, found, boundaries))
        else:
            troubles.append(TraceError(next(iter(found)), _NO_KERNEL))
    if not hosts:
        raise (
            troubles[0]
            if troubles
            else TraceError(top, f"found no trace: expected `{METADATA}` (CTF) or `{DESCRIPTION}`")
        )
    several = [host for host, opened in hosts.items() if len(opened) > 1]
    if several:
        what = f"of {several[0]}" if several[0] else "of one host"
        raise TraceError(top, f"expected one trace {what}, found {len(hosts[several[0]])}: read them one by one")
    opened = {host: each[0] for host, each in sorted(hosts.items())}
    trace = next(iter(opened.values()))() if len(opened) == 1 else Hosts(opened)
    return _Troubled(trace, troubles) if troubles else trace


def _found(top: Path, troubles: list[TraceError]) -> tuple[list[Path], list[Path]]:
    """Find the folders of laggard's recordings, and those of CTF traces."""
    try:
        if not top.is_dir():
            with top.open("rb") as file:
                raise TraceError(top, f"expected a trace's folder, got {other_format(file.read(BYTES)) or 'a file'}")
        os.scandir(top).close()
    except OSError as error:
        raise TraceError(top, f"cannot be read: {error.strerror}") from error

    def refused(error: OSError) -> None:
        troubles.append(TraceError(error.filename, f"cannot be read: {error.strerror}"))

    recordings, folders = [], []
    for name, below, files in os.walk(top, onerror=refused):
        below.sort()
        if DESCRIPTION in files:
            recordings.append(Path(name))
            below.clear()
        elif METADATA in files:
            folders.append(Path(name))
    return recordings, folders


class _Troubled:
    """A trace with parts that could not be opened."""

    def __init__(self, trace: Trace, troubles: Sequence[TraceError]) -> None:
        self._trace = trace
        self._troubles = [str(trouble) for trouble in troubles]
        self.host = trace.host
        self.wall_offset_s = trace.wall_offset_s

    def __iter__(self) -> Iterator[Events]:
        """Yield all events of the opened parts."""
        return iter(self._trace)

    @property
    def warnings(self) -> Sequence[str]:
        """The problems, first the parts that could not be opened."""
        return [*self._troubles, *self._trace.warnings]
