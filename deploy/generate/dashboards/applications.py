"""The dashboard of applications: response times, the models' predictions, and the resources that explain them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from deploy.generate.dashboards.annotations import of_applications
from deploy.generate.dashboards.incidents import application_labels, incident_columns
from deploy.generate.dashboards.layout import Row, assemble
from deploy.generate.dashboards.panels import (
    APPLICATION,
    APPLICATIONS_UID,
    ORANGE,
    PLACE,
    RED,
    SCORE,
    graph,
    host_url,
    number,
    or_zero,
    series,
    timeline,
    worst,
)
from deploy.generate.dashboards.tables import Column, table
from deploy.generate.dashboards.variables import common_variables, query_variable

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from deploy.generate.dashboards.layout import PanelBuilder

SIGNIFICANCE: Final = 0.05
"""A model whose p-value is below this level no longer holds (S2, section 2.3)."""

POOR_R2: Final = 0.8
"""A model that explains less of the variance is poor (S2, Table 7)."""

_HERE: Final = (*PLACE, 'application=~"$application"')
_SLOW, _WORK = 'performance=~"response_time.*"', 'performance=~"throughput.*"'
_MODEL: Final = f"{APPLICATION}, performance"

_OPEN = series("laggard_incidents_open", *_HERE)
_SCORES = series("laggard_score", *_HERE)
_BUILT = series("laggard_performance_models_built_total", *_HERE, 'reason!~"first|grown"', window="$__range")


def applications() -> Dashboard:
    """Return the dashboard."""
    return assemble(
        APPLICATIONS_UID,
        "laggard / Applications",
        "How slow applications are, compared with their models' predictions, and which resources of which hosts "
        "explain it. `laggard models` shows the equations and answers what-if questions.",
        variables=[
            *common_variables(every_host=None),
            query_variable(
                "application",
                "Application",
                f"label_values({series('laggard_score', *PLACE)}, application)",
                "Applications measured in the time range.",
                every=True,
            ).all_value(".+"),  # excludes hosts
        ],
        annotations=of_applications(_HERE),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("Measured and predicted", [_response_time(), _throughput()]),
            Row("Explanation", [_terms()]),
            Row("Model quality", [_scores(), _p_values(), _r2(), _rebuilt()]),
            Row("Incidents", [_when(), _incidents()]),
        ],
    )


def _numbers() -> list[PanelBuilder]:
    return [
        number(
            "Open incidents",
            "Open incidents of applications. The table below shows the culprit host and its scarce resource.",
            or_zero(f"sum({worst(APPLICATION, _OPEN)})"),
            limits=((1, RED),),
        ),
        number(
            "Slow applications",
            "Applications with a score above 1: slower than the baseline, or farther from the model's prediction, "
            "than the false-alarm budget allows.",
            or_zero(f"count({worst(APPLICATION, _SCORES)} > 1)"),
            limits=((1, ORANGE),),
        ),
        number(
            "Measured applications",
            "Applications whose performance is being published, together with the counters of their hosts.",
            or_zero(f"count({worst(APPLICATION, _SCORES)})"),
        ),
        number(
            "Without a model",
            "Applications without a model of their response time. The first model needs ten intervals.",
            or_zero(f"count({worst(APPLICATION, series('laggard_model_young', *_HERE))} > 0)"),
        ),
        number(
            "Rebuilt models",
            "Models replaced in this time range because they no longer held, explained too little, or by a person's "
            "wish. First models, and those rebuilt because there was more to learn from, are not counted.",
            or_zero(f"round(sum(increase({_BUILT})))"),
        ),
        number(
            "Last interval",
            "Age of the newest interval of the application that has been silent longest. If it grows, check `laggard "
            "measure` and the agents of its hosts: an interval is scored once all of them are past its end.",
            f"max(time() - {worst(APPLICATION, series('laggard_frame_timestamp_seconds', *_HERE))})",
            unit="s",
            limits=((300, ORANGE),),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "Open incidents, the worst first: the most likely culprit host, its scarce resource, and the metric that "
        "shows it. Hosts link to their dashboards. `laggard incidents` describes each incident in sentences.",
        application_labels(),
        incident_columns(_HERE, labels=application_labels()),
        sort="Score",
        links={"Host": ("Open this host", host_url())},
        height=6,
        empty="No application has an incident.",
    )


def _measured_and_predicted(title: str, description: str, which: str, unit: str) -> PanelBuilder:
    measured, predicted = (
        worst(_MODEL, series(f"laggard_performance_{metric}", *_HERE, which)) for metric in ("value", "predicted")
    )
    panel = graph(
        title,
        description,
        [(measured, "{{application}}: {{performance}}"), (predicted, "{{application}}: {{performance}}, predicted")],
        unit=unit,
    )
    return panel.override_by_regexp(
        "/, predicted$/", [DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [6, 4]})]
    )


def _response_time() -> PanelBuilder:
    return _measured_and_predicted(
        "Response time",
        "The measured value, and the model's prediction from the counters of the hosts (dashed). If both rise, the "
        "terms of the model below explain why. If only the measured value rises, the model lacks the cause and "
        "is rebuilt soon.",
        _SLOW,
        "s",
    )


def _throughput() -> PanelBuilder:
    return _measured_and_predicted(
        "Throughput",
        "The measured value, and the model's prediction from the counters of the hosts (dashed). If it falls while "
        "the demand stays, users are waiting.",
        _WORK,
        "reqps",
    )


def _terms() -> PanelBuilder:
    labels = {
        "environment": "Environment",
        "cluster": "Cluster",
        "application": "Application",
        "performance": "Performance",
        "position": "Position",
        "host": "Host",
        "resource": "Resource",
        "row": "Row",
        "feature": "Metric",
    }
    by = ", ".join(labels)
    built = worst(_MODEL, series("laggard_performance_model_built_timestamp_seconds", *_HERE))
    terms = worst(by, series("laggard_performance_model_term_info", *_HERE))
    return table(
        "Terms of the current models",
        "The metrics of each model in the order of their selection, with host and resource. Hosts link to their "
        "dashboards. `laggard models APP` shows the equations and alternative metrics.",
        labels,
        [Column("Built", f"1000 * {terms} * on ({_MODEL}) group_left () {built}", unit="dateTimeAsIso")],
        sort="Built",
        links={"Host": ("Open this host", host_url())},
        height=7,
        empty="No model yet. It needs ten intervals of an application's performance, and the counters of its hosts.",
    )


def _rebuilt() -> PanelBuilder:
    built = series("laggard_performance_models_built_total", *_HERE, window="$__range")
    return table(
        "Models built in this time range",
        "By reason. `changed`: response times, or their relation to the counters, had changed. `grown`: there was "
        "more to learn from. `poor`: the model explained too little. `wish`: a person's choice. Many `changed` "
        "without an incident suggest that a relevant metric is not collected.",
        {"application": "Application", "reason": "Reason"},
        [Column("Models", f"round(sum by (application, reason) (increase({built}))) > 0", decimals=0)],
        sort="Models",
        links={},
        height=8,
        span=6,
        empty="No model was built in this time range.",
    )


def _p_values() -> PanelBuilder:
    p_values = worst(_MODEL, series("laggard_performance_model_p_value", *_HERE, _SLOW))
    return graph(
        "p-value",
        "Probability of errors like the newest ones if the model of the response time still holds. If it stays below "
        "the line, the relation has changed and the model is rebuilt.",
        [(p_values, "{{application}}: {{performance}}")],
        limits=((SIGNIFICANCE, ORANGE),),
        most=1.0,
        span=6,
    )


def _r2() -> PanelBuilder:
    r2 = worst(_MODEL, series("laggard_performance_model_r2", *_HERE))
    return graph(
        "R2",
        "The share of the newest intervals' variance that the model explains, at most 1. It may be low without harm "
        "while performance is constant. Below 0 the model is worse than the mean.",
        [(f"clamp_min({r2}, -1)", "{{application}}: {{performance}}")],
        limits=((POOR_R2, ORANGE),),
        most=1.0,
        span=6,
    ).min(-1)


def _scores() -> PanelBuilder:
    return graph(
        "Score",
        "Score of the newest interval. Scores above 1 (dashed line) exceed the false-alarm budget.",
        [(worst(APPLICATION, _SCORES), "{{application}}")],
        limits=SCORE,
        symlog=True,
        span=6,
    )


def _when() -> PanelBuilder:
    return timeline(
        "Open incidents by application",
        "Each application of the time range. Simultaneous onsets point to a common host.",
        f"{worst(APPLICATION, _OPEN)} > bool 0",
        "{{application}}",
        {0: ("calm", "transparent"), 1: ("incident", RED)},
        height=5,
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, including those that have ended. An incident whose culprit changed has a row for each "
        "host and resource.",
        application_labels(),
        incident_columns(_HERE, window="$__range", labels=application_labels()),
        sort="Onset",
        links={"Host": ("Open this host", host_url())},
        height=6,
        empty="No application had an incident in this time range.",
    )
