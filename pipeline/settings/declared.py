"""Every setting, declared once: parsing, checks, help and documentation follow from this table.

A setting is here only for a decision that an operator of the system takes.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.settings.kinds import READERS, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.settings.kinds import Kind, Value


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: `gaussian.context`; the part before the point is the table in `laggard.toml`.
        kind: how it is written, see `kinds.py`.
        default: as a person would write it; empty where `found` finds it.
        help: one or two sentences.
        minimum: the least value allowed, written like `default`; empty for none.
        maximum: the greatest value allowed, likewise.
        choices: for the kind `choice`, what may be chosen; for `words`, what may be listed.
        found: gives the default where it depends on the machine, from the settings that were read so far.
        found_as: says in words what `found` finds.
        secret: whether the value must never be shown, and is not taken from a command line.
        excludes: a setting that may not be given together with this one.
        check: raises `ValueError` saying what was expected, where the kind alone does not.

    """

    name: str
    kind: Kind
    default: str
    help: str
    minimum: str = ""
    maximum: str = ""
    choices: tuple[str, ...] = ()
    found: Callable[[Mapping[str, Value], Mapping[str, str]], Value] | None = None
    found_as: str = ""
    secret: bool = False
    excludes: str = ""
    check: Callable[[Value], None] | None = None

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "LAGGARD_" + self.name.upper().replace(".", "_")

    def read(self, value: object) -> Value:
        """The value in its base unit. Raises `ValueError` saying what was expected."""
        read = READERS[self.kind](value)
        if self.choices:
            chosen = read if isinstance(read, tuple) else (read,)
            if not chosen or not set(chosen) <= set(self.choices):
                raise ValueError(f"{'names out of' if self.kind == 'words' else 'one of'} {', '.join(self.choices)}")
        if isinstance(read, int | float):
            low, high = (READERS[self.kind](bound) if bound else None for bound in (self.minimum, self.maximum))
            if (isinstance(low, int | float) and read < low) or (isinstance(high, int | float) and read > high):
                raise ValueError(f"a {self.kind} {self.bounds}")
        if self.check is not None:
            self.check(read)
        return read

    @property
    def bounds(self) -> str:
        """The bounds in words; empty without any."""
        if self.minimum and self.maximum:
            return f"from {self.minimum} to {self.maximum}"
        return f"of at least {self.minimum}" if self.minimum else f"of at most {self.maximum}" if self.maximum else ""


def _state(_: Mapping[str, Value], environ: Mapping[str, str]) -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/laggard")
    base = Path(environ.get("XDG_STATE_HOME", ""))
    home = Path(environ.get("HOME", "/"))
    return (base if base.is_absolute() else home / ".local/state") / "laggard"


def _location(read: Mapping[str, Value], _: Mapping[str, str]) -> str:
    return f"{read['state']}/laggard.db"


def _host(_: Mapping[str, Value], __: Mapping[str, str]) -> str:
    return os.uname().nodename


def _operators(read: Mapping[str, Value], _: Mapping[str, str]) -> tuple[str, ...]:
    sources = read.get("sources", ())
    assert isinstance(sources, tuple)
    has_applications = any(read.get(name) for name in ("applications.hosts", "applications.pattern")) or any(
        isinstance(each, dict) and "application" in each for each in sources
    )
    return (*DEFAULT_OPERATORS, "regression") if has_applications else DEFAULT_OPERATORS


def _check_applications(hosts: Value) -> None:
    assert isinstance(hosts, dict)
    for application, said in hosts.items():
        if not isinstance(said, str) or not said.split():
            raise ValueError(f"for {application!r} hosts, or patterns such as web-*, separated by blanks")
        _check_key(application, "applications")


def _check_members(pools: Value) -> None:
    assert isinstance(pools, dict)
    for pool, said in pools.items():
        patterns = said.split() if isinstance(said, str) else []
        if not patterns or not all(all(each.partition("/")[::2]) for each in patterns if "/" in each):
            raise ValueError(f"for {pool!r} patterns HOST/PROCESS, or HOST for hosts, separated by blanks")
        _check_key(pool, "pools")


def _check_functions(functions: Value) -> None:
    assert isinstance(functions, dict)
    for service, said in functions.items():
        binary, _, function = str(said).rpartition(":")
        if not Path(binary).is_absolute() or not function:
            raise ValueError(f"for {service!r} BINARY:FUNCTION, with the whole path of the binary")
        _check_key(service, "services")


