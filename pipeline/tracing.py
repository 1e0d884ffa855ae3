"""From the settings to what is traced, and from the kernel's events to requests: numbered, published, accounted for."""

from __future__ import annotations

import grp
import json
import logging
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.pipeline.bus import BusError
from laggard.pipeline.records import RecordError, Request
from laggard.pipeline.settings.producing import TraceSettings
from laggard.pipeline.trusted import read_trusted, write_trusted
from laggard.producers.trace.overhead import OWN_EVERY_S, OWN_FEATURES, own_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from laggard.pipeline.records import Frame
    from laggard.pipeline.settings import Settings
    from laggard.producers.host.agent import Queue
    from laggard.producers.trace.analysis import Analysis
    from laggard.producers.trace.boundaries.probes import Probe
    from laggard.producers.trace.events import Events
    from laggard.producers.trace.ftrace.live import Live
    from laggard.producers.trace.ftrace.recorder import Recorder

STATUS: Final = "trace.json"
"""In the directory `state`: how the tracing goes."""

MOST_SERVICES: Final = 100
"""So many are told by name."""

_MAX_BYTES: Final = 1 << 20
_OTHERS: Final = "..."

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Figures:
    """How tracing goes.

    Attributes:
        pid: of the process that traces.
        began_ts: when it began, seconds since the Unix epoch.
        ts: of these figures.
        what: what is traced, in words.
        recording: whether events come by now.
        supervised: whether `laggard up` runs it.
        output: the folder that is recorded to; empty where requests are published.
        events: of the kernel so far.
        events_per_s: of late.
        requests: that came out so far.
        requests_per_s: of late.
        services: how many of each.
        discarded: requests that were not told, by reason.
        lost: events that the kernel dropped.
        recorded_ratio: of the time so far, what was recorded: less than 1 where events are over their budget.
        cpu_s: CPU time of the process.
        waiting: requests that the bus does not have yet.
        dropped: requests that were lost on the way to it.
        bytes: recorded to the folder.
        notes: what cannot be told here, in words.

    """

    pid: int
    began_ts: float
    ts: float
    what: str
    recording: bool = False
    supervised: bool = False
    output: str = ""
    events: int = 0
    events_per_s: float = 0.0
    requests: int = 0
    requests_per_s: float = 0.0
    services: dict[str, int] = field(default_factory=dict)
    discarded: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    recorded_ratio: float = 1.0
    cpu_s: float = 0.0
    waiting: int = 0
    dropped: int = 0
    bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Keep them where `laggard trace status` finds them; in one piece, whoever reads meanwhile."""
        write_trusted(path, json.dumps(asdict(self)))


def read_figures(path: Path, pid: int) -> Figures | None:
    """What a process that traces has written last; None where it has not yet."""
    with suppress(OSError, ValueError, TypeError):
        found = Figures(**json.loads(read_trusted(path, _MAX_BYTES)))
        if found.pid == pid:
            return found
    return None


class Numbering:
    """Numbers the requests that this host sends: ever growing, over restarts too as long as the clock goes forward."""

    def __init__(self, host: str, clock: Callable[[], float] = time.time) -> None:
        self._host = host
        self._clock = clock
        self._last = -1

    def number(self, request: Request) -> Request:
        """The request with its number and its host."""
        self._last = max(self._last + 1, int(self._clock() * 1e6))
        return replace(request, host=self._host, sequence=self._last)


class Tracing:
    """Takes events, and publishes the requests among them.

    Args:
        publish: takes requests, in the order in which they ended.
        queue: where they wait.
        host: this one.
        analysis: what finds requests.

    Attributes:
        requests: how many were published.
        services: how many of each.
        lost: how many could not be.

    """

    def __init__(
        self, publish: Callable[[Sequence[Request]], None], queue: Queue, host: str, analysis: Analysis
    ) -> None:
        self.requests = self.lost = 0
        self.services: Counter[str] = Counter()
        self.analysis = analysis
        self._publish = publish
        self._queue = queue
        self._numbering = Numbering(host)

    def run(self, batches: Iterable[Events], tell: Callable[[], None]) -> None:
        """Take events until there are no more; `tell` is called after each batch."""
        for batch in batches:
            self._take(self.analysis.feed(batch))
            tell()
        self._take(self.analysis.finish())
        tell()

    @property
    def waiting(self) -> int:
        """Requests that have not arrived yet."""
        return self._queue.waiting

    @property
    def dropped(self) -> int:
        """Requests that were lost."""
        return self._queue.dropped + self.lost

    def _take(self, requests: Sequence[Request]) -> None:
        if not requests:
            return
        numbered = [self._numbering.number(each) for each in requests]
        self.requests += len(numbered)
        for each in numbered:
            known = each.service in self.services or len(self.services) < MOST_SERVICES
            self.services[each.service if known else _OTHERS] += 1
        try:
            self._publish(numbered)
        except RecordError:
            for each in numbered:
                self._publish_one(each)
        except BusError as error:
            _logger.warning("%s; requests are lost", error)  # the queue has counted them

    def _publish_one(self, request: Request) -> None:
        """One that cannot be written must not take others with it."""
        try:
            self._publish([request])
        except RecordError as error:
            self.lost += 1
            _logger.warning("request %s cannot be told: %s", request.request, error)
        except BusError as error:
            _logger.warning("%s; a request is lost", error)


class Own:
    """Publishes what tracing tells of itself, now and then.

    Args:
        publish: takes frames.
        host: this one.

    """

    def __init__(self, publish: Callable[[Sequence[Frame]], None], host: str) -> None:
        self._publish = publish
        self._host = host
        self._next_ts = 0.0

    def tell(self, figures: Figures) -> None:
        """Tell how it goes, unless that was told just before. What cannot be told is not worth to stop for."""
        if figures.ts < self._next_ts:
            return
        self._next_ts = figures.ts + OWN_EVERY_S
        values = (
            figures.cpu_s,
            figures.events,
            figures.lost,
            figures.requests,
            sum(figures.discarded.values()),
            figures.recorded_ratio,
            figures.waiting,
            figures.dropped,
        )
        try:
            self._publish([own_frame(self._host, figures.ts, dict(zip(OWN_FEATURES, values, strict=True)))])
        except BusError as error:
            _logger.warning("%s; how tracing goes is not told", error)


class Rates:
    """How many a second, of late: between two looks that are some seconds apart."""

    OVER_S: Final = 5.0

    def __init__(self) -> None:
        self._looks: list[tuple[float, Sequence[int]]] = []

    def of(self, now_s: float, *counts: int) -> list[float]:
        """The rates of these counts at a monotonic time."""
        self._looks.append((now_s, counts))
        while len(self._looks) > 2 and now_s - self._looks[1][0] >= self.OVER_S:
            del self._looks[0]
        began_s, before = self._looks[0]
        span_s = now_s - began_s
        return [(count - was) / span_s if span_s > 0.0 else 0.0 for count, was in zip(counts, before, strict=True)]


def probes_of(settings: Settings) -> list[Probe]:
    """The places in programs that the kernel is to tell of.

    Raises:
        ProgramError: a program has no such place, or no process of PHP runs.

    """
    from laggard.producers.trace.boundaries.elf import ProgramError  # noqa: PLC0415 - not to ask how it goes
    from laggard.producers.trace.boundaries.functions import Function, function_probes  # noqa: PLC0415
    from laggard.producers.trace.boundaries.php import php_probes, running_interpreters  # noqa: PLC0415

    probes: list[Probe] = []
    trace = settings[TraceSettings]
    if trace.php:
        interpreters = running_interpreters()
        if not interpreters:
            raise ProgramError("no process of PHP runs here; start PHP-FPM, or Apache with PHP's module, before")
        for number, path in enumerate(interpreters):
            probes += php_probes(path, trace.php, number=number)
    for number, (service, said) in enumerate(trace.functions.items()):
        binary, _, name = str(said).rpartition(":")
        probes += function_probes(Function(service, Path(binary), name), number=number)
    return probes


def marker_group_of(settings: Settings) -> int:
    """The id of the group whose programs may mark; root's where none is named. Raises `ProgramError` for none such."""
    name = settings[TraceSettings].marker_group
    if not name:
        return 0
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        from laggard.producers.trace.boundaries.elf import ProgramError  # noqa: PLC0415 - as above

        expected = "expected the name of one on this machine, such as www-data"
        raise ProgramError(
            f"{settings.place(TraceSettings.marker_group)}: there is no group {name}; {expected}"
        ) from None


