"""The tables `[[sources]]`: the keys of each kind of source, declared like settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from laggard.pipeline.settings.declaring import Choice, Count, Duration, File, Flag, Mapped, Section, Size, Text, Words
from laggard.pipeline.settings.source_checks import (
    A_NAME,
    check_key,
    check_queries,
    check_selector,
    check_url,
    check_urls,
    check_variable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.settings.declaring import Setting

    Contradictions = Iterator[tuple[Setting[Any], str]]
    """Problems of several keys together: the key to name, and what was expected."""

KINDS: Final = ("prometheus", "lines", "log")
"""The kinds of sources; `BY_KIND` has the class of each."""

READS_PER_INTERVAL: Final = 5
"""The number of reads of a log per interval."""


class Source(Section, ABC):
    """A table `[[sources]]`; a subclass for each kind has its other keys."""

    help: ClassVar[str]
    """The description of its kind."""

    needs: ClassVar[tuple[str, ...]] = ()
    """The keys that its kind requires."""

    kind = Choice("", "The kind of the source.", choices=KINDS)
    application = Text("", "The application that it measures.", check=check_key)
    name = Text(
        "",
        "The name of the source in the log and in metrics. By default its kind, numbered if there are several.",
    )
    interval = Duration(
        "10s",
        "The length of an interval: the time between two readings, and between two reports of the application's "
        "performance.",
        minimum="1s",
        maximum="1h",
    )

    @property
    def key(self) -> tuple[KeyedBy, str]:
        """The kind of its key, an application or a pool, and the key."""
        return "application", self.application

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The files or addresses that it reads."""

    @property
    def read_every_s(self) -> float:
        """The seconds between two reads."""
        return self.interval

    @property
    def performs(self) -> bool:
        """Whether it publishes the performance of its application. An application has only one such source."""
        return True

    @classmethod
    def required(cls, table: Mapping[str, object]) -> tuple[str, ...]:  # noqa: ARG003 - those of pools need it
        """Return the keys that this table must have."""
        return ("application", *cls.needs)

    def wrong(self) -> Contradictions:
        """Return the problems of the whole table: the key, and the expected value."""
        if not self.key[1]:
            yield Source.application, A_NAME
            return
        declared = {each.name: each for each in self.declared()}
        for each in declared.values():
            if each.excludes and "default" not in {self.place(each), self.place(declared[each.excludes])}:
                yield each, f"only one of it and {each.excludes}"
        yield from self.contradictions()

    def contradictions(self) -> Contradictions:
        """Return the contradictions between several of its keys."""
        return iter(())


class _OfPools(Source):
    """A source of the performance of an application, or of the members of a pool."""

    pool = Text(
        "",
        "The pool whose members it measures, instead of an application. A pool has one source.",
        check=check_key,
    )

    @property
    def key(self) -> tuple[KeyedBy, str]:
        return ("pool", self.pool) if self.pool else ("application", self.application)

    @classmethod
    def required(cls, table: Mapping[str, object]) -> tuple[str, ...]:
        return ("pool" if "pool" in table else "application", *cls.needs)

    def wrong(self) -> Contradictions:
        if not self.key[1] and self.place(Source.application) == "default":
            yield _OfPools.pool, A_NAME
        elif self.pool and self.application:
            yield _OfPools.pool, "an application or a pool, not both"
        else:
            yield from super().wrong()


