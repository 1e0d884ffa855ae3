"""The settings of the producers on a machine: the agent, traces and sources of performance."""

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
    for service, value in functions.items():
        binary, _, function = str(value).rpartition(":")
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

    interval = Duration("5s", "The time between two readings of all counters.", minimum="0.5s", maximum="1h")
    command_lines = Flag(
        "true",
        "Whether to record the command lines of processes. Secrets in them are hidden (see `redaction.enabled`), but "
        "other parts may be private, too.",
    )
    spool_bytes = Size(
        "256MiB",
        "With Kafka: the most bytes that the agent keeps in the directory `state` while no broker is reachable. "
        "Beyond that it drops the oldest records, and counts them. Diagnoses and pools have 64 MiB each, and "
        "`laggard measure` has as much as the agent.",
        minimum="64MiB",
    )
    memory_bytes = Size(
        "256MiB",
        "The most memory of the agent. `laggard up` restarts it when it holds more, before the host swaps. An agent "
        "that was started alone has no limit.",
        minimum="64MiB",
    )


class RedactionSettings(Section, table="redaction"):
    """Secrets in recorded data."""

    enabled = Flag(
        "true",
        "Whether to replace secrets by `***` before anything is recorded, in command lines and in names of threads "
        "and traced requests. Secrets are values of names such as `--db-password=...` or `?token=...`, passwords in "
        "addresses, Bearer tokens and keys of well-known services.",
    )
    names = Words(
        "",
        "Names of secrets in addition to the built-in ones (see below). They match any name that ends with one of "
        "them, in any case. `_` also matches `-`, `.`, a space or nothing.",
        check=_check_names,
    )


class DiagnosisSettings(Section, table="diagnosis"):
    """Profiles of processes."""

    enabled = Flag(
        "true",
        "Whether the agent profiles processes during an anomaly (see `cpu.conditions`): which threads run, and which "
        "code they execute.",
    )
    budget = Ratio(
        "5%",
        "The most CPU time of profiling, as a share of one core, for all processes together. Profiling slows down to "
        "stay within it.",
        minimum="0.1%",
        maximum="100%",
    )
    method = Choice(
        "auto",
        "The profiler. `auto` uses one that suits the process and is installed. `proc` alone only sees blocked "
        "threads. `laggard doctor` lists the available ones.",
        choices=("auto", "proc", "perf", "py-spy", "jcmd", "eu-stack"),
    )


class TraceSettings(Section, table="trace"):
    """Traced requests."""

    php = Text(
        "",
        "The service name of this machine's PHP requests, which are traced by the probes of PHP-FPM. Empty: not "
        "traced. `laggard up` runs `laggard trace` if `trace.php`, `trace.marker`, `trace.functions` or "
        "`trace.ports` is set.",
        check=_check_service,
    )
    marker = File(
        "",
        "A file through which programs report their requests, as laggard's middleware for WSGI and ASGI does; it "
        "exists while requests are traced. The middleware expects `/run/laggard/trace_marker`. Empty for none.",
    )
    marker_group = Text(
        "",
        "The group whose programs may write the marker file, such as `www-data`. They can fake requests. Empty: only "
        "root's programs.",
    )
    functions = Mapped(
        "",
        "Functions of which each call is a request, by service: `BINARY:FUNCTION`, such as "
        "`/usr/bin/redis-server:processCommand`.",
        check=_check_functions,
    )
    ports = Mapped(
        "",
        "Ports of servers on which each connection is a request, from accept to close, by service. This needs "
        "connections without keep-alive, each served by one thread.",
        check=_check_ports,
    )
    events_per_s = Count(
        "200000",
        "The most kernel events per second, on average. Above it, tracing alternates between recording and pauses, and "
        "reports only requests that no pause overlaps.",
        minimum="1000",
    )
    buffer_bytes = Size(
        "64MiB",
        "The kernel's buffers of all CPUs together, at least 1 MiB for each. Larger ones lose fewer events while the "
        "tracer waits for a CPU.",
        minimum="1MiB",
    )
    memory_bytes = Size(
        "2GiB", "The most memory of `laggard trace` in `laggard up`, which restarts it above that.", minimum="128MiB"
    )


class MeasureSettings(Section, table="measure"):
    """`laggard measure`."""

    memory_bytes = Size(
        "512MiB",
        "The most memory of `laggard measure` in `laggard up`, which restarts it above that.",
        minimum="128MiB",
    )
