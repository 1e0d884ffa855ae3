"""The tables `[[sources]]`: what each kind of source can be told, each key declared once like a setting."""

from __future__ import annotations

import re
import signal
import urllib.parse
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.settings.declared import Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from laggard.pipeline.records.frame import KeyedBy
    from laggard.pipeline.settings.kinds import Value
    from laggard.pipeline.settings.reading import Settings


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One kind of source.

    Attributes:
        name: what `kind` says.
        help: what it is.
        keys: what it can be told, beside those of all sources.
        required: which of these it has to be told.
        check: tells what is wrong with several keys together: the key, and what was expected.
        performs: whether a source with these settings gives performance frames; of these an application has one source.

    """

    name: str
    help: str
    keys: tuple[Setting, ...]
    required: tuple[str, ...] = ()
    check: Callable[[Settings], Iterator[tuple[str, str]]] | None = None
    performs: Callable[[Settings], bool] = lambda _: True


_MAX_KEY: Final = 253


@contextmanager
def _unheard() -> Iterator[None]:
    """Threads that begin meanwhile hear no signals: numpy's own would take ^C from the one that waits for it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_key(value: Value) -> None:
    if len(str(value)) > _MAX_KEY:
        raise ValueError(f"a name of 1 to {_MAX_KEY} characters")


def _check_url(value: Value) -> None:
    if value:
        check_urls((str(value),))


def check_urls(values: Value) -> None:
    """Raise `ValueError` where one of these is no address of a page."""
    assert isinstance(values, tuple)
    expected = "addresses such as http://web-1:8000/metrics"
    for value in values:
        try:
            parts = urllib.parse.urlsplit(str(value))
            parts.port  # noqa: B018 - raises ValueError for what is no port
        except ValueError:
            raise ValueError(expected) from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.fragment or not str(value).isascii():
            raise ValueError(expected)
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"{expected}; no user and no password, but username and password_file")


def _check_selector(value: Value) -> None:
    from laggard.producers.sources.prometheus.selectors import Selector  # noqa: PLC0415 - most settings have no sources

    if value:
        Selector.parse(str(value))


def _check_variable(value: Value) -> None:
    if not re.fullmatch(r"([A-Za-z_]\w*)?", str(value), re.ASCII) or str(value).startswith("LAGGARD_"):
        raise ValueError("the name of an environment variable that does not begin with LAGGARD_")


def _check_queries(value: Value) -> None:
    assert isinstance(value, dict)
    if not all(isinstance(query, str) and query and 0 < len(name) <= 253 for name, query in value.items()):
        raise ValueError("features with a PromQL expression each")


POOL: Final = Setting(
    "pool",
    "text",
    "",
    "The pool whose members it tells of, in the place of an application; of a pool there is one source.",
    check=_check_key,
)
"""What some kinds can be told."""

EVERY: Final[tuple[Setting, ...]] = (
    Setting("application", "text", "", "The application that it tells of.", check=_check_key),
    Setting(
        "name",
        "text",
        "",
        "What the source is called in the log and in metrics; by default its kind, numbered where there are several.",
    ),
    Setting(
        "interval",
        "duration",
        "10s",
        "How long an interval is: so often it is read, and so often the application's performance is told.",
        minimum="1s",
        maximum="1h",
    ),
)
"""What a source of any kind can be told."""

_REACHING: Final = (
    Setting(
        "timeout", "duration", "5s", "A page that is not there after so long cannot be read.", minimum="100ms",
        maximum="5m",
    ),
    Setting("max_bytes", "size", "32MiB", "A page that is larger, unpacked, is not read.", minimum="1KiB",
            maximum="256MiB"),
    Setting("username", "text", "", "The user for basic authentication."),
    Setting("password_file", "file", "", "A file whose first line is the user's password."),
    Setting(
        "password_variable",
        "text",
        "",
        "The environment variable that holds the user's password.",
        excludes="password_file",
        check=_check_variable,
    ),
    Setting("token_file", "file", "", "A file whose first line is a bearer token, read anew each time."),
    Setting(
        "token_variable",
        "text",
        "",
        "The environment variable that holds the bearer token.",
        excludes="token_file",
        check=_check_variable,
    ),
    Setting(
        "ca_file",
        "file",
        "",
        "The certificates of the authorities that vouch for the server, as PEM; empty for those that are usual.",
    ),
    Setting("certificate_file", "file", "", "The certificate that laggard shows, as PEM."),
    Setting("key_file", "file", "", "The private key of that certificate; empty where it is in the same file."),
)  # fmt: skip


def _check_prometheus(source: Settings) -> Iterator[tuple[str, str]]:
    server = source.text("server")
    if bool(source.words("targets")) == bool(server):
        yield "targets", "either targets, the pages to read, or server, a Prometheus to ask"
        return
    if source.place("lookback") != "default" and not server:
        yield "lookback", "a server that it is about"
    yield from _check_members(source) if source.text("pool") else _check_performance(source, server)
    has_password = bool(source.text("password_variable") or source.file("password_file"))
    if bool(source.text("username")) != has_password:
        yield "username", "a username together with password_file or password_variable"
    if has_password and (source.text("token_variable") or source.file("token_file")):
        yield "username", "either a user with a password, or a token"
    if source.file("key_file") and not source.file("certificate_file"):
        yield "key_file", "a certificate_file that it belongs to"


