"""Who of a ranking is to blame, who only waits for them, and whether it is the host itself that is slow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.explaining.causes import FIRM, HostCounters, causes
from laggard.pipeline.explaining.counters import CATALOGUE
from laggard.pipeline.explaining.explain import ALIKE
from laggard.pipeline.own import is_own

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.ranking import FeatureScore, Ranking, RowScore
    from laggard.pipeline.explaining.causes import Cause, Resource

WAITS: Final[Mapping[str, float]] = {each.name: each.least for each in CATALOGUE if each.process and each.least}
"""What happens to a process for want of a resource that others have, not how it is scheduled by itself; and how much of
it, in its base unit, is told at least."""

FAULTS: Final = "page_faults_major_per_s"
READS: Final = frozenset({FAULTS, "io_read_bytes_per_s", "io_delay_ratio"})
SPREAD: Final = 5
"""So many rows that read and fault in what was in memory before suffer from a cold cache; fewer may be its cause."""

SCHEDULED: Final = frozenset({"timeslices_per_s", "switches_voluntary_per_s"})
"""What neither takes from others nor tells of waiting."""

PRESSURES: Final[Mapping[str, float]] = {each.name: each.least for each in CATALOGUE if not each.process and each.least}
"""What a culprit does to the machine, and how much of it is told at least."""

SIGMAS: Final = 3.0
"""What waits, or presses, is told from so many standard deviations above its usual on, and from twice that."""

JUDGED_ROWS: Final = 200
JUDGED_FEATURES: Final = 1000
"""So much of a ranking is looked at: victims are many, and each takes little; of a host all counters matter."""


RESOURCES: Final[Mapping[str, frozenset[Resource]]] = {
    "cpu": frozenset({"cpu"}),
    "timeslices": frozenset({"cpu"}),
    "switches": frozenset({"cpu"}),
    "threads": frozenset({"cpu", "memory"}),
    "children": frozenset({"cpu", "memory"}),
    "io": frozenset({"disk"}),
    "memory": frozenset({"memory", "disk"}),
    "page": frozenset({"memory", "disk"}),
}
"""By the first word of a feature, what it takes, or waits for. Who wants memory waits for the disk that gives way."""


class Victim(NamedTuple):
    """A row that waits, and the feature that tells so best."""

    row: RowScore
    feature: FeatureScore

    @property
    def resources(self) -> frozenset[Resource]:
        """What it may wait for."""
        return resources_of(self.feature)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a ranking.

    Attributes:
        culprits: rows that take far more than usual, worst first; those that are nearly as unusual as the first.
        taker: the worst row of those that do not merely wait, however usual it is; None where there is none.
        victims: rows that wait far longer than usual, longest first.
        causes: what ails the host, without what a culprit explains: what is about the resources that it takes.
        pressures: of the host, far above their usual.
        booted_s: how long before the frame the host booted; NaN where that is unknown or long ago.
        own: laggard's own processes that would be culprits, too. They come after all others, for looking into what is
            wrong makes them unlike themselves; where nothing else is, they are the culprits.

    """

    culprits: tuple[RowScore, ...]
    taker: RowScore | None
    victims: tuple[Victim, ...]
    causes: tuple[Cause, ...] = ()
    pressures: tuple[FeatureScore, ...] = ()
    booted_s: float = math.nan
    own: tuple[RowScore, ...] = ()

    @property
    def resources(self) -> frozenset[Resource]:
        """What the culprits take: by their worst feature, and by others that are nearly as unusual."""
        told = (each for row in self.culprits for each in row.features if each.score >= ALIKE * row.features[0].score)
        return frozenset(resource for each in told for resource in resources_of(each))


def resources_of(feature: FeatureScore) -> frozenset[Resource]:
    """What a process's feature tells that it takes, or waits for."""
    return RESOURCES.get(feature.feature.partition("_")[0], frozenset())


