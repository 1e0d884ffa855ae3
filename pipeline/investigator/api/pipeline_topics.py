"""The topics of laggard, their size, and their differences from the expected ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final
from weakref import WeakKeyDictionary

import msgspec

from laggard.pipeline.core.bus import Partition
from laggard.pipeline.core.bus.kafka.options import is_kafka
from laggard.pipeline.history.series import Reader
from laggard.pipeline.investigator.api.pipeline import TopicName, ts_of
from laggard.pipeline.investigator.caching import Cache
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Nothing, Number, Question, Seconds
from laggard.pipeline.provisioning import reports, wanted_topics
from laggard.pipeline.settings.general import BusSettings

if TYPE_CHECKING:
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.provisioning import TopicReport

SAMPLED: Final = 20
"""The number of newest records of a partition whose sizes serve to estimate the size of all."""


class PipelineTopic(Answer, frozen=True):
    """A topic, and its differences from the expected configuration."""

    name: TopicName
    holds: Annotated[str, msgspec.Meta(description="the content of its records, in words")]
    key: Annotated[str, msgspec.Meta(description="the kind of the keys of its records: `host`")]
    partitions: Annotated[
        int | None,
        msgspec.Meta(description="the number of partitions; null if the topic is missing or access to it is denied"),
    ]
    records: Annotated[
        int | None, msgspec.Meta(description="the most records that it may hold; null if that is unknown")
    ]
    bytes: Annotated[
        float | None,
        msgspec.Meta(
            description="the size of all values in bytes, estimated from the newest records; null if it is unknown"
        ),
    ]
    retention_s: Annotated[
        float | None,
        msgspec.Meta(description="the retention time in seconds; null if the newest record of each key is kept"),
    ]
    compacted: Annotated[
        bool, msgspec.Meta(description="whether the newest record of each key is kept without a time limit")
    ]
    oldest_ts: Annotated[
        Number,
        msgspec.Meta(description="the time of the oldest record, seconds since the Unix epoch; null if it is unknown"),
    ]
    newest_ts: Annotated[
        Number,
        msgspec.Meta(description="the time of the newest record, seconds since the Unix epoch; null if it is unknown"),
    ]
    differences: Annotated[
        list[str], msgspec.Meta(description="the differences from the expected configuration, each with advice")
    ]


class PipelineTopics(Answer, frozen=True):
    """The topics."""

    ts: Seconds
    topics: Annotated[
        list[PipelineTopic], msgspec.Meta(description="the topics of laggard; on Kafka with those of snapshots")
    ]


_caches: WeakKeyDictionary[Reading, Cache[list[PipelineTopic]]] = WeakKeyDictionary()


def topics(reading: Reading, _: Question) -> PipelineTopics:
    """Return the topics as they are."""
    cache = _caches.setdefault(reading, Cache())
    return PipelineTopics(reading.clock(), cache.get("topics", lambda: _topics(reading)))


def _topics(reading: Reading) -> list[PipelineTopic]:
    settings = reading.settings
    kafka = is_kafka(settings[BusSettings].location)
    return [_topic(reading, each) for each in reports(reading.bus, wanted_topics(settings, kafka=kafka))]


def _topic(reading: Reading, report: TopicReport) -> PipelineTopic:
    spec = report.wanted.spec
    sizes, records, oldest_ts, newest_ts = [], 0, math.inf, -math.inf
    for number in range(report.partitions or 0):
        partition = Partition(spec.name, number)
        oldest, end = reading.bus.bounds(partition)
        if end <= oldest:
            continue
        records += end - oldest
        reader = Reader(reading.bus, partition)
        newest = [(len(each.value), each.ts) for each in reader.stored(max(oldest, end - SAMPLED), end)]
        sizes += [size for size, _ in newest]
        newest_ts = max([newest_ts, *(ts for _, ts in newest)])
        oldest_ts = min(ts_of(reading, partition, oldest) or math.inf, oldest_ts)
    retention_s = None if spec.compacted else spec.retention_s or reading.settings[BusSettings].retention
    return PipelineTopic(
        spec.name,
        report.wanted.topic.value,
        report.wanted.topic.key,
        report.partitions,
        report.records,
        records * sum(sizes) / len(sizes) if sizes else 0.0 if report.partitions else None,
        retention_s,
        spec.compacted,
        oldest_ts,
        newest_ts,
        [_difference(each.setting, each.found, each.expected, each.advice) for each in report.differences],
    )


def _difference(setting: str, found: str, expected: str, advice: str) -> str:
    problem = "missing" if setting == "topic" else f"{setting} is {found}, expected {expected}"
    return f"{problem}; {advice}"


ENDPOINTS: Final = (
    Endpoint(
        "/pipeline/topics", "The topics and their differences from the expected ones.", PipelineTopics, topics, Nothing
    ),
)
