"""Metrics of a worker's tasks, one for each operator and partition, and of its commits."""

from __future__ import annotations

from typing import Final

from laggard.pipeline.metrics.metric import Metric

TASK_LABELS = ("operator", "topic", "partition")

OF_TASKS: Final[tuple[Metric, ...]] = (
    Metric("records", "counter", TASK_LABELS, "Records read, whatever became of them."),
    Metric("record_bytes", "counter", TASK_LABELS, "Bytes of the records read."),
    Metric("duplicates", "counter", TASK_LABELS, "Records that came a second time and changed nothing."),
    Metric(
        "late", "counter", TASK_LABELS, "Frames older than their stream's last one: dead letters, and never learned."
    ),
    Metric(
        "clocks_set_back",
        "counter",
        TASK_LABELS,
        "Streams begun anew because their producer's clock had been far ahead and was set back.",
    ),
    Metric(
        "namesakes",
        "counter",
        TASK_LABELS,
        "Hosts found to have several agents at once: machines whose setting `host` is the same.",
    ),
    Metric("dead_letters", "counter", TASK_LABELS, "Records that could not be used; they are in the dead letters."),
    Metric("missed_records", "counter", TASK_LABELS, "Records that retention deleted before they were read."),
    Metric("anomalies", "counter", TASK_LABELS, "Anomalies emitted."),
    Metric("outputs", "counter", TASK_LABELS, "Records written to other topics, whatever they are."),
    Metric("lag_records", "gauge", TASK_LABELS, "Records on the bus that are not processed and committed yet."),
    Metric(
        "latency_seconds",
        "histogram",
        TASK_LABELS,
        "From a record's own time to the commit of what it led to. Exemplars are the newest records of each bucket: "
        "their host and time.",
    ),
    Metric("processing_seconds", "histogram", TASK_LABELS, "From the poll that brought a record to the same commit."),
    Metric("commit_duration_seconds", "histogram", TASK_LABELS, "How long a commit took."),
    Metric("keys", "gauge", TASK_LABELS, "Keys that have a state."),
    Metric(
        "keys_evicted",
        "counter",
        TASK_LABELS,
        "Keys whose state was given up: there were too many, or they fell silent.",
    ),
    Metric("state_bytes", "gauge", TASK_LABELS, "Size of the newest snapshots of all keys, before compression."),
    Metric("snapshots", "counter", TASK_LABELS, "Snapshots written."),
    Metric("snapshot_bytes", "counter", TASK_LABELS, "Bytes of the snapshots written."),
    Metric("snapshots_migrated", "counter", TASK_LABELS, "Snapshots of an older version that were loaded."),
    Metric(
        "snapshots_unusable",
        "counter",
        TASK_LABELS,
        "Snapshots that could not be used, damaged or of another version, and states that failed: learned anew.",
    ),
    Metric("recovery_left_records", "gauge", TASK_LABELS, "Records to be replayed until the state is what it was."),
    Metric("recovery_seconds", "gauge", TASK_LABELS, "How long the last recovery took."),
    Metric("assignments", "counter", TASK_LABELS, "Times that a rebalance brought the partition to this worker."),
    Metric("revocations", "counter", TASK_LABELS, "Times that a rebalance took the partition away from this worker."),
    Metric(
        "standby_position",
        "gauge",
        TASK_LABELS,
        "The first offset that is not in the standby's state of a partition that another worker has (setting "
        "worker.standby); 0 where there is none.",
    ),
    Metric(
        "standby_left_records",
        "gauge",
        TASK_LABELS,
        "Records that the partition's worker has committed and that are not in the standby's state.",
    ),
    Metric("retries", "counter", (), "Times that something was tried again because the bus was unavailable."),
    Metric("fenced", "counter", (), "Commits that were refused because another worker had taken partitions over."),
)