def services_of(settings: Settings) -> dict[int, str]:
    """By port, the service each connection to which is a request."""
    return {int(port): service for service, port in settings[TraceSettings].ports.items()}


def live_of(settings: Settings) -> Live:
    """Tracing as it goes, when it is entered.

    Raises:
        TracingError: the kernel's tracer cannot be used.
        ProgramError: see `probes_of`.

    """
    from laggard.producers.trace.ftrace.live import Live  # noqa: PLC0415 - see above

    return Live(
        probes=probes_of(settings),
        ports=services_of(settings),
        marker=settings[TraceSettings].marker,
        marker_group=marker_group_of(settings),
        events_per_s=settings[TraceSettings].events_per_s,
    )


def recorder_of(settings: Settings, folder: Path) -> Recorder:
    """Tracing into a new folder. Raises what `live_of` does, and `FileExistsError` where the folder holds something."""
    from laggard.producers.trace.ftrace.recorder import Recorder  # noqa: PLC0415 - see above

    return Recorder(
        folder,
        probes=probes_of(settings),
        ports=services_of(settings),
        marker=settings[TraceSettings].marker,
        marker_group=marker_group_of(settings),
    )


def begun(what: str, *, supervised: bool, output: str = "") -> Figures:
    """The figures of a tracing that begins now, in this process."""
    now = time.time()
    return Figures(os.getpid(), now, now, what, supervised=supervised, output=output)
