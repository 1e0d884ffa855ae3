"""Culprits and victims of a ranking, and causes in the host itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.own import is_own
from laggard.pipeline.explaining.causes import FIRM, HostCounters, causes
from laggard.pipeline.explaining.counters import CATALOGUE
from laggard.pipeline.explaining.explain import ALIKE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.ranking import FeatureScore, Ranking, RowScore
    from laggard.pipeline.explaining.causes import Cause, Resource

WAITS: Final[Mapping[str, float]] = {each.name: each.least for each in CATALOGUE if each.process and each.least}
"""The features that show a process's lack of a resource that others use, each with the least value that is reported, in
its base unit. Features of its own scheduling are not among them."""

FAULTS: Final = "page_faults_major_per_s"
READS: Final = frozenset({FAULTS, "io_read_bytes_per_s", "io_delay_ratio"})
SPREAD: Final = 5
"""This many rows that read again what was in memory are victims of a cold cache; fewer may be its cause."""

SCHEDULED: Final = frozenset({"timeslices_per_s", "switches_voluntary_per_s"})
"""Features that are evidence of neither use nor waits."""

PRESSURES: Final[Mapping[str, float]] = {each.name: each.least for each in CATALOGUE if not each.process and each.least}
"""The features that show a culprit's effect on the host, each with the least value that is reported."""

SIGMAS: Final = 3.0
"""Waits and pressures are reported from this many standard deviations above their baseline on, and from twice its mean
on."""

VERDICT_ROWS: Final = 200
VERDICT_FEATURES: Final = 1000
"""The size of a ranking for a verdict: victims are many, and each uses little; of a host all counters matter."""


RESOURCES: Final[Mapping[str, frozenset[Resource]]] = {
    "cpu": frozenset({"cpu"}),
    "timeslices": frozenset({"cpu"}),
    "switches": frozenset({"cpu"}),
    "threads": frozenset({"cpu", "memory"}),
    "children": frozenset({"cpu", "memory"}),
    "io": frozenset({"disk"}),
    "memory": frozenset({"memory", "disk"}),
    "page": frozenset({"memory", "disk"}),
    "sockets": frozenset({"network"}),
}
"""The resources that a feature uses, or waits for, by its first word. Waits for memory include waits for the disk."""


class Victim(NamedTuple):
    """A row that waits, and its clearest sign of that."""

    row: RowScore
    feature: FeatureScore

    @property
    def resources(self) -> frozenset[Resource]:
        """The resources that it may wait for."""
        return resources_of(self.feature)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusions from a ranking.

    Attributes:
        culprits: rows that use far more than usual, worst first, with scores near that of the first.
        taker: the worst row that does not merely wait, even if it is normal; None without one.
        victims: rows that wait far longer than usual, longest first.
        causes: the causes in the host; of those that are not `outside`, only ones of resources that no culprit uses.
        pressures: the features of the host's pressure that are far above their baselines.
        booted_s: the seconds from the boot of the host to the frame; NaN if unknown or long ago.
        own: laggard's own processes that would be culprits, too. They come last, since investigation makes them deviate
            from their baselines. Without other culprits or causes they are the culprits.

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
        """The resources that the culprits use, by their worst feature and by others with nearly its score."""
        features = (
            each for row in self.culprits for each in row.features if each.score >= ALIKE * row.features[0].score
        )
        return frozenset(resource for each in features for resource in resources_of(each))


def resources_of(feature: FeatureScore) -> frozenset[Resource]:
    """Return the resources that a feature of a process uses, or waits for."""
    return RESOURCES.get(feature.feature.partition("_")[0], frozenset())


def verdict_of(ranking: Ranking, host: Ranking | None = None) -> Verdict:
    """Return the culprits, the victims and the causes in the host.

    Args:
        ranking: a ranking of processes, worst first, with enough rows and features to find the victims.
        host: the host's own row with all its features; None if unknown.

    """
    row = host.rows[0] if host is not None and host.rows else None
    host_causes = () if row is None else causes(row)
    takers = [each for each in ranking.rows if not only_waits(each)]
    takers.sort(key=lambda each: is_own(each.name))  # laggard's own last; the sort is stable, so worst first
    culprits = _culprits(takers)
    if any(each.feature.feature == FAULTS for each in host_causes):
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
    waiting.sort(key=lambda each: -each.feature.scored / WAITS[each.feature.feature])
    worst = culprits[0].score if culprits else 0.0
    own = [each for each in takers if is_own(each.name) and stands_out(each) and each.score >= ALIKE * worst]
    if not culprits and not host_causes:
        culprits, own = own, []
    found = Verdict(tuple(culprits), takers[0] if takers else None, tuple(waiting), own=tuple(own))
    if row is None:
        return found
    explained = found.resources - {"network"}  # open sockets are as often the effect of a bad network as its cause
    left = tuple(cause for cause in host_causes if cause.outside or not culprits or cause.resource not in explained)
    reported = {cause.feature.feature for cause in left}
    pressing = (each for each in row.features if above(each, PRESSURES.get(each.feature, math.inf)))
    return replace(
        found,
        causes=left,
        pressures=tuple(each for each in pressing if each.feature not in reported),
        booted_s=HostCounters(row).booted_s(ranking.ts),
    )


def _culprits(takers: Sequence[RowScore]) -> list[RowScore]:
    others = [row for row in takers if not is_own(row.name)]
    if not (others and stands_out(others[0])):
        return []
    return [row for row in others if stands_out(row) and row.score >= ALIKE * others[0].score]


def _reads_anew(row: RowScore) -> bool:
    """Return whether the worst feature of a row is reading, and it has far more major page faults than usual."""
    if not row.features or row.features[0].feature not in READS:
        return False
    return any(each.feature == FAULTS and above(each, WAITS[FAULTS]) for each in row.features)


def stands_out(row: RowScore) -> bool:
    """Return whether a row is an outlier: beyond the false-alarm budget, or far from its baseline."""
    return row.score > 1.0 or any(each.score >= FIRM for each in row.features)


def only_waits(row: RowScore) -> bool:
    """Return whether a row is only a victim: it waits, and no other feature is far from its baseline.

    A process that hogs a CPU that others use, too, waits for it as well, and is no victim.
    """
    return row.waits and not any(
        each.score >= FIRM and each.feature not in WAITS and each.feature not in SCHEDULED for each in row.features
    )


def waits_for(row: RowScore) -> FeatureScore | None:
    """Return the clearest sign of a row's waits; None if it does not wait longer than usual."""
    found = [each for each in row.features if above(each, WAITS.get(each.feature, math.inf))]
    return max(found, key=lambda each: each.scored / WAITS[each.feature], default=None)


def above(feature: FeatureScore, least: float) -> bool:
    """Return whether a value is at least `least`, twice its mean, and `SIGMAS` standard deviations above the mean."""
    value, spread = feature.scored, feature.standard_deviation
    if not math.isfinite(feature.mean):
        return False
    margin = SIGMAS * spread if math.isfinite(spread) else 0.0
    return value >= least and value >= 2.0 * feature.mean and value >= feature.mean + margin


def narrowed(ranking: Ranking, rows: int, features: int) -> Ranking:
    """Return the ranking with at most `rows` rows, and `features` features of each."""
    return replace(ranking, rows=tuple(replace(row, features=row.features[:features]) for row in ranking.rows[:rows]))
