"""Overview: which hosts have an incident, which are unusual, and what has changed. Where a look begins."""

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
"""A host is silent when its newest frame is older than that at the time looked at: two ticks at the longest interval
that is usual."""

_OPEN = series("laggard_incidents_open", *ON_HOST)
_SUSPICIOUS = series("laggard_status", *ON_HOST, 'status="suspicious"')
_SCORES = series("laggard_score", *ON_HOST)
_OPENED = series("laggard_incidents_total", *ON_HOST, window="$__range")
_NEWEST = series("laggard_frame_timestamp_seconds", *ON_HOST)
_RECENT = series("laggard_frame_timestamp_seconds", *ON_HOST, window="1h")
_BUDGET = f"sum by ({HOST}) ({worst(f'{HOST}, operator', series('laggard_false_alarms_budget_per_day', *ON_HOST))})"
_HOST = "Look why: this host at the same time"


def overview() -> Dashboard:
    """The dashboard, built."""
    return assemble(
        OVERVIEW_UID,
        "laggard / Overview",
        "Which hosts have an incident, which are unusual, and what has changed. A score of 1 is the budget for false "
        "alarms, by default one per host and day: above 1 is anomalous. From here go to the host.",
        variables=common_variables(every_host=True),
        annotations=annotations_by(ON_HOST, "all"),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("Hosts by score", [_hosts(), _scores()]),
            Row("Applications, pools and services", [_applications(), _pools(), _services()]),
            Row("What has changed", [_when(), _newest_incidents()]),
        ],
    )


def _numbers() -> list[PanelBuilder]:
    return [
        number(
            "Open incidents",
            "Incidents that have not ended: what operators see at one time that may have one cause is one. It ends "
            "when all of it has been calm for five minutes, of pools, services and applications for half a minute. The "
            "table below says which; it leads to the host.",
            or_zero(f"sum({worst(HOST, _OPEN)})"),
            limits=((1, RED),),
        ),
        number(
            "Suspicious hosts",
            "Hosts without an open incident that have an open notice: something is unusual, but not enough for an "
            "incident. There may be ten times as many notices as incidents where nothing is wrong.",
            or_zero(f"sum({worst(HOST, _SUSPICIOUS)})"),
            limits=((1, ORANGE),),
        ),
        number(
            "Hosts watched",
            "Hosts of which laggard has frames now.",
            or_zero(f"count({worst(HOST, _SCORES)})"),
        ),
        number(
            "Silent hosts",
            f"Hosts that sent frames within the last hour, but none for {SILENT_S} s: the agent, the host or the way "
            "to the bus is down. See `systemctl status laggard-agent` there.",
            or_zero(f"count({worst(HOST, f'last_over_time({_RECENT})')} < time() - {SILENT_S})"),
            limits=((1, ORANGE),),
        ),
        number(
            "Young models",
            "Hosts whose model has not yet seen what is usual: think twice before acting upon their scores.",
            or_zero(f"count({worst(HOST, series('laggard_model_young', *ON_HOST))} > 0)"),
        ),
        number(
            "Records behind",
            "Records on the bus that are not processed yet. When this grows, all that is shown here is late.",
            or_zero(f"sum({worst(TASK, series('laggard_lag_records', *PLACE))})"),
            limits=((1000, ORANGE),),
            link=("Look at the pipeline", dashboard_url(PIPELINE_UID)),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "What is wrong now, the worst first: the process and the feature that are to blame so far, the worst value, "
        "what was usual, and how many operators see it. Features are in the base unit that their name ends with. A "
        "host leads to what laggard saw there around the beginning; `laggard incidents` says it in sentences.",
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
        "All hosts of the time range, the most unusual first. Incidents are those that began in the time range; by "
        "chance there are as many as the budgets for false alarms allow in it, where nothing is wrong. Prolonged high "
        "use, which the operator `cpu` tells, is no chance and has no budget.",
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
                "By chance",
                f"{_BUDGET} * $__range_s / 86400",
                decimals=1,
            ),
            Column(
                "Marks",
                f"round(sum by ({HOST}) (increase({series('laggard_marks_total', *ON_HOST, window='$__range')})))",
                decimals=0,
            ),
            Column("Known for", worst(HOST, series("laggard_model_age_seconds", *ON_HOST)), unit="s", decimals=0),
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
        empty="No host in this time range. Does a worker run, and does Prometheus scrape it?",
    )


