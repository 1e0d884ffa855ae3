"""The alerts on laggard itself: workers, agents, sources and the tracer. See `alerts`."""

from __future__ import annotations

from typing import Final

from laggard.pipeline.grafana.alert import Alert, Number
from laggard.pipeline.grafana.labels import (
    HOST_DASHBOARD,
    JOB,
    OVERVIEW_DASHBOARD,
    PIPELINE_DASHBOARD,
    PLACE,
    TASK,
    by,
    span,
)

MANY: Final = 3
MANY_SHARE: Final = 0.05
"""Silent hosts have a common cause if they are more than 3, and more than 5 % of all in the place."""


def own_alerts(faster: float) -> tuple[Alert, ...]:
    """Return the alerts; for `faster` see `alerts.groups`."""
    return (
        _down(faster),
        _lag_growing(faster),
        _host_silent(faster),
        _many_hosts_silent(faster),
        _dead_letters(faster),
        _unusable(faster),
        _missed(faster),
        _dropped(faster),
        _namesakes(faster),
        _unreadable(faster),
        _events_lost(faster),
    )


def _down(faster: float) -> Alert:
    of_hour = f'(up{{job="{JOB}"}}[{span(3600 / faster)}])'
    place = (*PLACE, "job")
    return Alert(
        "LaggardDown",
        "critical",
        place,
        f"(group {by(place)} (last_over_time{of_hour})\n"
        f'  unless group {by(place)} (up{{job="{JOB}"}} == 1))\n'
        f"  or absent_over_time{of_hour}",
        wait_s=300.0 / faster,
        keep_s=300.0 / faster,
        summary="No laggard worker responds{environment as where}{cluster as where}",
        description=(
            "Prometheus cannot reach any worker of the job {job}. Until one responds, the other alerts of laggard "
            "report nothing new."
        ),
        dashboard=PIPELINE_DASHBOARD,
    )


def _lag_growing(faster: float) -> Alert:
    window = span(600 / faster)
    # Incoming records per second: the processed ones, and the growth of the lag.
    growing = f"(deriv(laggard_lag_records[{window}]) > 0)"
    behind = f"laggard_lag_records / (rate(laggard_records_total[{window}]) + {growing})"
    return Alert(
        "LaggardLagGrowing",
        "warning",
        TASK,
        f"max {by(TASK)} (\n  {behind}\n) > {60 / faster:g}",
        wait_s=600.0 / faster,
        keep_s=600.0 / faster,
        summary="{operator} is {measured as duration} behind on {topic}, and falls further behind",
        description=(
            "The worst partition has a lag of {lag as count} records, and more arrive than are processed. Results and "
            "alerts are equally late."
        ),
        dashboard=PIPELINE_DASHBOARD,
        numbers={"lag": Number("laggard_lag_records", TASK)},
    )


_HOST: Final = (*PLACE, "host")
_SOURCE: Final = (*PLACE, "application", "source")


def _newest(faster: float) -> tuple[str, str]:
    """Return the time of the newest frame of each host, and the form of that number in a text.

    It is that of the last hours, since the metrics of a silent stream soon disappear.
    """
    window = f"[{span(21_600 / faster)}]"
    newest = f'max {by(_HOST)} (max_over_time(laggard_frame_timestamp_seconds{{host!=""}}{window}))'
    return newest, f"max_over_time({{}}{window})"


def _silent(faster: float) -> str:
    return f"time() - {_newest(faster)[0]} > {300 / faster:g}"


def _unsteady(faster: float) -> str:
    """Return an expression for the places where no worker responded at times in the last quarter of an hour.

    There all hosts are silent, and still look so while a worker reads what they sent meanwhile.
    """
    up = f'up{{job="{JOB}"}}'
    minutes = f"count_over_time((max {by(PLACE)} ({up} == 1))[{span(900 / faster)}:{span(60 / faster)}])"
    known = f"group {by(PLACE)} (last_over_time({up}[{span(21_600 / faster)}]))"
    return f"({minutes} < 14) or ({known} unless {minutes})"


def _many_silent(faster: float) -> str:
    """Return an expression for the number of silent hosts of a place, where they have a common cause."""
    newest, _ = _newest(faster)
    share = f"clamp_min({MANY_SHARE:g} * count {by(PLACE)} ({newest}), {MANY:d})"
    return f"count {by(PLACE)} ({_silent(faster)}) > {share}"


def _host_silent(faster: float) -> Alert:
    host, (_, seen), place = _HOST, _newest(faster), ", ".join(PLACE)
    return Alert(
        "LaggardHostSilent",
        "warning",
        host,
        f"({_silent(faster)})\n"
        f"  unless on ({place}) ({_unsteady(faster)})\n"
        f"  unless on ({place}) ({_many_silent(faster)})",
        wait_s=300.0 / faster,
        keep_s=600.0 / faster,
        summary="No data from {host} for {measured as duration}",
        description=(
            "The newest frame of {host} is from {at as time}. The host or its agent is down, the agent does not reach "
            "the bus, or no worker has read its frames."
        ),
        dashboard=HOST_DASHBOARD,
        numbers={
            "at": Number("laggard_frame_timestamp_seconds", host, f"ceil({seen})"),
            "from": Number("laggard_frame_timestamp_seconds", host, f"1000 * ({seen} - 2700)"),
        },
    )


