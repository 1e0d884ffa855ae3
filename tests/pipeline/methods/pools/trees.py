"""Dendrograms to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from hypothesis import strategies as st
from scipy.cluster.hierarchy import ward

from laggard.operators.covariance.results import Dendrogram, Kind
from laggard.pipeline.core.records.pools import Leaf, LevelOutput, Merge

if TYPE_CHECKING:
    from collections.abc import Mapping


MACHINES = LevelOutput(
    "",
    (Leaf("machine1"), Leaf("machine2"), Leaf("machine3"), Leaf("machine4", 1, 1, "different")),
    (Merge(0, 2, 0.25, 2), Merge(1, 4, 0.55, 3), Merge(3, 5, 2.5, 4)),
    (96.0, 85.0, 100.0),
)
"""The paper's figure 1, as far as section IV.F tells it."""


def clustered(members: int, deviating: Mapping[str, Kind], seed: int = 0) -> Dendrogram:
    """Members `worker-0` ... whose places are drawn, those that deviate far from the others and from each other."""
    draw = np.random.default_rng(seed)
    labels = tuple(f"worker-{number}" for number in range(members))
    places = draw.normal(0.0, 0.2, (members, 4))
    for number, label in enumerate(deviating):
        places[labels.index(label)] += 3.0 + number
    p_values = np.clip(draw.normal(90.0, 10.0, members - 1), 0.0, 100.0)
    return Dendrogram(labels, ward(places), p_values)


@st.composite
def levels(draw: st.DrawFn, most: int = 30) -> LevelOutput:
    """Any dendrogram of members, heights growing."""
    count = draw(st.integers(1, most))
    any_kind: st.SearchStrategy[Kind | Literal[""]] = st.sampled_from(("", *get_args(Kind)))
    kinds = draw(st.lists(any_kind, min_size=count, max_size=count))
    leaves = tuple(Leaf(f"w-{number}", 1, int(bool(kind)), kind) for number, kind in enumerate(kinds))
    free, merges, height = list(range(count)), [], 0.0
    sizes = [1] * count
    for number in range(count, 2 * count - 1):
        first, second = (free.pop(draw(st.integers(0, len(free) - 1))) for _ in range(2))
        height += draw(st.sampled_from((0.0, 0.01, 1.0)))
        sizes.append(sizes[first] + sizes[second])
        merges.append(Merge(first, second, height, sizes[-1]))
        free.append(number)
    return LevelOutput("", leaves, tuple(merges), tuple(draw(st.floats(0.0, 100.0)) for _ in merges))
