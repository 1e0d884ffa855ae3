"""The settings of all parts: where laggard keeps what it needs, which bus it uses, and what the worker runs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laggard.pipeline.settings.declaring import Count, Directory, Duration, Flag, Section, Size, Tables, Text, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_OPERATORS = ("gaussian", "cpu", "saturation", "covariance", "requests")


def _state(_: Mapping[str, Any], environ: Mapping[str, str]) -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/laggard")
    base = Path(environ.get("XDG_STATE_HOME", ""))
    home = Path(environ.get("HOME", "/"))
    return (base if base.is_absolute() else home / ".local/state") / "laggard"


def _location(read: Mapping[str, Any], _: Mapping[str, str]) -> str:
    return f"{read['state']}/laggard.db"


def _host(_: Mapping[str, Any], __: Mapping[str, str]) -> str:
    return os.uname().nodename


def _operators(read: Mapping[str, Any], _: Mapping[str, str]) -> tuple[str, ...]:
    sources = read.get("sources", ())
    assert isinstance(sources, tuple)
    has_applications = any(read.get(name) for name in ("applications.hosts", "applications.pattern")) or any(
        isinstance(each, dict) and "application" in each for each in sources
    )
    return (*DEFAULT_OPERATORS, "regression") if has_applications else DEFAULT_OPERATORS


def _check_location(location: str) -> None:
    from laggard.pipeline.bus.kafka.options import is_kafka, servers_of  # noqa: PLC0415 - most buses are a file

    if is_kafka(location):
        servers_of(location)
    elif "://" in location:
        raise ValueError("a path, or kafka://HOST:PORT,HOST:PORT")


def _check_prefix(prefix: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,150}", prefix):
        raise ValueError("what names of topics may have: at most 150 of A to Z, a to z, 0 to 9, ., _ and -")


class GeneralSettings(Section):
    """What concerns all parts."""

    state = Directory(
        "",
        "The directory for what laggard keeps on this machine.",
        found=_state,
        found_as="`/var/lib/laggard` for root, else `$XDG_STATE_HOME/laggard` (`~/.local/state/laggard`)",
    )
    host = Text(
        "", "The name of this host in records, results and metrics.", found=_host, found_as="the machine's host name"
    )
    operators = Words(
        "",
        "The operators that the worker runs. `regression` is about applications, `covariance` about pools, `requests` "
        "about traced requests, the others "
        "about hosts.",
        choices=("gaussian", "cpu", "saturation", "river", "regression", "covariance", "requests"),
        found=_operators,
        found_as="`gaussian,cpu,saturation,covariance,requests`, with `regression` where `applications.hosts`, "
        "`applications.pattern` or a source of an application is given",
    )
    sources = Tables(
        "",
        "Where the performance of applications, and members of pools, come from, for `laggard measure`: a table "
        "`[[sources]]` for each source, see below.",
    )


class BusSettings(Section, table="bus"):
    """The bus."""

    location = Text(
        "",
        "Where the bus is: the path of the embedded bus's file, or `kafka://HOST:PORT,HOST:PORT` with some of a Kafka "
        "cluster's brokers. Agent, worker and `laggard why` must agree on it.",
        found=_location,
        found_as="`laggard.db` in the directory `state`",
        check=_check_location,
    )
    max_bytes = Size(
        "1GiB", "The embedded bus's file stays below this size; the oldest records go first.", minimum="64MiB"
    )
    retention = Duration(
        "48h",
        "How long records are kept; no moment before that can be asked about. On Kafka `laggard topics create` gives "
        "it to the topics that operators read.",
        minimum="1m",
        maximum="366d",
    )


class TopicsSettings(Section, table="topics"):
    """The topics."""

    prefix = Text("laggard.", "What the names of all topics begin with.", check=_check_prefix)
    partitions = Count(
        "12",
        "Into how many partitions `laggard topics create` divides a topic on Kafka: so many workers share an operator "
        "at most. Better too many than too few: a later change moves hosts between partitions.",
        minimum="1",
        maximum="10000",
    )
    replication = Count(
        "0",
        "On how many brokers `laggard topics create` puts a topic; 0 for three, or all where there are fewer.",
        minimum="0",
        maximum="100",
    )


class WorkerSettings(Section, table="worker"):
    """The worker."""

    instance = Text(
        "",
        "With Kafka: a name of this worker that outlives its process, such as that of a StatefulSet's pod. A worker "
        "that comes back under it in time gets its partitions back without a rebalance (static membership). "
        "Empty for none.",
    )
    standby = Flag(
        "false",
        "With Kafka: whether this worker follows partitions that others have, so that it takes them over at once. "
        "Costs as much CPU time again.",
    )
    memory_bytes = Size("2GiB", "How much memory the worker may hold, see `agent.memory_bytes`.", minimum="128MiB")


class SnapshotSettings(Section, table="snapshot"):
    """Saved states of operators."""

    records = Count(
        "200",
        "An operator's state is saved after this many records of a key, or fewer where a partition has many keys: "
        "fewer make `laggard why` and recovery faster, more make the bus smaller.",
        minimum="1",
        maximum="1000000",
    )
