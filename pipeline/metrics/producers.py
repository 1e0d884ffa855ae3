"""Metrics of producers: the frames of agents, of `laggard trace` and of sources about themselves."""

from __future__ import annotations

from typing import Final

from laggard.pipeline.metrics.metric import Metric

SOURCE_LABELS = ("application", "source")

OF_PRODUCERS: Final[tuple[Metric, ...]] = (
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
        "Ticks whose frames the bus refused for good, since the agent began; what only waits for it is not counted.",
        feature="publish_failures",
    ),
    Metric(
        "agent_waiting_records",
        "gauge",
        ("host",),
        "Records of the agent that the bus did not have yet at the last tick.",
        feature="waiting_records",
    ),
    Metric(
        "agent_dropped_records",
        "counter",
        ("host",),
        "Records that the agent lost since it began: the bus was away for longer than its spool or its memory lasts, "
        "or refused them.",
        feature="dropped_records",
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
    Metric(
        "agent_diagnosed_processes",
        "gauge",
        ("host",),
        "Processes that the agent looks into now, while something is wrong.",
        feature="diagnosed_processes",
    ),
    Metric(
        "agent_diagnosis_cpu_ratio",
        "gauge",
        ("host",),
        "What that took of one core at the last tick, with watching for them and programs that run beside.",
        feature="diagnosis_cpu_ratio",
    ),
    Metric(
        "agent_diagnosis_failures",
        "counter",
        ("host",),
        "Times that something went wrong in it, since the agent began.",
        feature="diagnosis_failures",
    ),
    Metric("agent_pools", "gauge", ("host",), "Pools that the agent found among its processes.", feature="pools"),
    Metric("agent_pool_members", "gauge", ("host",), "Members that these have.", feature="pool_members"),
    Metric(
        "agent_pool_members_left_out",
        "gauge",
        ("host",),
        "Members that it left out: there are more pools, or members, than it takes.",
        feature="pool_members_left_out",
    ),
    Metric(
        "trace_cpu_seconds",
        "counter",
        ("host",),
        "CPU time of `laggard trace`, since it began; what the kernel's own recording costs is not in it.",
        feature="trace_cpu_s",
    ),
    Metric("trace_events", "counter", ("host",), "Events of the kernel that it read.", feature="trace_events"),
    Metric(
        "trace_lost_events",
        "counter",
        ("host",),
        "Events that the kernel dropped, because they came faster than they were read.",
        feature="trace_lost_events",
    ),
    Metric("trace_requests", "counter", ("host",), "Requests that it told.", feature="trace_requests"),
    Metric(
        "trace_discarded_requests",
        "counter",
        ("host",),
        "Requests that it could not tell, such as those that overlap lost events; `laggard trace status` says why.",
        feature="trace_discarded_requests",
    ),
    Metric(
        "trace_recorded_ratio",
        "gauge",
        ("host",),
        "The share of the time in which it recorded: less than 1 where there are more events than "
        "`trace.events_per_s` allows.",
        feature="trace_recorded_ratio",
    ),
    Metric(
        "trace_waiting_records",
        "gauge",
        ("host",),
        "Requests of it that the bus did not have yet.",
        feature="trace_waiting_records",
    ),
    Metric(
        "trace_dropped_records",
        "counter",
        ("host",),
        "Requests that it lost on the way to the bus, since it began.",
        feature="trace_dropped_records",
    ),
    Metric(
        "source_expected_places",
        "gauge",
        SOURCE_LABELS,
        "Targets or files that a source of `laggard measure` was to read at its last interval.",
        feature="expected_places",
    ),
    Metric("source_read_places", "gauge", SOURCE_LABELS, "Those of them that it could read.", feature="read_places"),
    Metric("source_read_duration_seconds", "gauge", SOURCE_LABELS, "How long that took it.", feature="read_duration_s"),
    Metric("source_samples", "gauge", SOURCE_LABELS, "Values or lines that it read then.", feature="samples"),
    Metric(
        "source_unusable_samples",
        "counter",
        SOURCE_LABELS,
        "Values or lines that it could not use, since it began: of another form, not possible, or beyond a bound.",
        feature="unusable_samples",
    ),
    Metric(
        "source_failures",
        "counter",
        SOURCE_LABELS,
        "Times that a target or file of it could not be read, since it began.",
        feature="failures",
    ),
    Metric(
        "source_publish_failures",
        "counter",
        SOURCE_LABELS,
        "Intervals of it whose frames the bus refused for good, since it began; what only waits for it is not counted.",
        feature="publish_failures",
    ),
    Metric(
        "source_waiting_records",
        "gauge",
        SOURCE_LABELS,
        "Records of its `laggard measure` that the bus did not have yet at its last interval.",
        feature="waiting_records",
    ),
    Metric(
        "source_dropped_records",
        "counter",
        SOURCE_LABELS,
        "Records that its `laggard measure` lost since it began.",
        feature="dropped_records",
    ),
)