def _many_hosts_silent(faster: float) -> Alert:
    return Alert(
        "LaggardManyHostsSilent",
        "warning",
        PLACE,
        f"({_many_silent(faster)})\n  unless on ({', '.join(PLACE)}) ({_unsteady(faster)})",
        wait_s=300.0 / faster,
        keep_s=600.0 / faster,
        summary="No data from {measured as count} hosts{environment as where}{cluster as where}",
        description=(
            "That is more than 5 % of the hosts, so there is probably one cause: the bus, the network, or an update "
            "of the agents. Until it is removed, single hosts are not reported as silent."
        ),
        dashboard=OVERVIEW_DASHBOARD,
    )


def _dead_letters(faster: float) -> Alert:
    window = span(600 / faster)
    return Alert(
        "LaggardDeadLetters",
        "warning",
        TASK,
        f"ceil(sum {by(TASK)} (increase(laggard_dead_letters_total[{window}]))) > 0",
        wait_s=900.0 / faster,
        keep_s=1800.0 / faster,
        summary=f"{{operator}} rejected {{measured as count}} records of {{topic}} in {window}",
        description=(
            "Records keep arriving that are damaged, too late, or of a newer version, or that fail in the operator. "
            "The topic of dead letters has each of them with its reason. Nothing is learned from them."
        ),
        dashboard=PIPELINE_DASHBOARD,
    )


def _counted(metric: str, labels: tuple[str, ...], window: str) -> str:
    """Return an expression for what a counter counted in a time, if that is something.

    A process may count at its start, and the first value of a new series is no increase.
    """
    return f"round(sum {by(labels)} (({metric} unless {metric} offset {window}) or increase({metric}[{window}]))) > 0"


def _unusable(faster: float) -> Alert:
    window = span(3600 / faster)
    return Alert(
        "LaggardSnapshotsUnusable",
        "warning",
        TASK,
        _counted("laggard_snapshots_unusable_total", TASK, window),
        wait_s=0.0,
        keep_s=1800.0 / faster,
        summary=f"{{operator}} could not restore {{measured as count}} snapshots of {{topic}} in {window}",
        description=(
            "Their hosts, applications, pools or services have lost their baselines, and learn anew from the available "
            "records. The log of the worker has the reasons."
        ),
        dashboard=PIPELINE_DASHBOARD,
    )


def _missed(faster: float) -> Alert:
    window = span(3600 / faster)
    return Alert(
        "LaggardRecordsMissed",
        "warning",
        TASK,
        _counted("laggard_missed_records_total", TASK, window),
        wait_s=0.0,
        keep_s=1800.0 / faster,
        summary=f"{{operator}} missed {{measured as count}} records of {{topic}} in {window}",
        description=(
            "Retention deleted them before they were read. Nothing was detected in them, and baselines lack them. The "
            "workers were down or behind for longer than the topic keeps its records."
        ),
        dashboard=PIPELINE_DASHBOARD,
    )


def _dropped(faster: float) -> Alert:
    window = span(3600 / faster)
    counted = (_counted(f"laggard_{each}_dropped_records_total", _HOST, window) for each in ("agent", "trace"))
    return Alert(
        "LaggardRecordsDropped",
        "warning",
        _HOST,
        "\n  or ".join(f"({each})" for each in counted),
        wait_s=0.0,
        keep_s=1800.0 / faster,
        summary=f"{{host}} dropped {{measured as count}} records in {window}",
        description=(
            "The agent or the tracer of {host} could not publish them: the bus was unavailable for longer than their "
            "spool lasts, or rejected them. There is a gap in the history of {host}."
        ),
        dashboard=HOST_DASHBOARD,
    )


def _namesakes(faster: float) -> Alert:
    window = span(86_400 / faster)  # a worker counts each host once
    return Alert(
        "LaggardNamesakes",
        "warning",
        TASK,
        _counted("laggard_namesakes_total", TASK, window),
        wait_s=0.0,
        keep_s=3600.0 / faster,
        summary="Several machines publish as one host to {topic}",
        description=(
            "Agents on several machines have the same setting `host`, so their counters are mixed, and results on that "
            "host are wrong. The log of the worker names the host."
        ),
        dashboard=PIPELINE_DASHBOARD,
    )


def _unreadable(faster: float) -> Alert:
    return Alert(
        "LaggardSourceUnreadable",
        "warning",
        _SOURCE,
        f"max {by(_SOURCE)} (laggard_source_expected_places - laggard_source_read_places) > 0",
        wait_s=600.0 / faster,
        keep_s=600.0 / faster,
        summary="{measured as count} targets or files of {source} are unreadable, for application {application}",
        description=(
            "`laggard measure` cannot read them. The response times of {application} are incomplete or missing. "
            "`laggard doctor` and the log of `laggard measure` have the reason."
        ),
        dashboard=PIPELINE_DASHBOARD,
    )


def _events_lost(faster: float) -> Alert:
    window = span(600 / faster)
    lost, read = (
        f"sum {by(_HOST)} (increase(laggard_trace_{each}_total[{window}]))" for each in ("lost_events", "events")
    )
    return Alert(
        "LaggardTraceIncomplete",
        "warning",
        _HOST,
        f"{lost}\n  / ({lost} + {read}) > 0.05",
        wait_s=600.0 / faster,
        keep_s=900.0 / faster,
        summary=f"The tracer of {{host}} lost {{measured as share}} of kernel events in {window}",
        description=(
            "They come faster than it reads them. Requests at these times have no record: long ones are most often "
            "missing, so response times look better than they are."
        ),
        dashboard=HOST_DASHBOARD,
    )
