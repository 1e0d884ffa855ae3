"""Dendrograms as they are drawn: which leaves stand for a member, which for a cluster, and in which order.

A large pool has too many leaves to read. Deviating ones stay. The others are folded where they are most alike: a folded
leaf stands for many members, at the height at which these merge.
"""

from __future__ import annotations

import heapq
import math
import re
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records.pools import MAX_LEAVES, Leaf, LevelOutput, Merge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.covariance.results import Dendrogram, Kind

MOST: Final = 40
"""The most leaves that are drawn without folding."""

ORDINARY: Final = 12
"""With more than `MOST`, leaves that do not deviate are folded until there are at most this many."""

_ORDINARY: Final = 2  # the urgency of clusters without a deviation
_START: Final = re.compile(r"@\d+(?=\])")
_IDENTITY: Final = re.compile(r"\[\d+(?:@\d+)?\]")
_DIGITS: Final = re.compile(r"(\d+)")


def level_output(path: str, dendrogram: Dendrogram, kinds: Mapping[str, Kind], most: int = MAX_LEAVES) -> LevelOutput:
    """Return a dendrogram as an output.

    Args:
        path: the path of the group; empty at the top.
        dendrogram: the dendrogram of its members, at least two.
        kinds: the kinds of deviations by label.
        most: the most leaves, see `folded`.

    """
    leaves = tuple(Leaf(each, 1, int(each in kinds), kinds.get(each, "")) for each in dendrogram.labels)
    merges = tuple(
        Merge(int(first), int(second), height, int(members))
        for first, second, height, members in dendrogram.merges.tolist()
    )
    return folded(LevelOutput(path, leaves, merges, tuple(dendrogram.p_values.tolist())), most, most)


def highest(level: LevelOutput) -> float:
    """Return the height of the highest merge; without merges that of the highest leaf."""
    return max([each.height for each in level.merges] or [each.height for each in level.leaves])


def members_of(level: LevelOutput) -> int:
    """Return the number of members or groups in all leaves."""
    return sum(leaf.members for leaf in level.leaves)


def order(level: LevelOutput) -> list[int]:
    """Return the leaves in the order in which no lines cross: the deviating one of two clusters comes first.

    If both or neither deviate, the tighter one comes first, as in R. Two members are ordered by their labels, with
    numbers in them as numbers.
    """
    leaves = len(level.leaves)
    keys = [(not leaf.deviating, leaf.height, natural(leaf.label)) for leaf in level.leaves]
    for merge in level.merges:
        first, second = keys[merge.first], keys[merge.second]
        keys.append((first[0] and second[0], merge.height, min(first[2], second[2])))
    ordered, waiting = [], [len(keys) - 1]
    while waiting:
        cluster = waiting.pop()
        if cluster < leaves:
            ordered.append(cluster)
            continue
        merge = level.merges[cluster - leaves]
        waiting += sorted((merge.first, merge.second), key=keys.__getitem__, reverse=True)
    return ordered


def places(level: LevelOutput) -> list[float]:
    """Return the places of leaves, and then of merges, along the axis: leaves 0, 1, ... in their `order`.

    A merge is midway between the two clusters that it joins, as R draws it.
    """
    found = [0.0] * len(level.leaves)
    for place, number in enumerate(order(level)):
        found[number] = float(place)
    for merge in level.merges:
        found.append((found[merge.first] + found[merge.second]) / 2)
    return found


