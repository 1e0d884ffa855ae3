"""The alerts and the long-term recordings: the one definition for all forms that `rules.py` writes.

An alert text names the host, the row, the feature, its value and its baseline. Texts have placeholders in braces:

    {host}                  a label
    {value as amount}       a number, one of the alert's `numbers` or `measured`, the result of its expression
    {entity}, {key}         the subject of an incident, in a form for sentences, and its plain name
    {subject}               like {entity}; for an application also the culprit host, and its scarce resource
    {behavior}              `behaving unusually`; for a member of a pool, `deviating from the other members`
    {evidence}              the evidence with its value
    {most}                  a sentence with the worst feature or the main cause, if it is known

`as` is the form of a number or a label. `amount` has the unit of the ending of the label `feature`, and so have
`usually` (", usually X") and `spread` (" ± X"), which are empty for unknown numbers. Other forms of numbers are
`count`, `duration`, `time` and `epoch` (in whole numbers). `young` is a remark if the number is 1. Other forms of
labels are `url`, `argument` (of a command), `parameter` (of a link to a dashboard) and `where` (" in X"). `parameter`
and `where` are empty without such a label.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from laggard.pipeline.grafana.alert import Alert, Group, Number, Recording

JOB: Final = "laggard"
"""The label `job` of Prometheus's scrapes of laggard."""

PLACE: Final = ("environment", "cluster")
"""Labels that the scrape configuration may add."""

KEY: Final = (*PLACE, "host", "application", "pool", "service")
"""The key of a frame: one of the last four labels is there."""

STREAM: Final = (*KEY, "operator", "scope")
INCIDENT: Final = (*KEY, "scope", "row", "feature", "resource")
"""For an application, the row is the culprit host, and the resource its scarce one. For a pool, the row is a member;
for a service, the name of a cluster of similar requests."""

TASK: Final = (*PLACE, "operator", "topic")

OVERVIEW_DASHBOARD: Final = "laggard-overview"
HOST_DASHBOARD: Final = "laggard-host"
APPLICATIONS_DASHBOARD: Final = "laggard-applications"
POOLS_DASHBOARD: Final = "laggard-pools"
REQUESTS_DASHBOARD: Final = "laggard-requests"
PIPELINE_DASHBOARD: Final = "laggard-pipeline"
"""The uids of the dashboards."""

MEASURED: Final = "measured"
"""In a text, the result of the alert's expression."""

Z: Final = 4.0
"""Anomalies are more than chance this number of standard deviations above the budget."""

DAY_S: Final = 86_400.0

MANY: Final = 3
MANY_SHARE: Final = 0.05
"""Silent hosts have a common cause if they are more than 3, and more than 5 % of all in the place."""


def groups(faster: float = 1.0) -> tuple[Group, ...]:
    """Return all rules.

    Args:
        faster: divides every time in them, so that a test need not wait.

    """
    return (
        Group("laggard-incidents", 30.0 / faster, (_incident(faster), _lasting(faster), _saturated(faster))),
        Group(
            "laggard-pipeline",
            60.0 / faster,
            (
                _down(faster),
                _lag_growing(faster),
                _host_silent(faster),
                _many_hosts_silent(faster),
                _dead_letters(faster),
                _unusable(faster),
            ),
        ),
        Group("laggard-budget", 900.0 / faster, (_over_budget(faster),)),
        Group("laggard-recordings", 60.0 / faster, _recordings(faster)),
    )


def alerts(faster: float = 1.0) -> tuple[Alert, ...]:
    """Return all alerts."""
    return tuple(rule for group in groups(faster) for rule in group.rules if isinstance(rule, Alert))


def span(seconds: float) -> str:
    """Return a length of time in PromQL, in whole milliseconds: `15m`, `500ms`."""
    left = max(round(seconds * 1000.0), 1)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def by(labels: tuple[str, ...]) -> str:
    """Return the clause that aggregates by these labels."""
    return f"by ({', '.join(labels)})"


LATELY: Final = f"last_over_time({{}}[{span(600)}])"
"""The newest value within a time that is longer than an incident may be calm before it closes."""

_INCIDENT_NUMBERS: Final = {
    "score": Number("laggard_incident_score", INCIDENT),
    # For an anomaly that opened with this row and feature, these have the worst value of all frames. It may have ended
    # some minutes before the incident closes.
    "value": Number("laggard_anomaly_value", INCIDENT, LATELY, "laggard_incident_value"),
    "usual": Number("laggard_anomaly_usual", INCIDENT, LATELY, "laggard_incident_usual"),
    "deviation": Number("laggard_anomaly_usual_deviation", INCIDENT, LATELY, "laggard_incident_usual_deviation"),
    "young": Number("laggard_model_young", (*KEY, "scope")),
    # Rounded up: a command with a moment before the frame would rank the frame before it.
    "at": Number("laggard_incident_start_timestamp_seconds", INCIDENT, "ceil({})"),
    "from": Number("laggard_incident_start_timestamp_seconds", INCIDENT, "1000 * ({} - 900)"),
}

EVIDENCE: Final = "{feature} reached {value as amount}{usual as usually}{deviation as spread}"

# Anomalies of an operator without a false-alarm budget are facts, whose number has no limit.
_BUDGETED: Final = (
    f"laggard_incident_score\n    and on ({', '.join((*KEY, 'operator'))}) laggard_false_alarms_budget_per_day"
)