class PrometheusSource(_OfPools):
    """Metrics in the format of Prometheus."""

    help = (
        "metrics that an application serves for Prometheus: its own pages (`targets`), or what a Prometheus has "
        "scraped (`server`)."
    )

    targets = Words(
        "",
        "The pages to read, in the text format of Prometheus or OpenMetrics. The performance is that of all of them "
        "together.",
        check=check_urls,
    )
    server = Text("", "The Prometheus to query, with its path: `http://prometheus:9090`.", check=check_url)
    performance = Flag("true", "Whether it measures the application's performance, and not only `metrics`.")
    response_time = Text(
        "",
        "The histogram or summary of response times, with matchers to select a part of it: "
        '`http_request_duration_seconds{handler!="/health"}`. Empty, or matchers alone: the first usual name that '
        "exists.",
        check=check_selector,
    )
    throughput = Text(
        "",
        "The counter of requests: `http_requests_total`. Empty: the count of `response_time`, or the first usual "
        "name that exists.",
        check=check_selector,
    )
    errors = Text(
        "",
        'The counter of failed requests: `http_requests_total{code=~"5.."}`. Empty: the requests of `throughput` '
        "whose `code`, `status` or similar label begins with 5.",
        check=check_selector,
    )
    unit = Choice(
        "auto",
        "The unit of response times. `auto`: by the end of the metric's name, otherwise seconds.",
        choices=("auto", "s", "ms", "us"),
    )
    queries = Mapped(
        "",
        "More features of the performance, or replacements for those above, each a PromQL expression that returns "
        'one number from `server`: `{response_time_p95_s = "histogram_quantile(...)"}`.',
        check=check_queries,
    )
    metrics = Text(
        "",
        'More metrics to read, as a selector: `{job="node"}`. They become metrics of the application\'s hosts, one '
        "host for each instance, or of the pool's members. Empty for none.",
        check=check_selector,
    )
    ports = Flag(
        "false",
        "Whether the port is part of the host name of an instance. Without it, `web-1:9100` becomes `web-1`. By "
        "default members of a pool keep it.",
    )
    max_series = Count(
        "50000",
        "The most series of `metrics`. More are left out, counted and reported.",
        minimum="1",
        maximum="1000000",
    )
    lookback = Duration(
        "1m",
        "With `server`: the time before an interval in which it looks for samples. It must be at least twice the "
        "scrape interval.",
        minimum="2s",
        maximum="1h",
    )
    timeout = Duration("5s", "The time limit of a page.", minimum="100ms", maximum="5m")
    max_bytes = Size("32MiB", "The largest size of a page, uncompressed.", minimum="1KiB", maximum="256MiB")
    username = Text("", "The user for basic authentication.")
    password_file = File("", "A file whose first line is the password.")
    password_variable = Text(
        "", "The environment variable with the password.", excludes="password_file", check=check_variable
    )
    token_file = File("", "A file whose first line is a bearer token. It is read for each request.")
    token_variable = Text(
        "", "The environment variable with a bearer token.", excludes="token_file", check=check_variable
    )
    ca_file = File("", "The certificate authorities of the server, as PEM. Empty: those of the system.")
    certificate_file = File("", "The client certificate, as PEM.")
    key_file = File("", "The private key of that certificate. Empty if the same file has it.")

    @property
    def reads(self) -> tuple[str, ...]:
        """Its server, otherwise its pages."""
        return (self.server,) if self.server else tuple(self.targets)

    @property
    def measures_requests(self) -> bool:
        """Whether it reads the rates and response times of requests."""
        return self.performance and not self.pool

    @property
    def performs(self) -> bool:
        """Whether it publishes the performance of its application."""
        return self.measures_requests or bool(self.queries)

    def contradictions(self) -> Contradictions:
        """Return the contradictions between several of its keys."""
        cls = PrometheusSource
        if bool(self.targets) == bool(self.server):
            yield cls.targets, "either targets, the pages to read, or server, a Prometheus to ask"
            return
        if self.place(cls.lookback) != "default" and not self.server:
            yield cls.lookback, "a server that it is about"
        yield from self._of_members() if self.pool else self._of_performance()
        has_password = bool(self.password_variable or self.password_file)
        if bool(self.username) != has_password:
            yield cls.username, "a username together with password_file or password_variable"
        if has_password and (self.token_variable or self.token_file):
            yield cls.username, "either a user with a password, or a token"
        if self.key_file and not self.certificate_file:
            yield cls.key_file, "a certificate_file that it belongs to"

    def _of_members(self) -> Contradictions:
        cls = PrometheusSource
        for each in (cls.performance, cls.response_time, cls.throughput, cls.errors, cls.unit, cls.queries):
            if self.place(each) != "default":
                yield each, "it only for an application"
        if not self.metrics:
            yield cls.metrics, "which metrics the members are compared by, such as '{job=\"shop\"}'"

    def _of_performance(self) -> Contradictions:
        cls = PrometheusSource
        if self.queries and not self.server:
            yield cls.queries, "a server to ask them"
        if not self.performance and not self.metrics and not self.queries:
            yield cls.performance, "true, or metrics to read instead"
        requests = self.response_time or self.throughput or self.queries
        if self.server and self.performance and not requests:
            yield cls.response_time, """which of the server's metrics are the application's, such as '{job="shop"}'"""
        if not self.performance:
            for each in (cls.response_time, cls.throughput, cls.errors):
                if self.value(each):
                    yield each, "it only with performance = true"


