"""A source that asks a Prometheus server, through its HTTP API, for what it has scraped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laggard.producers.sources.performance import Taken, Trouble, performance_frame
from laggard.producers.sources.prometheus.answers import AnswerError, Points, parse_matrix, parse_number
from laggard.producers.sources.prometheus.fetching import Access, FetchError, fetch
from laggard.producers.sources.prometheus.hosts import instance_frames, is_counter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.records import Frame
    from laggard.pipeline.records.frame import KeyedBy
    from laggard.producers.sources.prometheus.page import Series
    from laggard.producers.sources.prometheus.red import Red
    from laggard.producers.sources.prometheus.selectors import Selector

_PATH = "/api/v1/query"


@dataclass(frozen=True, slots=True)
class Answers:
    """What the server answered at the end of an interval: by expression, the answer or why there is none."""

    ts: float
    by: Mapping[str, bytes | str]


class Server:
    """What a Prometheus server knows of an application: its performance, metrics of its hosts; or of a pool's members.

    Parameters:
        key: of the application or pool that it is asked about.
        url: of the server, with the path that it is served under.
        name: of the source.
        red: what tells of requests; None for no such.
        queries: further features of the performance, each with an expression.
        metrics: which other series are told; None for none.
        access: how the server is reached.
        interval_s: how long an interval is.
        lookback_s: how long before an interval samples are looked for.
        ports: whether a port is a part of the name of a host.
        max_series: how many series of `metrics` are used at most.
        keyed_by: whether that is an application or a pool, whose members instances are then.

    """

    finished = False

    def __init__(
        self,
        key: str,
        url: str,
        name: str = "prometheus",
        *,
        red: Red | None = None,
        queries: Mapping[str, str] | None = None,
        metrics: Selector | None = None,
        access: Access | None = None,
        interval_s: float = 10.0,
        lookback_s: float = 60.0,
        ports: bool = False,
        max_series: int = 50_000,
        keyed_by: KeyedBy = "application",
    ) -> None:
        self.keyed_by = keyed_by
        self.key = key
        self.name = name
        self._url = url.rstrip("/")
        self._red = red
        self._queries = dict(queries or {})
        self._metrics = metrics
        self._access = access or Access()
        self._interval_s = interval_s
        self._ports = ports
        self._max_series = max_series
        self._range = f"[{math.ceil((interval_s + lookback_s) * 1000)}ms]"
        self._begin: float | None = None

    def read(self, ts: float) -> Answers:
        """Ask for everything, one after the other: a server has others to serve."""
        found: dict[str, bytes | str] = {}
        for expression in dict.fromkeys((*self._of_requests(), *self._of_metrics(), *self._queries.values())):
            found[expression] = self._ask(expression, ts)
        return Answers(ts, found)

    def parse(self, read: Answers) -> Taken:
        """One frame of the performance, and one of each host."""
        troubles: list[Trouble] = []
        begin = read.ts - self._interval_s if self._begin is None else self._begin
        self._begin = read.ts
        frames: list[Frame] = []
        samples = unusable = 0
        features: dict[str, float] = {}
        requests, count = self._matrix(read, self._of_requests(), troubles)
        samples += count
        if self._red is not None and requests:
            features = self._red.features(_rates(requests, begin, read.ts), _gauges(requests, begin, read.ts))
        if self._red is not None and not features and not troubles:
            troubles.append(Trouble(f"{self._url}, {self.key}", f"expected {self._red.expected}"))
        for feature, expression in self._queries.items():
            if (number := self._number(read, feature, expression, troubles)) is not None:
                features[feature] = number
                samples += 1
        if features:
            frames.append(performance_frame(self.key, read.ts, features))
        metrics, count = self._matrix(read, self._of_metrics(), troubles)
        samples += count
        if self._red is not None:  # what the performance is made of explains nothing of it
            metrics = {one: points for one, points in metrics.items() if one.name not in self._red.names}
        if metrics:
            names = {one.name for one in metrics}
            counters = {one: points for one, points in metrics.items() if is_counter(one, frozenset(), names)}
            others = {one: points for one, points in metrics.items() if one not in counters}
            found = instance_frames(
                self.key,
                read.ts,
                _gauges(others, begin, read.ts),
                {one: points.rate(begin, read.ts) for one, points in counters.items()},
                keyed_by=self.keyed_by,
                ports=self._ports,
                max_series=self._max_series,
            )
            frames += found.frames
            unusable += found.unusable
            if found.unusable:
                told = f"{found.unusable} series: {found.told}"
                troubles.append(Trouble(f"{self._url}, {self.key}, {self.name}", told, lasting=False))
        failed = any(isinstance(answer, str) for answer in read.by.values())
        return Taken(frames, troubles, 1, int(not failed), samples, unusable)

    def published(self) -> None:
        """Nothing is kept: the server has it."""

    def check(self) -> Sequence[Trouble]:
        """Ask for one number."""
        answer = self._ask("vector(1)", None)
        if isinstance(answer, str):
            return [Trouble(self._url, answer)]
        try:
            parse_number(answer)
        except AnswerError as error:
            return [Trouble(self._url, str(error))]
        return []

    def close(self) -> None:
        """Nothing is open between two questions."""

    def _of_requests(self) -> tuple[str, ...]:
        return () if self._red is None else tuple(each + self._range for each in self._red.queries)

    def _of_metrics(self) -> tuple[str, ...]:
        return () if self._metrics is None else (self._metrics.query() + self._range,)

    def _ask(self, expression: str, ts: float | None) -> bytes | str:
        form = {"query": expression, "timeout": f"{self._access.timeout_s:g}s"}
        if ts is not None:
            form["time"] = f"{ts:.3f}"
        try:
            return fetch(self._url + _PATH, self._access, {"Accept": "application/json"}, form).content
        except FetchError as error:
            return str(error)

    def _matrix(
        self, read: Answers, expressions: Sequence[str], troubles: list[Trouble]
    ) -> tuple[dict[Series, Points], int]:
        found: dict[Series, Points] = {}
        samples = 0
        for expression in expressions:
            try:
                series, count = parse_matrix(self._answer(read, expression))
            except AnswerError as error:
                troubles.append(Trouble(self._url, str(error)))
                continue
            found |= series
            samples += count
            if not series and expression in self._of_metrics():
                told = f"expected series of {expression.removesuffix(self._range)}, got none"
                troubles.append(Trouble(f"{self._url}, {self.key}, metrics", told))
        return found, samples

    def _number(self, read: Answers, feature: str, expression: str, troubles: list[Trouble]) -> float | None:
        try:
            return parse_number(self._answer(read, expression))
        except AnswerError as error:
            troubles.append(Trouble(f"{self._url}, {self.key}, {feature}", str(error)))
            return None

    @staticmethod
    def _answer(read: Answers, expression: str) -> bytes:
        answer = read.by[expression]
        if isinstance(answer, str):
            raise AnswerError(answer)
        return answer


def _rates(found: Mapping[Series, Points], begin: float, end: float) -> dict[Series, float]:
    """Those rates that are known."""
    rates = ((one, points.rate(begin, end)) for one, points in found.items() if not one.label("quantile"))
    return {one: rate for one, rate in rates if not math.isnan(rate)}


def _gauges(found: Mapping[Series, Points], begin: float, end: float) -> dict[Series, float]:
    return {one: points.mean(begin, end) for one, points in found.items()}
