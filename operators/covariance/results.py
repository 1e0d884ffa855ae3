"""The results of the operator `covariance`: deviating members, worst first, and the dendrograms that show them."""

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
"""The most levels of a path; deeper ones belong to the last."""


def path_of(row: str, name: str) -> tuple[str, ...]:
    """Return the path of a member: its id if that is a path, otherwise its name with the id as the last part."""
    parts = row.split("/") if "/" in row else [*name.split("/")[:-1], row]
    return (*parts[: DEEPEST - 1], "/".join(parts[DEEPEST - 1 :])) if len(parts) > DEEPEST else tuple(parts)


@dataclass(frozen=True, slots=True)
class Deviation:
    """Members of a pool that deviate from the others.

    Attributes:
        rows: the id of the member, or the path of a group such as a host or a wave. In the published ranking the ids of
            all members of a cluster.
        name: the name of the member or of the group.
        kind: how they deviate.
        score: above 1 is more than the false-alarm budget allows. At most 1 for `younger`, which is no fault.
        features: the deviating features, worst first, with the mean and the standard deviation of the pool.
        begin_ts: the onset, seconds since the Unix epoch; NaN if unknown.
        end_ts: the end, likewise; NaN while it lasts.
        window: the window that shows it best, in ticks; 0 for the whole life.
        height: the height at which they merge with others in the dendrogram; NaN without one.
        p_value: the approximately unbiased p-value of that merge in percent, 0 to 100; NaN if it was not computed.
        level: the path of the group inside which they deviate; empty at the top.
        age_s: their age in seconds.

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
        labels: the labels of the n leaves.
        merges: the merges as in scipy's `linkage`, float64, shape (n - 1, 4): the two merged clusters, the height, and
            the number of leaves. Clusters below n are leaves, n + i is the result of merge i.
        p_values: the approximately unbiased p-values in percent, 0 to 100, float64, shape (n - 1,); NaN for none.

    """

    labels: tuple[str, ...]
    merges: NDArray[np.float64]
    p_values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One step of the top-down analysis: the members, or groups, of one group compared with each other.

    Attributes:
        path: the path of the group; empty at the top.
        dendrogram: the dendrogram of its members; None for fewer than two.
        deviations: the deviating ones, worst first.

    """

    path: str
    dendrogram: Dendrogram | None
    deviations: tuple[Deviation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The analysis of a whole pool (section IV), for `laggard pools` and for the end of a replay.

    Attributes:
        ts: the time of the newest frame, seconds since the Unix epoch.
        members: the present number of members.
        levels: the levels from the top down: the top, then each group that deviates or has deviating members.
        ranking: all deviations, worst first; that of a group before those of its members.
        age_s: the age of the model in seconds.
        young: whether that is too short for reliable results.

    """

    ts: float
    members: int
    levels: tuple[Level, ...]
    ranking: tuple[Deviation, ...]
    age_s: float
    young: bool