def _check_members(source: Settings) -> Iterator[tuple[str, str]]:
    for name in ("performance", *_OF_REQUESTS, "unit", "queries"):
        if source.place(name) != "default":
            yield name, "it only for an application"
    if not source.text("metrics"):
        yield "metrics", "which metrics the members are compared by, such as '{job=\"shop\"}'"


def _check_performance(source: Settings, server: str) -> Iterator[tuple[str, str]]:
    if source.table("queries") and not server:
        yield "queries", "a server to ask them"
    if not source.flag("performance") and not source.text("metrics") and not source.table("queries"):
        yield "performance", "true, or metrics to read instead"
    requests = source.text("response_time") or source.text("throughput") or source.table("queries")
    if server and source.flag("performance") and not requests:
        yield "response_time", """which of the server's metrics are the application's, such as '{job="shop"}'"""
    if not source.flag("performance"):
        for name in _OF_REQUESTS:
            if source.text(name):
                yield name, "it only with performance = true"


_OF_REQUESTS: Final = ("response_time", "throughput", "errors")


def performs_of(source: Settings) -> bool:
    """Whether a source of metrics tells of requests."""
    return source.flag("performance") and not source.text("pool")


def _check_log(source: Settings) -> Iterator[tuple[str, str]]:
    with _unheard():
        from laggard.producers.sources.access_log.parsers import parser_of  # noqa: PLC0415 - most settings have no sources
        from laggard.producers.sources.access_log.tail import compressed  # noqa: PLC0415

    try:
        parser_of(source.text("format"), source.table("fields"), source.text("time_zone"))
    except ValueError as error:
        yield "format", str(error).removeprefix("expected ")
    if any(compressed(path) for path in source.words("paths")):
        yield "paths", "logs that are written to, not compressed ones"


KINDS: Final[tuple[SourceKind, ...]] = (
    SourceKind(
        "prometheus",
        "metrics that an application serves for Prometheus: its own pages (`targets`), or what a Prometheus has "
        "scraped (`server`).",
        (
            POOL,
            Setting(
                "targets",
                "words",
                "",
                "The pages to read, in the text format of Prometheus or OpenMetrics; the performance is that of all "
                "together.",
                check=check_urls,
            ),
            Setting(
                "server",
                "text",
                "",
                "The Prometheus to ask, with the path that it is served under: `http://prometheus:9090`.",
                check=_check_url,
            ),
            Setting(
                "performance",
                "flag",
                "true",
                "Whether it tells the application's performance, not only `metrics`.",
            ),
            Setting(
                "response_time",
                "text",
                "",
                "The histogram or summary of response times, with matchers where not all of it is meant: "
                '`http_request_duration_seconds{handler!="/health"}`. Empty, or matchers alone, '
                "for the first that is there of the usual names.",
                check=_check_selector,
            ),
            Setting(
                "throughput",
                "text",
                "",
                "The counter of requests: `http_requests_total`. Empty for the count of `response_time`, or the first "
                "that is there of the usual names.",
                check=_check_selector,
            ),
            Setting(
                "errors",
                "text",
                "",
                'The counter of requests that failed: `http_requests_total{code=~"5.."}`. Empty for those of the '
                "throughput whose `code`, `status` or the like begins with 5.",
                check=_check_selector,
            ),
            Setting(
                "unit",
                "choice",
                "auto",
                "The unit of response times; `auto` goes by the end of the metric's name, and is seconds where that "
                "does not tell.",
                choices=("auto", "s", "ms", "us"),
            ),
            Setting(
                "queries",
                "table",
                "",
                "Further features of the performance, or others for those above, each with a PromQL expression that "
                "`server` answers with one number: "
                '`{response_time_p95_s = "histogram_quantile(...)"}`.',
                check=_check_queries,
            ),
            Setting(
                "metrics",
                "text",
                "",
                'Which other metrics to read, as a selector: `{job="node"}`. They become metrics of the hosts that '
                "serve the application, a host for each instance; or of the members of the pool, a member for each. "
                "Empty for none.",
                check=_check_selector,
            ),
            Setting(
                "ports",
                "flag",
                "false",
                "Whether the port is a part of the name of an instance's host: of `web-1:9100` it is `web-1` without. "
                "Of a pool's members it is one unless this is given.",
            ),
            Setting(
                "max_series",
                "count",
                "50000",
                "How many series of `metrics` are used at most; what is over is left out, counted and told.",
                minimum="1",
                maximum="1000000",
            ),
            Setting(
                "lookback",
                "duration",
                "1m",
                "With `server`: how long before the interval it looks for samples: at least twice the time between two "
                "of its scrapes.",
                minimum="2s",
                maximum="1h",
            ),
            *_REACHING,
        ),
        check=_check_prometheus,
        performs=lambda source: performs_of(source) or bool(source.table("queries")),
    ),
    SourceKind(
        "lines",
        "JSON lines, as `laggard replay` reads them, while they are written.",
        (
            POOL,
            Setting(
                "path",
                "text",
                "",
                "The file, or the named pipe, to read; `-` for standard input. Of a file only what is written to it "
                "from now on, or since it was read last.",
            ),
        ),
        required=("path",),
    ),
    SourceKind(
        "log",
        "access logs of web servers, while they are written: throughput, errors (status 500 and above), mean, standard "
        "deviation and quantiles of the response time.",
        (
            Setting(
                "paths",
                "words",
                "",
                "The logs: files, and patterns as a shell has them, `/var/log/nginx/*access.log`. They are followed by "
                "name through rotation and truncation; compressed ones are left alone.",
            ),
            Setting(
                "format",
                "text",
                "",
                "What a line is: `json`; `nginx`, `apache` or `traefik`, each its combined (Traefik: common) format "
                "with the duration behind; or a format, or its whole directive on one line, in the language of nginx's "
                "`log_format` or Apache's `LogFormat`. The duration is `$request_time`, or else "
                "`$upstream_response_time`, and of Apache `%D` or `%T` with any unit.",
            ),
            Setting(
                "fields",
                "table",
                "",
                "With `json`: which fields say what, where it is not by nginx's variables, Caddy, Traefik or Envoy: "
                '`{time = "at", duration = "took.ms", status = "code", unit = "ms", begins = true}`; `unit` is `s`, '
                "`ms`, `us` or `ns`, and `begins` says that the time is that of the request's begin.",
            ),
            Setting(
                "time_zone",
                "text",
                "",
                "The clock of times without an offset: `UTC`, a name such as `Europe/Paris`, or `local`.",
            ),
            Setting(
                "grace",
                "duration",
                "2s",
                "So long after its end an interval waits for lines: longer than the server buffers its log (nginx: "
                "`flush`). What comes later is counted as unusable.",
                minimum="100ms",
                maximum="10m",
            ),
        ),
        required=("paths", "format"),
        check=_check_log,
    ),
)
"""All kinds. What makes a source of the settings is in `measuring.py`."""

