"""Paths, and the courses of groups by their age against means that are taken the plain way."""

from __future__ import annotations

import numpy as np
import pytest

from laggard.operators.covariance.groups import BINS, GROUPS, Courses
from laggard.operators.covariance.results import DEEPEST, path_of
from tests.operators.conftest import plain


@pytest.mark.parametrize(
    ("row", "name", "expected"),
    [
        ("w[1]", "w", ("w[1]",)),
        ("web-1/w[1]", "w", ("web-1", "w[1]")),
        ("web-1/w[1]", "other/w", ("web-1", "w[1]")),
        ("w[1]", "web-1/java/w", ("web-1", "java", "w[1]")),
        ("a/b/c/d", "d", ("a", "b", "c", "d")),
        ("a/b/c/d/e/f", "f", ("a", "b", "c", "d/e/f")),
        ("f", "a/b/c/d/e/f", ("a", "b", "c", "d/e/f")),
        ("", "", ("",)),
    ],
)
def test_a_place_is_taken_from_the_id_or_from_the_name(row: str, name: str, expected: tuple[str, ...]) -> None:
    found = path_of(row, name)
    assert found == expected
    assert len(found) <= DEEPEST
    # A row that is told by its path is found again by it.
    assert path_of("/".join(found), "") == found


@pytest.mark.parametrize("ticks", [1, BINS - 1, BINS, BINS + 1, 2 * BINS, 2 * BINS + 1, 5 * BINS + 3])
def test_a_course_is_the_mean_of_each_part_of_a_life(ticks: int) -> None:
    chance = np.random.default_rng(ticks)
    values = chance.normal(size=(ticks, 2))
    values[chance.random(values.shape) < 0.3] = np.nan
    courses = Courses(2)
    for tick in range(ticks):
        courses.add(100.0 + tick, "a", values[tick])
    found = courses.means("a")
    assert courses.width == 2 ** max(int(np.ceil(np.log2(ticks / BINS))), 0)
    assert len(found) == -(-ticks // courses.width)
    for at, mean in enumerate(found):
        part = values[at * courses.width : (at + 1) * courses.width]
        for metric in range(2):
            known = part[np.isfinite(part[:, metric]), metric]
            expected = known.mean() if len(known) else np.nan
            np.testing.assert_allclose(mean[metric], expected, rtol=1e-9, atol=1e-12)
    assert (courses.begin_ts("a"), courses.until_ts("a")) == (100.0, 99.0 + ticks)


def test_groups_of_other_ages_keep_their_means_when_one_grows_beyond_the_bins() -> None:
    courses = Courses(1)
    for tick in range(7):
        courses.add(float(tick), "short", np.array([float(tick)]))
    assert courses.means("short")[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for tick in range(2 * BINS + 1):
        courses.add(float(tick), "long", np.array([1.0]))
    assert courses.width == 4
    assert courses.means("short")[:, 0].tolist() == [1.5, 5.0]
    courses.add(7.0, "short", np.array([9.0]))
    assert courses.means("short")[:, 0].tolist() == [1.5, 6.0]


def test_groups_are_bounded_and_the_oldest_go_first() -> None:
    courses = Courses(1)
    for group in range(GROUPS + 2):
        courses.add(0.0, f"group-{group}", np.array([1.0]))
    assert "group-0" not in courses
    assert "group-1" not in courses
    assert "group-2" in courses
    assert len(courses.snapshot()["groups"]) == GROUPS


def test_courses_go_on_from_a_snapshot_which_is_a_copy() -> None:
    chance = np.random.default_rng(1)
    whole, restored = Courses(3), Courses(3)
    restored.restore(whole.snapshot())
    for tick in range(3 * BINS):
        if tick % 50 == 49:
            before = restored
            snapshot = before.snapshot()
            frozen = plain(snapshot)
            restored = Courses(3)
            restored.restore(snapshot)
            before.add(0.0, "a", np.ones(3))
            assert plain(snapshot) == frozen
        for group in ("a", "b")[: 1 + tick % 2]:
            values = chance.normal(size=3)
            whole.add(float(tick), group, values)
            restored.add(float(tick), group, values)
    assert plain(restored.snapshot()) == plain(whole.snapshot())


def test_a_state_of_other_metrics_is_refused() -> None:
    courses = Courses(2)
    courses.add(0.0, "a", np.zeros(2))
    with pytest.raises(ValueError, match=r"courses: expected the shape \(1, 128, 3\), got \(1, 128, 2\)"):
        Courses(3).restore(courses.snapshot())
