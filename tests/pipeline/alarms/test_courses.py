"""What becomes of an anomaly: that it got worse, goes on and has ended, each told once and seldom."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.ranking import Ranking
from laggard.pipeline.alarms.courses import (
    GOES_ON_S,
    JOINED_S,
    LOOKED_S,
    MOST_CHANGES,
    Course,
    Update,
    followed,
    opening,
    restored,
)
from laggard.pipeline.core.records.outputs import Anomaly, Blame

if TYPE_CHECKING:
    from collections.abc import Iterable

RANKING = Ranking(1000.0, 2.0, (), 60.0, young=False)


def blame(name: str, *resources: str) -> Blame:
    return Blame(f"{name}[1]", name, "x", 1.0, 2.0, 3.0, resources)


def course(score: float = 2.0, name: str = "hog") -> Course:
    """The course of an anomaly at time 0."""
    told = Anomaly(
        ts=0.0,
        id="id",
        operator="drift",
        parameters={},
        keyed_by="host",
        key="h1",
        score=score,
        ranking=RANKING,
        sentence="",
        model_age_s=60.0,
        young=True,
        live=True,
        blame=blame(name),
    )
    return opening(told)


class Looks:
    """Answers which are the culprits, and counts how often it was asked."""

    def __init__(self, answer: Blame | None = None, *, works: bool = True) -> None:
        self.answer = answer
        self.works = works
        self.asked = 0

    def __call__(self) -> tuple[Ranking, Blame | None] | None:
        self.asked += 1
        return (RANKING, self.answer) if self.works else None


def after(
    one: Course, scores: Iterable[tuple[float, float]], look: Looks | None = None, going_on: str = "id"
) -> tuple[tuple[Course, ...], list[tuple[float, Update]]]:
    """What is left and what was told, each with its time, after these times and scores."""
    left: tuple[Course, ...] = (one,)
    told: list[tuple[float, Update]] = []
    for ts, score in scores:
        left, now = followed(left, ts, score, going_on, look or Looks(blame("hog")))
        told += [(ts, each) for each in now]
    return left, told


def test_it_has_ended_when_it_was_calm_for_long_enough() -> None:
    left, told = after(course(), [(10, 3.0), (20, 0.5), (10 + JOINED_S - 1, 1.0)])
    assert (told, left[0].until_ts) == ([], 10)
    (ended,) = after(left[0], [(10 + JOINED_S, 1.0)])[1]
    assert (ended[1].change, ended[1].ranking) == ("ended", None)
    assert (ended[1].course.number, ended[1].course.score, ended[1].course.until_ts) == (1, 3.0, 10)


def test_a_score_of_another_anomaly_does_not_keep_it() -> None:
    left, told = after(course(), [(JOINED_S, 9.0)], going_on="another")
    assert (left, [each.change for _, each in told]) == ((), ["ended"])


def test_that_it_got_worse_is_told_once_a_minute_at_most() -> None:
    doubling = [(float(ts), 2.0 * 2.0 ** (ts / 10)) for ts in range(10, 400, 10)]
    _, told = after(course(), doubling)
    assert [ts for ts, _ in told] == [60.0, 120.0, 180.0, 240.0, 300.0, 360.0]
    slowly = [(ts, 2.0 + score / 1e5) for ts, score in doubling]
    assert [ts for ts, _ in after(course(), slowly)[1]] == [180.0, 240.0, 300.0, 360.0]


def test_it_is_looked_once_a_minute() -> None:
    look = Looks(blame("hog"))
    after(course(), [(float(ts), 2.0) for ts in range(1, 600)], look)
    assert look.asked == 9


def test_a_change_is_a_doubled_score_or_another_culprit() -> None:
    minute = LOOKED_S
    for scores, answers, changes in (
        ([3.9], [None], 0),
        ([4.0], [None], 1),
        ([4.0, 7.9, 8.0], [None] * 3, 2),
        ([2.0], [blame("other")], 1),
        ([2.0, 2.0, 2.0], [blame("other"), blame("hog"), blame("other")], 1),
        ([2.0], [blame("hog", "disk")], 1),
    ):
        one, told = course(), 0
        for number, (score, answer) in enumerate(zip(scores, answers, strict=True), start=1):
            (one,), now = followed((one,), number * minute, score, "id", Looks(answer))
            told += len(now)
        assert told == changes, (scores, answers)


def test_it_is_reported_ever_less_often_and_a_bounded_number_of_times() -> None:
    days = 30
    doubling = ((ts * 60.0, 2.0 ** min(ts, 1000)) for ts in range(1, days * 24 * 60))
    _, told = after(course(), doubling)
    times = [ts for ts, _ in told]
    goes_on = [GOES_ON_S * 2**times for times in range(12)]
    assert len(times) <= MOST_CHANGES + len(goes_on)
    assert set(goes_on) <= set(times)
    assert [each.course.number for _, each in told] == list(range(1, len(told) + 1))


def test_it_goes_on_is_told_with_what_it_is_like_now() -> None:
    _, told = after(course(), [(float(ts), 2.0) for ts in range(60, 4000, 60)])
    assert [(ts, each.change, each.ranking) for ts, each in told] == [
        (ts, "extended", RANKING) for ts in (900.0, 1800.0, 3600.0)
    ]


def test_what_cannot_be_ranked_is_looked_at_again_a_minute_later() -> None:
    look = Looks(works=False)
    left, told = after(course(), [(float(ts), 90.0) for ts in range(1, 1200)], look)
    assert (told, look.asked) == ([], 19)
    _, told = after(left[0], [(1300.0, 90.0)])
    assert [each.change for _, each in told] == ["extended"]


@given(
    st.lists(st.tuples(st.floats(0.1, 1000.0), st.sampled_from([0.5, 1.5, 4.0, math.inf, math.nan])), max_size=40),
    st.integers(0, 40),
)
def test_a_course_that_was_restored_goes_on_the_same(steps: list[tuple[float, float]], cut: int) -> None:
    times = [(sum(gap for gap, _ in steps[: number + 1]), score) for number, (_, score) in enumerate(steps)]
    want = after(course(), times)
    left, told = after(course(), times[:cut])
    again = tuple(restored(each.snapshot()) for each in left)
    assert again == left
    if again:
        left, more = after(again[0], times[cut:])
        told += more
    assert (left, told) == want


def test_only_one_that_the_operator_keeps_open_has_more_than_an_older_laggard_wrote() -> None:
    one = course()
    kept = one.of_operator("hog[1] 990.0", 990.0)
    assert kept.snapshot().keys() - one.snapshot().keys() == {"own", "onset_ts"}
    assert one.snapshot().keys() == set(Course._fields) - {"own", "onset_ts"}
    assert [restored(each.snapshot()) for each in (one, kept)] == [one, kept]


@pytest.mark.parametrize("blamed", [Blame("a[1]", "a"), None])
def test_who_was_blamed_is_restored(blamed: Blame | None) -> None:
    assert restored(course()._replace(blame=blamed).snapshot()).blame == blamed
