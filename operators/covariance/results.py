"""What the operator `covariance` answers: members that deviate, worst first, and the dendrograms that show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.operators.ranking import Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.ranking import FeatureScore

__all__ = ["DEEPEST", "Dendrogram", "Deviation", "Kind", "Level", "Report", "path_of"]

DEEPEST: Final = 4
"""Levels of a path that count; what is below belongs to the last."""


def path_of(row: str, name: str) -> tuple[str, ...]:
    """A member's place, from its id where that is a path, else from its name with the id as last part."""
    parts = row.split("/") if "/" in row else [*name.split("/")[:-1], row]
    return (*parts[: DEEPEST - 1], "/".join(parts[DEEPEST - 1 :])) if len(parts) > DEEPEST else tuple(parts)


@dataclass(frozen=True, slots=True)
class Deviation:
    """Members of a pool that behave unlike the others.

    Attributes:
        rows: id of the member; a group, such as a host or a wave, stands as its path. The published ranking has
            clusters, with all of theirs.
        name: of the member or of the group, for people.
        kind: how they deviate.
        score: above 1 is more than the false-alarm budget allows. For `younger`, which is no trouble, at most 1.
        features: what sets them apart, worst first: the value, and the pool's band as mean and standard deviation.
        begin_ts: since when, seconds since the Unix epoch; NaN where that is not known.
        end_ts: until when; NaN while it lasts.
        window: ticks of the window that shows it best; 0 for the whole life.
        height: at which they merge with others in the dendrogram; NaN without one.
        p_value: the approximately unbiased p-value of that merge in percent, 0 to 100; NaN where none was computed.
        level: path of the group inside which they deviate; empty at the top.
        age_s: for how long they have been known, in seconds.

    """

    rows: tuple[str, ...]
    name: str
    kind: Kind
    score: float
    features: tuple[FeatureScore, ...]
    begin_ts: float
    end_ts: float
    window: int
    height: float
    p_value: float
    level: str
    age_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Dendrogram:
    """Hierarchical clusters (section IV.D and E).

    Attributes:
        labels: of the n leaves.
        merges: float64, shape (n - 1, 4), as scipy's `linkage` gives it: the two clusters that are merged, the height,
            the number of leaves. Clusters below n are leaves, n + i is what merge i made.
        p_values: float64, shape (n - 1,), approximately unbiased, in percent, 0 to 100; NaN where none was computed.

    """

    labels: tuple[str, ...]
    merges: NDArray[np.float64]
    p_values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One step of the top-down analysis: the members of one group, or groups of one, compared with each other.

    Attributes:
        path: of the group whose members these are; empty at the top.
        dendrogram: of its members; None where there are fewer than two.
        deviations: worst first.

    """

    path: str
    dendrogram: Dendrogram | None
    deviations: tuple[Deviation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A pool as a whole (section IV): what `laggard pools` shows, and the end of a replay.

    Attributes:
        ts: of the newest frame, seconds since the Unix epoch.
        members: how many there are now.
        levels: top-down: the top first, then each group that deviates or has members that do.
        ranking: all deviations, worst first: one of a group stands before those of its members.
        age_s: how long the pool has been learned from, in seconds.
        young: whether that is too short to be relied on.

    """

    ts: float
    members: int
    levels: tuple[Level, ...]
    ranking: tuple[Deviation, ...]
    age_s: float
    young: bool
