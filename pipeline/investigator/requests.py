"""Requests as the page reads them: queries by service and time range, and rows of tables."""

from __future__ import annotations

import math
import shlex
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec

from laggard.pipeline.core.topics import REQUESTS
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.investigator.endpoint import Answer, Number, Question, Seconds, Text, Time
from laggard.pipeline.methods.requests.analysis import Planes
from laggard.pipeline.methods.requests.report import recording
from laggard.pipeline.methods.requests.stored import Stored
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from laggard.operators.requests.results import Traced
    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.methods.requests.analysis import AnalysisFunctions
    from laggard.pipeline.methods.requests.queries import RequestsFound

LATELY_S: Final = 3600.0
"""The time range of a query that names none, in seconds: the last hour."""

LISTED: Final = 10

MOMENTS_S: Final = 60.0
"""The time for which the moments of requests are cached, in seconds: computing them costs tenths of a second."""

MOST_MOMENTS: Final = 32


class _Moments(NamedTuple):
    moments: Any
    requests: int
    at_s: float


class Requests:
    """The cached data of requests, shared by queries. Safe to use from several threads.

    Parameters:
        bus: the bus with the requests.
        topics: the names of the topics.
        looking: makes the functions of the analysis; called at their first use.
        clock: returns seconds on a clock that never steps.

    Attributes:
        stored: the requests on the bus, with a cache.

    """

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        looking: Callable[[], AnalysisFunctions],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stored = Stored(bus, topics)
        self._bus, self._topics, self._clock = bus, topics, clock
        self._make = looking
        self._looking: AnalysisFunctions | None = None
        self._planes: Planes | None = None
        self._moments: dict[Hashable, _Moments] = {}  # in the order of computation
        self._lock = threading.Lock()

    @property
    def analysis_functions(self) -> AnalysisFunctions:
        """The functions of the analysis."""
        with self._lock:
            if self._looking is None:
                self._looking = self._make()
            return self._looking

    @property
    def planes(self) -> Planes:
        """The planes of requests."""
        functions = self.analysis_functions
        with self._lock:
            if self._planes is None:
                self._planes = Planes(functions, self._clock)
            return self._planes

    def moments(self, about: Hashable, give: Callable[[], Sequence[Traced]]) -> tuple[Any, int]:
        """Return the moments of some requests, for `Looking.evidence`, and the number of these requests.

        Args:
            about: the key of the requests: an earlier answer with the same key is valid for `MOMENTS_S`.
            give: returns the requests.

        """
        with self._lock:
            known = self._moments.get(about)
        if known is None or self._clock() - known.at_s >= MOMENTS_S:
            requests = give()
            known = _Moments(self.analysis_functions.moments(requests), len(requests), self._clock())
            with self._lock:
                self._moments.pop(about, None)
                self._moments[about] = known
                while len(self._moments) > MOST_MOMENTS:
                    del self._moments[next(iter(self._moments))]
        return known.moments, known.requests

    def services(self) -> Sequence[str]:
        """Return the recorded services, sorted."""
        return known_keys(self._bus, self._topics.name(REQUESTS))

    def of(self, service: str, begin: float, end: float) -> tuple[RequestsFound, list[tuple[str, str]]]:
        """Return the requests of a service that began from one time to another, and their keys.

        Raises `RequestError` (404) if nothing is recorded of the service, or nothing of that time.
        """
        recorded = self.stored.between(begin, end, service)
        keys = list(recorded.within(begin, end, service))
        if not keys:
            if service not in (known := self.services()):
                listed = ", ".join(known[:LISTED]) + (", ..." if len(known) > LISTED else "")
                expected = f"one of {listed}" if known else hint()
                raise RequestError(404, f"there are no records of service {service[:100]!a}", expected)
            raise RequestError(404, f"no request of {service[:100]!a} began in this time", "another stretch of time")
        return recorded, keys


def hint() -> str:
    """Return how to record requests."""
    return recording(lambda *words: shlex.join(("laggard", *words)))


class Stretch(Question, frozen=True):
    """A time range; by default it ends now, and lasts an hour."""

    begin: Time | None = msgspec.field(default=None, name="from")
    end: Time | None = msgspec.field(default=None, name="to")


class OfService(Stretch, frozen=True, kw_only=True):
    """A service and a time range."""

    service: Annotated[Text, msgspec.Meta(description="the name of the service")]


ServiceName = Annotated[str, msgspec.Meta(description="the name of the service")]
RequestId = Annotated[str, msgspec.Meta(description="the id of the request, unique in its service")]
RequestName = Annotated[str, msgspec.Meta(description="the requested action, `GET /cart`; empty if it is unknown")]
RecordingHost = Annotated[str, msgspec.Meta(description="the host that recorded the request; empty if it is unknown")]
RequestDuration = Annotated[float, msgspec.Meta(description="the duration of the request, in seconds")]
ClusterOfRequest = Annotated[
    str, msgspec.Meta(description="the name of its cluster of similar outliers; empty without one")
]
ClusterName = Annotated[str, msgspec.Meta(description="the name of the cluster; empty for outliers that are in none")]
StateName = Annotated[str, msgspec.Meta(description="the name of the state, as in records: `BD`")]
StateLabel = Annotated[str, msgspec.Meta(description="the state in words: `waits for a disk`")]
StateColor = Annotated[str, msgspec.Meta(description="the color of the state in drawings, as in CSS")]


class RequestRow(Answer, frozen=True):
    """A request in a table."""

    request: RequestId
    name: RequestName
    host: RecordingHost
    ts: Annotated[float, msgspec.Meta(description="the start of the request, seconds since the Unix epoch")]
    duration_s: RequestDuration
    outlying: Annotated[bool, msgspec.Meta(description="whether it is an outlier")]
    odd: Annotated[bool, msgspec.Meta(description="whether it is an outlier by its events, not by its times")]
    score: Annotated[
        Number,
        msgspec.Meta(
            description="the score, above 1 for an outlier; null for a normal request, or if no request is usual"
        ),
    ]
    cluster: ClusterOfRequest
    cause: Annotated[
        str, msgspec.Meta(description="the probable cause, a sentence for people; empty for a normal request")
    ]


class Asked(Answer, frozen=True):
    """The time range of the answer."""

    begin: Seconds = msgspec.field(name="from")
    end: Seconds = msgspec.field(name="to")


def stretch(question: Stretch, now: float) -> tuple[float, float]:
    """Return the begin and the end of the queried time range. Raises `RequestError` (400) if they are reversed."""
    end = now if question.end is None else question.end
    begin = end - LATELY_S if question.begin is None else question.begin
    if not (math.isfinite(begin) and math.isfinite(end) and begin <= end):
        raise RequestError(400, "parameter 'from' is after 'to'", f"at most {end!r}")
    return begin, end


def row(told: RequestsFound, key: tuple[str, str]) -> RequestRow:
    """Return the table row of a request."""
    found, output = told.took[key], told.outputs.get(key)
    return RequestRow(
        request=key[1],
        name=found.name,
        host=found.host,
        ts=found.ts,
        duration_s=found.duration_s,
        outlying=output is not None,
        odd=output is not None and output.odd,
        score=None if output is None else output.score,
        cluster="" if output is None else output.cluster,
        cause="" if output is None else output.cause,
    )


def rows(told: RequestsFound, keys: Sequence[tuple[str, str]]) -> list[RequestRow]:
    """Return the table rows of several requests."""
    return [row(told, key) for key in keys]
