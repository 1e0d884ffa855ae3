"""Ward's method and the clusters of a tree as textbooks have them, slow and plain: the oracle for the fast ones."""

from __future__ import annotations

import numpy as np


def slow_ward(data: np.ndarray) -> tuple[list[frozenset[int]], list[float]]:
    """What each merge makes, and its height, by Lance and Williams' update of plain distances (R's `ward.D`)."""
    count = data.shape[1]
    clusters = [frozenset([each]) for each in range(count)]
    between = {
        frozenset([clusters[i], clusters[j]]): float(np.linalg.norm(data[:, i] - data[:, j]))
        for i in range(count)
        for j in range(i)
    }
    made, heights = [], []
    while len(clusters) > 1:
        closest = min(between, key=lambda pair: between[pair])
        height = between.pop(closest)
        a, b = closest
        clusters = [each for each in clusters if each not in closest]
        for other in clusters:
            to_a, to_b = between.pop(frozenset([a, other])), between.pop(frozenset([b, other]))
            total = len(a) + len(b) + len(other)
            updated = (len(a) + len(other)) * to_a + (len(b) + len(other)) * to_b - len(other) * height
            between[frozenset([a | b, other])] = updated / total
        clusters.append(a | b)
        made.append(a | b)
        heights.append(height)
    return made, heights


def members(merges: np.ndarray) -> list[frozenset[int]]:
    """The leaves of what each merge made."""
    count = len(merges) + 1
    found = [frozenset([each]) for each in range(count)]
    for a, b in merges[:, :2].astype(int):
        found.append(found[a] | found[b])
    return found[count:]
