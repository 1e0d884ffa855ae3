"""Metrics of a worker's tasks, one for each operator and partition, and of its commits."""

from __future__ import annotations

from typing import Final

from laggard.pipeline.metrics.metric import Metric

TASK_LABELS = ("operator", "topic", "partition")

OF_TASKS: Final[tuple[Metric, ...]] = (
    Metric("records", "counter", TASK_LABELS, "Records read."),
    Metric("record_bytes", "counter", TASK_LABELS, "Bytes of the records read."),
    Metric("duplicates", "counter", TASK_LABELS, "Duplicate records, which change nothing."),
    Metric(
        "late",
        "counter",
        TASK_LABELS,
        "Frames older than the last one of their stream. They become dead letters, and are not learned.",
    ),
    Metric(
        "clocks_set_back",
        "counter",
        TASK_LABELS,
        "Streams that were restarted, because the clock of their producer had been far ahead and was set back.",
    ),
    Metric(
        "namesakes",
        "counter",
        TASK_LABELS,
        "Hosts with several agents at once: machines with the same setting `host`.",
    ),
    Metric("dead_letters", "counter", TASK_LABELS, "Unusable records, which became dead letters."),
    Metric("missed_records", "counter", TASK_LABELS, "Records that retention deleted before they were read."),
    Metric("anomalies", "counter", TASK_LABELS, "Anomalies emitted."),
    Metric("outputs", "counter", TASK_LABELS, "Records written to other topics."),
    Metric("lag_records", "gauge", TASK_LABELS, "Records on the bus that are not processed and committed yet."),
    Metric(
        "latency_seconds",
        "histogram",
        TASK_LABELS,
        "The time from a record's own time to the commit of its results. Exemplars are the newest records of each "
        "bucket: their host and time.",
    ),
    Metric(
        "processing_seconds", "histogram", TASK_LABELS, "The time from the poll that fetched a record to that commit."
    ),
    Metric("commit_duration_seconds", "histogram", TASK_LABELS, "The duration of a commit."),
    Metric("keys", "gauge", TASK_LABELS, "Keys with a state."),
    Metric(
        "keys_evicted",
        "counter",
        TASK_LABELS,
        "Keys whose state was dropped: there were too many, or they fell silent.",
    ),
    Metric("state_bytes", "gauge", TASK_LABELS, "The size of the newest snapshots of all keys, before compression."),
    Metric("snapshots", "counter", TASK_LABELS, "Snapshots written."),
    Metric("snapshot_bytes", "counter", TASK_LABELS, "Bytes of the snapshots written."),
    Metric("snapshots_migrated", "counter", TASK_LABELS, "Snapshots of an older version that were loaded."),
    Metric(
        "snapshots_unusable",
        "counter",
        TASK_LABELS,
        "Snapshots that were damaged or of another version, and states that failed. Their keys learn anew.",
    ),
    Metric("recovery_left_records", "gauge", TASK_LABELS, "Records left to replay until the state is restored."),
    Metric("recovery_seconds", "gauge", TASK_LABELS, "The duration of the last recovery."),
    Metric("assignments", "counter", TASK_LABELS, "Rebalances that assigned the partition to this worker."),
    Metric("revocations", "counter", TASK_LABELS, "Rebalances that revoked the partition from this worker."),
    Metric(
        "standby_position",
        "gauge",
        TASK_LABELS,
        "The first offset that is not in the standby's state of a partition of another worker (setting "
        "worker.standby); 0 without one.",
    ),
    Metric(
        "standby_left_records",
        "gauge",
        TASK_LABELS,
        "Records that the partition's worker has committed and that are not yet in the standby's state.",
    ),
    Metric("retries", "counter", (), "Retries because the bus was unavailable."),
    Metric("fenced", "counter", (), "Commits that were refused, because another worker had taken over partitions."),
)