BY_KIND: Final[Mapping[str, SourceKind]] = {kind.name: kind for kind in KINDS}

KIND: Final = Setting("kind", "choice", "", "What the source reads.", choices=tuple(BY_KIND))


def keys_of(kind: SourceKind) -> dict[str, Setting]:
    """All that a source of a kind can be told, by name."""
    return {key.name: key for key in (KIND, *EVERY, *kind.keys)}


def required_of(kind: SourceKind, table: Mapping[str, object]) -> tuple[str, ...]:
    """What a source of a kind has to be told that is told this."""
    return ("pool" if POOL in kind.keys and "pool" in table else "application", *kind.required)


def key_of(source: Settings) -> tuple[KeyedBy, str]:
    """What a source tells of: an application or a pool, and which."""
    if POOL in BY_KIND[source.choice("kind")].keys and source.text("pool"):
        return "pool", source.text("pool")
    return "application", source.text("application")


def wrong(source: Settings) -> Iterator[tuple[str, str]]:
    """What is wrong with a source as a whole: the key, and what was expected."""
    kind = BY_KIND[source.choice("kind")]
    keyed_by, key = key_of(source)
    if not key:
        said = "pool" if source.place("application") == "default" else "application"
        yield said, f"a name of 1 to {_MAX_KEY} characters"
        return
    if keyed_by == "pool" and source.text("application"):
        yield "pool", "an application or a pool, not both"
        return
    for each in kind.keys:
        if each.excludes and source.place(each.name) != "default" and source.place(each.excludes) != "default":
            yield each.name, f"only one of it and {each.excludes}"
    if kind.check is not None:
        yield from kind.check(source)


def wrong_together(sources: Sequence[Settings]) -> Iterator[tuple[Settings, str, str]]:
    """What is wrong with several sources together: the later one, its key, and what was expected."""
    alone: dict[tuple[str, str], Settings] = {}
    named: dict[tuple[str, str, str], Settings] = {}
    for source in sources:
        (keyed_by, key), name = key_of(source), source.text("name")
        if keyed_by == "pool" or BY_KIND[source.choice("kind")].performs(source):
            first = alone.setdefault((keyed_by, key), source)
            if first is not source:
                what = f"the performance of {key}" if keyed_by == "application" else f"the members of {key}"
                said = f"one source for {what}; there is {first.text('name')} already"
                yield source, keyed_by, f"{said} ({first.place('kind')})"
                continue
        first = named.setdefault((keyed_by, key, name), source)
        if first is not source:
            yield source, "name", f"a name that no other source of {key} has ({first.place('kind')})"


def default_name(kind: str, number: int) -> str:
    """What the source of an application is called that is the so-manieth of its kind, from 1 on."""
    return kind if number == 1 else f"{kind}-{number}"
