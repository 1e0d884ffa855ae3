"""Evidence of an incident: the culprit of an anomaly, its resources, and the leading one of several."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from laggard.pipeline.alarms.text import blames_host
from laggard.pipeline.core.records.outputs import Evidence, Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records.outputs import Anomaly, Blame


def leading_of(evidence: Sequence[Evidence]) -> Evidence:
    """Return the worst evidence that blames a program; without any, the worst that blames the host, or the worst.

    Among equally bad evidence it is the newest: an older one may be calm, and ends only after it has been for a while.
    """
    programs = [each for each in evidence if program_of(each) is not None]
    blaming = programs or [each for each in evidence if each.blame is not None] or evidence
    return max(blaming, key=lambda each: (each.score, each.opened_ts))


def evidence_of(found: Anomaly | Progress) -> Evidence:
    """Return an anomaly as evidence, by its newest record."""
    return Evidence(
        anomaly=found.id,
        operator=found.operator,
        scope=found.scope,
        opened_ts=_began(found),
        until_ts=math.nan,
        score=read_score(found.score),
        young=found.young,
        sentence=found.sentence,
        blame=found.blame,
    )


def _began(record: Anomaly | Progress) -> float:
    if not math.isnan(record.onset_ts):
        return record.onset_ts
    return record.opened_ts if isinstance(record, Progress) else record.ts


def read_score(score: float) -> float:
    """Return a score as it was before it was written as JSON, which has no infinity."""
    return math.inf if math.isnan(score) else score


def program_of(seen: Evidence) -> Blame | None:
    """Return the program that an anomaly blames, if it is not the host itself."""
    return None if blames_host(seen.blame, seen.scope) else seen.blame


def names_of(seen: Evidence) -> list[str]:
    """Return the name of the program that an anomaly blames, if it is not the host itself."""
    program = program_of(seen)
    return [] if program is None else [program.name]


def resources_of(blame: Blame | None) -> tuple[str, ...]:
    """Return the resources of an anomaly, or the kind of its counter without any; nothing if the counter is unknown."""
    if blame is None or not blame.feature:
        return ()
    return blame.resources or (blame.feature.partition("_")[0],)