def judge(ranking: Ranking, host: Ranking | None = None) -> Verdict:
    """Tell culprits, victims and the host apart.

    Args:
        ranking: of processes, worst first, with enough rows and features to find those who wait.
        host: the host's own row with all its features, None where that is not known.

    """
    row = host.rows[0] if host is not None and host.rows else None
    ails = () if row is None else causes(row)
    takers = [each for each in ranking.rows if not only_waits(each)]
    takers.sort(key=lambda each: is_own(each.name))  # those of others first, each worst first as before
    culprits = _culprits(takers)
    if any(each.feature.feature == FAULTS for each in ails):
        readers = [each for each in culprits if _reads_anew(each)]
        if len(readers) >= SPREAD:
            takers = [each for each in takers if each not in readers]
            culprits = _culprits(takers)
    taking = {each.row for each in takers}
    waiting = [
        Victim(each, feature)
        for each in ranking.rows
        if each.row not in taking and (feature := waits_for(each)) is not None
    ]
    waiting.sort(key=lambda each: -each.feature.judged / WAITS[each.feature.feature])
    worst = culprits[0].score if culprits else 0.0
    own = [each for each in takers if is_own(each.name) and stands_out(each) and each.score >= ALIKE * worst]
    if not culprits and not ails:
        culprits, own = own, []
    found = Verdict(tuple(culprits), takers[0] if takers else None, tuple(waiting), own=tuple(own))
    if row is None:
        return found
    explained = found.resources
    left = tuple(cause for cause in ails if cause.outside or not culprits or cause.resource not in explained)
    told = {cause.feature.feature for cause in left}
    pressing = (each for each in row.features if above(each, PRESSURES.get(each.feature, math.inf)))
    return replace(
        found,
        causes=left,
        pressures=tuple(each for each in pressing if each.feature not in told),
        booted_s=HostCounters(row).booted_s(ranking.ts),
    )


def _culprits(takers: Sequence[RowScore]) -> list[RowScore]:
    others = [row for row in takers if not is_own(row.name)]
    if not (others and stands_out(others[0])):
        return []
    return [row for row in others if stands_out(row) and row.score >= ALIKE * others[0].score]


def _reads_anew(row: RowScore) -> bool:
    """Whether what is most unusual about a row is that it reads, and it faults in what was in memory before."""
    if not row.features or row.features[0].feature not in READS:
        return False
    return any(each.feature == FAULTS and above(each, WAITS[FAULTS]) for each in row.features)


def stands_out(row: RowScore) -> bool:
    """Whether a row is out of the ordinary: beyond the budget for alerts, or far from its usual."""
    return row.score > 1.0 or any(each.score >= FIRM for each in row.features)


def only_waits(row: RowScore) -> bool:
    """Whether a row suffers rather than causes: it waits, and of nothing else it takes far more than usual.

    Who hogs a processor that others use too waits for it as well, and is no victim.
    """
    return row.waits and not any(
        each.score >= FIRM and each.feature not in WAITS and each.feature not in SCHEDULED for each in row.features
    )


def waits_for(row: RowScore) -> FeatureScore | None:
    """The feature that tells best how long a row waits, None where it does not wait longer than usual."""
    found = [each for each in row.features if above(each, WAITS.get(each.feature, math.inf))]
    return max(found, key=lambda each: each.judged / WAITS[each.feature], default=None)


def above(feature: FeatureScore, least: float) -> bool:
    """Whether a value is at least `least`, twice its usual, and `SIGMAS` standard deviations above it."""
    value, spread = feature.judged, feature.standard_deviation
    if not math.isfinite(feature.mean):
        return False
    margin = SIGMAS * spread if math.isfinite(spread) else 0.0
    return value >= least and value >= 2.0 * feature.mean and value >= feature.mean + margin


def narrowed(ranking: Ranking, rows: int, features: int) -> Ranking:
    """The same with at most so many rows, and features of each."""
    return replace(ranking, rows=tuple(replace(row, features=row.features[:features]) for row in ranking.rows[:rows]))
