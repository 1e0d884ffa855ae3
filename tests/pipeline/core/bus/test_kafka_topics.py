"""A topic as laggard wants it on Kafka, and what about one that is there differs: without a broker."""

from __future__ import annotations

import pytest

from laggard.pipeline.core.bus import TopicSpec
from laggard.pipeline.core.bus.kafka.topics import Difference, FoundTopic, configs_of, differences, replication_of

SPEC = TopicSpec("laggard.counters", 12, 3600.0)
COMPACTED = TopicSpec("laggard.snapshots.gaussian", 12, compacted=True)


@pytest.mark.parametrize(("wanted", "brokers", "replication"), [(None, 1, 1), (None, 3, 3), (None, 9, 3), (2, 9, 2)])
def test_on_three_brokers_where_there_are_three(wanted: int | None, brokers: int, replication: int) -> None:
    assert replication_of(wanted, brokers) == replication


def test_one_broker_may_be_lost() -> None:
    assert [configs_of(SPEC, replicas)["min.insync.replicas"] for replicas in (1, 2, 3, 5)] == ["1", "1", "2", "4"]


def test_what_is_deleted_and_what_is_compacted() -> None:
    configs = configs_of(SPEC, 3)
    assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", "3600000")
    assert "retention.ms" not in configs_of(TopicSpec("laggard.counters"), 3)
    compacted = configs_of(COMPACTED, 3)
    assert compacted["cleanup.policy"] == "compact"
    assert compacted["min.cleanable.dirty.ratio"] == "0.2"


def found(spec: TopicSpec, partitions: int = 12, replication: int = 3, **configs: str) -> FoundTopic:
    there = configs_of(spec, 3) | {name.replace("_", "."): value for name, value in configs.items()}
    return FoundTopic(partitions, replication, replication, 0, there)


def told_of(spec: TopicSpec, there: FoundTopic, *, exactly: bool = False) -> list[Difference]:
    return list(differences(spec, 3, there, exactly=exactly, bootstrap=("b1:9092", "b2:9093")))


@pytest.mark.parametrize("spec", [SPEC, COMPACTED])
def test_what_was_created_differs_in_nothing(spec: TopicSpec) -> None:
    assert told_of(spec, found(spec), exactly=True) == []


@pytest.mark.parametrize(
    ("spec", "configs", "differs"),
    [
        (SPEC, {"max_message_bytes": "9000000"}, False),
        (SPEC, {"max_message_bytes": "1048588"}, True),
        (SPEC, {"retention_ms": "7200000"}, True),
        (SPEC, {"message_timestamp_type": "LogAppendTime"}, True),
        (SPEC, {"cleanup_policy": "compact,delete"}, True),
        (SPEC, {"segment_ms": "5"}, False),
        (SPEC, {"min_insync_replicas": "1"}, True),
        (SPEC, {"min_insync_replicas": "3"}, False),
        (COMPACTED, {"segment_ms": "1000"}, False),
        (COMPACTED, {"segment_ms": "604800000"}, True),
        (COMPACTED, {"min_cleanable_dirty_ratio": "0.5"}, True),
        (COMPACTED, {"min_cleanable_dirty_ratio": "0.05"}, False),
    ],
)
def test_what_is_better_than_wanted_is_no_difference(spec: TopicSpec, configs: dict[str, str], differs: bool) -> None:
    told = told_of(spec, found(spec, 12, 3, **configs))
    assert bool(told) is differs
    for one in told:
        assert one.advice == (
            "kafka-configs.sh --bootstrap-server b1:9092,b2:9093 --alter --entity-type topics "
            f"--entity-name {spec.name} --add-config {one.setting}={one.expected}"
        )


def test_replicas() -> None:
    def told(replication: int, *, exactly: bool) -> list[tuple[str, str, str]]:
        some = told_of(SPEC, found(SPEC, replication=replication), exactly=exactly)
        return [(one.setting, one.expected, one.found) for one in some]

    assert told(4, exactly=False) == []
    assert told(4, exactly=True) == [("replication", "3", "4")]
    assert told(2, exactly=False) == [("replication", "3", "2")]
    # Two have to acknowledge a write, and there is one.
    assert told(1, exactly=False) == [("replication", "3", "1"), ("min.insync.replicas", "at most 1", "2")]


def test_partitions_are_never_changed_without_saying_what_that_does() -> None:
    (fewer,) = told_of(SPEC, found(SPEC, partitions=6))
    assert (fewer.setting, fewer.expected, fewer.found) == ("partitions", "12", "6")
    assert fewer.advice.startswith(
        "set topics.partitions to 6; or stop agents and workers and run kafka-topics.sh --bootstrap-server "
        "b1:9092,b2:9093 --alter --topic laggard.counters --partitions 12: "
    )
    assert "most keys move to other partitions" in fewer.advice
    (more,) = told_of(SPEC, found(SPEC, partitions=24))
    assert more.advice == "a topic never gets fewer partitions; set topics.partitions to 24"
    (snapshots,) = told_of(COMPACTED, found(COMPACTED, partitions=6))
    assert snapshots.advice.endswith("workers rebuild from the input the states that they do not find any more")


def test_settings_that_cannot_be_read_are_not_judged() -> None:
    assert told_of(SPEC, FoundTopic(12, 3, 3, 0, {})) == []
