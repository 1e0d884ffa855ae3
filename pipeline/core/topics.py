"""The names, keys and retention of the topics, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import SNAPSHOTS, TopicSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laggard.pipeline.core.records import KeyedBy

PREFIX: Final = "laggard."

_DAY_S: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        name: the name without the prefix.
        key: the kind of key of its records.
        value: the kind of its records.
        retention_s: the retention of its records in seconds, None for that of the bus.
        compacted: whether the newest record of each key stays forever.

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
DIAGNOSES: Final = Topic("diagnoses", "host", "profiles of processes during high use or pressure", 7 * _DAY_S)
DEAD_LETTERS: Final = Topic("dead_letters", "the key received", "unusable records, with the reason", 7 * _DAY_S)

TOPIC_OF: Final[Mapping[KeyedBy, Topic]] = {
    "host": COUNTERS,
    "application": APPLICATIONS,
    "pool": POOLS,
    "service": REQUESTS,
}
"""The topic of a frame or a request, by the kind of its key."""

INCIDENTS: Final = "incidents"
"""The stage that joins anomalies to incidents: its name in groups, snapshots, metrics and sources of events."""

SERVING: Final = "serving"
"""The stage that re-keys counters to the applications that their hosts serve; its name as above."""

POOLING: Final = "pooling"
"""The stage that re-keys counters to the pools of their members; its name as above."""

HOSTS: Final = "hosts"
"""The group of the operators that judge hosts and their processes, without the prefix."""

_TOGETHER: Final[Mapping[str, str]] = dict.fromkeys(("gaussian", "cpu", "saturation"), HOSTS)
"""The common group of some operators, by operator, so that their results on a host have one order."""

ANNOTATIONS: Final = "annotations"
"""The group that reads the anomalies for `laggard grafana annotate`, without the prefix."""

TOPICS: Final = (COUNTERS, APPLICATIONS, POOLS, REQUESTS, ANOMALIES, MODELS, DIAGNOSES, DEAD_LETTERS)
"""All topics except for those of snapshots, of which each operator has its own."""


class Topics:
    """The topics under one prefix.

    Parameters:
        prefix: the prefix of the names of all topics and groups.

    """

    def __init__(self, prefix: str = PREFIX) -> None:
        self.prefix = prefix

    def name(self, topic: Topic) -> str:
        """Return the topic's full name: `laggard.counters`."""
        return self.prefix + topic.name

    def group(self, operator: str) -> str:
        """Return the group whose members share the operator's partitions: `laggard.hosts`; or that of `ANNOTATIONS`."""
        return self.prefix + _TOGETHER.get(operator, operator)

    def groups(self, operators: Iterable[str]) -> tuple[str, ...]:
        """Return the groups that run these operators, each once."""
        return tuple(dict.fromkeys(map(self.group, operators)))

    def former_group(self, operator: str) -> str | None:
        """Return the group in which older versions ran the operator, if it was another one."""
        return self.prefix + operator if operator in _TOGETHER else None

    def snapshots(self, operator: str) -> Topic:
        """Return the topic of the operator's snapshots, for a bus without another place for them."""
        return Topic(SNAPSHOTS + operator, "partition/key", "an operator's state of one key", compacted=True)

    def specs(
        self, topics: Sequence[Topic] = TOPICS, partitions: int = 1, retention_s: float | None = None
    ) -> tuple[TopicSpec, ...]:
        """Return the topics to create; `retention_s` is for those with the retention of the bus."""
        return tuple(
            TopicSpec(
                self.name(topic),
                partitions,
                retention_s if topic.retention_s is None and not topic.compacted else topic.retention_s,
                topic.compacted,
            )
            for topic in topics
        )
