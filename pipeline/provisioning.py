"""The topics on a bus: the wanted ones, the existing ones, and their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus import BusError, BusUnavailable, Partition
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.topics import Difference, differences
from laggard.pipeline.core.topics import TOPICS, Topics
from laggard.pipeline.settings.general import BusSettings, TopicsSettings
from laggard.pipeline.wiring import stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.bus import Bus, TopicSpec
    from laggard.pipeline.core.bus.kafka.topics import FoundTopic
    from laggard.pipeline.core.topics import Topic
    from laggard.pipeline.settings import Settings

MISSING = Difference("topic", "there", "missing", "`laggard topics create` creates what is missing")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A wanted topic: its meaning, and the parameters of its creation."""

    topic: Topic
    spec: TopicSpec


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic on the bus, compared with the wanted one.

    Attributes:
        wanted: the wanted topic.
        partitions: the number of its partitions, None for a missing or hidden topic.
        records: the most records that it may hold; None if unknown.
        hidden: whether this user may not see it, so that nothing else is known.
        found: the topic at the brokers, on Kafka only.
        differences: the differences from the wanted topic.

    """

    wanted: Wanted
    partitions: int | None
    records: int | None
    hidden: bool = False
    found: FoundTopic | None = None
    differences: tuple[Difference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report for a program; documented in deploy/docs/reference/kafka.md."""
        spec, found = self.wanted.spec, self.found
        return {
            "name": spec.name,
            "key": self.wanted.topic.key,
            "value": self.wanted.topic.value,
            "exists": None if self.hidden else self.partitions is not None,
            "partitions": self.partitions,
            "replication": found.replication if found else None,
            "in_sync": found.in_sync if found else None,
            "leaderless": found.leaderless if found else None,
            "records": self.records,
            "wanted": {"partitions": spec.partitions, "retention_s": spec.retention_s, "compacted": spec.compacted},
            "configs": dict(sorted(found.configs.items())) if found else {},
            "differences": [
                {"setting": each.setting, "expected": each.expected, "found": each.found, "advice": each.advice}
                for each in self.differences
            ],
        }


def wanted_topics(settings: Settings, *, kafka: bool) -> tuple[Wanted, ...]:
    """Return all wanted topics; on Kafka also those of snapshots, which the embedded bus stores elsewhere."""
    topics = Topics(settings[TopicsSettings].prefix)
    if not kafka:
        return tuple(map(Wanted, TOPICS, topics.specs()))
    every = (*TOPICS, *(topics.snapshots(stage.snapshots) for stage in stages(settings) if stage.remembers))
    specs = topics.specs(every, settings[TopicsSettings].partitions, settings[BusSettings].retention)
    return tuple(map(Wanted, every, specs))


def reports(bus: Bus, wanted: Sequence[Wanted]) -> list[TopicReport]:
    """Return the reports on these topics. Raises BusError."""
    return [*(_on_kafka(bus, wanted) if isinstance(bus, KafkaBus) else (_on_a_file(bus, each) for each in wanted))]


def _on_a_file(bus: Bus, wanted: Wanted) -> TopicReport:
    try:
        partitions = bus.partitions(wanted.spec.name)
    except BusUnavailable:
        raise
    except BusError:
        return TopicReport(wanted, None, None, differences=(MISSING,))
    bounds = [bus.bounds(partition) for partition in partitions]
    return TopicReport(wanted, len(partitions), sum(end - oldest for oldest, end in bounds))


def _on_kafka(bus: KafkaBus, wanted: Sequence[Wanted]) -> Iterator[TopicReport]:
    found = bus.topics.describe(each.spec.name for each in wanted)
    replication = bus.topics.replication()
    exactly = bus.options.replication is not None
    for each in wanted:
        name = each.spec.name
        if name not in found:
            yield TopicReport(each, None, None, differences=(MISSING,))
            continue
        topic = found[name]
        if topic is None:
            yield TopicReport(each, None, None, hidden=True)
            continue
        bounds = (
            []
            if topic.leaderless
            else [*bus.topics.all_bounds([Partition(name, number) for number in range(topic.partitions)]).values()]
        )
        yield TopicReport(
            each,
            topic.partitions,
            sum(end - oldest for oldest, end in bounds) if bounds else None,
            found=topic,
            differences=tuple(
                differences(each.spec, replication, topic, exactly=exactly, bootstrap=bus.options.bootstrap)
            ),
        )
