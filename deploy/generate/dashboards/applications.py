"""Applications: how slow each is beside what its model says, and which resources of which hosts explain it."""

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
"""Below it the newest errors of a model are hardly those of a model that holds (S2, section 2.3)."""

POOR_R2: Final = 0.8
"""A model that tells less of the variance is poor (S2, Table 7)."""

_HERE: Final = (*PLACE, 'application=~"$application"')
_SLOW, _WORK = 'performance=~"response_time.*"', 'performance=~"throughput.*"'
_MODEL: Final = f"{APPLICATION}, performance"

_OPEN = series("laggard_incidents_open", *_HERE)
_SCORES = series("laggard_score", *_HERE)
_BUILT = series("laggard_performance_models_built_total", *_HERE, 'reason!~"first|grown"', window="$__range")


def applications() -> Dashboard:
    """The dashboard, built."""
    return assemble(
        APPLICATIONS_UID,
        "laggard / Applications",
        "How slow applications are, beside what their performance models say, and which resources of which hosts "
        "explain it. `laggard models` tells the equations, and what would be if.",
        variables=[
            *common_variables(every_host=None),
            query_variable(
                "application",
                "Application",
                f"label_values({series('laggard_score', *PLACE)}, application)",
                "Applications that have been measured in the time range.",
                every=True,
            ).all_value(".+"),  # hosts have series, too
        ],
        annotations=of_applications(_HERE),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("Real and predicted", [_response_time(), _throughput()]),
            Row("Why", [_terms()]),
            Row("Whether the models hold", [_scores(), _p_values(), _r2(), _rebuilt()]),
            Row("When", [_when(), _incidents()]),
        ],
    )


def _numbers() -> list[PanelBuilder]:
    return [
        number(
            "Open incidents",
            "Incidents of applications that have not ended. The table below says which host is short of what.",
            or_zero(f"sum({worst(APPLICATION, _OPEN)})"),
            limits=((1, RED),),
        ),
        number(
            "Applications above 1",
            "Applications whose newest interval is slower, or farther from its model, than the budget for false alarms "
            "allows.",
            or_zero(f"count({worst(APPLICATION, _SCORES)} > 1)"),
            limits=((1, ORANGE),),
        ),
        number(
            "Applications measured",
            "Applications whose performance laggard hears of now, with counters of their hosts.",
            or_zero(f"count({worst(APPLICATION, _SCORES)})"),
        ),
        number(
            "Without a model",
            "Applications whose response times nothing explains yet: it takes ten intervals.",
            or_zero(f"count({worst(APPLICATION, series('laggard_model_young', *_HERE))} > 0)"),
        ),
        number(
            "Rebuilt",
            "Models that were given up in this time range because they did not hold any more, or by a wish: not the "
            "first ones, nor those that there was only more to learn for.",
            or_zero(f"round(sum(increase({_BUILT})))"),
        ),
        number(
            "Last interval",
            "How old the newest interval of the application that was silent longest is. When this grows, look at "
            "`laggard measure`, or at its hosts' agents: an interval is judged once all its hosts are past its end.",
            f"max(time() - {worst(APPLICATION, series('laggard_frame_timestamp_seconds', *_HERE))})",
            unit="s",
            limits=((300, ORANGE),),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "What is wrong now, the worst first: which host is most likely short of what, and the counter that tells it. A "
        "host leads to what laggard sees there. `laggard incidents` says it in sentences.",
        application_labels(),
        incident_columns(_HERE, labels=application_labels()),
        sort="Score",
        links={"Host": ("Look at this host", host_url())},
        height=6,
        empty="No application has an incident.",
    )


def _real_and_predicted(title: str, description: str, which: str, unit: str) -> PanelBuilder:
    real, predicted = (
        worst(_MODEL, series(f"laggard_performance_{metric}", *_HERE, which)) for metric in ("value", "predicted")
    )
    panel = graph(
        title,
        description,
        [(real, "{{application}}: {{performance}}"), (predicted, "{{application}}: {{performance}}, predicted")],
        unit=unit,
    )
    return panel.override_by_regexp(
        "/, predicted$/", [DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [6, 4]})]
    )


def _response_time() -> PanelBuilder:
    return _real_and_predicted(
        "Response time",
        "What was measured, and dashed what the model makes of its hosts' counters. Both rise: the model knows why, "
        "see below. Only the real one does: the cause is in no counter that the model has, and it is built anew soon.",
        _SLOW,
        "s",
    )


def _throughput() -> PanelBuilder:
    return _real_and_predicted(
        "Throughput",
        "What was measured, and dashed what the model makes of its hosts' counters. When it falls while users still "
        "come, they wait.",
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
        "What explains them: the metrics in the present models",
        "Of each model the metrics that were chosen, in order: of which host, and about which resource. A host leads "
        "to what laggard sees there. `laggard models APP` tells the equations and what else says the same.",
        labels,
        [Column("Built", f"1000 * {terms} * on ({_MODEL}) group_left () {built}", unit="dateTimeAsIso")],
        sort="Built",
        links={"Host": ("Look at this host", host_url())},
        height=7,
        empty="There is no model: it takes ten intervals of an application's performance, and counters of its hosts.",
    )


def _rebuilt() -> PanelBuilder:
    built = series("laggard_performance_models_built_total", *_HERE, window="$__range")
    return table(
        "Models built in this time range",
        "By reason: `changed` when response times, or their relation to the counters, had changed; `wish` by a person; "
        "`grown` when there was only more to learn from. Many that `changed` without an incident say that the model "
        "lacks what matters: look for metrics that are not gathered.",
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
        "How probable the newest errors of the model of the response time are, if it still holds. Where it stays low "
        "the relation has changed, and the model is built anew.",
        [(p_values, "{{application}}: {{performance}}")],
        limits=((SIGNIFICANCE, ORANGE),),
        most=1.0,
        span=6,
    )


def _r2() -> PanelBuilder:
    r2 = worst(_MODEL, series("laggard_performance_model_r2", *_HERE))
    return graph(
        "R2",
        "The share of the newest intervals' variance that the model tells: 1 is all of it. Where nothing changes there "
        "is little to tell, and it may be low without harm; below 0 the model is worse than the mean.",
        [(f"clamp_min({r2}, -1)", "{{application}}: {{performance}}")],
        limits=((POOR_R2, ORANGE),),
        most=1.0,
        span=6,
    ).min(-1)


def _scores() -> PanelBuilder:
    return graph(
        "Score",
        "How unusual the newest interval is. Above 1, the dashed line, is more than the budget for false alarms "
        "allows.",
        [(worst(APPLICATION, _SCORES), "{{application}}")],
        limits=SCORE,
        symlog=True,
        span=6,
    )


def _when() -> PanelBuilder:
    return timeline(
        "When applications had incidents",
        "Each application of the time range. What begins on several at once has a host in common.",
        f"{worst(APPLICATION, _OPEN)} > bool 0",
        "{{application}}",
        {0: ("calm", "transparent"), 1: ("incident", RED)},
        height=5,
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, also those that have ended. One whose blame went to another host or resource meanwhile has "
        "a line for each.",
        application_labels(),
        incident_columns(_HERE, window="$__range", labels=application_labels()),
        sort="Began",
        links={"Host": ("Look at this host", host_url())},
        height=6,
        empty="No application had an incident in this time range.",
    )
