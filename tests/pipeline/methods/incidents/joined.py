"""Incidents as what joins them tells them, for tests of what shows them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.records.outputs import Blame, Evidence, Incident, Notice, anomaly_id, incident_id

if TYPE_CHECKING:
    from laggard.pipeline.core.records.outputs import Change, NoticeChange

NGINX = Blame("nginx[4711@99]", "nginx", "cpu_user_ratio", 0.5, 0.1, 0.01, ("cpu",))


def incident(
    number: int,
    opened_ts: float,
    change: Change = "opened",
    *,
    host: str = "web-1",
    nth: int = 1,
    ts: float = math.nan,
    until_ts: float = math.nan,
    score: float = 2.5,
    sentence: str = "`nginx` <b>uses</b> more",
    operators: tuple[str, ...] = ("gaussian",),
    blame: Blame | None = NGINX,
    live: bool = True,
    young: bool = False,
    merged_into: str = "",
) -> Incident:
    """A record of the incident of this number, which makes its id; by default its first."""
    found = [anomaly_id(operator, host, f"laggard.counters[0]@{number}") for operator in operators]
    feature = FeatureScore("cpu_user_ratio", 0.5, 0.1, 0.01, 3.0)
    row = RowScore(NGINX.row, NGINX.name, 3.0, (feature,), 60.0)
    at = opened_ts if math.isnan(ts) else ts
    return Incident(
        id=incident_id(found[0]),
        number=nth,
        change=change,
        ts=at,
        opened_ts=opened_ts,
        until_ts=until_ts,
        keyed_by="host",
        key=host,
        operator=operators[0],
        score=score,
        blame=blame,
        ranking=Ranking(at, score, (row,), 3600.0, young=young),
        sentence=sentence,
        model_age_s=3600.0,
        young=young,
        live=live,
        evidence=tuple(
            Evidence(identity, operator, "process", opened_ts, until_ts, score, young, f"what {operator} saw", blame)
            for identity, operator in zip(found, operators, strict=True)
        ),
        merged_into=merged_into,
    )


def closed(
    number: int, opened_ts: float, until_ts: float, *, host: str = "web-1", nth: int = 2, merged_into: str = ""
) -> Incident:
    """The last record of an incident, told once it has been calm for five minutes."""
    return incident(
        number, opened_ts, "closed", host=host, nth=nth, ts=until_ts + 300.0, until_ts=until_ts, merged_into=merged_into
    )


def notice(number: int, opened_ts: float, change: NoticeChange = "opened", **more: Any) -> Notice:
    """A record of a notice on a host of its own."""
    ts = opened_ts if change == "opened" else opened_ts + 90.0
    told = Notice(
        id=anomaly_id("gaussian", f"n{number}", "notice"), operator="gaussian", parameters={}, keyed_by="host",
        key=f"n{number}", ts=ts, score=1.5, ranking=Ranking(ts, 1.5, (), 3600.0, young=False),
        sentence=f"what is suspicious {number}", model_age_s=3600.0, young=False, live=True, scope="process",
        change=change, opened_ts=opened_ts, until_ts=ts,
    )  # fmt: skip
    return replace(told, **more)
