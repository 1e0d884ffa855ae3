from __future__ import annotations

import math

import pytest

from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.core.records import UNNUMBERED, Decoder, Mark, encode
from laggard.pipeline.scoring.stream import Stream
from tests.pipeline.core.engine.conftest import UNLEARNABLE, Drift, frame


def take(stream: Stream, tick: int, value: float = 5.0) -> None:
    one = frame("h", tick, value)
    stream.learn()
    scores = stream.score(one)
    stream.accept(one, scores, stream.trigger.after(one.ts, scores.score, 60.0)[1])


@pytest.mark.parametrize(
    ("scores", "fired"),
    [
        ([(0, 0.5), (5, 1.1), (10, 3.0), (15, 0.9), (20, 1.2)], [5]),
        ([(0, 1.1), (10, 0.9), (40, 1.0), (70, 1.0), (75, 1.01)], [0, 75]),
        ([(0, 1.1), (10, 0.9), (40, 1.5), (60, 0.1), (90, 1.5)], [0]),
        ([(0, 1.0), (5, math.nan), (10, math.inf)], [10]),
        ([(0, 2.0), (3600, 0.5), (7200, 2.0)], [0, 7200]),
        ([(0, 2.0), (3600, 2.0)], [0]),
    ],
    ids=[
        "once",
        "again after a minute of calm",
        "not after less",
        "not at one, nor at no score",
        "again after one long tick of calm",
        "not between long ticks",
    ],
)
def test_a_trigger_fires_once_until_it_was_quiet(scores: list[tuple[float, float]], fired: list[float]) -> None:
    trigger, times = Trigger(), []
    for ts, score in scores:
        fires, trigger = trigger.after(ts, score, 60.0)
        times += [ts] * fires
    assert times == fired


def test_first_frame_is_new_whatever_it_says() -> None:
    stream = Stream(Drift())
    assert stream.classify(frame("h", 0, 1.0, ts=1.0)) == "new"
    assert stream.scores() is None


@pytest.mark.parametrize(
    ("ts", "sequence", "verdict"),
    [
        (1200.0, 10, "duplicate"),  # the newest again
        (1180.0, 9, "duplicate"),  # an earlier one again
        (1180.0, 7, "late"),  # one that never came
        (1180.0, 11, "late"),  # a new one by a clock that stepped back
        (1180.0, UNNUMBERED, "late"),
        (1200.0, 11, "new"),  # two at one time
        (1200.0, UNNUMBERED, "new"),
        (1201.0, 10, "new"),  # a producer that counts anew
        (1201.0, 2, "new"),
        (1201.0, UNNUMBERED, "new"),
    ],
)
def test_new_duplicate_or_late(ts: float, sequence: int, verdict: str) -> None:
    stream = Stream(Drift())
    for tick in (8, 9, 10):
        take(stream, tick)
    assert stream.ts == 1200.0
    assert stream.classify(frame("h", 0, 1.0, ts=ts, sequence=sequence)) == verdict


def test_a_producer_that_counts_anew_is_followed() -> None:
    stream = Stream(Drift())
    for tick in (8, 9, 10):
        take(stream, tick)
    again = frame("h", 11, 1.0, sequence=8)
    assert stream.classify(again) == "new"
    stream.accept(again, stream.score(again), Trigger())
    assert stream.classify(again) == "duplicate"
    assert stream.classify(frame("h", 12, 1.0, sequence=9)) == "new"


def test_the_newest_frame_is_scored_but_not_learned() -> None:
    operator = Drift()
    stream = Stream(operator)
    take(stream, 1)
    take(stream, 2, 50.0)
    assert operator.learned == 1
    before = stream.scores()
    read = Stream(Drift())
    read.restore(stream.snapshot(), Decoder(), "here")
    after = read.scores()
    assert before is not None
    assert after is not None
    assert after.score == before.score > 1.0
    assert after.ranking(1, 1) == before.ranking(1, 1)


def test_what_the_operator_refuses_to_learn_is_left_out() -> None:
    operator = Drift()
    stream = Stream(operator)
    take(stream, 1, UNLEARNABLE)
    with pytest.raises(ValueError, match="cannot learn"):
        stream.learn()
    assert stream.frame is None
    assert stream.scores() is None
    stream.learn()
    take(stream, 2)
    assert operator.learned == 0


def test_a_state_without_a_frame() -> None:
    stream = Stream(Drift())
    read = Stream(Drift())
    read.restore(stream.snapshot(), Decoder(), "here")
    assert read.ts == -math.inf
    assert read.snapshot()["frame"] is None


def test_a_state_that_does_not_fit() -> None:
    stream = Stream(Drift())
    take(stream, 1)
    state = stream.snapshot()
    with pytest.raises(ValueError, match="here"):
        Stream(Drift()).restore(state | {"frame": b"junk"}, Decoder(), "here")
    with pytest.raises(ValueError, match="expected a frame"):
        Stream(Drift()).restore(state | {"frame": encode(Mark("h", 1.0))}, Decoder(), "here")
    with pytest.raises(KeyError):
        Stream(Drift()).restore({}, Decoder(), "here")


def test_interval() -> None:
    stream = Stream(Drift())
    take(stream, 1)
    assert stream.interval_s == 0.0
    take(stream, 4)
    assert stream.interval_s == 60.0
