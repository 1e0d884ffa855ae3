"""Pools: which members behave unlike the others, how, since when, and by which feature."""

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
    TIMES_USUAL,
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
_WHO: Final = f"{POOL}, member"
_DEVIATION: Final = f"{_WHO}, kind, feature"

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
"""How members deviate, and the colour of each. Of one that does so in several ways the first is shown."""


def pools() -> Dashboard:
    """The dashboard, built."""
    return assemble(
        POOLS_UID,
        "laggard / Pools",
        "Which members of pools - threads, prefork workers, replicas, hosts - behave unlike the others, how, since "
        "when, and by which feature. `laggard pools POOL` tells it in sentences, and draws who resembles whom.",
        variables=[
            *common_variables(every_host=None),
            query_variable(
                "pool",
                "Pool",
                f"label_values({series('laggard_pool_members', *PLACE)}, pool)",
                "Pools that have been compared in the time range.",
                every=True,
            ).all_value(".+"),  # hosts have series, too
        ],
        annotations=of_pools(_HERE),
        rows=[
            Row("Now", [*_numbers(), _open_incidents()]),
            Row("Who deviates", [_deviations(), _when(), _kinds()]),
            Row("Members", [_scores_of_members(), _members()]),
            Row("What happened", [_incidents()]),
        ],
    )


def _numbers() -> list[PanelBuilder]:
    young = worst(POOL, series("laggard_model_young", *_HERE))
    newest = worst(POOL, series("laggard_frame_timestamp_seconds", *_HERE))
    troubled = worst(f"{POOL}, kind", series("laggard_pool_deviating", *_HERE, 'kind!="younger"'))
    return [
        number(
            "Open incidents",
            "Incidents of pools that have not ended. The table below says which member it is, and what sets it apart.",
            or_zero(f"sum({worst(POOL, series('laggard_incidents_open', *_HERE))})"),
            limits=((1, RED),),
        ),
        number(
            "Pools above 1",
            "Pools in which a member is farther from the others than the budget for false alarms allows, by default "
            "one per pool and day.",
            or_zero(f"count({worst(POOL, _SCORES)} > 1)"),
            limits=((1, ORANGE),),
        ),
        number(
            "Members that deviate",
            "Members that behave unlike the others now; not those that only began later. One that deviates in two ways "
            "counts twice. Many at once have a cause in common: a host, a deployment, a kind of work.",
            or_zero(f"sum({troubled})"),
            limits=((1, ORANGE),),
        ),
        number(
            "Members compared",
            "Members of all these pools that are there now. What is missing here is not watched: `pools.members`, "
            "`pools.threads` and `pools.discover` say what is.",
            or_zero(f"sum({_MEMBERS})"),
        ),
        number(
            "Young",
            "Pools whose members have not been watched for long enough to rely on what is said of them: think twice "
            "before acting upon their scores.",
            or_zero(f"count({young} > 0)"),
        ),
        number(
            "Last tick",
            "How old the newest tick of the pool that was silent longest is. When this grows, look at its hosts' "
            "agents, at `laggard measure`, or at the pipeline.",
            f"max(time() - {newest})",
            unit="s",
            limits=((300, ORANGE),),
        ),
    ]


def _open_incidents() -> PanelBuilder:
    return table(
        "Open incidents",
        "What is wrong now, the worst first: the member that is to blame so far, the feature that sets it apart, the "
        "worst value, and what is usual in the pool. A pool leads to what was seen around the beginning; `laggard "
        "incidents` says it in sentences.",
        pool_labels(),
        incident_columns(_HERE, labels=pool_labels()),
        sort="Score",
        links={"Pool": ("Look at this pool when the incident began", pool_url(time=incident_span()))},
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
        "All members that are unlike the others, the worst first, with the feature that sets them apart most beside "
        "what is usual in the pool. A `leak` will not stop by itself: plan a restart of that member. One that is "
        "`stuck` waits for a lock or for an answer: `laggard diagnose` on its host says in which function. `busy` or a "
        "`spike`: look what it was given to do. `slower`: look at its host, which is the first part of the pool's or "
        "the member's path. `left`: find out why it ended. `younger` is no trouble.",
        labels,
        [
            Column("Score", of("score"), decimals=2, limits=SCORE),
            Column("Since", f"1000 * {of('start_timestamp_seconds')}", unit="dateTimeAsIso"),
            Column("Value", of("value")),
            Column("Usual", of("usual")),
            Column("±", of("usual_deviation")),
            Column("Times usual", f"{of('value')} / ({of('usual')} > 0)", unit=TIMES_USUAL, decimals=1),
        ],
        sort="Score",
        links={
            "Pool": ("Only this pool", pool_url()),
            "Host": ("Look at this host", host_url()),
        },
        height=8,
        empty="All members behave like the others of their pools.",
    )


def _with_host(expression: str) -> str:
    """With the label `host`: the first part of the path of the pool, or else of the member; empty without one."""
    for label in ("member", "pool"):
        expression = f'label_replace({expression}, "host", "$1", "{label}", "([^/]+)/.+")'
    return expression


def _when() -> PanelBuilder:
    def of(kind: str) -> str:
        return worst(_WHO, series("laggard_pool_deviation_score", *_HERE, f'kind="{kind}"'))

    states = " or ".join(f"(0 * {of(kind)} + {value})" for value, kind in enumerate(KINDS, 1))
    scores = series("laggard_pool_deviation_score", *_HERE, window="$__range")
    return timeline(
        "When members deviated, and how",
        "The twenty members that deviated most in the time range. What begins on several at once has one cause; "
        "compare the time with deployments, jobs, and the incidents of their hosts.",
        f"({states}) and on ({_WHO}) topk(20, {worst(_WHO, f'max_over_time({scores} @ end())')})",
        "{{member}} ({{pool}})",
        {value: (kind, color) for value, (kind, color) in enumerate(KINDS.items(), 1)},
        span=14,
        height=9,
    )


def _kinds() -> PanelBuilder:
    by_kind = worst(f"{POOL}, kind", series("laggard_pool_deviating", *_HERE))
    panel = graph(
        "Members that deviate, by kind",
        "Of all these pools. A few that come and go are the budget for false alarms; a number that stays or grows is "
        "not. Many `younger` ones after a deployment are expected.",
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
        "The ten that were farthest from the others in the time range; members of one name are one line, that of the "
        "worst of them. Above 1, the dashed line, is more than the budget for false alarms allows. Several that rise "
        "together are a group: `laggard pools POOL` says what they share.",
        [(f"{scores} and on ({_ROW}) {top}", "{{row}} ({{pool}})")],
        limits=SCORE,
        symlog=True,
    )


def _members() -> PanelBuilder:
    return graph(
        "Members",
        "How many members each pool has. Fewer than before: some ended, or their host does not tell any more. More and "
        "more: nobody takes them back into the pool.",
        [(_MEMBERS, "{{pool}}")],
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "The newest first, also those that have ended. One whose blame went to another member meanwhile has a line for "
        "each.",
        pool_labels(),
        incident_columns(_HERE, window="$__range", labels=pool_labels()),
        sort="Began",
        links={"Pool": ("Look at this pool when the incident began", pool_url(time=incident_span()))},
        height=6,
        empty="No pool had an incident in this time range.",
    )