def _check_ports(ports: Value) -> None:
    assert isinstance(ports, dict)
    for service, port in ports.items():
        if not isinstance(port, int) or not 0 < port < 1 << 16:
            raise ValueError(f"for {service!r} a port from 1 to 65535")
        _check_key(service, "services")
    if len(set(ports.values())) < len(ports):
        raise ValueError("each port once")


def _check_service(service: Value) -> None:
    if service:
        _check_key(str(service), "services")


def _check_eps(eps: Value) -> None:
    try:
        usable = eps == "auto" or duration(eps) > 0.0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("auto, or a duration above 0 such as 25ms")


def _check_names(names: Value) -> None:
    assert isinstance(names, tuple)
    if len(names) > _MOST_NAMES or not all(re.fullmatch(r"(?=.*[A-Za-z0-9])[\w.-]{2,64}", str(each)) for each in names):
        raise ValueError(f"at most {_MOST_NAMES} names of 2 to 64 letters, digits, -, _ and .")


def _check_key(name: str, whose: str) -> None:
    from laggard.pipeline.records.limits import MAX_KEY  # noqa: PLC0415 - most runs have none of them

    if not 0 < len(name) <= MAX_KEY or not name.isprintable():
        raise ValueError(f"names of {whose} of 1 to {MAX_KEY} characters that can be printed")


def _check_windows(lengths: Value) -> None:
    assert isinstance(lengths, tuple)
    expected = f"lengths in ticks from {_SHORTEST_WINDOW} to {_LONGEST_WINDOW:,}, each longer than the one before"
    if not lengths or not all(str(each).isdecimal() for each in lengths):
        raise ValueError(expected)
    found = [_SHORTEST_WINDOW - 1, *(int(str(each)) for each in lengths), _LONGEST_WINDOW + 1]
    if any(one >= other for one, other in pairwise(found)):
        raise ValueError(expected)


def _check_threads(names: Value) -> None:
    assert isinstance(names, tuple)
    for name in map(str, names):
        if "/" in name:
            raise ValueError(f"names of processes, not paths; {name!r} is one")
        if len(name.encode()) > _KEPT_BYTES and not set(name) & set("*?["):
            raise ValueError(
                f"names of at most {_KEPT_BYTES} bytes, which is what the kernel keeps; {name!r} is longer"
            )


def _check_pattern(pattern: Value) -> None:
    try:
        found = re.compile(str(pattern))
    except re.error as error:
        raise ValueError(f"a regular expression of Python: {error}") from None
    if pattern and "application" not in found.groupindex:
        raise ValueError("a group that names the application: (?P<application>...)")


def _check_location(location: Value) -> None:
    from laggard.pipeline.bus.kafka.options import is_kafka, servers_of  # noqa: PLC0415 - most buses are a file

    if is_kafka(str(location)):
        servers_of(str(location))
    elif "://" in str(location):
        raise ValueError("a path, or kafka://HOST:PORT,HOST:PORT")


def _check_prefix(prefix: Value) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,150}", str(prefix)):
        raise ValueError("what names of topics may have: at most 150 of A to Z, a to z, 0 to 9, ., _ and -")


def _check_page_url(url: Value) -> None:
    _check_url(url, "where people reach the page: https://HOST, with :PORT where it has one; no path", "serve.token")
    import urllib.parse  # noqa: PLC0415 - see there

    if urllib.parse.urlsplit(str(url)).path not in {"", "/"}:
        raise ValueError("https://HOST or https://HOST:PORT: the page is served at the root of its host")


def _check_grafana_url(url: Value) -> None:
    expected = "where Grafana is: https://HOST, with :PORT and the path that it is served under where it has them"
    _check_url(url, expected, "grafana.token")


def _check_url(url: Value, expected: str, token: str) -> None:
    import urllib.parse  # noqa: PLC0415 - most runs have no such address

    try:
        parts = urllib.parse.urlsplit(str(url))
        parts.port  # noqa: B018 - raises ValueError for what is no port
    except ValueError:
        raise ValueError(expected) from None
    if url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
        raise ValueError(expected)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{expected}; no user and no password, but a token in {token}")


def _check_token_url(url: Value) -> None:
    from laggard.pipeline.bus.kafka.options import check_token_url  # noqa: PLC0415

    check_token_url(str(url))


_SHORTEST_WINDOW, _LONGEST_WINDOW = 4, 10_000

_MOST_NAMES = 100

DEFAULT_OPERATORS = ("gaussian", "cpu", "saturation", "covariance", "requests")

