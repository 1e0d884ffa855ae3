"""Rate, errors and duration of requests from rates of counters, summed over all selected series. Pure.

The durations are those of a histogram or a summary. Quantiles of a histogram are estimates, as fine as its buckets.
Those of a summary cannot be summed, so they need a single series each.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.sources.performance import ERRORS, MEAN, QUANTILES, THROUGHPUT
from laggard.producers.sources.prometheus.histogram import summed
from laggard.producers.sources.prometheus.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.producers.sources.prometheus.page import Series


class Durations(NamedTuple):
    """A metric of response times: its name, and its unit in seconds."""

    name: str
    unit_s: float


# If a program has several of these, the later ones are coarser, or cover a part of the requests.
USUAL_DURATIONS: Final = (
    Durations("http_server_request_duration_seconds", 1.0),  # OpenTelemetry, semantic conventions 1.23
    Durations("http_server_requests_seconds", 1.0),  # Micrometer, Spring Boot
    Durations("http_request_duration_highr_seconds", 1.0),  # FastAPI
    Durations("http_request_duration_seconds", 1.0),  # by convention, most libraries
    Durations("http_server_duration_milliseconds", 1e-3),  # OpenTelemetry, before
    Durations("http_request_duration_milliseconds", 1e-3),
    Durations("flask_http_request_duration_seconds", 1.0),
    Durations("django_http_requests_latency_including_middlewares_seconds", 1.0),
    Durations("django_http_requests_latency_seconds_by_view_method", 1.0),
    Durations("http_response_time_seconds", 1.0),
    Durations("http_request_latency_seconds", 1.0),
    Durations("request_duration_seconds", 1.0),
    Durations("request_latency_seconds", 1.0),
    Durations("grpc_server_handling_seconds", 1.0),
    Durations("rpc_server_duration_milliseconds", 1e-3),
    Durations("nginx_ingress_controller_request_duration_seconds", 1.0),
    Durations("traefik_service_request_duration_seconds", 1.0),
    Durations("traefik_entrypoint_request_duration_seconds", 1.0),
    Durations("caddy_http_request_duration_seconds", 1.0),
    Durations("istio_request_duration_milliseconds", 1e-3),
    Durations("envoy_http_downstream_rq_time", 1e-3),
)
"""Names of response times in client libraries and servers; the first present one is used."""

USUAL_COUNTERS: Final = (
    "http_requests_total",
    "http_server_requests_total",
    "http_request_total",
    "flask_http_request_total",
    "django_http_responses_total_by_status_total",
    "grpc_server_handled_total",
    "requests_total",
)
"""Names of counters of requests; the first present one is used."""

STATUS: Final = ("code", "status", "status_code", "http_status", "http_status_code", "http_response_status_code")
"""Labels with the status of a response; the first present one is used."""

UNITS: Final[Mapping[str, float]] = {"s": 1.0, "ms": 1e-3, "us": 1e-6}

_ENDS: Final = (
    ("_milliseconds", 1e-3),
    ("_millis", 1e-3),
    ("_ms", 1e-3),
    ("_microseconds", 1e-6),
    ("_us", 1e-6),
    ("_nanoseconds", 1e-9),
    ("_ns", 1e-9),
)
_FAILED: Final = re.compile(r"5(\d\d|xx)", re.ASCII | re.IGNORECASE)
_PARTS: Final = ("_bucket", "_count", "_sum")


class Red:
    """Finds the series of requests, and computes their features.

    Parameters:
        response_time: the histogram or summary. None, or one without a name, for the first usual one that is present,
            which it is from then on.
        throughput: the counter; None for that of the histogram, or the first usual one that is present.
        errors: the counter of failures. One without a name selects among those of the throughput; None selects by a
            status of 5xx.
        unit: the unit of the response times, one of `UNITS`; empty to use the suffix of the name.

    """

    def __init__(
        self,
        response_time: Selector | None = None,
        throughput: Selector | None = None,
        errors: Selector | None = None,
        unit: str = "",
    ) -> None:
        self._response_time = response_time
        self._throughput = throughput
        self._errors = errors
        self._unit = unit
        self._durations: Durations | None = None
        self._counter = "" if throughput is None else throughput.name
        if response_time is not None and response_time.name:
            name = response_time.name
            for part in _PARTS:
                name = name.removesuffix(part)
            self._durations = Durations(name, next((unit_s for end, unit_s in _ENDS if name.endswith(end)), 1.0))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all series that it may need."""
        given = (self._throughput, self._errors)
        return tuple(
            dict.fromkeys((*self._own_names(), *(each.name for each in given if each is not None and each.name)))
        )

    @property
    def queries(self) -> tuple[str, ...]:
        """The selectors in PromQL of all series that it may need."""
        own = Selector() if self._response_time is None else self._response_time
        given = (each.query() for each in (self._throughput, self._errors) if each is not None and each.name)
        return (own.query(self._own_names()), *given)

    @property
    def expected(self) -> str:
        """The series that must be present, in words."""
        named = [each.query() for each in (self._response_time, self._throughput) if each is not None and each.name]
        usual = ", ".join(each.name for each in USUAL_DURATIONS[:4])
        return " and ".join(named) or f"response times with a known name ({usual} ...), or their name in response_time"

    def _own_names(self) -> Iterator[str]:
        """Yield the names of the response times, and of counters if none is given."""
        for each in USUAL_DURATIONS if self._durations is None else (self._durations,):
            yield from (each.name + part for part in ("", *_PARTS))
        if self._throughput is None:
            yield from (self._counter,) if self._counter else USUAL_COUNTERS

    def features(self, rates: Mapping[Series, float], now: Mapping[Series, float]) -> dict[str, float]:
        """Return the features of the performance; none without the metrics.

        Args:
            rates: the rates of counters per second, by series.
            now: the values of all series, for the quantiles of summaries.

        """
        names = {one.name for one in rates if self._is_meant(one)}
        if self._durations is None:
            there = (
                each for each in USUAL_DURATIONS if f"{each.name}_count" in names or f"{each.name}_bucket" in names
            )
            self._durations = next(there, None)
        if not self._counter:
            self._counter = next((each for each in USUAL_COUNTERS if each in names), "")
        counts = self._counts(rates)
        counted = self._counted(rates)
        requests = counted if self._throughput is not None or not counts else counts
        if not requests:
            return {}
        features = {THROUGHPUT: math.fsum(requests.values())}
        failed = self._failed(rates, (requests, counts, counted))
        if failed is not None:
            features[ERRORS] = failed
        if counts:
            features |= self._times(rates, now, math.fsum(counts.values()))
        return features

    def _counts(self, rates: Mapping[Series, float]) -> dict[Series, float]:
        """Return the requests with durations, by series: the counts, or the infinite buckets if there are none."""
        if self._durations is None:
            return {}
        counts = self._part(rates, "_count")
        return counts or {one: rate for one, rate in self._part(rates, "_bucket").items() if _bound(one) == math.inf}

    def _counted(self, rates: Mapping[Series, float]) -> dict[Series, float]:
        if self._throughput is not None:
            return _meant(rates, self._throughput)
        return {one: rate for one, rate in rates.items() if one.name == self._counter and self._is_meant(one)}

    def _is_meant(self, one: Series) -> bool:
        return self._response_time is None or self._response_time.labels_match(dict(one.labels))

    def _part(self, some: Mapping[Series, float], part: str) -> dict[Series, float]:
        """Return the series of the response times with this suffix."""
        assert self._durations is not None
        name = self._durations.name + part
        return {one: value for one, value in some.items() if one.name == name and self._is_meant(one)}

    def _failed(self, rates: Mapping[Series, float], counters: Sequence[Mapping[Series, float]]) -> float | None:
        if self._errors is not None:
            return math.fsum(_meant(rates if self._errors.name else counters[0], self._errors).values())
        for requests in counters:
            status = {one: _status(one) for one in requests}
            if any(status.values()):
                return math.fsum(rate for one, rate in requests.items() if _FAILED.fullmatch(status[one]))
        return None

    def _times(self, rates: Mapping[Series, float], now: Mapping[Series, float], count: float) -> dict[str, float]:
        assert self._durations is not None
        unit_s = UNITS.get(self._unit, self._durations.unit_s)
        sums = self._part(rates, "_sum")
        found = {}
        if sums:
            found[MEAN] = math.fsum(sums.values()) / count * unit_s if count > 0 else math.nan
        histogram = summed(_by_bound(self._part(rates, "_bucket")))
        if histogram is not None:
            return found | {name: histogram.quantile(q) * unit_s for name, q in QUANTILES.items()}
        quantiles = self._part(now, "")
        for name, q in QUANTILES.items():
            values = [value for one, value in quantiles.items() if _number(one.label("quantile")) == q]
            if values and len(sums) == 1:
                found[name] = values[0] * unit_s if count > 0 else math.nan
        return found


def _meant(rates: Mapping[Series, float], selector: Selector) -> dict[Series, float]:
    return {one: rate for one, rate in rates.items() if selector.matches(one.name, dict(one.labels))}


def _status(one: Series) -> str:
    return next((found for label in STATUS if (found := one.label(label))), "")


def _bound(one: Series) -> float:
    return _number(one.label("le"))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _by_bound(buckets: Mapping[Series, float]) -> Sequence[dict[float, float]]:
    """Return the counts of each histogram by upper bound; series whose bound is no number are left out."""
    found: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    for one, rate in buckets.items():
        bound = _bound(one)
        if not math.isnan(bound):
            labels = tuple(label for label in one.labels if label[0] != "le")
            found.setdefault(labels, {})[bound] = rate
    return list(found.values())
