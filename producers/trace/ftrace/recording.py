"""Reading a folder that `Recorder` wrote, in bounded memory: each CPU's file a piece at a time, merged by time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.producers.trace.boundaries.probes import Probe
from laggard.producers.trace.events import Events, Texts
from laggard.producers.trace.ftrace.decoding import Decoder, merged
from laggard.producers.trace.ftrace.formats import parse_format, parse_header_page
from laggard.producers.trace.ftrace.known import Descriptor, Known, Thread
from laggard.producers.trace.ftrace.recorder import DESCRIPTION, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

    from numpy.typing import NDArray

PIECE_PAGES: Final = 1024
"""Of one CPU at a time: about 100,000 events."""


class RecordingError(ValueError):
    """A folder is no recording that we can read."""


class Recording:
    """A recorded folder, as batches of events.

    Args:
        path: the folder.

    Attributes:
        host: whose it is.
        wall_offset_s: to be added to the events' time for seconds since the Unix epoch.
        warnings: what was found wrong while it was read, in words.

    Raises:
        RecordingError: it is not there, or not a recording.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._texts = Texts()
        try:
            text = (path / DESCRIPTION).read_text()
        except (FileNotFoundError, NotADirectoryError):
            raise RecordingError(f"{path}: expected a recording's folder, with a file {DESCRIPTION}") from None
        try:
            described = json.loads(text)
            version = described["version"]
            if version == VERSION:
                self._read(described)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordingError(f"{path / DESCRIPTION}: expected what a recorder writes: {error!r}") from None
        if version != VERSION:
            raise RecordingError(
                f"{path / DESCRIPTION}: expected version {VERSION}, got {version!r}, of another laggard"
            )

    def _read(self, described: dict[str, Any]) -> None:
        self.host: str = described["host"]
        self.wall_offset_s: float = described["wall_offset_ns"] / 1e9
        self._begin_ns: int = described["begin_ns"]
        self._cpus: list[int] = described["cpus"]
        self._header = parse_header_page(described["header_page"])
        self._known = Known(
            [Thread(*thread) for thread in described["threads"]],
            [Descriptor(*descriptor) for descriptor in described["descriptors"]],
        )
        self._decoder = Decoder(
            {name: parse_format(text, place=name) for name, text in described["formats"].items()},
            self._header,
            self._texts,
            machine=described["machine"],
            probes={name: Probe.from_json(probe) for name, probe in described["probes"].items()},
            devices={int(number): name for number, name in described["devices"].items()},
            processes=self._known.processes(),
        )

    def __iter__(self) -> Iterator[Events]:
        """All events in the order of time, once."""
        waiting = self._known.rows(self._begin_ns, self._texts)
        files = {cpu: _Pages(self, cpu) for cpu in self._cpus}
        reached = dict.fromkeys(files, -1)
        try:
            while files:
                # That CPU is read on which holds the others up.
                cpu = min(files, key=lambda one: reached[one])
                pages = files[cpu].next()
                if pages is None:
                    files.pop(cpu).close()
                    del reached[cpu]
                    continue
                rows = self._decoder.decode(pages, np.full(len(pages), cpu, np.int16))
                if len(rows):
                    reached[cpu] = int(rows["ts"][-1])
                waiting = merged([waiting, rows])
                until = min(reached.values())
                ready = int(np.searchsorted(waiting["ts"], until, side="left"))
                if ready:
                    yield Events(waiting[:ready], self._texts)
                    waiting = waiting[ready:].copy()
        finally:
            for file in files.values():
                file.close()
        if len(waiting):
            yield Events(waiting, self._texts)
        if self._decoder.damaged:
            self.warnings.append(f"{self.path}: {self._decoder.damaged} pages end in something that is no event")

    @property
    def texts(self) -> Texts:
        """Of all batches."""
        return self._texts


class _Pages:
    """The pages of one CPU's file, a piece at a time."""

    def __init__(self, recording: Recording, cpu: int) -> None:
        self._recording = recording
        self._path = recording.path / f"cpu{cpu}"
        self._size = recording._header.page  # noqa: SLF001 - of this module
        self._file: BufferedReader | None = None
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            recording.warnings.append(f"{self._path}: is missing: nothing is known of this CPU")

    def next(self) -> NDArray[np.uint8] | None:
        """The next pages, the last one filled up with zeros if it was cut off; None at the end."""
        raw = self._file.read(PIECE_PAGES * self._size) if self._file else b""
        if not raw:
            return None
        cut = -len(raw) % self._size
        if cut:
            self._recording.warnings.append(
                f"{self._path}: the last page is cut off: {self._size - cut} of {self._size} bytes are there"
            )
            raw += bytes(cut)
        return np.frombuffer(raw, np.uint8).reshape(-1, self._size)

    def close(self) -> None:
        if self._file:
            self._file.close()