class LinesSource(_OfPools):
    """JSON lines."""

    help = "JSON lines, as `laggard replay` reads them, while they are written."
    needs = ("path",)

    path = Text(
        "",
        "The file or named pipe to read; `-` for standard input. A file is read from its present end, or from the "
        "last position.",
    )

    @property
    def reads(self) -> tuple[str, ...]:
        """Its file."""
        return (self.path,)


class LogSource(Source):
    """Access logs of web servers."""

    help = (
        "access logs of web servers, while they are written: throughput, errors (status 500 and above), mean, standard "
        "deviation and quantiles of the response time."
    )
    needs = ("paths", "format")

    paths = Words(
        "",
        "The logs: files and shell patterns such as `/var/log/nginx/*access.log`. They are followed by name through "
        "rotation and truncation. Compressed files are skipped.",
    )
    format = Text(
        "",
        "The format of a line: `json`, or `nginx`, `apache` or `traefik`, each its combined (Traefik: common) format "
        "with the duration at the end. It may also be a format or whole directive, on one line, of nginx's "
        "`log_format` or Apache's `LogFormat`. The duration is `$request_time` or `$upstream_response_time`, for "
        "Apache `%D` or `%T` with any unit.",
    )
    fields = Mapped(
        "",
        "With `json`: the fields of a line, if they differ from those of nginx's variables, Caddy, Traefik and "
        'Envoy: `{time = "at", duration = "took.ms", status = "code", unit = "ms", begins = true}`. `unit` is `s`, '
        "`ms`, `us` or `ns`. `begins`: the time is that of the start of the request.",
    )
    time_zone = Text("", "The time zone of times without an offset: `UTC`, a name such as `Europe/Paris`, or `local`.")
    grace = Duration(
        "2s",
        "The time after its end for which an interval waits for lines. It must be longer than the server buffers its "
        "log (nginx: `flush`). Later lines count as unusable.",
        minimum="100ms",
        maximum="10m",
    )

    @property
    def reads(self) -> tuple[str, ...]:
        """Its logs."""
        return tuple(self.paths)

    @property
    def read_every_s(self) -> float:
        """The seconds between two reads, which are frequent: the log's own time ends its intervals."""
        return max(1.0, self.interval / READS_PER_INTERVAL)

    def contradictions(self) -> Contradictions:
        """Return the problems of its format or paths."""
        from laggard.producers.sources.access_log.parsers import parser_of  # noqa: PLC0415 - most have no sources
        from laggard.producers.sources.access_log.rotation import compressed  # noqa: PLC0415

        try:
            parser_of(self.format, self.fields, self.time_zone)
        except ValueError as error:
            yield LogSource.format, str(error).removeprefix("expected ")
        if any(compressed(path) for path in self.paths):
            yield LogSource.paths, "logs that are written to, not compressed ones"


BY_KIND: Final[Mapping[str, type[Source]]] = {"prometheus": PrometheusSource, "lines": LinesSource, "log": LogSource}
"""All kinds. `measuring.py` creates the sources of each."""


def wrong_together(sources: Sequence[Source]) -> Iterator[tuple[Source, Setting[Any], str]]:
    """Return the contradictions between sources: the later source, its key, and the expected value."""
    alone: dict[tuple[str, str], Source] = {}
    named: dict[tuple[str, str, str], Source] = {}
    for source in sources:
        keyed_by, key = source.key
        if keyed_by == "pool" or source.performs:
            first = alone.setdefault((keyed_by, key), source)
            if first is not source:
                what = f"the performance of {key}" if keyed_by == "application" else f"the members of {key}"
                expected = f"one source for {what}; there is {first.name} already"
                setting = Source.application if keyed_by == "application" else _OfPools.pool
                yield source, setting, f"{expected} ({first.place(Source.kind)})"
                continue
        first = named.setdefault((keyed_by, key, source.name), source)
        if first is not source:
            yield source, Source.name, f"a name that no other source of {key} has ({first.place(Source.kind)})"


def default_name(kind: str, number: int) -> str:
    """Return the name of the n-th source of this kind of an application, from 1 on."""
    return kind if number == 1 else f"{kind}-{number}"
