"""From the tables `[[sources]]` of the settings to sources: the only place that knows them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from laggard.pipeline.settings.sources import key_of, performs_of
from laggard.producers.sources.measuring import Timed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from laggard.pipeline.settings import Settings
    from laggard.producers.sources.performance import Source
    from laggard.producers.sources.prometheus.fetching import Access
    from laggard.producers.sources.prometheus.red import Red
    from laggard.producers.sources.prometheus.selectors import Selector

LOOKS: Final = 5
"""So often in an interval a log is looked at."""


def sources_of(settings: Settings) -> list[Timed]:
    """The sources that the settings name, in that order. Nothing is read yet."""
    return [Timed(source_of(settings, each), _read_every_s(each)) for each in settings.sources]


def source_of(settings: Settings, source: Settings) -> Source[Any]:
    """The source that one table says."""
    return _MAKES[source.choice("kind")](settings, source)


def _read_every_s(source: Settings) -> float:
    """Seconds between two reads of a source."""
    interval_s = source.seconds("interval")
    # A log's intervals are told by its own time, soon after their end only where it is looked at more often.
    return max(1.0, interval_s / LOOKS) if source.choice("kind") == "log" else interval_s


def state_of(settings: Settings, source: Settings) -> Path:
    """The file where a source may keep how far it has read."""
    keyed_by, key = key_of(source)
    name = f"{quote(key, safe='')} {quote(source.text('name'), safe='')}.json"
    if keyed_by == "pool":
        name = f"pool {name}"
    return settings.path("state") / "sources" / name


def _prometheus(_: Settings, source: Settings) -> Source[Any]:
    from laggard.producers.sources.prometheus.server import Server  # noqa: PLC0415 - a machine has few kinds of sources
    from laggard.producers.sources.prometheus.targets import Targets  # noqa: PLC0415

    (keyed_by, key), name, metrics = key_of(source), source.text("name"), _selector(source, "metrics")
    interval_s = source.seconds("interval")
    # Members may be on one machine.
    ports = source.flag("ports") or (keyed_by == "pool" and source.place("ports") == "default")
    red, access, max_series = _red(source), _access(source), source.count("max_series")
    if server := source.text("server"):
        return Server(
            key,
            server,
            name,
            red=red,
            queries={feature: str(query) for feature, query in source.table("queries").items()},
            metrics=metrics,
            access=access,
            interval_s=interval_s,
            lookback_s=source.seconds("lookback"),
            ports=ports,
            max_series=max_series,
            keyed_by=keyed_by,
        )
    return Targets(
        key,
        source.words("targets"),
        name,
        red=red,
        metrics=metrics,
        access=access,
        interval_s=interval_s,
        ports=ports,
        max_series=max_series,
        keyed_by=keyed_by,
    )


def _lines(settings: Settings, source: Settings) -> Source[Any]:
    from laggard.producers.sources.lines import JsonLines  # noqa: PLC0415 - see above

    (keyed_by, key), state = key_of(source), state_of(settings, source)
    return JsonLines(key, source.text("path"), source.text("name"), state=state, keyed_by=keyed_by)


def _log(settings: Settings, source: Settings) -> Source[Any]:
    from laggard.producers.sources.access_log.parsers import parser_of  # noqa: PLC0415 - see above
    from laggard.producers.sources.access_log.source import AccessLog  # noqa: PLC0415

    return AccessLog(
        source.text("name"),
        source.text("application"),
        source.words("paths"),
        parser_of(source.text("format"), source.table("fields"), source.text("time_zone")),
        state_of(settings, source),
        interval_s=source.seconds("interval"),
        grace_s=source.seconds("grace"),
    )


_MAKES: Mapping[str, Callable[[Settings, Settings], Source[Any]]] = {
    "prometheus": _prometheus,
    "lines": _lines,
    "log": _log,
}
"""By kind; given all settings, and those of the source."""


def _red(source: Settings) -> Red | None:
    from laggard.producers.sources.prometheus.red import Red  # noqa: PLC0415 - see above

    told = any(source.text(name) for name in ("response_time", "throughput", "errors"))
    if not performs_of(source) or (source.text("server") and not told):
        return None
    unit = source.choice("unit")
    return Red(
        _selector(source, "response_time"),
        _selector(source, "throughput"),
        _selector(source, "errors"),
        "" if unit == "auto" else unit,
    )


def _access(source: Settings) -> Access:
    from laggard.producers.sources.prometheus.fetching import Access, Secret  # noqa: PLC0415 - see above

    return Access(
        timeout_s=source.seconds("timeout"),
        max_bytes=source.size("max_bytes"),
        username=source.text("username"),
        password=Secret(source.file("password_file"), source.text("password_variable")),
        token=Secret(source.file("token_file"), source.text("token_variable")),
        ca_file=source.file("ca_file"),
        certificate_file=source.file("certificate_file"),
        key_file=source.file("key_file"),
    )


def _selector(source: Settings, name: str) -> Selector | None:
    from laggard.producers.sources.prometheus.selectors import Selector  # noqa: PLC0415 - see above

    return Selector.parse(source.text(name)) if source.text(name) else None
