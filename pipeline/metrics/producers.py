"""Metrics of producers: the frames of agents, of `laggard trace` and of sources about themselves."""

from __future__ import annotations

from typing import Final

from laggard.pipeline.metrics.metric import Metric

SOURCE_LABELS = ("application", "source")

OF_PRODUCERS: Final[tuple[Metric, ...]] = (
    Metric("agent_cpu_ratio", "gauge", ("host",), "The CPU use of the agent, of one core.", feature="cpu_ratio"),
    Metric(
        "agent_resident_memory_bytes", "gauge", ("host",), "The agent's resident memory.", feature="memory_rss_bytes"
    ),
    Metric(
        "agent_tick_duration_seconds",
        "gauge",
        ("host",),
        "The time to read all counters at the last tick.",
        feature="tick_duration_s",
    ),
    Metric(
        "agent_publish_duration_seconds",
        "gauge",
        ("host",),
        "The time to publish the frames of the tick before.",
        feature="publish_duration_s",
    ),
    Metric("agent_processes", "gauge", ("host",), "Processes read at the last tick.", feature="processes"),
    Metric("agent_held_files", "gauge", ("host",), "Files of procfs that the agent keeps open.", feature="held_files"),
    Metric(
        "agent_unreadable_files",
        "gauge",
        ("host",),
        "Files of procfs that the agent lacks permission to read; see `laggard doctor`.",
        feature="unreadable_files",
    ),
    Metric("agent_read_errors", "gauge", ("host",), "Failed reads at the last tick.", feature="read_errors"),
    Metric(
        "agent_publish_failures",
        "counter",
        ("host",),
        "Ticks whose frames the bus rejected for good, since the agent began; those that only wait for it are not "
        "counted.",
        feature="publish_failures",
    ),
    Metric(
        "agent_waiting_records",
        "gauge",
        ("host",),
        "Records of the agent that waited for the bus at the last tick.",
        feature="waiting_records",
    ),
    Metric(
        "agent_dropped_records",
        "counter",
        ("host",),
        "Records that the agent dropped since it began: the bus was unavailable for longer than its spool or its "
        "memory lasts, or rejected them.",
        feature="dropped_records",
    ),
    Metric("agent_missed_ticks", "gauge", ("host",), "Ticks missed before the last one.", feature="missed_ticks"),
    Metric(
        "agent_clock_offset_seconds",
        "gauge",
        ("host",),
        "The lead of the agent's time over the wall clock, after that was set back.",
        feature="clock_offset_s",
    ),
    Metric(
        "agent_suspended_seconds",
        "gauge",
        ("host",),
        "The time for which the machine was suspended before the last tick.",
        feature="suspended_s",
    ),
    Metric(
        "agent_diagnosed_processes",
        "gauge",
        ("host",),
        "Processes that the agent profiles now, during an anomaly.",
        feature="diagnosed_processes",
    ),
    Metric(
        "agent_diagnosis_cpu_ratio",
        "gauge",
        ("host",),
        "The CPU use of profiling at the last tick, of one core, including the checks for processes to profile "
        "and helper programs.",
        feature="diagnosis_cpu_ratio",
    ),
    Metric(
        "agent_diagnosis_failures",
        "counter",
        ("host",),
        "Failures of profiling, since the agent began.",
        feature="diagnosis_failures",
    ),
    Metric("agent_pools", "gauge", ("host",), "Pools that the agent found among its processes.", feature="pools"),
    Metric("agent_pool_members", "gauge", ("host",), "Members of these pools.", feature="pool_members"),
    Metric(
        "agent_pool_members_left_out",
        "gauge",
        ("host",),
        "Members left out: there are more pools or members than it publishes.",
        feature="pool_members_left_out",
    ),
    Metric(
        "trace_cpu_seconds",
        "counter",
        ("host",),
        "CPU time of `laggard trace`, since it began; without that of the kernel's recording.",
        feature="trace_cpu_s",
    ),
    Metric("trace_events", "counter", ("host",), "Kernel events that it read.", feature="trace_events"),
    Metric(
        "trace_lost_events",
        "counter",
        ("host",),
        "Kernel events that were lost, because they came faster than they were read.",
        feature="trace_lost_events",
    ),
    Metric("trace_requests", "counter", ("host",), "Requests that it published.", feature="trace_requests"),
    Metric(
        "trace_discarded_requests",
        "counter",
        ("host",),
        "Requests that it discarded, such as those that overlap lost events; `laggard trace status` has the reasons.",
        feature="trace_discarded_requests",
    ),
    Metric(
        "trace_recorded_ratio",
        "gauge",
        ("host",),
        "The share of the time without missing events: less than 1 if there are more events than "
        "`trace.events_per_s` allows, or than are read in time.",
        feature="trace_recorded_ratio",
    ),
    Metric(
        "trace_waiting_records",
        "gauge",
        ("host",),
        "Its requests that wait for the bus.",
        feature="trace_waiting_records",
    ),
    Metric(
        "trace_dropped_records",
        "counter",
        ("host",),
        "Its requests that were dropped on the way to the bus, since it began.",
        feature="trace_dropped_records",
    ),
    Metric(
        "trace_lag_seconds",
        "gauge",
        ("host",),
        "The longest delay between an event and its analysis in the last 10 seconds.",
        feature="trace_lag_s",
    ),
    Metric(
        "source_expected_places",
        "gauge",
        SOURCE_LABELS,
        "Targets or files that a source of `laggard measure` was to read at its last interval.",
        feature="expected_places",
    ),
    Metric("source_read_places", "gauge", SOURCE_LABELS, "Those of them that were readable.", feature="read_places"),
    Metric(
        "source_read_duration_seconds", "gauge", SOURCE_LABELS, "The duration of that read.", feature="read_duration_s"
    ),
    Metric("source_samples", "gauge", SOURCE_LABELS, "Values or lines that it read.", feature="samples"),
    Metric(
        "source_unusable_samples",
        "counter",
        SOURCE_LABELS,
        "Unusable values or lines, since it began: of another form, impossible, or beyond a bound.",
        feature="unusable_samples",
    ),
    Metric(
        "source_failures",
        "counter",
        SOURCE_LABELS,
        "Failed reads of a target or file, since it began.",
        feature="failures",
    ),
    Metric(
        "source_publish_failures",
        "counter",
        SOURCE_LABELS,
        "Intervals whose frames the bus rejected for good, since it began; those that only wait for it are not "
        "counted.",
        feature="publish_failures",
    ),
    Metric(
        "source_waiting_records",
        "gauge",
        SOURCE_LABELS,
        "Records of its `laggard measure` that waited for the bus at its last interval.",
        feature="waiting_records",
    ),
    Metric(
        "source_dropped_records",
        "counter",
        SOURCE_LABELS,
        "Records that its `laggard measure` dropped since it began.",
        feature="dropped_records",
    ),
)
