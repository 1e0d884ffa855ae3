"""The settings of all parts: the directory of state, the bus, the topics and the worker."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus.kafka.options import is_kafka, servers_of
from laggard.pipeline.operator_table import OPERATORS
from laggard.pipeline.settings.declaring import Count, Directory, Duration, Flag, Section, Size, Tables, Text, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_OPERATORS = tuple(name for name, operator in OPERATORS.items() if operator.default)


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
    if is_kafka(location):
        servers_of(location)
    elif "://" in location:
        raise ValueError("a path, or kafka://HOST:PORT,HOST:PORT")


def _check_prefix(prefix: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,150}", prefix):
        raise ValueError("what names of topics may have: at most 150 of A to Z, a to z, 0 to 9, ., _ and -")


class GeneralSettings(Section):
    """Settings of all parts."""

    state = Directory(
        "",
        "The directory for laggard's own files on this machine.",
        found=_state,
        found_as="`/var/lib/laggard` for root, else `$XDG_STATE_HOME/laggard` (`~/.local/state/laggard`)",
    )
    host = Text(
        "", "The name of this host in records, results and metrics.", found=_host, found_as="the machine's host name"
    )
    operators = Words(
        "",
        "The operators that the worker runs: `regression` for applications, `covariance` for pools, `requests` for "
        "traced requests, the others for hosts.",
        choices=tuple(OPERATORS),
        found=_operators,
        found_as="`gaussian,cpu,saturation,covariance,requests`, with `regression` where `applications.hosts`, "
        "`applications.pattern` or a source of an application is given",
    )
    sources = Tables(
        "",
        "The sources of `laggard measure`: performance of applications, or members of pools. Each is a table "
        "`[[sources]]`, see below.",
    )


class BusSettings(Section, table="bus"):
    """The bus."""

    location = Text(
        "",
        "The bus: the path of the embedded bus's file, or `kafka://HOST:PORT,HOST:PORT` with some brokers of a Kafka "
        "cluster. Agent, worker and `laggard why` must use the same one.",
        found=_location,
        found_as="`laggard.db` in the directory `state`",
        check=_check_location,
    )
    max_bytes = Size(
        "1GiB", "The largest size of the embedded bus's file. The oldest records are deleted first.", minimum="64MiB"
    )
    retention = Duration(
        "48h",
        "The time for which readings and requests are kept. Older moments cannot be queried. Incidents, marks and "
        "models stay for 30 days, profiles and dead letters for 7 days. `laggard topics create` sets it on Kafka.",
        minimum="1m",
        maximum="366d",
    )


class TopicsSettings(Section, table="topics"):
    """The topics."""

    prefix = Text("laggard.", "The prefix of all topic names.", check=_check_prefix)
    partitions = Count(
        "12",
        "The partitions of each topic that `laggard topics create` makes on Kafka: the most workers that can share "
        "an operator. Choose too many rather than too few: a later change moves hosts between partitions.",
        minimum="1",
        maximum="10000",
    )
    replication = Count(
        "0",
        "The replicas of each topic that `laggard topics create` makes. 0: three, or all brokers if there are fewer.",
        minimum="0",
        maximum="100",
    )


class WorkerSettings(Section, table="worker"):
    """The worker."""

    instance = Text(
        "",
        "With Kafka: a name of this worker that survives its process, such as the pod name of a StatefulSet. A "
        "worker that returns in time under this name gets its partitions back without a rebalance (static "
        "membership). Empty for none.",
    )
    standby = Flag(
        "false",
        "With Kafka: whether this worker follows the partitions of all other workers, to take them over at once. Each "
        "costs as much CPU time and memory as one of its own.",
    )
    memory_bytes = Size(
        "2GiB",
        "The most memory of the worker of `laggard up`, which restarts it above that. Alone it has no limit.",
        minimum="128MiB",
    )


class SnapshotSettings(Section, table="snapshot"):
    """Saved states of operators."""

    records = Count(
        "200",
        "An operator's state is saved after this many records of a key, or fewer if a partition has many keys. A "
        "smaller number makes `laggard why` and recovery faster, a larger one the bus smaller.",
        minimum="1",
        maximum="1000000",
    )
