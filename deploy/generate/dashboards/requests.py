"""The dashboard of requests: their durations and states, the outliers and their causes, and the cost of tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from deploy.generate.dashboards.annotations import of_services
from deploy.generate.dashboards.incidents import incident_columns, incident_span, service_labels
from deploy.generate.dashboards.layout import Row, assemble
from deploy.generate.dashboards.panels import (
    HOST,
    ORANGE,
    PLACE,
    RED,
    REQUESTS_UID,
    SCORE,
    SERVICE,
    TIMES,
    graph,
    number,
    or_zero,
    series,
    service_url,
    worst,
)
from deploy.generate.dashboards.tables import Column, table
from deploy.generate.dashboards.variables import common_variables, query_variable
from laggard.pipeline.methods.requests.words import SPANS, STATES

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from deploy.generate.dashboards.layout import PanelBuilder

_HERE: Final = (*PLACE, 'service=~"$service"')
_CLUSTER: Final = f"{SERVICE}, row"
_NORMAL, _OUTLYING = 'outlying="0"', 'outlying="1"'


def requests() -> Dashboard:
    """Return the dashboard."""
    return assemble(
        REQUESTS_UID,
        "laggard / Requests",
        "How long traced requests take and in which states, which are outliers, and why. `laggard requests SERVICE` "
        "describes the causes in sentences; `laggard requests path ID` draws the critical path of one request.",
        variables=[
            *common_variables(every_host=None),
            query_variable(
                "service",
                "Service",
                f"label_values({series('laggard_requests_total', *PLACE)}, service)",
                "Services with traced requests in the time range.",
                every=True,
            ).all_value(".+"),  # excludes hosts
        ],
        annotations=of_services(_HERE),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("Durations", [_durations(), _scores()]),
            Row("States", [_states("normal"), _states("outlying")]),
            Row("Outliers", [_by_cluster(), _clusters()]),
            Row("Cost of tracing", [_tracing_cpu(), _tracing_lag(), _tracing_events(), _tracing_gaps()]),
            Row("Incidents", [_incidents()]),
        ],
    )


def _rate(metric: str, *matchers: str, by: str) -> str:
    """Return the rate per second. One worker scores each request, so the workers' rates add up."""
    return f"sum by ({by}) (rate({series(metric, *_HERE, *matchers, window='$__rate_interval')}))"


