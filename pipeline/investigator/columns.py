"""Time series of rows from the history on a bus, at interactive speed.

Reading a whole day of a host takes seconds, mostly to decompress frames of which one row is needed. So a series is
answered at once from known data: every tick near the moment, and elsewhere one sample per stretch of records. Meanwhile
a thread completes it, and caches the requested rows:

- *samples*: whole frames at records that are a power of two apart, as float32. They show any row of a host without
  reading anything.
- *blocks*: all ticks of `BLOCK` records, as float64, of single rows.

`SAMPLES_BYTES` and `BLOCKS_BYTES` bound the caches; the least recently requested rows are dropped first. A sample of
500 rows with 26 counters is 52 kB and its new names; four hours of one row at ticks of 5 s are 0.6 MB. An open page
fills both slowly: with 140 processes that come and go, they had 37 MB after 2,500 ticks.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.records import Frame
from laggard.pipeline.investigator.thinning import Thinned, thin
from laggard.pipeline.investigator.tracks import (
    MOST_WANTED,
    NOTHING,
    OVERHEAD_BYTES,
    Block,
    Sample,
    Segment,
    Track,
    joined,
    shared,
    tick_of,
)
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.history.series import Reader
    from laggard.pipeline.history.why import History

    Vector = NDArray[np.float64]

BLOCK: Final = 256
"""The number of records of a partition that are read together."""

MOST_SAMPLES: Final = 192
"""The most samples of a series."""

SAMPLING_S: Final = 0.05
"""The longest time to read samples for an answer, in seconds: the rest comes with the ticks."""

AT_ONCE: Final = 2
"""The number of blocks that are read before the first answer, those nearest to the moment."""

BLOCKS_BYTES: Final = 64 << 20
"""The most bytes of blocks: room for a day of `MOST_WANTED` rows at ticks of 5 s, 43 MB that are read together."""

SAMPLES_BYTES: Final = 48 << 20

GIVES_WAY_S: Final = 1.0
"""The longest time that a block waits for pending answers, in seconds."""

MOST_TRACKS: Final = 32
"""The most hosts and scopes in the caches."""

MOST_JOBS: Final = MOST_WANTED

_logger = logging.getLogger(__name__)


class Job(NamedTuple):
    """The blocks to read for a row, the most wanted last."""

    host: str
    scope: str
    row: str | None
    blocks: list[int]


class Columns:
    """The series of hosts. Safe to use from several threads.

    Parameters:
        history: reads the frames.
        blocks_bytes: the most bytes of blocks.
        samples_bytes: the most bytes of samples.

    """

    def __init__(self, history: History, blocks_bytes: int = BLOCKS_BYTES, samples_bytes: int = SAMPLES_BYTES) -> None:
        self._history = history
        self._most_blocks_bytes = blocks_bytes
        self._most_samples_bytes = samples_bytes
        self._lock = threading.Lock()
        self._waiting = 0
        self._nobody_waits = threading.Event()
        self._nobody_waits.set()
        self._tracks: OrderedDict[tuple[str, str], Track] = OrderedDict()
        self._blocks_bytes = self._samples_bytes = 0
        self._jobs: OrderedDict[tuple[str, str, str | None], Job] = OrderedDict()
        self._thread: threading.Thread | None = None

    def bounds(self, host: str) -> tuple[float, float]:
        """Return the times of the oldest and the newest frame of a host. Raises `RequestError` (404) without any."""
        reader = self._history.reader(host)
        oldest, end = reader.bus.bounds(reader.partition)
        first = next((each.ts for _, each in reader.forwards(oldest, end) if isinstance(each, Frame)), None)
        last = next((each.ts for _, each in reader.backwards(end) if isinstance(each, Frame)), None)
        if first is None or last is None:
            raise RequestError(404, f"no frame of host {host[:100]!r} is there", "an agent that runs: laggard up")
        return first, last

    def want(self, host: str, scope: str, rows: Iterable[str]) -> None:
        """Note rows that are likely to be requested: they are cached when a block is read for another row."""
        with self._lock:
            track = self._track(host, scope)
            for row in rows:
                track.want(row)

    def thinned(
        self,
        host: str,
        scope: str,
        row: str | None,
        feature: str,
        *,
        begin: float,
        end: float,
        points: int,
        moment: float | None = None,
        whole: bool = True,
    ) -> Thinned:
        """Return a series from one time to another.

        Args:
            host: the name of the host.
            scope: the scope of the rows.
            row: the id of the row; None for the first row of each frame, if the scope has only one.
            feature: the name of the feature.
            begin: the start, seconds since the Unix epoch.
            end: the end, likewise.
            points: the most points.
            moment: the time near which every tick is read at once; None for the end.
            whole: whether to read every tick, if later; otherwise samples are enough, and make the answer complete.

        """
        with self.waiting():
            segments, samples, missing, complete = self._found(host, scope, row, (begin, end), moment, whole=whole)
        ts = np.concatenate([NOTHING, *(each.ts for each in segments), [each.ts for each in samples]])
        values = np.concatenate(
            [NOTHING, *(each.of(feature) for each in segments), [each.of(row, feature) for each in samples]]
        )
        inside = (ts >= begin) & (ts <= end)
        order = np.argsort(ts[inside], kind="stable")
        return thin(
            ts[inside][order],
            values[inside][order],
            points=points,
            tick_s=tick_of(segments),
            complete=complete and not (missing and whole),
            breaks=not missing,
        )

    def _found(
        self, host: str, scope: str, row: str | None, span: tuple[float, float], moment: float | None, *, whole: bool
    ) -> tuple[list[Segment], list[Sample], list[int], bool]:
        """Return the data of a row in a range of time that is known, or can be read at once.

        Returns:
            Its ticks; samples elsewhere; the blocks whose ticks are missing; whether there was time for all samples.

        """
        reader = self._history.reader(host)
        start, stop = (
            reader.bus.offset_at(reader.partition, ts) for ts in (span[0], math.nextafter(span[1], math.inf))
        )
        with self._lock:
            track = self._track(host, scope)
            track.want(row)
            known = dict(track.rows.get(row, {}))
            if row in track.rows:
                track.rows.move_to_end(row)
        numbers = range(start // BLOCK, -(-stop // BLOCK))
        missing = [each for each in numbers if not _reaches(known.get(each), each, stop)]
        if whole and missing:
            about = stop if moment is None else reader.bus.offset_at(reader.partition, moment)
            missing.sort(key=lambda each: -abs(each - about // BLOCK))
            for number in missing[-AT_ONCE:]:
                known |= self._read(reader, host, scope, row, number)
            missing = missing[:-AT_ONCE]
        samples, complete = self._samples(reader, (host, scope), range(start, stop), missing) if missing else ([], True)
        if missing and whole:
            self._begin(Job(host, scope, row, list(missing)))  # a copy, since the thread removes blocks
        segments = [segment for number in numbers if number in known for segment in known[number].segments]
        return segments, samples, missing, complete

    def _track(self, host: str, scope: str) -> Track:
        """Return the caches of a scope of a host; with the lock held."""
        track = self._tracks.get((host, scope))
        if track is None:
            track = self._tracks[host, scope] = Track()
            while len(self._tracks) > MOST_TRACKS:
                _, gone = self._tracks.popitem(last=False)
                self._blocks_bytes -= sum(block.bytes for blocks in gone.rows.values() for block in blocks.values())
                self._samples_bytes -= sum(sample.bytes for sample in gone.samples.values())
        self._tracks.move_to_end((host, scope))
        return track

    def _read(self, reader: Reader, host: str, scope: str, row: str | None, number: int) -> dict[int, Block]:
        """Read the missing part of a block, for all wanted rows, and return the block of one of them."""
        with self._lock:
            track = self._track(host, scope)
            wanted = [row, *(each for each in track.wanted if each != row)]
            before = {each: track.rows.get(each, {}).get(number) for each in wanted}
        # Read on from the known part of the row, together with the other rows that are known up to the same offset.
        start = number * BLOCK if (own := before[row]) is None else own.stop
        wanted = [each for each in wanted if start == (number * BLOCK if (had := before[each]) is None else had.stop)]
        end = min((number + 1) * BLOCK, reader.bus.bounds(reader.partition)[1])
        found: dict[str | None, list[Segment]] = {each: [] for each in wanted}
        for run in _runs(_frames(reader, scope, start, end)):
            layout, ts = run[0].layout, np.array([each.ts for each in run])
            places = {each: place for place, each in enumerate(layout.rows)}
            features = shared(layout.features)
            for each in wanted:
                place = 0 if each is None else places.get(each)
                if place is None or not layout.rows:
                    found[each].append(Segment((), ts, np.empty((len(run), 0))))
                else:
                    values = np.array([frame.values[place] for frame in run])
                    found[each].append(Segment(features, ts, values))
        extended: dict[str | None, Block] = {}
        for each in wanted:
            old = before[each]
            segments = joined((*(() if old is None else old.segments), *found[each]))
            size = sum(OVERHEAD_BYTES + segment.ts.nbytes + segment.values.nbytes for segment in segments)
            extended[each] = Block(end, segments, size)
        with self._lock:
            track = self._track(host, scope)
            for each in reversed(wanted):
                blocks = track.rows.setdefault(each, {})
                had = blocks.get(number)
                self._blocks_bytes += extended[each].bytes - (0 if had is None else had.bytes)
                blocks[number] = extended[each]
            track.rows.move_to_end(row)
            self._bound_blocks()
        return {number: extended[row]}

    def _bound_blocks(self) -> None:
        """Drop the least recently requested rows, of the least recently used tracks first; with the lock held."""
        for track in self._tracks.values():
            while self._blocks_bytes > self._most_blocks_bytes and len(track.rows) > 1:
                _, blocks = track.rows.popitem(last=False)
                self._blocks_bytes -= sum(block.bytes for block in blocks.values())

    def _samples(
        self, reader: Reader, of: tuple[str, str], records: range, blocks: Sequence[int]
    ) -> tuple[list[Sample], bool]:
        """Return samples of frames in blocks with missing ticks, and whether there was time for all of them."""
        start, stop = records.start, records.stop
        step = 1 << max(math.ceil(math.log2(max((stop - start) / MOST_SAMPLES, 1.0))), 0)
        wanted = set(blocks)
        until = time.monotonic() + SAMPLING_S
        found: list[Sample] = []
        offsets = [each for each in range(-(-start // step) * step, stop, step) if each // BLOCK in wanted]
        # From coarse to fine: if the time ends before all are read, they are spread evenly.
        for offset in sorted(offsets, key=lambda each: -(each & -each or stop)):
            stretch = offset, min(offset + step, stop)
            with self._lock:
                track = self._track(*of)
                sample, empty = track.samples.get(offset), stretch in track.empty
            if sample is None and not empty:
                if time.monotonic() > until:
                    return found, False
                frame = next(_frames(reader, of[1], *stretch), None)
                with self._lock:
                    track = self._track(*of)
                    if frame is None:
                        track.keep_empty(stretch)
                    else:
                        sample = self._keep(track, offset, frame)
            if sample is not None:
                found.append(sample)
        return found, True

    def _keep(self, track: Track, offset: int, frame: Frame) -> Sample:
        """Cache a sample of a frame; with the lock held."""
        before, sample = track.samples.get(offset), track.sample(frame)
        track.samples[offset] = sample
        self._samples_bytes += sample.bytes - (0 if before is None else before.bytes)
        self._bound_samples()
        return sample

    def _bound_samples(self) -> None:
        """Drop the oldest samples, of the least recently used tracks first; with the lock held."""
        for track in self._tracks.values():
            while self._samples_bytes > self._most_samples_bytes and track.samples:
                _, sample = track.samples.popitem(last=False)
                self._samples_bytes -= sample.bytes

    # Completion in the background.

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Make background reading wait for an answer in progress, for a while."""
        with self._lock:
            self._waiting += 1
            self._nobody_waits.clear()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._nobody_waits.set()

    def _begin(self, job: Job) -> None:
        with self._lock:
            self._jobs[job[:3]] = job
            self._jobs.move_to_end(job[:3])
            while len(self._jobs) > MOST_JOBS:
                self._jobs.popitem(last=False)
            if self._thread is None:
                self._thread = threading.Thread(target=self._complete, name="columns", daemon=True)
                self._thread.start()

    def _complete(self) -> None:
        """Read the blocks of the last requested series, one by one, until nothing is left; runs in the thread."""
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = None
                    return
                key = next(reversed(self._jobs))
                job = self._jobs[key]
                number = job.blocks.pop() if job.blocks else None
                if number is None:
                    self._jobs.pop(key)
                    continue
            self._nobody_waits.wait(GIVES_WAY_S)
            try:
                self._read(self._history.reader(job.host), job.host, job.scope, job.row, number)
            except BusError:  # the next query reports it
                self._give_up(key)
            except Exception:  # the thread has more to do
                _logger.exception("a series of %r could not be completed", job.host)
                self._give_up(key)

    def _give_up(self, key: tuple[str, str, str | None]) -> None:
        with self._lock:
            self._jobs.pop(key, None)


def _reaches(block: Block | None, number: int, stop: int) -> bool:
    """Return whether a block is known up to the requested offset."""
    return block is not None and block.stop >= min((number + 1) * BLOCK, stop)


def _frames(reader: Reader, scope: str, start: int, stop: int) -> Iterator[Frame]:
    return (each for _, each in reader.forwards(start, stop) if isinstance(each, Frame) and each.scope == scope)


def _runs(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    """Yield runs of consecutive frames with the same layout."""
    run: list[Frame] = []
    for frame in frames:
        if run and frame.layout is not run[0].layout:
            yield run
            run = []
        run.append(frame)
    if run:
        yield run