def folded(level: LevelOutput, most: int = MOST, ordinary: int = ORDINARY) -> LevelOutput:
    """Return a dendrogram with at most `most` leaves; with no more than that it is unchanged.

    Clusters in which some members deviate are unfolded first, the highest before the others. Then come those in which
    all deviate, then the others, until there are `ordinary` leaves.
    """
    leaves = len(level.leaves)
    if leaves <= most:
        return level
    stands_for = [*level.leaves]
    for merge in level.merges:
        stands_for.append(_both(stands_for[merge.first], stands_for[merge.second], merge.height))
    root = len(stands_for) - 1
    waiting = [(_urgency(stands_for[root]), -stands_for[root].height, root)]
    unfolded: set[int] = set()
    while waiting:
        urgency, _, cluster = heapq.heappop(waiting)
        # Each unfolded cluster adds one leaf.
        if cluster < leaves or len(unfolded) + 1 >= (most if urgency < _ORDINARY else min(most, ordinary)):
            continue
        unfolded.add(cluster)
        merge = level.merges[cluster - leaves]
        for part in (merge.first, merge.second):
            heapq.heappush(waiting, (_urgency(stands_for[part]), -stands_for[part].height, part))
    return _unfolded(level, unfolded, stands_for)


def _unfolded(level: LevelOutput, unfolded: set[int], stands_for: Sequence[Leaf]) -> LevelOutput:
    """Return the dendrogram of these merges, given as clusters; all other parts that they join become leaves."""
    leaves = len(level.leaves)
    joined = [cluster - leaves for cluster in sorted(unfolded)]
    parts = {part for number in joined for part in level.merges[number][:2]} or {len(stands_for) - 1}
    remaining = sorted(parts - unfolded)
    numbers = {cluster: number for number, cluster in enumerate((*remaining, *sorted(unfolded)))}
    merges = (level.merges[number] for number in joined)
    return LevelOutput(
        level.path,
        tuple(stands_for[cluster] for cluster in remaining),
        tuple(each._replace(first=numbers[each.first], second=numbers[each.second]) for each in merges),
        tuple(level.p_values[number] for number in joined),
    )


def _urgency(leaf: Leaf) -> int:
    """Return the urgency of unfolding a cluster: the least comes first."""
    return _ORDINARY if not leaf.deviating else int(leaf.deviating == leaf.members)


def _both(first: Leaf, second: Leaf, height: float) -> Leaf:
    one, other = sorted((first, second), key=lambda leaf: (not leaf.deviating, natural(leaf.label)))
    return Leaf(one.label, one.members + other.members, one.deviating + other.deviating, one.kind, height)


def natural(label: str) -> tuple[tuple[int, str], ...]:
    """Return the sort key of a label, by which `worker-9` comes before `worker-10`.

    Example:
        >>> sorted(["worker-10", "worker-9"], key=natural)
        ['worker-9', 'worker-10']

    """
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(label))


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return labels without the path that all share, and without process ids or start times if they stay unique.

    Example:
        >>> short_labels(["java[812@9931]/exec-3[815@9940]", "java[812@9931]/exec-4[816@9941]"])
        ['exec-3', 'exec-4']
        >>> short_labels(["gunicorn[4711@99]", "gunicorn[4712@99]"])
        ['gunicorn[4711]', 'gunicorn[4712]']

    """
    parts = [label.split("/") for label in labels]
    shared = 0
    while len({tuple(each[: shared + 1]) for each in parts}) == 1 and all(len(each) > shared + 1 for each in parts):
        shared += 1
    rests = ["/".join(each[shared:]) for each in parts]
    for pattern in (_IDENTITY, _START):
        shortened = [pattern.sub("", rest) for rest in rests]
        if len(set(shortened)) == len(labels):
            return shortened
    return rests


def without_starts(path: str) -> str:
    """Return a path without the start times of its processes: `java[812]` for `java[812@9931]`."""
    return _START.sub("", path)


def ticks(height: float, most: int) -> list[float]:
    """Return round numbers from 0 up to a height for its axis, at most `most`, which is four or more.

    Example:
        >>> ticks(2.6, 8)
        [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]

    """
    if not 0.0 < height < math.inf:
        return [0.0]
    size = 10.0 ** math.floor(math.log10(height / (most - 1)))
    step = next(size * each for each in (1.0, 2.0, 5.0, 10.0) if size * each * (most - 1) >= height * (1 - 1e-9))
    count = math.floor(height / step * (1 + 1e-9))
    return [number * step for number in range(count + 1)]
