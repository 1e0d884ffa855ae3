"""Troubles as operators tell them, and what joins them makes of it: records of incidents, of anomalies, of marks."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from laggard.operators.ranking import FeatureScore, Phase, Ranking, RowScore
from laggard.pipeline.alarms.courses import JOINED_S
from laggard.pipeline.core.engine.publishing import outgoing, outgoing_diagnosis
from laggard.pipeline.core.records.outputs import Anomaly, Blame, Incident, Progress, RankingOutput, anomaly_id
from laggard.pipeline.core.topics import DIAGNOSES, Topics
from laggard.pipeline.methods.incidents.joiner import Joiner
from tests.pipeline.methods.diagnoses.conftest import TWO_DIPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.bus import Outgoing
    from laggard.pipeline.core.records import KeyedBy
    from laggard.pipeline.core.records.diagnosis import Diagnosis

T0: Final = 1_795_000_000.0
TOPICS: Final = Topics()

HOSTILE: Final = '"><img src=x onerror=alert(1)> `x``` [a](http://evil.example) @all\u202e |'
"""What a process may call itself."""


def anomaly(
    at: float,
    name: str = "hog",
    operator: str = "gaussian",
    *,
    feature: str = "cpu_user_ratio",
    key: str = "web-1",
    keyed_by: KeyedBy = "host",
    scope: str = "process",
    score: float = 3.0,
    resources: tuple[str, ...] = ("cpu",),
    phases: tuple[Phase, ...] = (),
    row: str = "",
) -> Anomaly:
    """What an operator tells at a time, in seconds from `T0`: one row is the culprit, beside it is another one."""
    blame = Blame(row or f"{name}[41@7]", name, feature, 0.97, 0.1, 0.05, resources)
    worst = FeatureScore(feature, 0.97, 0.1, 0.05, 17.0)
    other = FeatureScore("threads", 7.0, 6.0, 1.0, 0.5)
    rows = (
        RowScore(blame.row, name, score, (worst, other), 3600.0, phases=phases),
        RowScore("sshd[2@2]", "sshd", 0.4, (other,), 3600.0),
    )
    return Anomaly(
        id=anomaly_id(operator, key, f"{at} {name} {scope}"),
        operator=operator,
        parameters={},
        keyed_by=keyed_by,
        key=key,
        ts=T0 + at,
        score=score,
        ranking=Ranking(T0 + at, score, rows, 3600.0, young=False),
        sentence=f"`{name}` (pid 41) uses 97 % of one core, says {operator}.",
        model_age_s=3600.0,
        young=False,
        live=True,
        scope=scope,
        blame=blame,
    )


def extended(one: Anomaly, at: float, score: float) -> Progress:
    """It got worse."""
    return _progress(one, T0 + at, "extended", T0 + at, score=score, ranking=replace(one.ranking, ts=T0 + at))


def ended(one: Anomaly, until: float) -> Progress:
    """It was last seen then; told once it has been calm for so long."""
    now = T0 + until + JOINED_S
    return _progress(one, now, "ended", T0 + until, number=2, ranking=Ranking(now, 3.0, (), 3600.0, young=False))


def _progress(one: Anomaly, ts: float, change: Any, until_ts: float, **changed: Any) -> Progress:
    same = {each.name: getattr(one, each.name) for each in fields(one)} | {"ts": ts, "number": 1} | changed
    return Progress(**same, change=change, opened_ts=one.ts, until_ts=until_ts)


def joined(*found: Anomaly | Progress) -> tuple[list[Incident], list[Outgoing]]:
    """The incidents as they were reported, and all records in the order in which a bus has them."""
    joiner = Joiner()
    told: list[Incident] = []
    records = []
    for one in found:
        now = joiner.take(one)
        told += now
        records += [outgoing(each, TOPICS) for each in (one, *now)]
    return told, records


def marked(at: float, note: str, host: str = "web-1") -> Outgoing:
    """What came of a mark."""
    return outgoing(RankingOutput.of(T0 + at, host, note, Ranking(T0 + at, 0.5, (), 60.0, young=False)), TOPICS)


def looked_into(at: float, row: str, name: str, host: str = "web-1", **changed: Any) -> tuple[Diagnosis, Outgoing]:
    """What a process was doing from then on: two minutes of high use, with two dips."""
    shift = T0 + at - TWO_DIPS.phases[0].begin_ts
    phases = tuple(
        replace(each, begin_ts=each.begin_ts + shift, end_ts=each.end_ts + shift) for each in TWO_DIPS.phases
    )
    told = replace(TWO_DIPS, host=host, row=row, name=name, ts=phases[-1].end_ts, phases=phases, **changed)
    return told, outgoing_diagnosis(told, TOPICS.name(DIAGNOSES))


def event(*begins: float) -> Iterator[Phase]:
    """High use and dips in turn, each from one of these times to the next, in seconds from `T0`."""
    for number, (begin, end) in enumerate(pairwise(begins)):
        yield Phase(number % 2 == 0, T0 + begin, T0 + end, 0.95 if number % 2 == 0 else 0.1)


SEEN: Final = anomaly(0)
BY_CPU: Final = anomaly(20, operator="cpu", phases=tuple(event(-100, -40, -35, 20)), score=1.5)
_TOLD, RECORDS = joined(SEEN, BY_CPU, extended(SEEN, 120, 9.0), ended(SEEN, 150), ended(BY_CPU, 160))
HOG: Final = _TOLD[-1]
"""An incident that two operators saw and that got worse, as its last record says; it lasted 160 s from `T0` on."""
