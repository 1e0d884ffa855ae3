"""A source that queries a Prometheus server, through its HTTP API, for the metrics that it has scraped."""

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

    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.producers.sources.prometheus.page import Series
    from laggard.producers.sources.prometheus.red import Red
    from laggard.producers.sources.prometheus.selectors import Selector

_PATH = "/api/v1/query"


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of the server at the end of an interval: by expression, the answer or the reason for none."""

    ts: float
    by: Mapping[str, bytes | str]


class Server:
    """Queries a Prometheus server for an application: its performance, metrics of its hosts; or for a pool's members.

    Parameters:
        key: the key of the application or pool.
        url: the address of the server, with the path that it is served under.
        name: the name of the source.
        red: finds the series of requests; None for none.
        queries: further features of the performance, each with an expression.
        metrics: selects the other series; None for none.
        access: the access to the server.
        interval_s: the length of an interval, in seconds.
        lookback_s: the time before an interval from which samples are used, too, in seconds.
        ports: whether a port is part of the name of a host.
        max_series: the most series of `metrics`.
        keyed_by: whether the key is an application or a pool; the instances of a pool are its members.

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
        """Send all queries, one after the other: the server has other clients, too."""
        found: dict[str, bytes | str] = {}
        for expression in dict.fromkeys((*self._of_requests(), *self._of_metrics(), *self._queries.values())):
            found[expression] = self._ask(expression, ts)
        return Answers(ts, found)

    def parse(self, read: Answers) -> Taken:
        """Return one frame of the performance, and one of each host."""
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
        if self._red is not None:  # the series of the performance do not explain it
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
                problem = f"{found.unusable} series: {found.reason}"
                troubles.append(Trouble(f"{self._url}, {self.key}, {self.name}", problem, lasting=False))
        failed = any(isinstance(answer, str) for answer in read.by.values())
        return Taken(frames, troubles, 1, int(not failed), samples, unusable)

    def published(self) -> None:
        """Do nothing: the server has the samples."""

    def check(self) -> Sequence[Trouble]:
        """Query one number."""
        answer = self._ask("vector(1)", None)
        if isinstance(answer, str):
            return [Trouble(self._url, answer)]
        try:
            parse_number(answer)
        except AnswerError as error:
            return [Trouble(self._url, str(error))]
        return []

    def close(self) -> None:
        """Do nothing: no connection stays open between two queries."""

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
                problem = f"expected series of {expression.removesuffix(self._range)}, got none"
                troubles.append(Trouble(f"{self._url}, {self.key}, metrics", problem))
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


def _rates(series: Mapping[Series, Points], begin: float, end: float) -> dict[Series, float]:
    """Return the known rates."""
    rates = ((one, points.rate(begin, end)) for one, points in series.items() if not one.label("quantile"))
    return {one: rate for one, rate in rates if not math.isnan(rate)}


def _gauges(series: Mapping[Series, Points], begin: float, end: float) -> dict[Series, float]:
    return {one: points.mean(begin, end) for one, points in series.items()}
