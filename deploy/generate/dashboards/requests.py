"""Requests: how long they take and where that time goes, which are out of line, why, and what tracing costs."""

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
    TIMES_USUAL,
    graph,
    number,
    or_zero,
    series,
    service_url,
    worst,
)
from deploy.generate.dashboards.tables import Column, table
from deploy.generate.dashboards.variables import common_variables, query_variable
from laggard.pipeline.requests.words import SPANS, STATES

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from deploy.generate.dashboards.layout import PanelBuilder

_HERE: Final = (*PLACE, 'service=~"$service"')
_CLUSTER: Final = f"{SERVICE}, row"
_NORMAL, _OUTLYING = 'outlying="0"', 'outlying="1"'


def requests() -> Dashboard:
    """The dashboard, built."""
    return assemble(
        REQUESTS_UID,
        "laggard / Requests",
        "How long traced requests take, in which states of the kernel, which of them are out of line, and what these "
        "wait for. `laggard requests SERVICE` says it in sentences, `laggard requests path ID` draws one of them.",
        variables=[
            *common_variables(every_host=None),
            query_variable(
                "service",
                "Service",
                f"label_values({series('laggard_requests_total', *PLACE)}, service)",
                "Services whose requests have been traced in the time range.",
                every=True,
            ).all_value(".+"),  # hosts have series, too
        ],
        annotations=of_services(_HERE),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("How long they take", [_durations(), _scores()]),
            Row("Where the time goes", [_states("normal"), _states("outlying")]),
            Row("Who is out of line, and why", [_by_cluster(), _clusters()]),
            Row("What tracing costs", [_tracing_cpu(), _tracing_events(), _tracing_gaps()]),
            Row("What happened", [_incidents()]),
        ],
    )


def _rate(metric: str, *matchers: str, by: str) -> str:
    """How much a second. Each request was judged by one worker, so workers add up."""
    return f"sum by ({by}) (rate({series(metric, *_HERE, *matchers, window='$__rate_interval')}))"


