"""Every metric, declared once: what the exporter shows and `deploy/metrics.md` documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "laggard_"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: without the prefix and without the suffix of its type.
        kind: its type, as Prometheus calls it.
        labels: their names, in order. `host` is called `application` or `pool` where the stream is keyed by that.
        help: one or two sentences.
        feature: of the agent's frames, the one that it shows; empty for what the worker knows itself.

    """

    name: str
    kind: Literal["counter", "gauge", "histogram", "info"]
    labels: tuple[str, ...]
    help: str
    feature: str = ""

    @property
    def exposed(self) -> str:
        """The name of its samples; those of a histogram add `_bucket`, `_sum` and `_count`."""
        return PREFIX + self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


_STREAM = ("host", "operator", "scope")
TASK_LABELS = ("operator", "topic", "partition")

METRICS: tuple[Metric, ...] = (
    Metric("build", "info", ("version", "python"), "The versions of laggard and of Python."),
    Metric(
        "score",
        "gauge",
        _STREAM,
        "How unusual the newest frame is. 1 is the false-alarm budget: above 1 is anomalous.",
    ),
    Metric(
        "row_score",
        "gauge",
        (*_STREAM, "row"),
        "How unusual the newest frame's worst row of this name is, for the worst names (setting web.top_rows).",
    ),
    Metric(
        "feature_score",
        "gauge",
        (*_STREAM, "row", "feature"),
        "How unusual the worst feature of that row is.",
    ),
    Metric(
        "rows_left_out",
        "gauge",
        _STREAM,
        "Names of rows in the newest frame that have no laggard_row_score. A gauge: what is left out of one frame is "
        "there again in the next, so that a running total would only count ticks.",
    ),
    Metric("frame_timestamp_seconds", "gauge", _STREAM, "The time of the newest frame, since the Unix epoch."),
    Metric("model_age_seconds", "gauge", _STREAM, "How long the model has been learning."),
    Metric("model_young", "gauge", _STREAM, "1 while the model has not seen enough to be relied on, else 0."),
    Metric(
        "frames_left_out",
        "counter",
        (),
        "Frames of streams (operator, key and scope) that are not shown here, because there are too many already.",
    ),
    Metric("records", "counter", TASK_LABELS, "Records read, whatever became of them."),
    Metric("record_bytes", "counter", TASK_LABELS, "Bytes of the records read."),
    Metric("duplicates", "counter", TASK_LABELS, "Records that came a second time and changed nothing."),
    Metric(
        "late", "counter", TASK_LABELS, "Frames older than their stream's last one: dead letters, and never learned."
    ),
    Metric("dead_letters", "counter", TASK_LABELS, "Records that could not be used; they are in the dead letters."),
    Metric("missed_records", "counter", TASK_LABELS, "Records that retention deleted before they were read."),
    Metric("anomalies", "counter", TASK_LABELS, "Anomalies emitted."),
    Metric("outputs", "counter", TASK_LABELS, "Records written to other topics, whatever they are."),
    Metric("lag_records", "gauge", TASK_LABELS, "Records on the bus that are not processed and committed yet."),
    Metric("latency_seconds", "histogram", TASK_LABELS, "From a record's own time to the commit of what it led to."),
    Metric("processing_seconds", "histogram", TASK_LABELS, "From the poll that brought a record to the same commit."),
    Metric("commit_duration_seconds", "histogram", TASK_LABELS, "How long a commit took."),
    Metric("keys", "gauge", TASK_LABELS, "Keys that have a state."),
    Metric(
        "keys_evicted", "counter", TASK_LABELS, "Keys whose state was given up because there were too many of them."
    ),
    Metric("state_bytes", "gauge", TASK_LABELS, "Size of the newest snapshots of all keys, before compression."),
    Metric("snapshots", "counter", TASK_LABELS, "Snapshots written."),
    Metric("snapshot_bytes", "counter", TASK_LABELS, "Bytes of the snapshots written."),
    Metric("recovery_left_records", "gauge", TASK_LABELS, "Records to be replayed until the state is what it was."),
    Metric("recovery_seconds", "gauge", TASK_LABELS, "How long the last recovery took."),
    Metric("retries", "counter", (), "Times that something was tried again because the bus was unavailable."),
    Metric("fenced", "counter", (), "Times that another worker had taken partitions over."),
    Metric("agent_cpu_ratio", "gauge", ("host",), "What the agent uses of one core.", feature="cpu_ratio"),
    Metric(
        "agent_resident_memory_bytes", "gauge", ("host",), "The agent's resident memory.", feature="memory_rss_bytes"
    ),
    Metric(
        "agent_tick_duration_seconds",
        "gauge",
        ("host",),
        "How long it took to read all counters at the last tick.",
        feature="tick_duration_s",
    ),
    Metric(
        "agent_publish_duration_seconds",
        "gauge",
        ("host",),
        "How long it took to publish the frames of the tick before.",
        feature="publish_duration_s",
    ),
    Metric("agent_processes", "gauge", ("host",), "Processes read at the last tick.", feature="processes"),
    Metric("agent_held_files", "gauge", ("host",), "Files of procfs that the agent keeps open.", feature="held_files"),
    Metric(
        "agent_unreadable_files",
        "gauge",
        ("host",),
        "Files of procfs that the agent may not read; `laggard doctor` says what to do.",
        feature="unreadable_files",
    ),
    Metric("agent_read_errors", "gauge", ("host",), "What could not be read at the last tick.", feature="read_errors"),
    Metric(
        "agent_publish_failures",
        "counter",
        ("host",),
        "Ticks whose frames could not be published at once, since the agent began.",
        feature="publish_failures",
    ),
    Metric(
        "agent_missed_ticks", "gauge", ("host",), "Ticks that fell out before the last one.", feature="missed_ticks"
    ),
    Metric(
        "agent_clock_offset_seconds",
        "gauge",
        ("host",),
        "How far the agent's time is ahead of the wall clock, after that was set back.",
        feature="clock_offset_s",
    ),
    Metric(
        "agent_suspended_seconds",
        "gauge",
        ("host",),
        "How long the machine was suspended before the last tick.",
        feature="suspended_s",
    ),
)

BY_NAME = {metric.name: metric for metric in METRICS}


def document() -> str:
    """`deploy/metrics.md`: the table of all metrics."""
    lines = [
        "# Metrics",
        "",
        "What `laggard work` and `laggard up` serve at `/metrics`. Generated from `pipeline/metrics.py`.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.exposed}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"
