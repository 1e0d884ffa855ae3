"""The published method: from the samples of members to the ranking (S3, Syer, Adams, Hassan, section IV)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from laggard.operators.covariance.clustering import au_p_values, ward
from laggard.operators.covariance.distance import FLOOR, pairwise
from laggard.operators.covariance.results import Dendrogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Ranked(NamedTuple):
    """A deviating cluster.

    Attributes:
        leaves: the places of its members.
        merge: the merge that takes the cluster into a larger one, with the height and the p-value of the deviation; -1
            for the cluster of all.

    """

    leaves: tuple[int, ...]
    merge: int


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The results for members that are compared with each other.

    Attributes:
        dendrogram: the dendrogram of the members; None for fewer than two.
        ranking: the deviating clusters, worst first.

    """

    dendrogram: Dendrogram | None
    ranking: tuple[Ranked, ...]


def published(
    groups: Mapping[str, Mapping[str, Floats]], *, replicates: int = 1000, seed: int = 0, floor: float = FLOOR
) -> dict[str, Published]:
    """Run the method for groups of members, such as the waves of a load test: one dendrogram and ranking each.

    It computes covariances of the samples, distances of all pairs inside a group, Ward's clusters with p-values, and
    the ranking by `rank`. `max_height` is the maximum over the dendrograms of all groups. With its own maximum the top
    of each dendrogram would pass line 16, and every pool without deviations would have a ranked cluster. With the
    recipe of section V.H, precision and recall by kind are those of table III for this `max_height`, and for
    `num_clusters` as in `rank`.

    Parameters:
        groups: the samples of members by name, by the name of the group: shape (ticks, metrics), with the same metrics
            for all members of a group. A tick with NaN in any metric does not count.
        replicates: the number of bootstrap samples per scale.
        seed: the seed of the bootstrap.
        floor: see `distance.whiten`.

    Raises:
        ValueError: a member has fewer than two samples.

    Example:
        >>> chance = np.random.default_rng(1)
        >>> threads = {f"thread-{each}": chance.normal(size=(200, 2)) for each in range(6)}
        >>> threads["thread-4"][100:, 1] += np.linspace(0.0, 30.0, 100)  # it leaks
        >>> found = published({"": threads}, replicates=100)[""]
        >>> [[found.dendrogram.labels[each] for each in cluster.leaves] for cluster in found.ranking]
        [['thread-4']]

    """
    trees: dict[str, tuple[Floats, Floats]] = {}
    for group, members in groups.items():
        if len(members) > 1:
            covariances = [covariance(samples, f"{group}/{name}") for name, samples in members.items()]
            distances = pairwise(np.stack(covariances), floor=floor)
            merges = ward(distances)
            trees[group] = merges, au_p_values(distances, merges, replicates=replicates, seed=seed)
    highest = max((float(merges[-1, 2]) for merges, _ in trees.values()), default=0.0)
    return {
        group: Published(Dendrogram(tuple(members), *trees[group]), rank(*trees[group], max_height=highest))
        if group in trees
        else Published(None, ())
        for group, members in groups.items()
    }


def covariance(samples: Floats, name: str = "") -> Floats:
    """Return the unbiased covariance of the complete samples of a member, shape (metrics, metrics) (section IV.C)."""
    complete = samples[np.isfinite(samples).all(axis=1)]
    if len(complete) < 2:
        raise ValueError(f"{name}: expected two complete samples and more, got {len(complete)}")
    deviations = complete - complete[0]
    deviations -= deviations.mean(axis=0)
    found: Floats = deviations.T @ deviations / (len(complete) - 1)
    return found


def aggregated(samples: Sequence[Floats]) -> Floats:
    """Aggregate members, such as those of a host or a wave, into one (section IV.B): their mean at each tick.

    Members are aligned at their first samples. Returns the shape (ticks of the longest, metrics). Missing values do not
    count; NaN if no member has a value.

    Example:
        >>> aggregated([np.array([[1.0], [3.0]]), np.array([[3.0]])]).tolist()
        [[2.0], [3.0]]

    """
    ticks = max(len(each) for each in samples)
    found = np.full((len(samples), ticks, samples[0].shape[1]), np.nan)
    for at, each in enumerate(samples):
        found[at, : len(each)] = each
    there = np.isfinite(found)
    counts = there.sum(axis=0)
    means: Floats = np.where(there, found, 0.0).sum(axis=0) / np.where(counts, counts, np.nan)
    return means


def rank(merges: Floats, p_values: Floats, *, max_height: float | None = None) -> tuple[Ranked, ...]:
    """Rank the deviating clusters of a dendrogram (section IV.F, line by line).

    The pseudo code leaves open:

    - `height(l) - height(s)` is unsigned, as in the worked example: for machine4, 2.5, and machine1/2/3, 0.55, it is
      1.9. A cluster of one has the height of the merge that takes it, like those of machine4 and machine2 there.
    - `num_clusters` is the number of all clusters of the dendrogram, leaves included, 2 n - 1. In section VI.B, lines 4
      and 5 rank two of eight waves together: 2 < num_clusters / 4 holds for 15, not for 8.
    - If both parts are equally large, the left one counts as the smaller.
    - Line 14 has no effect: if line 16 does not hold, a quarter of the height is less than line 15's tenth.
    - With its own numbers, step 3 of the worked example would recurse: the difference of 0.3 is not below 10 % of 2.5.
      Its result follows from any difference that is, as the text says.

    Parameters:
        merges: the merges of two or more members, shape (n - 1, 4), see `ward`.
        p_values: the p-value of each merge in percent, shape (n - 1,); NaN counts as significant.
        max_height: the maximum over all dendrograms that are analyzed together; by default that of this one.

    Example:
        >>> merges = np.array([[0, 2, 0.35, 2], [1, 4, 0.55, 3], [3, 5, 2.5, 4]])  # machine1 to machine4
        >>> rank(merges, np.full(3, 99.0))
        (Ranked(leaves=(3,), merge=2),)

    """
    count = len(merges) + 1
    children = merges[:, :2].astype(np.intp)
    sizes = np.append(np.ones(count, np.intp), merges[:, 3].astype(np.intp))
    parents = np.full(2 * count - 1, -1, np.intp)
    parents[children] = np.arange(count - 1)[:, None]
    heights = np.append(merges[parents[:count], 2], merges[:, 2])
    highest = heights[-1] if max_height is None else max_height
    ranking: list[Ranked] = []
    waiting = [2 * count - 2] if highest > 0.0 else []  # if all are equal none deviates, although 0 >= 0 / 4
    while waiting:
        cluster = waiting.pop()
        if sizes[cluster] == 1 or sizes[cluster] < (2 * count - 1) / 4 - len(ranking):
            ranking.append(Ranked(_leaves(children, cluster), int(parents[cluster])))
            continue
        small, large = children[cluster - count]
        if sizes[small] > sizes[large]:
            small, large = large, small
        height, difference = heights[cluster], abs(heights[large] - heights[small])
        if (
            (difference >= height / 4 and difference >= highest / 10)
            or height > highest / 3
            or (p_values[cluster - count] < 80.0 and max(heights[small], heights[large]) > highest / 4)
        ):
            waiting += [int(large), int(small)]
    return tuple(ranking)


def _leaves(children: NDArray[np.intp], cluster: int) -> tuple[int, ...]:
    count = len(children) + 1
    found, waiting = [], [cluster]
    while waiting:
        each = waiting.pop()
        if each < count:
            found.append(each)
        else:
            waiting += children[each - count].tolist()
    return tuple(sorted(found))
