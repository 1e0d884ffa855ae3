"""The settings of what publishes records on a machine: the agent, traces and sources of performance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.settings.checks import check_key
from laggard.pipeline.settings.declaring import (
    Choice,
    Count,
    Duration,
    File,
    Flag,
    Mapped,
    Ratio,
    Section,
    Size,
    Text,
    Words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_NAMES = 100


def _check_names(names: Sequence[str]) -> None:
    if len(names) > _MOST_NAMES or not all(re.fullmatch(r"(?=.*[A-Za-z0-9])[\w.-]{2,64}", each) for each in names):
        raise ValueError(f"at most {_MOST_NAMES} names of 2 to 64 letters, digits, -, _ and .")


def _check_functions(functions: Mapping[str, object]) -> None:
    for service, said in functions.items():
        binary, _, function = str(said).rpartition(":")
        if not Path(binary).is_absolute() or not function:
            raise ValueError(f"for {service!r} BINARY:FUNCTION, with the whole path of the binary")
        check_key(service, "services")


def _check_ports(ports: Mapping[str, object]) -> None:
    for service, port in ports.items():
        if not isinstance(port, int) or not 0 < port < 1 << 16:
            raise ValueError(f"for {service!r} a port from 1 to 65535")
        check_key(service, "services")
    if len(set(ports.values())) < len(ports):
        raise ValueError("each port once")


def _check_service(service: str) -> None:
    if service:
        check_key(service, "services")


class AgentSettings(Section, table="agent"):
    """The agent."""

    interval = Duration("5s", "The time from one reading of all counters to the next.", minimum="0.5s", maximum="1h")
    command_lines = Flag(
        "true",
        "Whether the command lines of processes are recorded. Secrets in them are hidden, see `redaction.enabled`; "
        "what else they hold may still be private.",
    )
    spool_bytes = Size(
        "256MiB",
        "With Kafka: how much the agent keeps on disk in the directory `state` while the brokers cannot be reached. "
        "Beyond that the oldest goes, and is counted. Diagnoses and pools have 64 MiB each of their own. `laggard "
        "measure` keeps as much.",
        minimum="64MiB",
    )
    memory_bytes = Size(
        "256MiB",
        "How much memory the agent may hold: `laggard up` starts it again when it holds more, before the host swaps. "
        "It does not limit an agent that was started alone.",
        minimum="64MiB",
    )


class RedactionSettings(Section, table="redaction"):
    """Secrets in what is recorded."""

    enabled = Flag(
        "true",
        "Whether `***` stands in the place of secrets in command lines, and in names of threads and traced requests, "
        "before they are recorded: values of names that say secret (`--db-password=...`, `?token=...`), passwords in "
        "addresses, Bearer tokens, keys of well-known services.",
    )
    names = Words(
        "",
        "Names that say secret, beside those that are built in (see below). A name that ends with one of them is "
        "meant, in any case; `_` may be `-`, `.`, a blank or nothing.",
        check=_check_names,
    )


class DiagnosisSettings(Section, table="diagnosis"):
    """Profiles of processes."""

    enabled = Flag(
        "true",
        "Whether the agent looks into processes while something is wrong (see `cpu.conditions`): which of their "
        "threads run, and what these execute.",
    )
    budget = Ratio(
        "5%",
        "What that may take of one core, for all processes together: it looks less often where it takes more.",
        minimum="0.1%",
        maximum="100%",
    )
    method = Choice(
        "auto",
        "What tells what running threads execute: `auto` takes what suits the process and is there; `proc` alone tells "
        "only of blocked ones. `laggard doctor` says what can be used here.",
        choices=("auto", "proc", "perf", "py-spy", "jcmd", "eu-stack"),
    )


class TraceSettings(Section, table="trace"):
    """Traced requests."""

    php = Text(
        "",
        "The service that PHP's requests on this machine are traced as, by PHP-FPM's own probes; empty: they are not "
        "traced. Where any of `trace.php`, `trace.marker`, `trace.functions` and `trace.ports` is set, `laggard up` "
        "runs `laggard trace`.",
        check=_check_service,
    )
    marker = File(
        "",
        "Where programs may tell of their requests, as laggard's middleware for WSGI and ASGI does: a file that is "
        "there while requests are traced. The middleware expects `/run/laggard/trace_marker`. Empty: none are traced "
        "so.",
    )
    marker_group = Text(
        "",
        "The group whose programs may write the marker file, such as `www-data`: they can make up requests. Empty: "
        "root's programs alone.",
    )
    functions = Mapped(
        "",
        "Functions of programs each call of which is a request: by service `BINARY:FUNCTION`, such as "
        "`/usr/bin/redis-server:processCommand`.",
        check=_check_functions,
    )
    ports = Mapped(
        "",
        "Servers each connection to which is a request, from accepting to closing it: by service the port. Right only "
        "where connections are not kept alive, and each is served by one thread.",
        check=_check_ports,
    )
    events_per_s = Count(
        "200000",
        "How many events of the kernel are recorded in a second. Where there are more, only a part of each second is "
        "recorded, and the requests that are whole in it are told.",
        minimum="1000",
    )
    memory_bytes = Size("2GiB", "How much memory `laggard trace` may hold, see `agent.memory_bytes`.", minimum="128MiB")


class MeasureSettings(Section, table="measure"):
    """`laggard measure`."""

    memory_bytes = Size(
        "512MiB", "How much memory `laggard measure` may hold, see `agent.memory_bytes`.", minimum="128MiB"
    )
