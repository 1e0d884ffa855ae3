"""Sources from the tables `[[sources]]` of the settings: the only place that knows all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.settings.sources import LinesSource, LogSource, PrometheusSource
from laggard.producers.sources.access_log.parsers import parser_of
from laggard.producers.sources.access_log.source import AccessLog
from laggard.producers.sources.lines import JsonLines
from laggard.producers.sources.measuring import Timed
from laggard.producers.sources.prometheus.fetching import Access, Secret
from laggard.producers.sources.prometheus.red import Red
from laggard.producers.sources.prometheus.selectors import Selector
from laggard.producers.sources.prometheus.server import Server
from laggard.producers.sources.prometheus.targets import Targets

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.settings import Settings
    from laggard.pipeline.settings.sources import Source
    from laggard.producers.sources.performance import Source as Reading


def sources_of(settings: Settings) -> list[Timed]:
    """Return the sources of the settings, in their order. Nothing is read yet."""
    return [Timed(source_of(settings, each), each.read_every_s) for each in settings.sources]


def source_of(settings: Settings, source: Source) -> Reading[Any]:
    """Return the reader of a source."""
    match source:
        case PrometheusSource():
            return _prometheus(source)
        case LinesSource():
            return _lines(settings, source)
        case LogSource():
            return _log(settings, source)
    raise TypeError(f"no source of the kind {source.kind}")


def state_of(settings: Settings, source: Source) -> Path:
    """Return the file in which a source may store its position."""
    keyed_by, key = source.key
    name = f"{quote(key, safe='')} {quote(source.name, safe='')}.json"
    if keyed_by == "pool":
        name = f"pool {name}"
    return settings[GeneralSettings].state / "sources" / name


def _prometheus(source: PrometheusSource) -> Reading[Any]:
    (keyed_by, key), name, metrics = source.key, source.name, _selector(source.metrics)
    interval_s = source.interval
    # Several members may run on one machine.
    ports = source.ports or (keyed_by == "pool" and source.place(PrometheusSource.ports) == "default")
    red, access, max_series = _red(source), _access(source), source.max_series
    if server := source.server:
        return Server(
            key,
            server,
            name,
            red=red,
            queries={feature: str(query) for feature, query in source.queries.items()},
            metrics=metrics,
            access=access,
            interval_s=interval_s,
            lookback_s=source.lookback,
            ports=ports,
            max_series=max_series,
            keyed_by=keyed_by,
        )
    return Targets(
        key,
        source.targets,
        name,
        red=red,
        metrics=metrics,
        access=access,
        interval_s=interval_s,
        ports=ports,
        max_series=max_series,
        keyed_by=keyed_by,
    )


def _lines(settings: Settings, source: LinesSource) -> Reading[Any]:
    (keyed_by, key), state = source.key, state_of(settings, source)
    return JsonLines(key, source.path, source.name, state=state, keyed_by=keyed_by)


def _log(settings: Settings, source: LogSource) -> Reading[Any]:
    return AccessLog(
        source.name,
        source.application,
        source.paths,
        parser_of(source.format, source.fields, source.time_zone),
        state_of(settings, source),
        interval_s=source.interval,
        grace_s=source.grace,
    )


def _red(source: PrometheusSource) -> Red | None:
    has_selector = source.response_time or source.throughput or source.errors
    if not source.measures_requests or (source.server and not has_selector):
        return None
    return Red(
        _selector(source.response_time),
        _selector(source.throughput),
        _selector(source.errors),
        "" if source.unit == "auto" else source.unit,
    )


def _access(source: PrometheusSource) -> Access:
    return Access(
        timeout_s=source.timeout,
        max_bytes=source.max_bytes,
        username=source.username,
        password=Secret(source.password_file, source.password_variable),
        token=Secret(source.token_file, source.token_variable),
        ca_file=source.ca_file,
        certificate_file=source.certificate_file,
        key_file=source.key_file,
    )


def _selector(text: str) -> Selector | None:
    return Selector.parse(text) if text else None