def _incident(faster: float) -> Alert:
    return Alert(
        "LaggardIncident",
        "info",
        INCIDENT,
        f"max {by(INCIDENT)} (\n  {_BUDGETED}\n)",
        wait_s=0.0,
        keep_s=300.0 / faster,
        summary="{subject}: {evidence}",
        description=(
            "{entity} has been {behavior} since {at as time}. Score: {measured as count}; the alert level is 1."
            "{most}{young as young}"
        ),
        dashboard=HOST_DASHBOARD,
        numbers=_INCIDENT_NUMBERS,
    )


def _lasting(faster: float) -> Alert:
    lasts = f"time() - max {by(INCIDENT)} (laggard_incident_start_timestamp_seconds) > {900 / faster:g}"
    young = f"max {by(STREAM)} (laggard_model_young) == 1"
    known = f"\n    {_BUDGETED}\n    unless on ({', '.join(STREAM)}) ({young})\n  "
    return Alert(
        "LaggardIncidentLasting",
        "warning",
        INCIDENT,
        f"({lasts})\n  and on ({', '.join(INCIDENT)}) ({known})",
        wait_s=120.0 / faster,
        keep_s=600.0 / faster,
        summary="{subject}, for {measured as duration}: {evidence}",
        description=(
            "{entity} has been {behavior} since {at as time}, and its incident is still open. Score: {score as count}; "
            "the alert level is 1.{most}"
        ),
        dashboard=HOST_DASHBOARD,
        numbers=_INCIDENT_NUMBERS,
    )


def _saturated(faster: float) -> Alert:
    labels = (*PLACE, "host", "scope", "row", "feature")
    return Alert(
        "LaggardHostSaturated",
        "warning",
        labels,
        f'max {by(labels)} (laggard_incident_score{{operator="saturation"}})',
        wait_s=0.0,
        keep_s=300.0 / faster,
        summary="{host} is short of a resource, or soon will be: {row} ({evidence})",
        description=(
            "A resource of {host} has been saturated since {at as time}, or will be full within the hour. The top "
            "consumer, or the resource that fills up: {row}."
        ),
        dashboard=HOST_DASHBOARD,
        numbers={
            name: replace(_INCIDENT_NUMBERS[name], labels=labels)
            for name in ("value", "usual", "deviation", "at", "from")
        },
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


def _unusable(faster: float) -> Alert:
    window = span(3600 / faster)
    counted = "laggard_snapshots_unusable_total"
    # A worker counts them at its start, and the first value of a new series is no increase.
    return Alert(
        "LaggardSnapshotsUnusable",
        "warning",
        TASK,
        f"round(sum {by(TASK)} (({counted} unless {counted} offset {window}) or increase({counted}[{window}]))) > 0",
        wait_s=0.0,
        keep_s=1800.0 / faster,
        summary=f"{{operator}} could not restore {{measured as count}} snapshots of {{topic}} in {window}",
        description=(
            "Their hosts, applications, pools or services have lost their baselines, and learn anew from the available "
            "records. The log of the worker has the reasons."
        ),
        dashboard=PIPELINE_DASHBOARD,
    )


def _over_budget(faster: float) -> Alert:
    labels = (*KEY, "operator")
    week_s = 7.0 * DAY_S / faster
    allowed = f"{week_s / DAY_S:g} * max {by(labels)} (laggard_false_alarms_budget_per_day)"
    # Twice the root of a Poisson count has a standard deviation of 1, whatever its mean (Anscombe 1948).
    counted = f"round(sum {by(labels)} (increase(laggard_anomalies_opened_total[{span(week_s)}])))"
    # Excludes the first day, when the model is still young.
    old = f"min {by(labels)} (laggard_model_age_seconds) > {8 * DAY_S / faster:g}"
    return Alert(
        "LaggardFalseAlarmsOverBudget",
        "warning",
        labels,
        f"{counted}\n  > (sqrt({allowed}) + {Z / 2:g}) ^ 2\n  and ({old})",
        wait_s=3600.0 / faster,
        keep_s=DAY_S / faster,
        summary="{operator} reported {measured as count} anomalies of {key} in a week; its budget is {budget as count}",
        description=(
            "That is more than the false-alarm budget and chance explain. Either {key} had that many faults, or "
            "{operator} reports its normal behavior as anomalies."
        ),
        dashboard=HOST_DASHBOARD,
        numbers={"budget": Number("laggard_false_alarms_budget_per_day", labels, "7 * {}")},
    )


_OF_HOSTS: Final = '{host!=""}'
"""Excludes applications, pools and services."""


def _recordings(faster: float) -> tuple[Recording, ...]:
    host, window, hour = (*PLACE, "host"), span(300 / faster), span(3600 / faster)
    slow = f"sum {by((*TASK, 'le'))} (rate(laggard_latency_seconds_bucket[{window}]))"
    return (
        Recording("host:laggard_score:max", f"max {by(host)} (laggard_score{_OF_HOSTS})"),
        Recording("host:laggard_incidents_open:max", f"max {by(host)} (laggard_incidents_open{_OF_HOSTS})"),
        Recording(
            "host:laggard_incidents:increase1h",
            f"sum {by(host)} (increase(laggard_incidents_total{_OF_HOSTS}[{hour}]))",
        ),
        Recording(
            "host_operator:laggard_anomalies:increase1h",
            f"sum {by((*host, 'operator'))} (increase(laggard_anomalies_opened_total{_OF_HOSTS}[{hour}]))",
        ),
        Recording("operator_topic:laggard_records:rate5m", f"sum {by(TASK)} (rate(laggard_records_total[{window}]))"),
        Recording("operator_topic:laggard_lag_records:sum", f"sum {by(TASK)} (laggard_lag_records)"),
        Recording("operator_topic:laggard_latency_seconds:p99_5m", f"histogram_quantile(0.99, {slow})"),
    )
