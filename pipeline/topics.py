"""The topics: the only place that knows their names, what they are keyed by, and how long they keep what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.bus import SNAPSHOTS, TopicSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laggard.pipeline.records import KeyedBy

PREFIX: Final = "laggard."

_DAY_S: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        name: without the prefix.
        key: what its records are keyed by.
        value: what its records are.
        retention_s: how long it keeps them, None for as long as the bus keeps anything.
        compacted: whether it keeps the newest record of each key, however old that is.

    """

    name: str
    key: str
    value: str
    retention_s: float | None = None
    compacted: bool = False


COUNTERS: Final = Topic("counters", "host", "frames of a host and that host's marks, in one order")
APPLICATIONS: Final = Topic(
    "applications", "application", "an application's performance, its hosts' counters, and wishes, in one order"
)
POOLS: Final = Topic("pools", "pool", "frames whose rows are a pool's members")
REQUESTS: Final = Topic("requests", "service", "one traced request: state counts, state durations, system calls")
ANOMALIES: Final = Topic(
    "anomalies", "the entity's key", "anomalies, incidents, rankings for marks, and of pools", 30 * _DAY_S
)
MODELS: Final = Topic("models", "application", "every performance model built", 30 * _DAY_S)
DIAGNOSES: Final = Topic("diagnoses", "host", "stack samples taken while something was wrong", 7 * _DAY_S)
DEAD_LETTERS: Final = Topic("dead_letters", "the key received", "what could not be used, with the reason", 7 * _DAY_S)

TOPIC_OF: Final[Mapping[KeyedBy, Topic]] = {
    "host": COUNTERS,
    "application": APPLICATIONS,
    "pool": POOLS,
    "service": REQUESTS,
}
"""Where a frame is, or a request, by what the key names."""

INCIDENTS: Final = "incidents"
"""What joins anomalies to incidents, as it is named in groups, snapshots, metrics and sources of events."""

SERVING: Final = "serving"
"""What re-keys counters to the applications that their hosts serve, named likewise."""

POOLING: Final = "pooling"
"""What re-keys counters to the pools whose members they are of, named likewise."""

HOSTS: Final = "hosts"
"""The group of the operators that judge hosts and their processes, without the prefix."""

_TOGETHER: Final[Mapping[str, str]] = dict.fromkeys(("gaussian", "cpu", "saturation"), HOSTS)
"""Operators that one group runs, so that what they find of a host has one order, by name."""

ANNOTATIONS: Final = "annotations"
"""The group of those who follow the anomalies for `laggard grafana annotate`, without the prefix."""

TOPICS: Final = (COUNTERS, APPLICATIONS, POOLS, REQUESTS, ANOMALIES, MODELS, DIAGNOSES, DEAD_LETTERS)
"""All topics but those of snapshots, of which each operator has its own."""


class Topics:
    """The topics under one prefix.

    Parameters:
        prefix: what the names of all topics and groups begin with.

    """

    def __init__(self, prefix: str = PREFIX) -> None:
        self.prefix = prefix

    def name(self, topic: Topic) -> str:
        """The topic's full name: `laggard.counters`."""
        return self.prefix + topic.name

    def group(self, operator: str) -> str:
        """The group whose members share the operator's partitions: `laggard.hosts`; or `ANNOTATIONS`'."""
        return self.prefix + _TOGETHER.get(operator, operator)

    def groups(self, operators: Iterable[str]) -> tuple[str, ...]:
        """The groups that run these operators, each once."""
        return tuple(dict.fromkeys(map(self.group, operators)))

    def former_group(self, operator: str) -> str | None:
        """The group that an older laggard ran the operator in, if that was another one."""
        return self.prefix + operator if operator in _TOGETHER else None

    def snapshots(self, operator: str) -> Topic:
        """The topic in which a bus that has no other place for them keeps the operator's snapshots."""
        return Topic(SNAPSHOTS + operator, "partition/key", "an operator's state of one key", compacted=True)

    def specs(
        self, topics: Sequence[Topic] = TOPICS, partitions: int = 1, retention_s: float | None = None
    ) -> tuple[TopicSpec, ...]:
        """What a bus has to create; `retention_s` is for topics that keep records as long as the bus keeps anything."""
        return tuple(
            TopicSpec(
                self.name(topic),
                partitions,
                retention_s if topic.retention_s is None and not topic.compacted else topic.retention_s,
                topic.compacted,
            )
            for topic in topics
        )