def _numbers() -> list[PanelBuilder]:
    def counted(*matchers: str) -> str:
        return f"sum(rate({series('laggard_request_duration_seconds_count', *_HERE, *matchers, window='5m')}))"

    young = worst(SERVICE, series("laggard_model_young", *_HERE))
    newest = worst(SERVICE, series("laggard_frame_timestamp_seconds", *_HERE))
    return [
        number(
            "Open incidents",
            "Incidents of services that have not ended: more requests are out of line than chance allows. The table "
            "below says why.",
            or_zero(f"sum({worst(SERVICE, series('laggard_incidents_open', *_HERE))})"),
            limits=((1, RED),),
        ),
        number(
            "Requests a second",
            "Requests that were traced and judged in the last five minutes. What is missing here is not traced: see "
            "`laggard trace status`.",
            or_zero(counted()),
            unit="reqps",
        ),
        number(
            "Out of line",
            "The share of the requests of the last five minutes that is far from all that is usual. A few of a "
            "thousand are, wherever nothing is wrong.",
            or_zero(f"{counted(_OUTLYING)} / ({counted()} > 0)"),
            unit="percentunit",
            limits=((0.05, ORANGE),),
        ),
        number(
            "Slowest normal",
            "Of the normal requests of the last five minutes, one in a hundred takes longer than this: beyond it "
            "begins what is out of line.",
            "histogram_quantile(0.99, sum by (le) (rate("
            f"{series('laggard_request_duration_seconds_bucket', *_HERE, _NORMAL, window='5m')})))",
            unit="s",
        ),
        number(
            "Young",
            "Services of which too few requests were seen to rely on what is said of them: think twice before acting "
            "upon their scores.",
            or_zero(f"count({young} > 0)"),
        ),
        number(
            "Last tick",
            "How old the newest tick of the service that was silent longest is. When this grows, nobody asks it for "
            "anything, its tracing has ended (`laggard trace status`), or the pipeline is behind.",
            f"max(time() - {newest})",
            unit="s",
            limits=((300, ORANGE),),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "What is wrong now, the worst first: the main cause in a few words, the share of requests that is out of line "
        "because of it, and what is usual. A service leads to what was seen around the beginning; `laggard incidents` "
        "says the cause in sentences, with who holds the lock, what is refused and what takes the CPU.",
        service_labels(),
        incident_columns(_HERE, labels=service_labels()),
        sort="Score",
        links={"Service": ("Look at this service when the incident began", service_url(time=incident_span()))},
        height=6,
        empty="No service has an incident.",
    )


def _durations() -> PanelBuilder:
    def quantile(share: float, outlying: str) -> str:
        rates = _rate("laggard_request_duration_seconds_bucket", outlying, by="service, le")
        return f"histogram_quantile({share}, {rates})"

    return graph(
        "Durations of normal and of outlying requests",
        "The median and what nine of ten stay below. Where normal ones become slower with the outlying ones, all of "
        "the service is loaded; where only the outlying ones do, look why they are.",
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
        "Scores of the worst requests",
        "Of the worst request of the last half minute, how far it is from all that is usual. Above 1, the dashed line, "
        "it is out of line; above it the axis is logarithmic. Single ones are no alarm: an incident is that there are "
        "more of a kind than usual.",
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
    told = {
        "normal": "What is usual: the seconds of a normal request, by the state that its thread was in. Compare each "
        "colour with the same one of the outlying requests beside.",
        "outlying": "The same of requests that are out of line. What is larger here than beside is what they lose "
        "their time in: `laggard requests SERVICE` says on which file, socket or lock, and who has it.",
    }
    panel = graph(
        f"Seconds of {which} requests, by state", told[which], [(per_request, "{{state}}")], unit="s", stacked=True
    )
    for state, words in (*STATES.items(), *SPANS.items()):
        shown = [("displayName", words.label), ("color", {"mode": "fixed", "fixedColor": words.color})]
        panel.override_by_name(state, [DynamicConfigValue(*one) for one in shown])
    return panel


def _by_cluster() -> PanelBuilder:
    return graph(
        "Outlying requests, by their cause",
        "How many a second are out of line, those that are alike together, by their main cause in a few words. What "
        "grows is getting worse; many causes at once have another one in common, such as a machine without CPU. The "
        "dots are examples: `laggard requests path ID` draws one.",
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
        "Outlying requests that are alike, the most first: how many there were, what their share of all requests was "
        "when they came last, what is usual, and the time that they cost each request on average. Above 1 a score is "
        "more than the budget for false alarms allows.",
        {"environment": "Environment", "cluster": "Cluster", "service": "Service", "row": "Cause"},
        [
            Column("Requests", f"round(sum by ({_CLUSTER}) (increase({counted})))", decimals=0),
            Column("Worst", worst(_CLUSTER, f"max_over_time({scores})"), decimals=2, limits=SCORE),
            Column("Share", share, unit="percentunit", decimals=2),
            Column("Usual", usual, unit="percentunit", decimals=2),
            Column("Times usual", f"({share}) / (({usual}) > 0)", unit=TIMES_USUAL, decimals=1),
            Column("Lost", feature("value", "lost_s_per_request"), unit="s", decimals=1),
        ],
        sort="Requests",
        links={"Service": ("Only this service", service_url())},
        span=14,
        height=9,
        empty="No request was out of line in this time range.",
    )


def _tracing(metric: str, by: str = HOST) -> str:
    return f"sum by ({by}) (rate({series(f'laggard_trace_{metric}_total', *PLACE, window='$__rate_interval')}))"


def _tracing_cpu() -> PanelBuilder:
    return graph(
        "CPU of tracing",
        "What `laggard trace` itself uses of one core on each host. What the kernel's own recording costs is not in "
        "it: some percent of the requests a second. `trace.events_per_s` bounds both.",
        [(_tracing("cpu_seconds"), "{{host}}")],
        unit="percentunit",
        span=8,
    )


def _tracing_events() -> PanelBuilder:
    return graph(
        "Events of the kernel, and those lost",
        "Events that were read a second, and those that the kernel dropped because they came faster than they were "
        "read: requests that overlap such a gap are not judged.",
        [(_tracing("events"), "{{host}}"), (_tracing("lost_events"), "{{host}} lost")],
        span=8,
        symlog=True,
    )


def _tracing_gaps() -> PanelBuilder:
    recorded = worst(HOST, series("laggard_trace_recorded_ratio", *PLACE))
    discarded, told = _tracing("discarded_requests"), _tracing("requests")
    return graph(
        "What was recorded and judged",
        "The share of the time in which events were recorded: less than all where there are more than "
        "`trace.events_per_s` allows. And the share of requests that could not be judged, for lost events or because "
        "the method does not fit them: `laggard trace status` says which.",
        [(recorded, "{{host}} recorded"), (f"{discarded} / ({discarded} + {told} > 0)", "{{host}} discarded")],
        unit="percentunit",
        most=1.0,
        span=8,
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, also those that have ended. One whose main cause changed has a line for each.",
        service_labels(),
        incident_columns(_HERE, window="$__range", labels=service_labels()),
        sort="Began",
        links={"Service": ("Look at this service when the incident began", service_url(time=incident_span()))},
        height=6,
        empty="No service had an incident in this time range.",
    )
