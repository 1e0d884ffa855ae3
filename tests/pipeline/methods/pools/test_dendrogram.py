"""Dendrograms as they are drawn: the order of leaves, and what is folded of large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.records.pools import MAX_LEAVES, Leaf
from laggard.pipeline.methods.pools.dendrogram import (
    MOST,
    ORDINARY,
    folded,
    highest,
    level_output,
    members_of,
    order,
    short_labels,
    ticks,
)
from tests.pipeline.methods.pools.trees import clustered, levels

if TYPE_CHECKING:
    from laggard.operators.covariance.results import Kind
    from laggard.pipeline.core.records.pools import LevelOutput

KINDS: dict[str, Kind] = {"worker-3": "leak", "worker-7": "stuck"}


def clusters(level: LevelOutput) -> list[set[int]]:
    """The leaves of each cluster."""
    found = [{number} for number in range(len(level.leaves))]
    for merge in level.merges:
        found.append(found[merge.first] | found[merge.second])
    return found


@given(levels())
def test_no_lines_cross(level: LevelOutput) -> None:
    places = {number: place for place, number in enumerate(order(level))}
    assert sorted(places) == list(range(len(level.leaves)))
    for cluster in clusters(level):
        taken = sorted(places[number] for number in cluster)
        assert taken == list(range(taken[0], taken[0] + len(cluster)))


@given(levels(60), st.integers(1, 40), st.integers(1, 40))
def test_what_is_folded_still_counts(level: LevelOutput, most: int, ordinary: int) -> None:
    small = folded(level, most, ordinary)
    assert len(small.leaves) == len(small.merges) + 1 == len(small.p_values) + 1
    assert len(small.leaves) <= max(most, 1)
    assert members_of(small) == members_of(level)
    assert sum(leaf.deviating for leaf in small.leaves) == sum(leaf.deviating for leaf in level.leaves)
    assert len(clusters(small)[-1]) == len(small.leaves), "all leaves are below the last merge"
    assert highest(small) == highest(level)
    told = dict(zip(level.merges, level.p_values, strict=True))
    heights = {(merge.height, p_value) for merge, p_value in told.items()}
    assert {(merge.height, p_value) for merge, p_value in zip(small.merges, small.p_values, strict=True)} <= heights
    for leaf in small.leaves:
        assert bool(leaf.deviating) == bool(leaf.kind)
        (of,) = [each for each in level.leaves if each.label == leaf.label]
        assert of.kind == leaf.kind, "a folded leaf is called like the first that deviates"


@given(levels(MOST))
def test_few_leaves_stay_as_they_are(level: LevelOutput) -> None:
    assert folded(level) is level


@pytest.mark.parametrize("members", [41, 320, pytest.param(5000, marks=pytest.mark.slow)])
def test_of_a_large_pool_each_that_deviates_is_drawn(members: int) -> None:
    level = level_output("", clustered(members, KINDS), KINDS)
    assert len(level.leaves) == min(members, MAX_LEAVES)
    small = folded(level)
    assert len(small.leaves) == ORDINARY
    assert [leaf for leaf in small.leaves if leaf.deviating] == [
        Leaf("worker-3", 1, 1, "leak"), Leaf("worker-7", 1, 1, "stuck"),
    ]  # fmt: skip
    assert members_of(small) == members


def test_more_that_deviate_than_there_is_room_for_are_counted() -> None:
    kinds: dict[str, Kind] = {f"worker-{number}": "busy" for number in range(0, 200, 2)}
    level = level_output("", clustered(200, {}), kinds)
    assert len(level.leaves) == MAX_LEAVES
    assert sum(leaf.deviating for leaf in level.leaves) == 100
    assert any(0 < leaf.deviating < leaf.members for leaf in level.leaves)


def test_all_are_alike() -> None:
    dendrogram = clustered(50, {})
    dendrogram.merges[:, 2] = 0.0
    level = level_output("web-1", dendrogram, {})
    assert (level.path, highest(folded(level)), members_of(folded(level))) == ("web-1", 0.0, 50)
    assert ticks(0.0, 5) == [0.0], "without height an axis has nothing but its beginning"


@pytest.mark.parametrize(
    ("labels", "short"),
    [
        (["web-1/java[1@5]/exec-3[7@9]", "web-1/java[1@5]/exec-4[8@9]"], ["exec-3", "exec-4"]),
        (["web-1/nginx[4@5]", "web-1/nginx[6@7]"], ["nginx[4]", "nginx[6]"]),
        (["web-1/nginx[4@5]", "web-1/nginx[4@7]"], ["nginx[4@5]", "nginx[4@7]"]),
        (["web-1/a", "web-2/a"], ["web-1/a", "web-2/a"]),
        (["a/b", "a"], ["a/b", "a"]),
        (["only/one"], ["one"]),
        ([], []),
    ],
)
def test_labels_say_what_tells_members_apart(labels: list[str], short: list[str]) -> None:
    assert short_labels(labels) == short


@given(st.floats(1e-12, 1e12), st.integers(4, 20))
def test_an_axis_has_round_numbers_up_to_its_height(height: float, most: int) -> None:
    found = ticks(height, most)
    assert found[0] == 0.0
    assert 2 <= len(found) <= most
    assert found[-1] <= height * (1 + 1e-6)
    assert all(float(f"{each:.3g}") == pytest.approx(each) for each in found)
