"""Record to a folder; `Recording` reads it later."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final, Self

from laggard.producers.trace.ftrace.session import BUFFER_BYTES, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from io import BufferedWriter
    from pathlib import Path
    from types import TracebackType

    from laggard.producers.trace.boundaries.probes import Probe

VERSION: Final = 1
"""The version of the folder's form."""

DESCRIPTION: Final = "recording.json"

NAMES: Final = "names"

DRAIN_S: Final = 0.2
"""The interval between reads of the buffers, in seconds: they hold several seconds, but a page that was read costs
nothing later."""


class Recorder:
    """Records into a new folder, from `start` to the end of the block.

    The folder has `recording.json`; for each CPU its concatenated pages, in `cpuN`; and the records of `Names`, in
    `names`.

    Args:
        folder: a new or an empty folder.
        probes: boundaries in programs.
        ports: servers with one request per connection: services by port.
        marker: the place where the marker file is offered; see `Session`.
        marker_group: see `Session`.
        buffer_bytes: see `Session`.
        minimal: see `Session`.

    Attributes:
        session: the tracing.
        bytes: the number of bytes so far.

    Raises:
        TracingError: the tracer cannot be used.
        FileExistsError: the folder is not empty.

    """

    def __init__(
        self,
        folder: Path,
        *,
        probes: Sequence[Probe] = (),
        ports: Mapping[int, str] | None = None,
        marker: Path | None = None,
        marker_group: int = 0,
        buffer_bytes: int = BUFFER_BYTES,
        minimal: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder}: expected a new or empty folder, it is not empty")
        self._folder = folder
        self._ports = dict(ports or {})
        self._files: dict[str, BufferedWriter] = {}
        self.bytes = 0
        self.session = Session(
            probes=probes, marker=marker, marker_group=marker_group, buffer_bytes=buffer_bytes, minimal=minimal
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._files and kind is None:
                self.stop()
        finally:
            self.session.close()
            for file in self._files.values():
                file.close()

    def start(self) -> None:
        """Start recording. The description is written at once, so that the folder of a killed recorder is readable."""
        self.session.start()
        files = [NAMES, *(f"cpu{cpu}" for cpu in self.session.instance.cpus)]
        self._files = {file: (self._folder / file).open("wb") for file in files}
        described = {"version": VERSION, "ports": self._ports, **self.session.described()}
        (self._folder / DESCRIPTION).write_text(json.dumps(described, indent=1))

    def drain(self) -> None:
        """Write the new events to the files."""
        for pages, cpus in self.session.take():
            self.bytes += pages.nbytes
            self._files[f"cpu{cpus[0]}"].write(pages.data)
        names = self.session.take_names()
        self.bytes += len(names)
        self._files[NAMES].write(names)

    def stop(self) -> None:
        """Stop recording, and write the last events."""
        self.session.stop()
        self.drain()

    def run(self, seconds: float, *, wanted: Callable[[], bool] = lambda: True) -> None:
        """Start, and record for this time in seconds, or as long as `wanted` returns true."""
        self.start()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and wanted():
            time.sleep(min(left, DRAIN_S))
            self.drain()