def _numbers() -> list[PanelBuilder]:
    def counted(*matchers: str) -> str:
        return f"sum(rate({series('laggard_request_duration_seconds_count', *_HERE, *matchers, window='5m')}))"

    young = worst(SERVICE, series("laggard_model_young", *_HERE))
    newest = worst(SERVICE, series("laggard_frame_timestamp_seconds", *_HERE))
    return [
        number(
            "Open incidents",
            "Open incidents of services: more requests are outliers than chance allows. The table below shows the "
            "causes.",
            or_zero(f"sum({worst(SERVICE, series('laggard_incidents_open', *_HERE))})"),
            limits=((1, RED),),
        ),
        number(
            "Requests/s",
            "Requests traced and scored in the last five minutes. If some are missing, check `laggard trace status`.",
            or_zero(counted()),
            unit="reqps",
        ),
        number(
            "Outliers",
            "Share of outliers among the requests of the last five minutes. A healthy service has a few per thousand.",
            or_zero(f"{counted(_OUTLYING)} / ({counted()} > 0)"),
            unit="percentunit",
            limits=((0.05, ORANGE),),
        ),
        number(
            "Normal, 99 %",
            "99th percentile of the durations of normal requests in the last five minutes.",
            "histogram_quantile(0.99, sum by (le) (rate("
            f"{series('laggard_request_duration_seconds_bucket', *_HERE, _NORMAL, window='5m')})))",
            unit="s",
        ),
        number(
            "Young models",
            "Services with too few requests so far. Their scores are unreliable.",
            or_zero(f"count({young} > 0)"),
        ),
        number(
            "Last tick",
            "Age of the newest tick of the service that has been silent longest. If it grows, the service gets no "
            "requests, its tracing has stopped (`laggard trace status`), or the pipeline is behind.",
            f"max(time() - {newest})",
            unit="s",
            limits=((300, ORANGE),),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "Open incidents, the worst first: main cause, share of requests that are outliers because of it, and "
        "baseline. Services link to their state at the onset. `laggard incidents` describes each cause in sentences: "
        "the holder of a lock, refused connections, the program that takes the CPU.",
        service_labels(),
        incident_columns(_HERE, labels=service_labels()),
        sort="Score",
        links={"Service": ("Open this service at the onset", service_url(time=incident_span()))},
        height=6,
        empty="No service has an incident.",
    )


def _durations() -> PanelBuilder:
    def quantile(share: float, outlying: str) -> str:
        rates = _rate("laggard_request_duration_seconds_bucket", outlying, by="service, le")
        return f"histogram_quantile({share}, {rates})"

    return graph(
        "Durations of normal and of outlying requests",
        "Median and 90th percentile. If normal requests slow down together with the outliers, the whole service is "
        "overloaded. If only the outliers are slow, see their causes below.",
        [
            (quantile(0.5, _NORMAL), "{{service}} normal, median"),
            (quantile(0.9, _NORMAL), "{{service}} normal, 90 %"),
            (quantile(0.5, _OUTLYING), "{{service}} outlying, median"),
            (quantile(0.9, _OUTLYING), "{{service}} outlying, 90 %"),
        ],
        unit="s",
    )


def _scores() -> PanelBuilder:
    return graph(
        "Score",
        "Score of the worst request of the last half minute. Above 1 (dashed line) it is an outlier; above 1 the "
        "axis is logarithmic. Single outliers raise no alert: an incident means that there are more of one kind than "
        "usual.",
        [(worst(SERVICE, series("laggard_request_score", *_HERE)), "{{service}}")],
        limits=SCORE,
        symlog=True,
    )


def _states(which: str) -> PanelBuilder:
    outlying = _OUTLYING if which == "outlying" else _NORMAL
    per_request = (
        f"{_rate('laggard_request_state_seconds_total', outlying, by='state')} / on () group_left () "
        f"(sum({_rate('laggard_request_duration_seconds_count', outlying, by='service')}) > 0)"
    )
    descriptions = {
        "normal": "Time of a normal request in each state of its threads: the baseline for the outliers beside it.",
        "outlying": "The same for outliers. The states that are larger here delay them. `laggard requests SERVICE` "
        "names the file, socket or lock, and its holder.",
    }
    panel = graph(
        f"Time of {which} requests by state", descriptions[which], [(per_request, "{{state}}")], unit="s", stacked=True
    )
    for state, words in (*STATES.items(), *SPANS.items()):
        shown = [("displayName", words.label), ("color", {"mode": "fixed", "fixedColor": words.color})]
        panel.override_by_name(state, [DynamicConfigValue(*one) for one in shown])
    return panel


def _by_cluster() -> PanelBuilder:
    return graph(
        "Outliers by cause",
        "Outliers per second, clustered by similarity and named by their main cause. Many causes at once may have a "
        "common one, such as a host short of CPU. Dots are examples: `laggard requests path ID` draws one.",
        [(_rate("laggard_requests_outlying_total", by=_CLUSTER), "{{row}} ({{service}})")],
        unit="reqps",
        span=10,
        height=9,
        stacked=True,
        exemplars=True,
    )


def _clusters() -> PanelBuilder:
    def feature(which: str, name: str) -> str:
        found = series(f"laggard_feature_{which}", *_HERE, 'operator="requests"', f'feature="{name}"')
        return worst(_CLUSTER, f"last_over_time({found}[10m])")

    counted = series("laggard_requests_outlying_total", *_HERE, window="$__range")
    scores = series("laggard_row_score", *_HERE, 'operator="requests"', window="$__range")
    share, usual = feature("value", "outlying_ratio"), feature("usual", "outlying_ratio")
    return table(
        "Causes in this time range",
        "Clusters of similar outliers, the largest first: their number, worst score, last share of all requests, "
        "baseline, and time lost per request on average. Scores above 1 exceed the false-alarm budget.",
        {"environment": "Environment", "cluster": "Cluster", "service": "Service", "row": "Cause"},
        [
            Column("Requests", f"round(sum by ({_CLUSTER}) (increase({counted})))", decimals=0),
            Column("Worst", worst(_CLUSTER, f"max_over_time({scores})"), decimals=2, limits=SCORE),
            Column("Share", share, unit="percentunit", decimals=2),
            Column("Baseline", usual, unit="percentunit", decimals=2),
            Column("Ratio", f"({share}) / (({usual}) > 0)", unit=TIMES, decimals=1),
            Column("Lost time", feature("value", "lost_s_per_request"), unit="s", decimals=1),
        ],
        sort="Requests",
        links={"Service": ("Show only this service", service_url())},
        span=14,
        height=9,
        empty="No outliers in this time range.",
    )


def _tracing(metric: str, by: str = HOST) -> str:
    return f"sum by ({by}) (rate({series(f'laggard_trace_{metric}_total', *PLACE, window='$__rate_interval')}))"


def _tracing_cpu() -> PanelBuilder:
    return graph(
        "CPU of tracing",
        "CPU use of `laggard trace` on each host, of one core. The kernel's recording costs extra throughput, most "
        "with short requests. `trace.events_per_s` limits both.",
        [(_tracing("cpu_seconds"), "{{host}}")],
        unit="percentunit",
        span=6,
    )


def _tracing_lag() -> PanelBuilder:
    return graph(
        "Delay of tracing",
        "The longest delay between an event and its analysis. It grows if the tracer gets too little CPU time; then "
        "events are lost.",
        [(worst(HOST, series("laggard_trace_lag_seconds", *PLACE)), "{{host}}")],
        unit="s",
        span=6,
    )


def _tracing_events() -> PanelBuilder:
    return graph(
        "Kernel events",
        "Events read and lost per second. The kernel drops events that come faster than they are read; requests that "
        "overlap such a gap are discarded.",
        [(_tracing("events"), "{{host}}"), (_tracing("lost_events"), "{{host}} lost")],
        span=6,
        symlog=True,
    )


def _tracing_gaps() -> PanelBuilder:
    recorded = worst(HOST, series("laggard_trace_recorded_ratio", *PLACE))
    discarded, published = _tracing("discarded_requests"), _tracing("requests")
    return graph(
        "Recorded time and discarded requests",
        "Share of the time without missing events: less than all if there are more events than "
        "`trace.events_per_s` allows, or than are read in time. Share of the requests that were discarded: `laggard "
        "trace status` has the reasons.",
        [(recorded, "{{host}} recorded"), (f"{discarded} / ({discarded} + {published} > 0)", "{{host}} discarded")],
        unit="percentunit",
        most=1.0,
        span=6,
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, including those that have ended. An incident whose main cause changed has a row for each "
        "cause.",
        service_labels(),
        incident_columns(_HERE, window="$__range", labels=service_labels()),
        sort="Onset",
        links={"Service": ("Open this service at the onset", service_url(time=incident_span()))},
        height=6,
        empty="No service had an incident in this time range.",
    )
