"""Recorded slowdowns: a machine's frames as JSON lines, and beside them what was done to it and when.

A folder holds `frames.jsonl.zst`, all that the agent published and the marks in one order, a recording as laggard
replays it; `cases.jsonl`, one `Case` a line; and `about.json`, how it was made.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard

from laggard.pipeline.core.records import Frame, Mark
from laggard.pipeline.core.records.json_lines import write_line
from laggard.producers.host.process import RATES
from laggard.producers.sources.files import Recording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

FRAMES, CASES, ABOUT = "frames.jsonl.zst", "cases.jsonl", "about.json"


@dataclass(frozen=True, slots=True)
class Decoy:
    """A process that did at the time of a case what is no trouble, and is not a culprit.

    Attributes:
        name: of its row.
        ts: when it began.
        did: what: its usual `burst`, or it was started just then (`new`).

    """

    name: str
    ts: float
    did: str = "burst"


@dataclass(frozen=True, slots=True)
class Culprit:
    """One process that goes wrong.

    Attributes:
        name: of its row.
        kind: of the fault, by its resource.
        amount: of the fault, in the unit of its class.
        program: what it starts again and again, where that is the fault; otherwise empty.
        pid: its process; 0 until there is one.

    """

    name: str
    kind: str
    amount: float
    program: str = ""
    pid: int = 0

    def is_row(self, row: str, name: str) -> bool:
        """Whether this is a culprit: its own row, by its id, or the programs that it starts, by their name.

        The row counts also when its process has ended; its namesakes do not.
        """
        return row.startswith(f"{self.name}[{self.pid}@") or (bool(self.program) and name == self.program)


@dataclass(frozen=True, slots=True)
class Case:
    """One slowdown. Times are in seconds since the Unix epoch.

    Attributes:
        case: its number, from 1.
        situation: one of `planning.SITUATIONS`.
        form: of the situation, where it has several; otherwise empty.
        culprits: all of them.
        onset: when they went wrong.
        mark: when the user asked.
        end: when it was over.
        decoys: what others did shortly before the mark.
        waiting: names of those that had to wait for a culprit.

    """

    case: int
    situation: str
    form: str
    culprits: tuple[Culprit, ...]
    onset: float
    mark: float
    end: float
    decoys: tuple[Decoy, ...] = ()
    waiting: tuple[str, ...] = ()


class Recorder:
    """Writes a folder; what is not closed can be read up to the last whole block."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True)
        (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
        self._file = (folder / FRAMES).open("wb")
        self._frames = zstandard.ZstdCompressor(level=3).stream_writer(self._file)
        self._cases = (folder / CASES).open("w")

    def publish(self, records: Sequence[Frame | Mark]) -> None:
        """Append records."""
        for record in records:
            self._frames.write(write_line(record).encode() + b"\n")

    def add(self, case: Case) -> None:
        """Append a case, and make what was recorded so far readable."""
        self._cases.write(json.dumps(asdict(case)) + "\n")
        self._cases.flush()
        self._frames.flush(zstandard.FLUSH_BLOCK)
        self._file.flush()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._frames.close()
        self._cases.close()


def read_cases(folder: Path) -> list[Case]:
    """All cases of a folder."""
    cases = []
    for line in (folder / CASES).read_text().splitlines():
        fields = json.loads(line)
        fields["culprits"] = tuple(Culprit(**culprit) for culprit in fields["culprits"])
        fields["decoys"] = tuple(Decoy(**decoy) for decoy in fields["decoys"])
        cases.append(Case(**fields | {"waiting": tuple(fields["waiting"])}))
    return cases


def read_frames(folder: Path, scope: str) -> Iterator[Frame]:
    """The frames of one scope, in order; what cannot be read is told on the standard error."""
    with Recording(str(folder / FRAMES)) as recording:
        for _, received in recording.records(lambda problem: print(problem, file=sys.stderr)):
            if isinstance(received, Frame) and received.scope == scope:
                yield received


def thinned(frames: Iterable[Frame], ticks: int) -> Iterator[Frame]:
    """What an agent that ticks `ticks` times as rarely would have seen: rates are means, gauges the last values."""
    means: dict[str, list[NDArray[np.float64]]] = {}
    for number, frame in enumerate(frames, 1):
        rates = np.isin(frame.layout.features, RATES)
        for row, values in zip(frame.layout.rows, frame.values, strict=True):
            means.setdefault(row, []).append(values[rates])
        if number % ticks == 0:
            values = frame.values.copy()
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a mean of nothing is NaN
                values[:, rates] = [np.nanmean(means[row], axis=0) for row in frame.layout.rows]
            yield replace(frame, values=values)
            means.clear()
