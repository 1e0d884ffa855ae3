"""Read a folder of `Recorder` in bounded memory: each CPU's file a piece at a time, merged by time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.producers.trace.boundaries.connections import Connections
from laggard.producers.trace.boundaries.probes import Probe
from laggard.producers.trace.errors import TraceError
from laggard.producers.trace.events import Events, Texts
from laggard.producers.trace.ftrace.decoding import Decoder
from laggard.producers.trace.ftrace.formats import parse_format, parse_header_page
from laggard.producers.trace.ftrace.known import Descriptor, Known, Thread
from laggard.producers.trace.ftrace.merging import merged
from laggard.producers.trace.ftrace.name_program import RECORD
from laggard.producers.trace.ftrace.names import name_rows, with_failures
from laggard.producers.trace.ftrace.pages import LATEST_NS
from laggard.producers.trace.ftrace.processes import Processes
from laggard.producers.trace.ftrace.recorder import DESCRIPTION, NAMES, VERSION

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

PIECE_PAGES: Final = 1024
"""The pages of one CPU that are read at a time: about 100,000 events."""

PIECE_NAMES: Final = 4096

MAX_CPUS: Final = 8192
"""The most CPUs that Linux can have."""

_NEVER: Final = 1 << 62
_DISORDER_NS: Final = 1_000_000
"""The most nanoseconds by which a name may be older than the one before: it was being read meanwhile on another CPU."""


def _number(described: Mapping[str, Any], name: str, least: int) -> int:
    """Return a number of nanoseconds. Raises ValueError or KeyError for anything else."""
    found = described[name]
    if type(found) is not int or not least <= found <= LATEST_NS:
        raise ValueError(f"expected nanoseconds as {name}")
    return found


class Recording:
    """A recorded folder, as batches of events.

    Args:
        path: the folder.

    Attributes:
        host: its host.
        wall_offset_s: the offset from the time of the events to seconds since the Unix epoch.
        warnings: the problems that were found while it was read, in words.

    Raises:
        TraceError: it is missing, unreadable, or not a recording.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._texts = Texts()
        place = path / DESCRIPTION
        try:
            text = place.read_text()
        except (FileNotFoundError, NotADirectoryError):
            raise TraceError(path, f"expected a recording's folder, with a file {DESCRIPTION}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise TraceError(place, f"cannot be read: {error}") from None
        try:
            described = json.loads(text)
            version = described["version"]
            if version == VERSION:
                self._read(described)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise TraceError(place, f"not a valid recording: {error!r}") from None
        if version != VERSION:
            raise TraceError(place, f"expected version {VERSION}, got {version!r}: another version of laggard wrote it")

    def _read(self, described: dict[str, Any]) -> None:
        self.host = str(described["host"])
        self.wall_offset_s = _number(described, "wall_offset_ns", -LATEST_NS) / 1e9
        self._begin_ns = _number(described, "begin_ns", 0)
        self._cpus = [int(cpu) for cpu in described["cpus"]]
        if len(self._cpus) > MAX_CPUS or not set(self._cpus) <= set(range(MAX_CPUS)):
            raise ValueError(f"expected cpus below {MAX_CPUS:,}")
        self._header = parse_header_page(described["header_page"])
        ports = {int(port): service for port, service in described["ports"].items()}
        self._connections = Connections(ports) if ports else None
        self._known = Known(
            [Thread(*thread) for thread in described["threads"]],
            [Descriptor(*descriptor) for descriptor in described["descriptors"]],
        )
        self._processes = Processes(self._known.processes())
        self._decoder = Decoder(
            {name: parse_format(text, place=name) for name, text in described["formats"].items()},
            self._header,
            self._texts,
            machine=described["machine"],
            probes={name: Probe.from_json(probe) for name, probe in described["probes"].items()},
            devices={int(number): name for number, name in described["devices"].items()},
        )

    def __iter__(self) -> Iterator[Events]:
        """Yield all events in the order of time, once."""
        for merged_rows in self._merged():
            rows = with_failures(merged_rows)
            self._processes.fill(rows)
            batch = Events(rows, self._texts)
            yield self._connections.add(batch) if self._connections else batch
        if self._decoder.damaged:
            self.warnings.append(f"{self.path}: {self._decoder.damaged} damaged pages or events were skipped")

    def _merged(self) -> Iterator[NDArray[np.void]]:
        sources = [self._before(), self._names(), *(self._pages(cpu) for cpu in self._cpus)]
        reached = dict.fromkeys(sources, -1)
        waiting: dict[Generator[NDArray[np.void]], NDArray[np.void]] = {}
        try:
            while reached:
                # Read on from the source that holds the others up.
                source = min(reached, key=lambda one: reached[one])
                rows = next(source, None)
                if rows is None:
                    del reached[source]
                elif len(rows):
                    reached[source] = max(reached[source], int(rows["ts"][-1]) - _DISORDER_NS)
                    waiting[source] = merged([waiting[source], rows]) if source in waiting else rows
                until = min(reached.values(), default=_NEVER)
                ready = {one: int(np.searchsorted(some["ts"], until, side="left")) for one, some in waiting.items()}
                if any(ready.values()):
                    # Names first: at the same instant, a call's end comes after its name.
                    yield merged(waiting[one][: ready[one]] for one in sources if one in waiting)
                    waiting = {one: some[ready[one] :] for one, some in waiting.items() if ready[one] < len(some)}
        finally:
            for source in sources:
                source.close()

    def _before(self) -> Generator[NDArray[np.void]]:
        """Yield the threads and descriptors from before the recording."""
        try:
            yield self._known.rows(self._begin_ns, self._texts)
        except (ValueError, TypeError, OverflowError) as error:
            raise TraceError(self.path / DESCRIPTION, f"not a valid recording: {error!r}") from None

    def _pages(self, cpu: int) -> Generator[NDArray[np.void]]:
        """Yield the events of one CPU, a piece at a time."""
        size = self._header.page
        for piece in self._pieces(self.path / f"cpu{cpu}", size, PIECE_PAGES, "the events of this CPU are missing"):
            raw = piece + bytes(-len(piece) % size)
            pages = np.frombuffer(raw, np.uint8).reshape(-1, size)
            try:
                yield self._decoder.decode(pages, np.full(len(pages), cpu, np.int16))
            except KeyError as error:
                what = f"expected formats of events with the field {error}"
                raise TraceError(self.path / DESCRIPTION, what) from None

    def _names(self) -> Generator[NDArray[np.void]]:
        """Yield names, a piece at a time."""
        size = RECORD.itemsize
        for piece in self._pieces(self.path / NAMES, size, PIECE_NAMES, "the names of opened files are missing"):
            yield name_rows(piece[: len(piece) // size * size], self._texts)

    def _pieces(self, path: Path, size: int, most: int, missing: str) -> Iterator[bytes]:
        """Yield a file's content, whole items at a time, and the rest of a cut one."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            self.warnings.append(f"{path}: does not exist: {missing}")
            return
        with file:
            while raw := file.read(most * size):
                cut = len(raw) % size
                if cut:
                    self.warnings.append(f"{path}: is truncated: its last piece has {cut} of {size} bytes")
                yield raw
