"""Which earlier incidents are like one: what they have in common, weighed, and told.

Each thing that two incidents have in common adds its weight; the similarity is the sum, by that of all of them, from 0
to 1. Who is blamed weighs most, as what a person looks for is the same culprit; then what it took; that the same
operators saw it, and that it was about the same host, say less, as most incidents of a host have that in common:
without more in common two incidents are not similar.

=========================================================================  ======
the same name is blamed, by the incident or by any operator that saw it    4
the same feature is blamed; where not that, the same resource (half)       2
the same operators saw it, on the same scopes (their Jaccard index)        1
it is about the same host, application, pool or service                    1
=========================================================================  ======
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.incidents.queries import blames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.records.outputs import Blame, Incident

NAME: Final = 4.0
FEATURE: Final = 2.0
OPERATORS: Final = 1.0
KEY: Final = 1.0
"""What each thing in common weighs."""

LEAST: Final = 0.375
"""From here on incidents are similar: what the operators and the key make together is less, with the resource it is
this."""


class Similar(NamedTuple):
    """An incident that is like another one.

    Attributes:
        incident: it.
        similarity: from 0 to 1.
        common: what they have in common, in plain words.

    """

    incident: Incident
    similarity: float
    common: tuple[str, ...]


def similar(incident: Incident, others: Iterable[Incident], most: int) -> list[Similar]:
    """Those that are like an incident and opened before it, the most alike first, of equal ones the newest.

    Args:
        incident: to which they are like.
        others: among which to look; what proved to be a part of another one is passed over.
        most: how many are given at most.

    """
    earlier = (
        each
        for each in others
        if each.opened_ts < incident.opened_ts and each.id != incident.id and not each.merged_into
    )
    found = [each for each in (_compared(incident, one) for one in earlier) if each.similarity >= LEAST]
    return sorted(found, key=lambda each: (-each.similarity, -each.incident.opened_ts))[:most]


def _compared(incident: Incident, other: Incident) -> Similar:
    weight, common = 0.0, []
    mine, theirs = blames(incident), blames(other)
    if names := {each.name for each in mine} & {each.name for each in theirs}:
        weight += NAME
        common.append(f"{_listed(names)} {'is' if len(names) == 1 else 'are'} blamed")
    if features := {each.feature for each in mine if each.feature} & {each.feature for each in theirs}:
        weight += FEATURE
        common.append(f"for {_listed(features)}")
    elif resources := _resources(mine) & _resources(theirs):
        weight += FEATURE / 2.0
        common.append(f"for {_listed(resources)}")
    seen, saw = ({(each.operator, each.scope) for each in one.evidence} for one in (incident, other))
    if both := seen & saw:
        weight += OPERATORS * len(both) / len(seen | saw)
        common.append(f"seen by {_listed({operator for operator, _ in both})}")
    if (incident.keyed_by, incident.key) == (other.keyed_by, other.key):
        weight += KEY
        common.append(f"on the same {incident.keyed_by}")
    return Similar(other, weight / (NAME + FEATURE + OPERATORS + KEY), tuple(common))


def _resources(blames: Iterable[Blame]) -> set[str]:
    return {resource for each in blames for resource in each.resources}


def _listed(names: Iterable[str]) -> str:
    return " and ".join(printable(each) for each in sorted(names))
