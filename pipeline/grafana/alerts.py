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
`count`, `share`, `duration`, `time` and `epoch` (in whole numbers). `young` is a remark if the number is 1. Other forms
of labels are `url`, `argument` (of a command), `parameter` (of a link to a dashboard) and `where` (" in X").
`parameter` and `where` are empty without such a label.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from laggard.pipeline.grafana.alert import Alert, Group, Number, Recording
from laggard.pipeline.grafana.labels import HOST_DASHBOARD, INCIDENT, KEY, PLACE, STREAM, TASK, by, span
from laggard.pipeline.grafana.own import own_alerts

Z: Final = 4.0
"""Anomalies are more than chance this number of standard deviations above the budget."""

DAY_S: Final = 86_400.0


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
            own_alerts(faster),
        ),
        Group("laggard-budget", 900.0 / faster, (_over_budget(faster),)),
        Group("laggard-recordings", 60.0 / faster, _recordings(faster)),
    )


def alerts(faster: float = 1.0) -> tuple[Alert, ...]:
    """Return all alerts."""
    return tuple(rule for group in groups(faster) for rule in group.rules if isinstance(rule, Alert))


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
