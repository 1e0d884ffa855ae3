"""The dashboard to start from: hosts with incidents, hosts by score, applications, pools, services and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.generate.dashboards.annotations import annotations_by
from deploy.generate.dashboards.incidents import incident_columns, incident_labels, incident_links
from deploy.generate.dashboards.layout import Row, assemble
from deploy.generate.dashboards.panels import (
    APPLICATION,
    HOST,
    ON_HOST,
    ORANGE,
    OVERVIEW_UID,
    PIPELINE_UID,
    PLACE,
    POOL,
    RED,
    SCORE,
    SERVICE,
    SUBJECT,
    TASK,
    application_url,
    dashboard_url,
    graph,
    host_url,
    number,
    or_zero,
    pool_url,
    series,
    service_url,
    timeline,
    worst,
)
from deploy.generate.dashboards.tables import Column, table
from deploy.generate.dashboards.variables import common_variables

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from deploy.generate.dashboards.layout import PanelBuilder

SILENT_S: Final = 120
"""The age of the newest frame from which a host is silent: two ticks of the longest common interval."""

_OPEN = series("laggard_incidents_open", *ON_HOST)
_SUSPICIOUS = series("laggard_status", *ON_HOST, 'status="suspicious"')
_SCORES = series("laggard_score", *ON_HOST)
_OPENED = series("laggard_incidents_total", *ON_HOST, window="$__range")
_NEWEST = series("laggard_frame_timestamp_seconds", *ON_HOST)
_RECENT = series("laggard_frame_timestamp_seconds", *ON_HOST, window="1h")
_BUDGET = f"sum by ({HOST}) ({worst(f'{HOST}, operator', series('laggard_false_alarms_budget_per_day', *ON_HOST))})"
_HOST = "Open this host at the same time"


def overview() -> Dashboard:
    """Return the dashboard."""
    return assemble(
        OVERVIEW_UID,
        "laggard / Overview",
        "Which hosts have an incident or deviate, and what has changed. Scores above 1 exceed the false-alarm budget "
        "(by default one incident per host and day). Hosts link to their own dashboards.",
        variables=common_variables(every_host=True),
        annotations=annotations_by(ON_HOST, "all"),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("Hosts by score", [_hosts(), _scores()]),
            Row("Applications, pools and services", [_applications(), _pools(), _services()]),
            Row("Changes", [_when(), _newest_incidents()]),
        ],
    )


def _numbers() -> list[PanelBuilder]:
    return [
        number(
            "Open incidents",
            "Open incidents of all hosts, applications, pools and services. Anomalies of several operators at one time "
            "that may have one cause are one incident. It closes with the last of them: after five calm minutes "
            "(saturation: two; pools, services and applications: half a minute).",
            or_zero(f"sum({worst(SUBJECT, series('laggard_incidents_open', *PLACE))})"),
            limits=((1, RED),),
        ),
        number(
            "Suspicious hosts",
            "Hosts with an open notice and no open incident: a deviation below the alert level. A healthy host may "
            "have ten times as many notices as incidents.",
            or_zero(f"sum({worst(HOST, _SUSPICIOUS)})"),
            limits=((1, ORANGE),),
        ),
        number(
            "Monitored hosts",
            "Hosts whose frames are being scored now.",
            or_zero(f"count({worst(HOST, _SCORES)})"),
        ),
        number(
            "Silent hosts",
            f"Hosts that sent frames within the last hour, but none for {SILENT_S} s: the agent, the host or its "
            "connection to the bus is down. Run `systemctl status laggard-agent` on the host.",
            or_zero(f"count({worst(HOST, f'last_over_time({_RECENT})')} < time() - {SILENT_S})"),
            limits=((1, ORANGE),),
        ),
        number(
            "Young models",
            "Hosts whose model has learned too little. Their scores are unreliable.",
            or_zero(f"count({worst(HOST, series('laggard_model_young', *ON_HOST))} > 0)"),
        ),
        number(
            "Lag (records)",
            "Records on the bus that are not processed yet. If this grows, everything on this dashboard is late.",
            or_zero(f"sum({worst(TASK, series('laggard_lag_records', *PLACE))})"),
            limits=((1000, ORANGE),),
            link=("Open the pipeline", dashboard_url(PIPELINE_UID)),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "Open incidents, the worst first: present culprit, its feature, worst value, baseline, and the number of "
        "operators that detected it. Values are in the base unit that ends the feature's name. Hosts link to their "
        "dashboard at the onset; `laggard incidents` describes each incident in sentences.",
        incident_labels(host=True),
        incident_columns(ON_HOST, labels=incident_labels(host=True)),
        sort="Score",
        links=incident_links(),
        height=6,
        empty="No incident is open.",
    )


def _hosts() -> PanelBuilder:
    return table(
        "Hosts",
        "All hosts of the time range, the highest scores first. Compare the incidents that began in it with those "
        "that the false-alarm budget allows. Prolonged high use (operator `cpu`) and saturation have no budget.",
        {"environment": "Environment", "cluster": "Cluster", "host": "Host"},
        [
            Column("Score", worst(HOST, _SCORES), decimals=2, limits=SCORE),
            Column(
                "Worst",
                worst(HOST, f"max_over_time({series('laggard_score', *ON_HOST, window='$__range')})"),
                decimals=2,
                limits=SCORE,
            ),
            Column("Incidents", f"round(sum by ({HOST}) (increase({_OPENED})))", decimals=0, limits=((1, ORANGE),)),
            Column(
                "False-alarm budget",
                f"{_BUDGET} * $__range_s / 86400",
                decimals=1,
            ),
            Column(
                "Marks",
                f"round(sum by ({HOST}) (increase({series('laggard_marks_total', *ON_HOST, window='$__range')})))",
                decimals=0,
            ),
            Column("Model age", worst(HOST, series("laggard_model_age_seconds", *ON_HOST)), unit="s", decimals=0),
            Column(
                "Last frame",
                f"time() - {worst(HOST, _NEWEST)}",
                unit="s",
                decimals=0,
                limits=((SILENT_S, ORANGE),),
            ),
        ],
        sort="Worst",
        links={"Host": (_HOST, host_url())},
        height=9,
        span=14,
        empty="No host in this time range. Check that a worker runs and that Prometheus scrapes it.",
    )


def _scores() -> PanelBuilder:
    top = worst(HOST, f"max_over_time({series('laggard_score', *ON_HOST, window='$__range')} @ end())")
    return graph(
        "Ten worst hosts by score",
        "The hosts with the highest scores in the time range. Scores above 1 (dashed line) exceed the false-alarm "
        "budget; above 1 the axis is logarithmic. Hosts that rise together have a common cause, such as a shared "
        "disk or a deployment.",
        [(f"{worst(HOST, _SCORES)} and on ({HOST}) topk(10, {top})", "{{host}}")],
        span=10,
        height=9,
        limits=SCORE,
        symlog=True,
    )


def _applications() -> PanelBuilder:
    return table(
        "Applications",
        "Measured applications, the highest scores first. A high score means slower than the baseline, or far from "
        "the model's prediction. Each links to the resources that explain it.",
        {"environment": "Environment", "cluster": "Cluster", "application": "Application"},
        _of_others(APPLICATION, 'application!=""'),
        sort="Worst",
        links={"Application": ("Open this application", application_url())},
        span=12,
        height=6,
        empty="No application is measured (`laggard measure`).",
    )


def _pools() -> PanelBuilder:
    # `younger` is harmless.
    deviating = series("laggard_pool_deviating", *PLACE, 'kind!="younger"')
    return table(
        "Pools",
        "Pools by score, and the number of members that deviate from the others now. Each links to its members.",
        {"environment": "Environment", "cluster": "Cluster", "pool": "Pool"},
        [
            *_of_others(POOL, 'pool!=""'),
            Column("Members", worst(POOL, series("laggard_pool_members", *PLACE)), decimals=0),
            Column(
                "Deviating",
                f"sum by ({POOL}) ({worst(f'{POOL}, kind', deviating)})",
                decimals=0,
                limits=((1, ORANGE),),
            ),
        ],
        sort="Worst",
        links={"Pool": ("Open this pool", pool_url())},
        span=12,
        height=6,
        empty="No pool is compared (`pools.discover`, `pools.members`).",
    )


def _services() -> PanelBuilder:
    def rate(*matchers: str) -> str:
        found = series("laggard_request_duration_seconds_count", *PLACE, *matchers, window="5m")
        return f"sum by ({SERVICE}) (rate({found}))"

    outlying = rate('outlying="1"')
    return table(
        "Services",
        "Traced services by score, and the share of outliers among the requests of the last five minutes. Each links "
        "to the causes.",
        {"environment": "Environment", "cluster": "Cluster", "service": "Service"},
        [
            *_of_others(SERVICE, 'service!=""'),
            Column("Requests/s", rate(), decimals=1),
            Column("Outliers", f"{outlying} / ({rate()} > 0)", unit="percentunit", decimals=2),
        ],
        sort="Worst",
        links={"Service": ("Open this service", service_url())},
        height=6,
        empty="No service is traced (`laggard trace`).",
    )


def _of_others(by: str, which: str) -> list[Column]:
    """Return the columns of an application, pool or service: score, worst score and incidents."""
    scores = series("laggard_score", *PLACE, which)
    in_range = series("laggard_score", *PLACE, which, window="$__range")
    opened = series("laggard_incidents_total", *PLACE, which, window="$__range")
    return [
        Column("Score", worst(by, scores), decimals=2, limits=SCORE),
        Column("Worst", worst(by, f"max_over_time({in_range})"), decimals=2, limits=SCORE),
        Column("Incidents", f"round(sum by ({by}) (increase({opened})))", decimals=0, limits=((1, ORANGE),)),
    ]


def _when() -> PanelBuilder:
    had = worst(HOST, f"max_over_time({series('laggard_incidents_open', *ON_HOST, window='$__range')} @ end())")
    return timeline(
        "Open incidents by host",
        "Each host with an incident in the time range. Simultaneous onsets point to a common cause.",
        f"({worst(HOST, _OPEN)} > bool 0) and on ({HOST}) {had} > 0",
        "{{host}}",
        {0: ("calm", "transparent"), 1: ("incident", RED)},
    )


def _newest_incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, including those that have ended. Compare the onset with deployments, jobs and marks. An "
        "incident whose culprit changed has a row for each culprit.",
        incident_labels(host=True),
        incident_columns(ON_HOST, window="$__range", labels=incident_labels(host=True)),
        sort="Onset",
        links=incident_links(),
        height=7,
        empty="No incident began or was open in this time range.",
    )
