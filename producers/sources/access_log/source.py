"""The performance of an application from its access logs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.sources.access_log.intervals import EXACT, Intervals
from laggard.producers.sources.access_log.positions import Positions, load_positions, save_positions
from laggard.producers.sources.access_log.requests import MOST_REPORTED
from laggard.producers.sources.access_log.rotation import compressed, matching
from laggard.producers.sources.access_log.tail import Tail, Tailed
from laggard.producers.sources.performance import Taken, Trouble, performance_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.producers.sources.access_log.blocks import Block
    from laggard.producers.sources.access_log.intervals import Interval
    from laggard.producers.sources.access_log.requests import Parser, Requests

AHEAD_S: Final = 60.0
"""The most seconds that a request may end after now. Otherwise one wrong line would close all intervals before it."""

REPORT_AGAIN_S: Final = 600.0
"""The seconds for which only the first few unreadable lines are reported; all are counted."""

CHECKED_BYTES: Final = 64 << 10
"""The number of bytes at the end of a log that are parsed to check its form."""


class Read(NamedTuple):
    """The result of one reading of the files.

    Attributes:
        ts: the time of the reading.
        tailed: the new content.
        duration_s: the duration of the reading.

    """

    ts: float
    tailed: Tailed
    duration_s: float


class AccessLog:
    """Follows access logs, and reports the performance of each interval once its lines are there.

    Each request counts in exactly one frame, even over restarts, if the files allow it (see `tail.py`): `state` has the
    position up to which requests are in published frames. It is written after these. Frames published in between are
    published again with the same sequence, by which readers recognize them.

    The time of a frame is that of the log: the end of an interval in which requests ended. It is published when
    `grace_s` has passed since then and all written lines were read. A line that comes even later counts as unusable.

    Args:
        name: the name of the source.
        application: the application of the requests.
        paths: the logs: names, and patterns as in a shell.
        parser: the parser of their lines.
        state: the file of the positions.
        interval_s: the length of intervals.
        grace_s: the seconds after the end of an interval in which its lines may come: some servers buffer their logs.

    Raises ValueError without a path, or for one of a compressed log.

    """

    def __init__(
        self,
        name: str,
        application: str,
        paths: Sequence[str],
        parser: Parser,
        state: Path,
        *,
        interval_s: float = 10.0,
        grace_s: float = 2.0,
    ) -> None:
        if not paths:
            raise ValueError("expected at least one path of an access log")
        if closed := [path for path in paths if compressed(path)]:
            raise ValueError(f"cannot follow compressed logs: {', '.join(closed)}")
        self.name = name
        self.keyed_by: KeyedBy = "application"
        self.key = application
        self.finished = False
        self._paths = tuple(paths)
        self._parser = parser
        self._state = state
        self._interval_s = interval_s
        self._grace_s = grace_s
        self._tail: Tail | None = None
        self._intervals: Intervals | None = None
        self._saved: Positions | None = None
        self._troubles: list[Trouble] = []
        self._told_ts, self._told = 0.0, 0

    def read(self, ts: float) -> Read:
        """Read the content of the files since the last call. `ts` is the present time."""
        began = time.perf_counter()
        if self._tail is None:
            self._begin(ts)
        assert self._tail is not None
        tailed = self._tail.read(ts)
        if self._saved is None:
            self._save()  # so that lines from now on count after a restart, too
        return Read(ts, tailed, time.perf_counter() - began)

    def parse(self, read: Read) -> Taken:
        """Return the frames of the intervals that are over."""
        tailed, troubles = read.tailed, [*self._troubles, *read.tailed.troubles]
        self._troubles = []
        assert self._intervals is not None
        lines = unusable = tailed.skipped
        for block in tailed.blocks:
            samples, bad = self._take(block, read.ts, troubles)
            lines, unusable = lines + samples, unusable + bad
        if not tailed.files:
            self._intervals.skip(read.ts)  # without a file nothing is known of the requests
        closed = list(self._intervals.close(self._watermark(read.ts)))
        if sampled := sum(each.sampled for each in closed):
            problem = (
                f"more than {EXACT:,} requests in each of {sampled} intervals; quantiles are those of a random sample"
            )
            troubles.append(Trouble(self._paths[0], problem, lasting=False))
        return Taken(
            [self._frame(each) for each in closed],
            troubles,
            tailed.expected,
            tailed.found,
            lines,
            unusable,
            tailed.more,
        )

    def published(self) -> None:
        """Save the positions: requests of published frames need not be read again."""
        if self._tail is not None:
            self._save()

    def check(self) -> Sequence[Trouble]:
        """Check whether each log can be read, and whether any of its last lines has the expected form."""
        troubles: list[Trouble] = []
        for path in self._paths:
            names = matching(path)
            if not names:
                troubles.append(Trouble(path, "no file matches this pattern"))
            troubles.extend(trouble for name in names for trouble in self._check_file(name))
        return troubles

    def close(self) -> None:
        """Close all files."""
        if self._tail is not None:
            self._tail.close()

    def _begin(self, ts: float) -> None:
        try:
            self._saved = load_positions(self._state)
        except ValueError as error:
            problem = f"{error}; lines written to {', '.join(self._paths)} since the last read are skipped"
            self._troubles.append(Trouble(str(self._state), problem, lasting=False))
        if self._saved is None:
            self._tail = Tail(self._paths)
        else:
            self._tail = Tail(self._paths, self._saved.files, self._saved.paths)
        until = ts if self._saved is None else self._saved.until
        self._intervals = Intervals(
            self._interval_s,
            until,
            resumed=self._saved is not None,
            timed=self._parser.timed,
            statuses=self._parser.statuses,
        )

    def _take(self, block: Block, ts: float, troubles: list[Trouble]) -> tuple[int, int]:
        """Count the requests of a block. Return the number of its lines, and of those that are unusable."""
        assert self._intervals is not None
        file, requests = block.file, self._parser.parse(block.lines)
        added = self._intervals.add(requests, ts + AHEAD_S)
        if added.last is not None:
            file.pending.append((block.offset, self._intervals.end_of(added.last)))
        usable = requests.ts[requests.ts <= ts + AHEAD_S]
        if len(usable):
            file.last_ts = max(float(usable.max()), file.last_ts or 0.0)
        new_troubles = self._unreadable(block, requests, ts)
        if added.ahead:
            new_troubles.append(
                Trouble(file.path, f"{added.ahead:,} requests end over a minute in the future", lasting=False)
            )
        late = 0 if block.known else added.late
        if late:
            new_troubles.append(Trouble(file.path, self._late(late), lasting=False))
        troubles.extend(new_troubles)
        return len(requests.ts) + requests.unreadable, requests.unreadable + added.ahead + late

    def _unreadable(self, block: Block, requests: Requests, ts: float) -> list[Trouble]:
        """Return the first few unreadable lines, each with its place, and the number of the others."""
        if ts - self._told_ts >= REPORT_AGAIN_S:
            self._told_ts, self._told = ts, 0
        first = requests.reported[: max(0, MOST_REPORTED - self._told)]
        self._told += len(first)
        path = block.file.path
        troubles = [Trouble(f"{path}:{block.offset + each.offset}", each.reason, lasting=False) for each in first]
        if requests.unreadable > len(first):
            troubles.append(Trouble(path, f"{requests.unreadable - len(first):,} more unreadable lines", lasting=False))
        return troubles

    def _late(self, late: int) -> str:
        expected = f"expected within {self._grace_s:g} s of its end"
        return f"{late:,} lines came after their interval was published; {expected}: is the log buffered (grace)?"

    def _watermark(self, ts: float) -> float:
        """Return the time before which no more ended requests are expected."""
        assert self._tail is not None
        reached = [ts if file.exhausted else file.last_ts or 0.0 for file in self._tail.files]
        return min([ts, *reached]) - self._grace_s

    def _frame(self, interval: Interval) -> Frame:
        return performance_frame(self.key, interval.ts, interval.features)

    def _save(self) -> None:
        assert self._tail is not None
        assert self._intervals is not None
        until = self._intervals.until
        positions = Positions(self._paths, until, tuple(file.position(until) for file in self._tail.files))
        if positions == self._saved:
            return
        try:
            save_positions(self._state, positions)
            self._saved = positions
        except OSError as error:
            problem = f"cannot be written: {error.strerror or error}; requests may count twice after a restart"
            self._troubles.append(Trouble(str(self._state), problem))

    def _check_file(self, name: str) -> Sequence[Trouble]:
        try:
            with Path(name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - CHECKED_BYTES))
                end = file.read(CHECKED_BYTES)
        except OSError as error:
            return [Trouble(name, f"cannot be read: {error.strerror or error}")]
        if size > CHECKED_BYTES:
            end = end[end.find(b"\n") + 1 :]  # the rest of a line
        requests = self._parser.parse(end[: end.rfind(b"\n") + 1])
        if requests.unreadable and not len(requests.ts):
            return [Trouble(name, requests.reported[0].reason)]
        return []
