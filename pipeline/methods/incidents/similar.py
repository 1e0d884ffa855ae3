"""Earlier incidents that are similar to one: a weighted score of their common properties, and these in words.

Each common property of two incidents adds its weight. The similarity is the sum as a share of all weights, from 0 to 1.
The culprit has the largest weight, since people search for the same culprit; the feature comes next. The same operators
and the same host weigh less, since most incidents of a host share them: these alone do not make two incidents similar.

- 4: the same name is blamed, by the incident or by any operator that saw it
- 2: the same feature is blamed; otherwise the same resource (half)
- 1: the same operators saw it, on the same scopes (their Jaccard index)
- 1: it is about the same host, application, pool or service
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.incidents.queries import blames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.records.outputs import Blame, Incident

NAME: Final = 4.0
FEATURE: Final = 2.0
OPERATORS: Final = 1.0
KEY: Final = 1.0
"""The weights of the common properties."""

LEAST: Final = 0.375
"""The least similarity of similar incidents: that of the operators, the key and the resource together. The first two
alone make less."""


class Similar(NamedTuple):
    """An incident that is similar to another one.

    Attributes:
        incident: the incident.
        similarity: from 0 to 1.
        common: their common properties in plain words.

    """

    incident: Incident
    similarity: float
    common: tuple[str, ...]


def similar(incident: Incident, others: Iterable[Incident], most: int) -> list[Similar]:
    """Return the similar incidents that opened before an incident, the most similar first, of equal ones the newest.

    Args:
        incident: the incident.
        others: the incidents to search; merged ones are skipped.
        most: the most results.

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