def _scores() -> PanelBuilder:
    top = worst(HOST, f"max_over_time({series('laggard_score', *ON_HOST, window='$__range')} @ end())")
    return graph(
        "Scores of the ten most unusual hosts",
        "Those whose score was highest in the time range. The dashed line is 1, the budget for false alarms; above it "
        "the axis is logarithmic. Many hosts that rise together have a cause in common: a shared disk, a deployment.",
        [(f"{worst(HOST, _SCORES)} and on ({HOST}) topk(10, {top})", "{{host}}")],
        span=10,
        height=9,
        limits=SCORE,
        symlog=True,
    )


def _applications() -> PanelBuilder:
    return table(
        "Applications",
        "Those whose performance is measured, the most unusual first: slower than usual, or farther from their models. "
        "An application leads to the resources that explain it.",
        {"environment": "Environment", "cluster": "Cluster", "application": "Application"},
        _of_others(APPLICATION, 'application!=""'),
        sort="Worst",
        links={"Application": ("Look why: this application", application_url())},
        span=12,
        height=6,
        empty="No application is measured (`laggard measure`).",
    )


def _pools() -> PanelBuilder:
    # `younger` is no trouble.
    deviating = series("laggard_pool_deviating", *PLACE, 'kind!="younger"')
    return table(
        "Pools",
        "Those whose members are compared, the most unusual first, and how many members behave unlike the others now. "
        "A pool leads to who they are.",
        {"environment": "Environment", "cluster": "Cluster", "pool": "Pool"},
        [
            *_of_others(POOL, 'pool!=""'),
            Column("Members", worst(POOL, series("laggard_pool_members", *PLACE)), decimals=0),
            Column(
                "Deviate",
                f"sum by ({POOL}) ({worst(f'{POOL}, kind', deviating)})",
                decimals=0,
                limits=((1, ORANGE),),
            ),
        ],
        sort="Worst",
        links={"Pool": ("Look who: this pool", pool_url())},
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
        "Those whose requests are traced, the most unusual first, and the share of the requests of the last five "
        "minutes that is out of line. A service leads to why.",
        {"environment": "Environment", "cluster": "Cluster", "service": "Service"},
        [
            *_of_others(SERVICE, 'service!=""'),
            Column("Requests a second", rate(), decimals=1),
            Column("Out of line", f"{outlying} / ({rate()} > 0)", unit="percentunit", decimals=2),
        ],
        sort="Worst",
        links={"Service": ("Look why: this service", service_url())},
        height=6,
        empty="No service is traced (`laggard trace`).",
    )


def _of_others(by: str, which: str) -> list[Column]:
    """The score and the incidents of what is no host."""
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
        "When hosts had incidents",
        "Each host that had an incident in the time range. What begins on several at once has one cause.",
        f"({worst(HOST, _OPEN)} > bool 0) and on ({HOST}) {had} > 0",
        "{{host}}",
        {0: ("calm", "transparent"), 1: ("incident", RED)},
    )


def _newest_incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, also those that have ended: compare the time with deployments, jobs and marks. The value is "
        "the worst that was seen. One whose blame went to another process meanwhile has a line for each.",
        incident_labels(host=True),
        incident_columns(ON_HOST, window="$__range", labels=incident_labels(host=True)),
        sort="Began",
        links=incident_links(),
        height=7,
        empty="No incident began or was open in this time range.",
    )
