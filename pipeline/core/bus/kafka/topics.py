"""The settings of laggard's topics on Kafka, and the differences of existing topics from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from laggard.pipeline.core.bus.kafka.wire import MAX_RECORD_BYTES, OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import TopicSpec

SAFE_REPLICAS: Final = 3
"""The replicas of a new topic if there are enough brokers: one may be down without a rejected or lost write."""

WHY: Final[Mapping[str, str]] = {
    "cleanup.policy": "`compact` keeps the newest of each snapshot, `delete` everything else for its retention",
    "max.message.bytes": "the frame of a host with thousands of processes exceeds the default of 1 MiB",
    "message.timestamp.type": "records are searched by the time of their event, not of their arrival",
    "min.insync.replicas": "all replicas but one must acknowledge a write, so one broker may be down",
    "min.cleanable.dirty.ratio": "compacted once a fifth of it is old: a new owner of a partition reads all",
    "segment.bytes": "small segments, because the active one is never compacted",
    "segment.ms": "likewise, by time",
}
"""The settings of laggard's topics, and their purposes."""

_COMPACTED: Final = {
    "min.cleanable.dirty.ratio": "0.2",
    "segment.bytes": str(64 << 20),
    "segment.ms": str(3_600_000),
}

_Rule = Literal["equal", "at least", "at most"]

_RULES: Final[Mapping[str, _Rule]] = {
    "max.message.bytes": "at least",
    "min.insync.replicas": "at least",
    "min.cleanable.dirty.ratio": "at most",
    "segment.bytes": "at most",
    "segment.ms": "at most",
}
"""The settings that may differ in one direction; all others must be equal."""


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the brokers have it.

    Attributes:
        partitions: the number of partitions.
        replication: the replicas of the partition with the fewest.
        in_sync: the replicas with all records, of the partition with the fewest of these.
        leaderless: the number of partitions that cannot be read or written now.
        configs: all of its settings by name; empty if this user may not see them.

    """

    partitions: int
    replication: int
    in_sync: int
    leaderless: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of a topic from the one that laggard would create.

    Attributes:
        setting: its subject: `partitions`, `replication`, or a setting of the topic such as `retention.ms`.
        expected: the value that laggard would create.
        found: the present value.
        advice: how to change it, and the effect of that.

    """

    setting: str
    expected: str
    found: str
    advice: str


def replication_of(wanted: int | None, brokers: int) -> int:
    """Return the number of replicas of a new topic, with this number of brokers."""
    return min(SAFE_REPLICAS, brokers) if wanted is None else wanted


def configs_of(spec: TopicSpec, replication: int) -> dict[str, str]:
    """Return the settings with which a topic is created."""
    configs = {
        "cleanup.policy": "compact" if spec.compacted else "delete",
        "max.message.bytes": str(MAX_RECORD_BYTES + OVERHEAD_BYTES),
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": str(max(1, replication - 1)),
    }
    if spec.compacted:
        configs |= _COMPACTED
    # Without its own retention, the topic has the default one of the brokers.
    if spec.retention_s is not None:
        configs["retention.ms"] = str(round(spec.retention_s * 1000))
    return configs


def differences(
    spec: TopicSpec, replication: int, found: FoundTopic, *, exactly: bool, bootstrap: Sequence[str]
) -> Iterator[Difference]:
    """Yield the differences of a topic from the one that `create` would make.

    Args:
        spec: the specification of the topic.
        replication: its number of replicas.
        found: the present topic.
        exactly: whether more replicas are a difference, too.
        bootstrap: the brokers, for commands that change the topic.

    """
    there = f"--bootstrap-server {','.join(bootstrap)} --alter"
    if found.partitions != spec.partitions:
        yield Difference(
            "partitions", str(spec.partitions), str(found.partitions), _repartition(spec, found.partitions, there)
        )
    if found.replication < replication or (exactly and found.replication != replication):
        yield Difference(
            "replication",
            str(replication),
            str(found.replication),
            "kafka-reassign-partitions.sh changes it while the topic is used, or set topics.replication",
        )
    for name, wanted in configs_of(spec, replication).items():
        got = found.configs.get(name)
        if got is not None and not _fits(_RULES.get(name, "equal"), wanted, got):
            yield Difference(
                name,
                wanted,
                got,
                f"kafka-configs.sh {there} --entity-type topics --entity-name {spec.name} --add-config {name}={wanted}",
            )
    least = found.configs.get("min.insync.replicas")
    if least is not None and int(least) > found.replication:
        yield Difference(
            "min.insync.replicas",
            f"at most {found.replication}",
            least,
            "no write is possible: there are fewer replicas than have to acknowledge it",
        )


def _fits(rule: _Rule, wanted: str, got: str) -> bool:
    if rule == "equal":
        return sorted(wanted.split(",")) == sorted(got.split(","))
    return float(got) >= float(wanted) if rule == "at least" else float(got) <= float(wanted)


def _repartition(spec: TopicSpec, partitions: int, there: str) -> str:
    """Return the effect of changing the number of partitions, and the alternative."""
    if partitions > spec.partitions:
        return f"a topic never gets fewer partitions; set topics.partitions to {partitions}"
    grow = f"kafka-topics.sh {there} --topic {spec.name} --partitions {spec.partitions}"
    what = (
        "workers rebuild from the input the states that they do not find any more"
        if spec.compacted
        else "most keys move to other partitions, so operators learn them anew, and readers find one key in two of them"
    )
    return f"set topics.partitions to {partitions}; or stop agents and workers and run {grow}: {what}"
