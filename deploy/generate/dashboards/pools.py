"""The dashboard of pools: which members deviate from the others, how, since when, and by which feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from deploy.generate.dashboards.annotations import of_pools
from deploy.generate.dashboards.incidents import incident_columns, incident_span, pool_labels
from deploy.generate.dashboards.layout import Row, assemble
from deploy.generate.dashboards.panels import (
    GREEN,
    ORANGE,
    PLACE,
    POOL,
    POOLS_UID,
    RED,
    SCORE,
    TIMES,
    graph,
    host_url,
    number,
    or_zero,
    pool_url,
    series,
    timeline,
    worst,
)
from deploy.generate.dashboards.tables import Column, table
from deploy.generate.dashboards.variables import common_variables, query_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grafana_foundation_sdk.models.dashboard import Dashboard

    from deploy.generate.dashboards.layout import PanelBuilder
    from laggard.operators.ranking import Kind

_HERE: Final = (*PLACE, 'pool=~"$pool"')
_ROW: Final = f"{POOL}, row"
_MEMBER: Final = f"{POOL}, member"
_DEVIATION: Final = f"{_MEMBER}, kind, feature"

_SCORES = series("laggard_score", *_HERE)
_MEMBERS = worst(POOL, series("laggard_pool_members", *_HERE))

KINDS: Final[Mapping[Kind, str]] = {
    "leak": RED,
    "stuck": "purple",
    "left": "dark-red",
    "slower": "blue",
    "busy": ORANGE,
    "spike": "yellow",
    "different": "text",
    "younger": GREEN,
}
"""The kinds of deviation and their colors. A member with several kinds shows the first of them."""


def pools() -> Dashboard:
    """Return the dashboard."""
    return assemble(
        POOLS_UID,
        "laggard / Pools",
        "Which members of pools (threads, prefork workers, replicas, hosts) deviate from the others, how, since "
        "when, and by which feature. `laggard pools POOL` describes it in sentences and draws dendrograms.",
        variables=[
            *common_variables(every_host=None),
            query_variable(
                "pool",
                "Pool",
                f"label_values({series('laggard_pool_members', *PLACE)}, pool)",
                "Pools compared in the time range.",
                every=True,
            ).all_value(".+"),  # excludes hosts
        ],
        annotations=of_pools(_HERE),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("Deviations", [_deviations(), _when(), _kinds()]),
            Row("Members", [_scores_of_members(), _members()]),
            Row("Incidents", [_incidents()]),
        ],
    )


def _numbers() -> list[PanelBuilder]:
    young = worst(POOL, series("laggard_model_young", *_HERE))
    newest = worst(POOL, series("laggard_frame_timestamp_seconds", *_HERE))
    harmful = worst(f"{POOL}, kind", series("laggard_pool_deviating", *_HERE, 'kind!="younger"'))
    return [
        number(
            "Open incidents",
            "Open incidents of pools. The table below shows the culprit member and its most deviating feature.",
            or_zero(f"sum({worst(POOL, series('laggard_incidents_open', *_HERE))})"),
            limits=((1, RED),),
        ),
        number(
            "Deviating pools",
            "Pools with a score above 1: a member deviates by more than the false-alarm budget allows (by default "
            "one incident per pool and day).",
            or_zero(f"count({worst(POOL, _SCORES)} > 1)"),
            limits=((1, ORANGE),),
        ),
        number(
            "Deviating members",
            "Members that deviate from the others now, without those of the kind `younger`. A member with two kinds "
            "counts twice. Many at once have a common cause: a host, a deployment, a kind of work.",
            or_zero(f"sum({harmful})"),
            limits=((1, ORANGE),),
        ),
        number(
            "Compared members",
            "Members of all selected pools. `pools.members`, `pools.threads` and `pools.discover` define which "
            "processes and hosts are compared.",
            or_zero(f"sum({_MEMBERS})"),
        ),
        number(
            "Young models",
            "Pools that have been compared for too short a time. Their scores are unreliable.",
            or_zero(f"count({young} > 0)"),
        ),
        number(
            "Last tick",
            "Age of the newest tick of the pool that has been silent longest. If it grows, check the agents of its "
            "hosts, `laggard measure` and the pipeline.",
            f"max(time() - {newest})",
            unit="s",
            limits=((300, ORANGE),),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "Open incidents, the worst first: present culprit, its most deviating feature, worst value, and the baseline "
        "of the pool. Pools link to their state at the onset. `laggard incidents` describes each incident in "
        "sentences.",
        pool_labels(),
        incident_columns(_HERE, labels=pool_labels()),
        sort="Score",
        links={"Pool": ("Open this pool at the onset", pool_url(time=incident_span()))},
        height=6,
        empty="No pool has an incident.",
    )


def _deviations() -> PanelBuilder:
    labels = {
        "environment": "Environment",
        "cluster": "Cluster",
        "pool": "Pool",
        "host": "Host",
        "member": "Member",
        "kind": "Kind",
        "feature": "Feature",
    }

    def of(metric: str) -> str:
        return _with_host(worst(_DEVIATION, series(f"laggard_pool_deviation_{metric}", *_HERE)))

    return table(
        "Deviations at the end of the time range",
        "Deviating members, the worst first, with their most deviating feature and the baseline of the pool. `leak`: "
        "plan a restart. `stuck`: `laggard diagnose` on the host shows where it waits. `busy`, `spike`: check its "
        "work. `slower`: check its host (the first part of the path of the pool or member). `left`: find out why it "
        "ended. `younger` is harmless.",
        labels,
        [
            Column("Score", of("score"), decimals=2, limits=SCORE),
            Column("Since", f"1000 * {of('start_timestamp_seconds')}", unit="dateTimeAsIso"),
            Column("Value", of("value")),
            Column("Baseline", of("usual")),
            Column("±", of("usual_deviation")),
            Column("Ratio", f"{of('value')} / ({of('usual')} > 0)", unit=TIMES, decimals=1),
        ],
        sort="Score",
        links={
            "Pool": ("Show only this pool", pool_url()),
            "Host": ("Open this host", host_url()),
        },
        height=8,
        empty="No member deviates.",
    )


def _with_host(expression: str) -> str:
    """Add the label `host`: the first part of the path of the pool, otherwise of the member; empty without one."""
    for label in ("member", "pool"):
        expression = f'label_replace({expression}, "host", "$1", "{label}", "([^/]+)/.+")'
    return expression


def _when() -> PanelBuilder:
    def of(kind: str) -> str:
        return worst(_MEMBER, series("laggard_pool_deviation_score", *_HERE, f'kind="{kind}"'))

    states = " or ".join(f"(0 * {of(kind)} + {value})" for value, kind in enumerate(KINDS, 1))
    scores = series("laggard_pool_deviation_score", *_HERE, window="$__range")
    return timeline(
        "Deviations by member and kind",
        "The twenty members with the highest scores in the time range. Simultaneous onsets point to a common cause. "
        "Compare them with deployments, jobs, and the incidents of their hosts.",
        f"({states}) and on ({_MEMBER}) topk(20, {worst(_MEMBER, f'max_over_time({scores} @ end())')})",
        "{{member}} ({{pool}})",
        {value: (kind, color) for value, (kind, color) in enumerate(KINDS.items(), 1)},
        span=14,
        height=9,
    )


def _kinds() -> PanelBuilder:
    by_kind = worst(f"{POOL}, kind", series("laggard_pool_deviating", *_HERE))
    panel = graph(
        "Deviating members by kind",
        "Sum of all selected pools. A few short deviations fit the false-alarm budget; a number that stays or grows "
        "does not. Many `younger` members after a deployment are normal.",
        [(f"sum by (kind) ({by_kind})", "{{kind}}")],
        span=10,
        height=9,
        stacked=True,
    )
    for kind, color in KINDS.items():
        panel.override_by_name(kind, [DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})])
    return panel


def _scores_of_members() -> PanelBuilder:
    scores = worst(_ROW, series("laggard_row_score", *_HERE))
    in_range = series("laggard_row_score", *_HERE, window="$__range")
    top = f"topk(10, {worst(_ROW, f'max_over_time({in_range} @ end())')})"
    return graph(
        "Members by score",
        "The ten members with the highest scores in the time range. Members of one name share a line, which shows "
        "the worst of them. Scores above 1 (dashed line) exceed the false-alarm budget. Members that rise together "
        "may be a group: `laggard pools POOL` shows what they share.",
        [(f"{scores} and on ({_ROW}) {top}", "{{row}} ({{pool}})")],
        limits=SCORE,
        symlog=True,
    )


def _members() -> PanelBuilder:
    return graph(
        "Members",
        "Members of each pool. If it falls, members have ended or their host is silent. If it keeps growing, the "
        "pool leaks members.",
        [(_MEMBERS, "{{pool}}")],
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, including those that have ended. An incident whose culprit changed has a row for each "
        "member.",
        pool_labels(),
        incident_columns(_HERE, window="$__range", labels=pool_labels()),
        sort="Onset",
        links={"Pool": ("Open this pool at the onset", pool_url(time=incident_span()))},
        height=6,
        empty="No pool had an incident in this time range.",
    )