_KEPT_BYTES = 15  # of the name of a process

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "state",
        "path",
        "",
        "The directory for what laggard keeps on this machine.",
        found=_state,
        found_as="`/var/lib/laggard` for root, else `$XDG_STATE_HOME/laggard` (`~/.local/state/laggard`)",
    ),
    Setting(
        "host",
        "text",
        "",
        "The name of this host in records, results and metrics.",
        found=_host,
        found_as="the machine's host name",
    ),
    Setting(
        "operators",
        "words",
        "",
        "The operators that the worker runs. `regression` is about applications, `covariance` about pools, `requests` "
        "about traced requests, the others "
        "about hosts.",
        choices=("gaussian", "cpu", "saturation", "river", "regression", "covariance", "requests"),
        found=_operators,
        found_as="`gaussian,cpu,saturation,covariance,requests`, with `regression` where `applications.hosts`, "
        "`applications.pattern` or a source of an application is given",
    ),
    Setting(
        "bus.location",
        "text",
        "",
        "Where the bus is: the path of the embedded bus's file, or `kafka://HOST:PORT,HOST:PORT` with some of a Kafka "
        "cluster's brokers. Agent, worker and `laggard why` must agree on it.",
        found=_location,
        found_as="`laggard.db` in the directory `state`",
        check=_check_location,
    ),
    Setting(
        "bus.max_bytes",
        "size",
        "1GiB",
        "The embedded bus's file stays below this size; the oldest records go first.",
        minimum="64MiB",
    ),
    Setting(
        "bus.retention",
        "duration",
        "48h",
        "How long records are kept; no moment before that can be asked about. On Kafka `laggard topics create` gives "
        "it to the topics that operators read.",
        minimum="1m",
        maximum="366d",
    ),
    Setting(
        "kafka.client",
        "choice",
        "auto",
        "The library that workers read and write Kafka with. `auto` takes librdkafka where it is installed "
        "(`pip install '.[librdkafka]'` in a checkout): the same results for a fraction of the CPU time.",
        choices=("auto", "kafka-python", "librdkafka"),
    ),
    Setting(
        "kafka.security",
        "choice",
        "plaintext",
        "How connections to the brokers are protected.",
        choices=("plaintext", "tls"),
    ),
    Setting(
        "kafka.ca_file",
        "file",
        "",
        "The certificates of the authorities that vouch for the brokers, and for `kafka.token_url`, as PEM; empty for "
        "those that the system trusts.",
    ),
    Setting(
        "kafka.certificate_file",
        "file",
        "",
        "The certificate that laggard shows to the brokers, with those between it and its authority, as PEM.",
    ),
    Setting(
        "kafka.key_file",
        "file",
        "",
        "The private key of that certificate, as PEM; empty where it is in the same file.",
    ),
    Setting(
        "kafka.key_password",
        "text",
        "",
        "What the private key is encrypted with; empty for a key that is not.",
        secret=True,
    ),
    Setting(
        "kafka.key_password_file",
        "file",
        "",
        "A file whose first line is `kafka.key_password`.",
        excludes="kafka.key_password",
    ),
    Setting(
        "kafka.sasl",
        "choice",
        "none",
        "How laggard tells the brokers who it is, beside a certificate.",
        choices=("none", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"),
    ),
    Setting(
        "kafka.username",
        "text",
        "",
        "The user for `plain` and `scram-sha-...`; for `oauthbearer` with `kafka.token_url` the client's id.",
    ),
    Setting("kafka.password", "text", "", "The user's password, or the client's secret.", secret=True),
    Setting(
        "kafka.password_file", "file", "", "A file whose first line is `kafka.password`.", excludes="kafka.password"
    ),
    Setting(
        "kafka.token_file",
        "file",
        "",
        "For `oauthbearer`: a file with a token, read anew for each connection, for instance a projected token of "
        "Kubernetes.",
        excludes="kafka.token_url",
    ),
    Setting(
        "kafka.token_url",
        "text",
        "",
        "For `oauthbearer`: where a token is fetched with the client credentials `kafka.username` and "
        "`kafka.password`: an https address.",
        check=_check_token_url,
    ),
    Setting("kafka.token_scope", "text", "", "What is asked for as the scope of such a token; empty for nothing."),
    Setting(
        "kafka.session_timeout",
        "duration",
        "6s",
        "A worker that the brokers have not heard of for so long loses its partitions to others. The brokers' "
        "`group.min.session.timeout.ms` is its lower bound, by default 6 s.",
        minimum="1s",
        maximum="5m",
    ),
    Setting(
        "kafka.request_timeout",
        "duration",
        "5s",
        "A call that the brokers have not answered for so long has failed, and is tried again.",
        minimum="1s",
        maximum="2m",
    ),
    Setting("topics.prefix", "text", "laggard.", "What the names of all topics begin with.", check=_check_prefix),
    Setting(
        "topics.partitions",
        "count",
        "12",
        "Into how many partitions `laggard topics create` divides a topic on Kafka: so many workers share an operator "
        "at most. Better too many than too few: a later change moves hosts between partitions.",
        minimum="1",
        maximum="10000",
    ),
    Setting(
        "topics.replication",
        "count",
        "0",
        "On how many brokers `laggard topics create` puts a topic; 0 for three, or all where there are fewer.",
        minimum="0",
        maximum="100",
    ),
    Setting(
        "agent.interval",
        "duration",
        "5s",
        "The time from one reading of all counters to the next.",
        minimum="0.5s",
        maximum="1h",
    ),
    Setting(
        "agent.command_lines",
        "flag",
        "true",
        "Whether the command lines of processes are recorded. Secrets in them are hidden, see `redaction.enabled`; "
        "what else they hold may still be private.",
    ),
    Setting(
        "agent.spool_bytes",
        "size",
        "256MiB",
        "With Kafka: how much the agent keeps on disk in the directory `state` while the brokers cannot be reached. "
        "Beyond that the oldest goes, and is counted. Diagnoses and pools have 64 MiB each of their own. `laggard "
        "measure` keeps as much.",
        minimum="64MiB",
    ),
    Setting(
        "agent.memory_bytes",
        "size",
        "256MiB",
        "How much memory the agent may hold: `laggard up` starts it again when it holds more, before the host swaps. "
        "It does not limit an agent that was started alone.",
        minimum="64MiB",
    ),
    Setting(
        "redaction.enabled",
        "flag",
        "true",
        "Whether `***` stands in the place of secrets in command lines, and in names of threads and traced requests, "
        "before they are recorded: values of names that say secret (`--db-password=...`, `?token=...`), passwords in "
        "addresses, Bearer tokens, keys of well-known services.",
    ),
    Setting(
        "redaction.names",
        "words",
        "",
        "Names that say secret, beside those that are built in (see below). A name that ends with one of them is "
        "meant, in any case; `_` may be `-`, `.`, a blank or nothing.",
        check=_check_names,
    ),
    Setting(
        "diagnosis.enabled",
        "flag",
        "true",
        "Whether the agent looks into processes while something is wrong (see `cpu.conditions`): which of their "
        "threads run, and what these execute.",
    ),
    Setting(
        "diagnosis.budget",
        "ratio",
        "5%",
        "What that may take of one core, for all processes together: it looks less often where it takes more.",
        minimum="0.1%",
        maximum="100%",
    ),
    Setting(
        "diagnosis.method",
        "choice",
        "auto",
        "What tells what running threads execute: `auto` takes what suits the process and is there; `proc` alone tells "
        "only of blocked ones. `laggard doctor` says what can be used here.",
        choices=("auto", "proc", "perf", "py-spy", "jcmd", "eu-stack"),
    ),
    Setting(
        "trace.php",
        "text",
        "",
        "The service that PHP's requests on this machine are traced as, by PHP-FPM's own probes; empty: they are not "
        "traced. Where any of `trace.php`, `trace.marker`, `trace.functions` and `trace.ports` is set, `laggard up` "
        "runs `laggard trace`.",
        check=_check_service,
    ),
    Setting(
        "trace.marker",
        "file",
        "",
        "Where programs may tell of their requests, as laggard's middleware for WSGI and ASGI does: a file that is "
        "there while requests are traced. The middleware expects `/run/laggard/trace_marker`. Empty: none are traced "
        "so.",
    ),
    Setting(
        "trace.marker_group",
        "text",
        "",
        "The group whose programs may write the marker file, such as `www-data`: they can make up requests. Empty: "
        "root's programs alone.",
    ),
    Setting(
        "trace.functions",
        "table",
        "",
        "Functions of programs each call of which is a request: by service `BINARY:FUNCTION`, such as "
        "`/usr/bin/redis-server:processCommand`.",
        check=_check_functions,
    ),
    Setting(
        "trace.ports",
        "table",
        "",
        "Servers each connection to which is a request, from accepting to closing it: by service the port. Right only "
        "where connections are not kept alive, and each is served by one thread.",
        check=_check_ports,
    ),
    Setting(
        "trace.events_per_s",
        "count",
        "200000",
        "How many events of the kernel are recorded in a second. Where there are more, only a part of each second is "
        "recorded, and the requests that are whole in it are told.",
        minimum="1000",
    ),
    Setting(
        "trace.memory_bytes",
        "size",
        "2GiB",
        "How much memory `laggard trace` may hold, see `agent.memory_bytes`.",
        minimum="128MiB",
    ),
    Setting(
        "sources",
        "tables",
        "",
        "Where the performance of applications, and members of pools, come from, for `laggard measure`: a table "
        "`[[sources]]` for each source, see below.",
    ),
    Setting(
        "measure.memory_bytes",
        "size",
        "512MiB",
        "How much memory `laggard measure` may hold, see `agent.memory_bytes`.",
        minimum="128MiB",
    ),
    Setting(
        "worker.instance",
        "text",
        "",
        "With Kafka: a name of this worker that outlives its process, such as that of a StatefulSet's pod. A worker "
        "that comes back under it in time gets its partitions back without a rebalance (static membership). "
        "Empty for none.",
    ),
    Setting(
        "worker.standby",
        "flag",
        "false",
        "With Kafka: whether this worker follows partitions that others have, so that it takes them over at once. "
        "Costs as much CPU time again.",
    ),
    Setting(
        "worker.memory_bytes",
        "size",
        "2GiB",
        "How much memory the worker may hold, see `agent.memory_bytes`.",
        minimum="128MiB",
    ),
    Setting(
        "gaussian.context",
        "duration",
        "4h",
        "How far back the model of what is usual looks.",
        minimum="1m",
        maximum="366d",
    ),
    Setting(
        "gaussian.minimum_features",
        "count",
        "10",
        "A row is scored only when this many of its features vary.",
        minimum="1",
        maximum="10000",
    ),
    Setting(
        "gaussian.likelihood",
        "choice",
        "scale_free",
        "How unusual a value is: by its deviation alone, whatever its unit, or by the likelihood of the paper that the "
        "operator comes from.",
        choices=("scale_free", "paper"),
    ),
    Setting(
        "gaussian.false_alarms",
        "rate",
        "1/day",
        "The false-alarm budget of a host: so many incidents are told where nothing is wrong.",
        minimum="1/month",
        maximum="10/minute",
    ),
    Setting(
        "gaussian.accepted_after",
        "duration",
        "4h",
        "An anomaly that lasts this long becomes the new baseline. Until then nothing is learned about its row.",
        minimum="10m",
        maximum="366d",
    ),
    Setting(
        "features.rising",
        "words",
        "",
        "Features of which only a rise is an anomaly, each a name or its end: `latency_s`. Of a feature that is named "
        "nowhere a fall that lasts is one, too; of processes and hosts only rises are.",
    ),
    Setting(
        "features.falling",
        "words",
        "",
        "Features of which only a fall is an anomaly, likewise: `availability_ratio`.",
    ),
    Setting(
        "cpu.conditions",
        "words",
        "cpu,quota,io_pressure,memory_pressure",
        "What counts as high use: `cpu`, a process that uses `cpu.threshold` of all CPUs; `single_cpu`, one that uses "
        "that share of one CPU, which is ordinary where programs compute; `spikes`, one that does the former often, "
        "but for a short time; `quota`, one whose cgroup uses up its CPU quota; `io_pressure` and `memory_pressure`, "
        "a host on which tasks wait for I/O or memory, or a process in whose cgroup they do.",
        choices=("cpu", "single_cpu", "spikes", "quota", "io_pressure", "memory_pressure"),
    ),
    Setting(
        "cpu.threshold",
        "ratio",
        "85%",
        "From which share on the use of all CPUs is high; with `single_cpu`, that of one CPU.",
        minimum="1%",
        maximum="100%",
    ),
    Setting(
        "cpu.duration",
        "duration",
        "5s",
        "Use that has been high for so long is an event, which ends when it has been low again for so long. Dips that "
        "are shorter divide it into phases.",
        minimum="1s",
        maximum="1h",
    ),
    Setting(
        "cpu.quota",
        "ratio",
        "50%",
        "For `quota`: from which share of periods on in which it is used up a process runs out of CPU quota.",
        minimum="1%",
        maximum="100%",
    ),
    Setting(
        "cpu.io_pressure",
        "ratio",
        "85%",
        "For `io_pressure`: from which share of time on in which some task waits for I/O that is high.",
        minimum="1%",
        maximum="100%",
    ),
    Setting(
        "cpu.memory_pressure",
        "ratio",
        "60%",
        "For `memory_pressure`: the same for memory.",
        minimum="1%",
        maximum="100%",
    ),
    Setting(
        "cpu.spikes",
        "rate",
        "6/minute",
        "For `spikes`: from how many on they are frequent.",
        minimum="1/minute",
        maximum="10/minute",
    ),
    Setting(
        "cpu.smoothing",
        "choice",
        "none",
        "Whether each value is taken as it is, or the `mean` over `cpu.window`, or that without outliers (`trimmed`).",
        choices=("none", "mean", "trimmed"),
    ),
    Setting(
        "cpu.window",
        "duration",
        "5s",
        "Over how long `cpu.smoothing` takes the mean.",
        minimum="1s",
        maximum="1m",
    ),
    Setting(
        "saturation.duration",
        "duration",
        "2m",
        "A resource whose mean use over about this long reaches its limit is reported as saturated.",
        minimum="10s",
        maximum="1h",
    ),
    Setting(
        "saturation.forecast",
        "duration",
        "1h",
        "A resource that will be full within this time at its present rate is reported. 0s: no forecasts.",
        minimum="0s",
        maximum="1d",
    ),
    *(
        Setting(f"saturation.{name}", "ratio", limit, f"The limit of {what}.", minimum="1%", maximum="100%")
        for name, limit, what in (
            ("cpu", "60%", "the share of time for which the CPUs are busy and some task waits for one"),
            ("heat", "20%", "the share of time for which heat slows a CPU"),
            ("memory_pressure", "20%", "the share of time for which some task waits for memory"),
            ("memory", "95%", "the share of memory that is in use, the host's or a control group's"),
            ("disk", "60%", "the share of time for which a disk is busy and some task waits for I/O"),
            ("filesystem", "95%", "the share of a filesystem that is in use"),
            ("descriptors", "90%", "the share of file descriptors that are in use, the kernel's or a process's"),
            ("pids", "90%", "the share of process ids that are in use, the kernel's or a control group's"),
        )
    ),
    Setting(
        "river.detector",
        "text",
        "HalfSpaceTrees",
        "Which of river's anomaly detectors the operator `river` runs, by the name of its class: `HalfSpaceTrees`, "
        "`LODA`, `LocalOutlierFactor`, `OneClassSVM`, `GaussianScorer`, `StandardAbsoluteDeviation`, "
        "`PredictiveAnomalyDetection`. Needs river: `pip install '.[river]'` in a checkout.",
    ),
    Setting(
        "river.parameters",
        "table",
        "",
        "Parameters of that class, as river's documentation has them: numbers, texts, true or false.",
    ),
    Setting(
        "river.context",
        "duration",
        "4h",
        "How far back the model of what is usual for a counter looks; the detector sees how far it is above that.",
        minimum="1m",
        maximum="366d",
    ),
    Setting(
        "river.false_alarms",
        "rate",
        "1/day",
        "The false-alarm budget of a host for this operator.",
        minimum="1/month",
        maximum="10/minute",
    ),
    Setting(
        "applications.hosts",
        "table",
        "",
        "Which hosts serve which application: by application their names, or patterns such as `web-*`, separated by "
        "blanks. Their counters are what its performance is explained by.",
        check=_check_applications,
    ),
    Setting(
        "applications.pattern",
        "text",
        "",
        "A regular expression for names of hosts whose group `application` names the application that a host serves: "
        "`(?P<application>[a-z]+)-[a-z]+-[0-9]+`. Empty for none.",
        check=_check_pattern,
    ),
    Setting(
        "regression.performance",
        "words",
        "response_time_mean_s,throughput_per_s",
        "Which performance metrics of an application are explained, each by a model of its own.",
    ),
    Setting(
        "regression.candidates",
        "count",
        "100",
        "So many metrics of its hosts, those that go with the performance best, a model is chosen from.",
        minimum="1",
        maximum="10000",
    ),
    Setting(
        "regression.window",
        "count",
        "10",
        "From so many intervals a first model is built; the published method compares as many with those before.",
        minimum="4",
        maximum="60",
    ),
    Setting(
        "regression.minimum_gain",
        "number",
        "0.01",
        "By so much one more metric has to raise the share of the variance that a model tells (R²).",
        minimum="0",
        maximum="1",
    ),
    Setting(
        "regression.significance",
        "ratio",
        "5%",
        "Of the published method: a model is built anew where its errors differ from those before so much that chance "
        "does so more rarely.",
        minimum="0.01%",
        maximum="50%",
    ),
    Setting(
        "regression.kind",
        "choice",
        "linear",
        "What a model is: `linear`, an equation; or nearest `neighbours`, a regression `tree`, or `boosting`, which "
        "need scikit-learn: `pip install '.[models]'` in a checkout.",
        choices=("linear", "neighbours", "tree", "boosting"),
    ),
    Setting(
        "regression.criterion",
        "choice",
        "residuals",
        "What tells by the published method that a model does not hold any more: its errors, or that R² is below 0.8.",
        choices=("residuals", "r2"),
    ),
    Setting(
        "regression.method",
        "choice",
        "adaptive",
        "How models are built and given up: `published`, as in the paper that the operator comes from, or `adaptive`, "
        "which names host and resource after fewer intervals, and more surely.",
        choices=("adaptive", "published"),
    ),
    Setting(
        "regression.false_rebuilds",
        "rate",
        "1/day",
        "So often a model of an application that still holds may be given up.",
        minimum="1/month",
        maximum="10/minute",
    ),
    Setting(
        "regression.false_alarms",
        "rate",
        "1/day",
        "The false-alarm budget of an application for this operator.",
        minimum="1/month",
        maximum="10/minute",
    ),
    Setting(
        "pools.threads",
        "words",
        "",
        "Processes whose threads the agent compares with each other: their names, or patterns such as `java*`. Threads "
        "that are called alike but for a number at the end are a pool.",
        check=_check_threads,
    ),
    Setting(
        "pools.discover",
        "flag",
        "true",
        "Whether the agent finds pools of prefork workers by itself: processes that one parent forked, and that go on "
        "with its program. Where `agent.command_lines` is true, those that call themselves by different titles are "
        "different pools.",
    ),
    Setting(
        "pools.minimum",
        "count",
        "3",
        "From so many members on, each there for 10 s, it is a pool that the agent publishes.",
        minimum="2",
        maximum="1000",
    ),
    Setting(
        "pools.members",
        "table",
        "",
        "Pools of processes or of hosts: by pool patterns `HOST/PROCESS` such as `web-*/gunicorn`, or `HOST` alone, "
        "separated by blanks. Worth comparing is what does the same work.",
        check=_check_members,
    ),
    Setting(
        "covariance.method",
        "choice",
        "adaptive",
        "How members of a pool are compared: `published`, as in the paper that the operator comes from, or `adaptive`, "
        "which finds short deviations too, and says how members deviate.",
        choices=("adaptive", "published"),
    ),
    Setting(
        "covariance.windows",
        "words",
        "12,48,192",
        "Over how many of the newest ticks members are compared, the shortest first; beside that over all of them.",
        check=_check_windows,
    ),
    Setting(
        "covariance.false_alarms",
        "rate",
        "1/day",
        "The false-alarm budget of a pool for this operator.",
        minimum="1/month",
        maximum="10/minute",
    ),
    Setting(
        "covariance.replicates",
        "count",
        "1000",
        "How many bootstrap samples the p-values of a report on a pool come from; 0 for none.",
        minimum="0",
        maximum="100000",
    ),
    Setting(
        "requests.eps",
        "text",
        "auto",
        "Requests of which the times spent in each state differ by no more than this are neighbours; who is farther "
        "from all that have many is out of line. `auto` estimates it from the requests; the paper that the operator "
        "comes from has 25ms.",
        check=_check_eps,
    ),
    Setting(
        "requests.minimum_points",
        "count",
        "100",
        "With so many neighbours a request is usual; fewer while there are few requests.",
        minimum="2",
        maximum="10000",
    ),
    Setting(
        "requests.reference",
        "count",
        "10000",
        "With so many of the newest requests of its service each one is compared.",
        minimum="200",
        maximum="100000",
    ),
    Setting(
        "requests.method",
        "choice",
        "adaptive",
        "How `laggard replay` judges requests: `adaptive`, each by those before it, as a worker always does; or "
        "`published`, as in the paper that the operator comes from: at the end, each by all others.",
        choices=("adaptive", "published"),
    ),
    Setting(
        "requests.false_alarms",
        "rate",
        "1/day",
        "The false-alarm budget of a service for this operator: for more requests out of line than usual.",
        minimum="1/month",
        maximum="10/minute",
    ),
    Setting(
        "snapshot.records",
        "count",
        "200",
        "An operator's state is saved after this many records of a key, or fewer where a partition has many keys: "
        "fewer make `laggard why` and recovery faster, more make the bus smaller.",
        minimum="1",
        maximum="1000000",
    ),
    Setting(
        "serve.listen",
        "address",
        "127.0.0.1:9463",
        "Where the page, the investigator, is served. Port 0 takes any free one. An address that other machines can "
        "reach needs `serve.token`, or `serve.proxies`.",
    ),
    Setting(
        "serve.url",
        "text",
        "",
        "Where people reach the page from where they are, for links to it in alerts, in Grafana and in what is copied: "
        "`https://laggard.example.com`. Empty for no links in alerts.",
        check=_check_page_url,
    ),
    Setting(
        "serve.token",
        "text",
        "",
        "What a person types, or a program sends as `Authorization: Bearer TOKEN`, to see and to change; where it is "
        "empty, see `serve.require_token`.",
        secret=True,
    ),
    Setting(
        "serve.read_token",
        "text",
        "",
        "The same for those who may see everything and change nothing.",
        secret=True,
    ),
    Setting(
        "serve.require_token",
        "choice",
        "auto",
        "Whether the page asks for a token where none is set and no proxy says who asks. `auto`: where laggard runs as "
        "root and people have accounts on the machine, or where users do not see each other's processes (`hidepid`). "
        "It is generated, and kept in the file `serve.token` in the directory `state`.",
        choices=("auto", "always", "never"),
    ),
    Setting(
        "serve.hosts",
        "words",
        "",
        "Names by which the page is called, beside that of `serve.listen` and of this machine: a request for another "
        "one is refused, for it may be DNS rebinding.",
    ),
    Setting(
        "serve.proxies",
        "words",
        "",
        "Addresses or networks, `10.0.0.7` or `10.0.0.0/24`, of proxies that say who asks, in the header "
        "`serve.proxy_header`. From elsewhere that header is not believed.",
    ),
    Setting(
        "serve.proxy_header",
        "text",
        "X-Forwarded-User",
        "The header in which a proxy names the person who asks.",
    ),
    Setting(
        "serve.editors",
        "words",
        "*",
        "Who of those that a proxy names may set marks, pin metrics and replay dead letters: names, or patterns such "
        "as `*@example.com`. All others see everything and change nothing.",
    ),
    Setting(
        "serve.memory_bytes",
        "size",
        "1GiB",
        "How much memory the page may hold, see `agent.memory_bytes`.",
        minimum="128MiB",
    ),
    Setting(
        "web.listen",
        "address",
        "127.0.0.1:9464",
        "Where the worker serves `/metrics` and takes marks. Port 0 takes any free one. "
        "An address that other machines can reach needs `web.token`.",
    ),
    Setting(
        "web.token",
        "text",
        "",
        "What a client has to send as `Authorization: Bearer TOKEN`; empty asks for nothing.",
        secret=True,
    ),
    Setting(
        "web.top_rows",
        "count",
        "10",
        "How many rows of each host have metrics of their own, the worst ones.",
        minimum="0",
        maximum="1000",
    ),
    Setting(
        "grafana.url",
        "text",
        "",
        "Where Grafana is, for `laggard grafana`, with the path that it is served under: `https://grafana.example.com`.",
        check=_check_grafana_url,
    ),
    Setting(
        "grafana.token",
        "text",
        "",
        "A token of a service account there. The role Admin has all the rights; `laggard grafana check` tells which of "
        "them are missing.",
        secret=True,
    ),
    Setting("grafana.token_file", "file", "", "A file whose first line is `grafana.token`.", excludes="grafana.token"),
    Setting(
        "grafana.ca_file",
        "file",
        "",
        "The certificates of the authorities that vouch for Grafana, as PEM; empty for those that are usual.",
    ),
    Setting(
        "grafana.data_source",
        "text",
        "",
        "The uid or the name of Grafana's data source for the Prometheus that scrapes laggard; empty for the only one, "
        "or the default one. Where the token may not list data sources: the uid.",
    ),
    Setting(
        "grafana.timeout",
        "duration",
        "10s",
        "A call that Grafana has not answered for so long has failed.",
        minimum="1s",
        maximum="5m",
    ),
)

BY_NAME = {setting.name: setting for setting in SETTINGS}
