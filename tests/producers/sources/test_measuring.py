"""Sources as they run: at their intervals, apart from one another, and with what they say of themselves."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import TYPE_CHECKING, Any

from laggard.producers.sources.measuring import LOG_AGAIN_S, Measuring, Timed, Troubles
from laggard.producers.sources.performance import SOURCE, Taken, Trouble, performance_frame
from laggard.producers.system.clock import Clock
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.frame import KeyedBy


class Counting:
    """A source that gives a frame with each read, a number of times."""

    def __init__(self, name: str, reads: int = 3, do: Callable[[], object] = lambda: None) -> None:
        self.name, self.key = name, "shop"
        self.keyed_by: KeyedBy = "application"
        self.left, self.kept, self.closed = reads, 0, False
        self._do = do

    @property
    def finished(self) -> bool:
        return not self.left

    def read(self, ts: float) -> float:
        self.left -= 1
        self._do()
        return ts

    def parse(self, read: float) -> Taken:
        return Taken([performance_frame("shop", read, {"throughput_per_s": 1.0})], samples=2, unusable=1)

    def published(self) -> None:
        self.kept += 1

    def check(self) -> Sequence[Trouble]:
        return []

    def close(self) -> None:
        self.closed = True


class Waiting:
    waiting, dropped = 4, 2


def measured(*sources: Any, publish: Callable[[Sequence[Frame]], bool] | None = None) -> tuple[Measuring, list[Frame]]:
    frames: list[Frame] = []

    def keep(some: Sequence[Frame]) -> bool:
        frames.extend(some)
        return True

    ticks = itertools.count(1_700_000_000 * 10**9, 10**9)
    clock = Clock(wall=lambda: next(ticks), monotonic=lambda: next(ticks))
    timed = [Timed(each, 1.0) for each in sources]
    measuring = Measuring(publish or keep, timed, clock=clock, queue=Waiting())
    measuring.run(threading.Event())
    return measuring, frames


def said_of(frame: Frame) -> dict[str, float]:
    return dict(zip(frame.layout.features, frame.values[0].tolist(), strict=True))


def test_sources_run_until_they_have_finished() -> None:
    first, second = Counting("a"), Counting("b", reads=2)
    measuring, frames = measured(first, second)
    assert measuring.has_read
    assert measuring.frames == 5
    assert (first.closed, second.closed, first.kept) == (True, True, 3)
    own = [frame for frame in frames if frame.scope == SOURCE and frame.layout.rows == ("a",)]
    assert [frame.key for frame in own] == ["shop"] * 3
    last = said_of(own[-1])
    assert (last["samples"], last["unusable_samples"], last["waiting_records"], last["dropped_records"]) == (2, 3, 4, 2)
    assert [frame.sequence for frame in own] == sorted({frame.sequence for frame in own})


def test_one_that_fails_is_counted_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("out of paper")

    failing, well = Counting("bad", do=fail), Counting("well")
    measuring, frames = measured(failing, well)
    assert (measuring.failing, measuring.frames) == (1, 3)
    assert [each.message for each in caplog.records] == ["shop/bad: reading failed with RuntimeError: out of paper"], (
        "once, however often"
    )
    bad = [said_of(frame) for frame in frames if frame.layout.rows == ("bad",)]
    assert [each["failures"] for each in bad] == [1, 2, 3]
    assert failing.closed


def test_a_hanging_source_delays_no_other() -> None:
    gone_on = threading.Event()
    hanging = Counting("hangs", reads=1, do=lambda: gone_on.wait(30))
    well = Counting("well", reads=2, do=lambda: gone_on.set() if well.left == 0 else None)
    assert measured(hanging, well)[0].frames == 3
    assert gone_on.is_set()


def test_its_loops_turn_unless_every_source_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.producers.sources.measuring._TURN_S", 0.01)
    go_on, stop, hung = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        go_on.wait(120)

    rests, hangs = Counting("a", reads=2), Counting("b", reads=1, do=hang)
    measuring = Measuring(lambda frames: True, [Timed(rests, 3600.0), Timed(hangs, 3600.0)])
    running = threading.Thread(target=measuring.run, args=(stop,))
    running.start()
    assert hung.wait(120)
    turns = measuring.turns
    until(lambda: measuring.turns > turns + 3)
    go_on.set()
    stop.set()
    running.join()

    alone = Measuring(lambda frames: True, [Timed(Counting("c", reads=1, do=hang), 3600.0)])
    go_on.clear()
    hung.clear()
    running = threading.Thread(target=alone.run, args=(threading.Event(),))
    running.start()
    assert hung.wait(120)
    turns = alone.turns
    assert not go_on.wait(0.2)
    assert alone.turns == turns
    go_on.set()
    running.join()


def test_what_may_still_be_lost_is_not_called_published() -> None:
    source = Counting("a", reads=4)
    arrives = iter((False, True, False, True))
    measured(source, publish=lambda _: next(arrives))
    assert source.kept == 2


def test_what_cannot_be_published_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    source = Counting("a", reads=2)
    kept: list[float] = []

    def refuse(frames: Sequence[Frame]) -> bool:
        kept.append(said_of(frames[-1])["publish_failures"])
        raise OSError("no")

    measuring, _ = measured(source, publish=refuse)
    assert (measuring.frames, source.kept, kept) == (0, 0, [0, 1])
    assert "they are lost" in caplog.text


def test_it_ends_when_it_is_told_to() -> None:
    stop = threading.Event()
    source = Counting("a", reads=10**9, do=stop.set)
    measuring = Measuring(lambda _: True, [Timed(source, 3600.0)])
    measuring.run(stop)
    assert (source.closed, measuring.frames) == (True, 1)


def test_troubles_are_said_when_they_begin_and_when_they_are_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    now = 0
    troubles = Troubles(Clock(monotonic=lambda: now))
    down, other = Trouble("web-1", "down"), Trouble("web-1", "slow")
    lines = [Trouble(f"log:{number}", "no line", lasting=False) for number in range(9)]
    for some in ([down], [down], [other], [], *[[down]] * 3, lines, lines):
        troubles.log(some)
    now = int((LOG_AGAIN_S + 1) * 1e9)
    troubles.log([lines[0]])
    said = [each.message for each in caplog.records]
    assert said[:4] == ["web-1: down", "web-1: slow", "web-1: recovered", "web-1: down"]
    assert said[4:] == [
        "web-1: recovered",
        *(f"log:{number}: no line" for number in range(5)),
        "log:0: no line",
    ]
