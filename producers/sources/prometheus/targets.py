"""A source that reads the pages that an application serves itself."""

from __future__ import annotations

import logging
import time
import urllib.parse
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.producers.sources.performance import Taken, Trouble, performance_frame
from laggard.producers.sources.prometheus.fetching import Access, FetchError, fetch
from laggard.producers.sources.prometheus.hosts import instance_frames, is_counter
from laggard.producers.sources.prometheus.page import ACCEPT, Page, PageError, Series, parse_page, series
from laggard.producers.sources.prometheus.rates import increases

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.producers.sources.prometheus.fetching import Fetched
    from laggard.producers.sources.prometheus.red import Red
    from laggard.producers.sources.prometheus.selectors import Selector

MOST_AT_ONCE: Final = 32
"""The most pages that are read at the same time."""

STALE_INTERVALS: Final = 3
"""After more intervals a target starts from scratch: its increase is not that of one interval."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scrape:
    """One page as received.

    Attributes:
        url: its address.
        at_s: the time of its request, on a monotonic clock.
        found: the page, or the reason why it is missing.

    """

    url: str
    at_s: float
    found: Fetched | str


@dataclass(frozen=True, slots=True)
class Scrapes:
    """All pages of an interval that ends at `ts`."""

    ts: float
    scrapes: Sequence[Scrape]


@dataclass(frozen=True, slots=True)
class _Before:
    """The last counters of a target, and their time."""

    at_s: float
    counters: Mapping[Series, float]


class Targets:
    """Reads the pages of an application, as one performance and metrics of its hosts; or those of a pool's members.

    Parameters:
        key: the key of the application or pool.
        urls: the addresses of the pages.
        name: the name of the source.
        red: finds the series of requests; None for no performance.
        metrics: selects the other series; None for none.
        access: the access to pages.
        interval_s: the length of an interval, in seconds.
        ports: whether a port is part of the name of a host.
        max_series: the most series of `metrics`.
        keyed_by: whether the key is an application or a pool; the instances of a pool are its members.
        monotonic: the clock of the rates, in seconds.

    """

    finished = False

    def __init__(
        self,
        key: str,
        urls: Sequence[str],
        name: str = "prometheus",
        *,
        red: Red | None = None,
        metrics: Selector | None = None,
        access: Access | None = None,
        interval_s: float = 10.0,
        ports: bool = False,
        max_series: int = 50_000,
        keyed_by: KeyedBy = "application",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.keyed_by = keyed_by
        self.key = key
        self.name = name
        self._urls = tuple(urls)
        self._red = red
        self._metrics = metrics
        self._access = access or Access()
        self._stale_s = (STALE_INTERVALS + 0.5) * interval_s
        self._ports = ports
        self._max_series = max_series
        self._monotonic = monotonic
        self._needed = frozenset(() if red is None else red.names)
        self._before: dict[str, _Before] = {}
        self._pool = ThreadPoolExecutor(min(MOST_AT_ONCE, len(self._urls)), thread_name_prefix="scrape")
        self._pending: dict[str, Future[Scrape]] = {}

    def read(self, ts: float) -> Scrapes:
        """Get all pages at the same time."""
        for url in self._urls:
            if url not in self._pending:
                self._pending[url] = self._pool.submit(self._scrape, url)
        # Only the lookup of a name can take longer than the timeout. Its page is not requested again meanwhile.
        rounds = -(-len(self._urls) // MOST_AT_ONCE)
        wait(self._pending.values(), rounds * self._access.timeout_s + 1.0)
        scrapes = []
        for url in self._urls:
            if self._pending[url].done():
                scrapes.append(self._pending.pop(url).result())
            else:
                problem = f"no answer within {self._access.timeout_s:g} s, or its name cannot be resolved"
                scrapes.append(Scrape(url, self._monotonic(), problem))
        return Scrapes(ts, scrapes)

    def parse(self, read: Scrapes) -> Taken:
        """Return one frame of the performance, and one of each host, once there are rates."""
        troubles: list[Trouble] = []
        rates: dict[Series, float] = {}
        gauges: dict[Series, float] = {}
        metric_rates: dict[Series, float] = {}
        samples = unusable = places = with_rates = 0
        for scrape in read.scrapes:
            page = self._page(scrape, troubles)
            if page is None:
                continue
            places += 1
            samples += len(page.samples) + page.duplicates
            unusable += page.duplicates
            if page.duplicates:
                troubles.append(Trouble(scrape.url, f"{page.duplicates} duplicate samples", False))
            counters = _counters(page, self._needed)
            before = self._before.get(scrape.url)
            self._before[scrape.url] = _Before(scrape.at_s, counters)
            elapsed_s = scrape.at_s - (before.at_s if before else scrape.at_s)
            if before is None or not 0 < elapsed_s <= self._stale_s:
                continue
            with_rates += 1
            grown = increases(before.counters, counters)
            if grown.impossible:
                unusable += len(grown.impossible)
                one = grown.impossible[0]
                problem = f"{one.name}: expected a counter, of at least 0, got {counters[one]!r}"
                troubles.append(Trouble(scrape.url, problem, False))
            of_target = {one: grown.by[one] / elapsed_s for one in grown.by}
            place = _place(scrape.url)
            rates |= {_at(one, place): rate for one, rate in of_target.items() if one.name in self._needed}
            gauges |= {_at(one, place): value for one, value in page.samples.items() if one not in counters}
            metric_rates |= {_at(one, place): of_target.get(one, float("nan")) for one in counters}
        frames: list[Frame] = []
        if self._red is not None and with_rates:
            features = self._red.features(rates, gauges)
            if features:
                frames.append(performance_frame(self.key, read.ts, features))
            else:
                place = self._urls[0] if len(self._urls) == 1 else f"{len(self._urls)} targets"
                troubles.append(Trouble(f"{self.key}, {place}", f"expected {self._red.expected}"))
        if self._metrics is not None and with_rates:
            found = instance_frames(
                self.key,
                read.ts,
                {one: value for one, value in gauges.items() if self._is_metric(one)},
                {one: value for one, value in metric_rates.items() if self._is_metric(one)},
                keyed_by=self.keyed_by,
                ports=self._ports,
                max_series=self._max_series,
            )
            frames += found.frames
            unusable += found.unusable
            if found.unusable:
                troubles.append(Trouble(f"{self.key}, {self.name}", f"{found.unusable} series: {found.reason}", False))
        return Taken(frames, troubles, len(self._urls), places, samples, unusable)

    def published(self) -> None:
        """Do nothing: the counters of pages remain."""

    def check(self) -> Sequence[Trouble]:
        """Get all pages once, in addition to those of the intervals."""
        troubles: list[Trouble] = []
        for url in self._urls:
            self._page(self._scrape(url), troubles)
        return troubles

    def close(self) -> None:
        """Stop waiting for pages."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _scrape(self, url: str) -> Scrape:
        at_s = self._monotonic()
        # Prometheus announces its timeout, too, for servers that respect it.
        headers = {"Accept": ACCEPT, "X-Prometheus-Scrape-Timeout-Seconds": f"{self._access.timeout_s:g}"}
        try:
            return Scrape(url, at_s, fetch(url, self._access, headers))
        except FetchError as error:
            return Scrape(url, at_s, str(error))
        except Exception as error:
            _logger.debug("%s", url, exc_info=True)
            return Scrape(url, at_s, f"{type(error).__name__}: {error}")

    def _page(self, scrape: Scrape, troubles: list[Trouble]) -> Page | None:
        if isinstance(scrape.found, str):
            troubles.append(Trouble(scrape.url, scrape.found))
            return None
        try:
            return parse_page(scrape.found.content, scrape.found.content_type, self._wants)
        except PageError as error:
            troubles.append(Trouble(scrape.url, str(error)))
            return None

    def _wants(self, name: str) -> bool:
        return name in self._needed or (self._metrics is not None and self._metrics.name in {"", name})

    def _is_metric(self, one: Series) -> bool:
        """Return whether it is one of the other metrics; those of the performance do not explain it."""
        chosen = self._metrics
        return chosen is not None and one.name not in self._needed and chosen.matches(one.name, dict(one.labels))


def _counters(page: Page, needed: frozenset[str]) -> dict[Series, float]:
    """Return the series of a page that only grow; those of requests count by any name, except for quantiles."""
    names = {one.name for one in page.samples}
    return {
        one: value
        for one, value in page.samples.items()
        if is_counter(one, page.counters, names) or (one.name in needed and not one.label("quantile"))
    }


def _place(url: str) -> str:
    """Return the instance of a target, as in Prometheus: `web-1:8000`."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _at(one: Series, place: str) -> Series:
    """Return the series at its target; an instance or a job of the page itself is `exported`, as in Prometheus."""
    exported = {f"exported_{label}" if label in {"instance", "job"} else label: value for label, value in one.labels}
    return series(one.name, exported | {"instance": place})
