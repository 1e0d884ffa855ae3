from __future__ import annotations

from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, TOPICS, Topics


def test_names_have_the_prefix() -> None:
    topics = Topics()
    assert topics.name(COUNTERS) == "laggard.counters"
    assert topics.group("regression") == "laggard.regression"
    assert topics.group("gaussian") == topics.group("saturation") == "laggard.hosts"
    assert Topics("eu.laggard.").name(DEAD_LETTERS) == "eu.laggard.dead_letters"


def test_every_topic_is_specified_once_and_kept_as_long_as_it_should_be() -> None:
    specs = Topics("t.").specs(partitions=3)
    names = [spec.name for spec in specs]
    assert names == [f"t.{topic.name}" for topic in TOPICS]
    assert len(set(names)) == len(names) == 8
    assert {spec.partitions for spec in specs} == {3}
    assert all(topic.key and topic.value for topic in TOPICS)
    topics = Topics()
    inputs, anomalies, snapshots = topics.specs([COUNTERS, ANOMALIES, topics.snapshots("gaussian")])
    assert inputs.retention_s is None
    assert anomalies.retention_s == 30 * 86400.0
    assert (snapshots.name, snapshots.compacted) == ("laggard.snapshots.gaussian", True)
