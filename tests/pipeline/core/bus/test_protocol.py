"""Exactly once, whatever happens between any two questions of a member: all orders of a few events are tried.

The test drives the real member on a simulated group and broker, see `simulated`. A run is given by what happens before
each question; the runs are a tree, which is walked through as a whole.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from laggard.pipeline.core.bus.kafka import members
from laggard.pipeline.core.bus.kafka.members import KafkaSubscription
from tests.pipeline.core.bus.simulated import RECORDS, Made, Worker, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.bus.kafka.client import Membership


class Trusting(KafkaSubscription):
    """As members were: a partition is its own until the client reports the loss."""

    def _doubtful(self, touched: set[Partition], membership: Membership) -> set[Partition]:
        return set()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waits take no time."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def monotonic() -> float:
        sleep(0.01)
        return now

    monkeypatch.setattr(members, "time", SimpleNamespace(monotonic=monotonic, sleep=sleep))


QUESTIONS: Final = 14
"""Before each of a number of questions of `a` something may happen; by then it works on its second record."""

EVENTS: Final = ("a is expelled", "b works", "b dies", "an answer is lost", "b is expelled")
"""Each happens once at most, in any order."""


class Found(NamedTuple):
    """What came of a run.

    Attributes:
        outputs: what was committed.
        happened: what happened, and before which question of `a`.
        branches: at each choice, how many things could have happened.

    """

    outputs: list[Made]
    happened: list[str]
    branches: list[int]


def run(choices: Sequence[int], events: Sequence[str], kind: type[KafkaSubscription], *, forgetful: bool) -> Found:
    """Let `a` and `b` share two partitions; in the end another one takes what is left."""
    happened: list[str] = []
    questions: list[str] = []
    branches: list[int] = []
    busy = True

    def happen(_: World, who: str, what: str) -> None:
        nonlocal busy
        if busy or who != "a":
            return
        questions.append(what)
        while len(questions) <= QUESTIONS and (
            left := [each for each in events if not any(each in one for one in happened)]
        ):
            choice = choices[len(branches)] if len(branches) < len(choices) else 0
            branches.append(len(left) + 1)
            if not choice:
                return
            event = left[choice - 1]
            happened.append(f"{event} before question {len(questions)}: {what}")
            busy = True
            acts[event]()
            busy = False

    world = World(2, happen)
    a, b = (Worker(world, name, kind, forgetful=forgetful) for name in ("a", "b"))
    acts: dict[str, Callable[[], object]] = {
        "a is expelled": lambda: world.expel("a"),
        "b works": b.work,
        "b dies": b.die,
        "an answer is lost": lambda: world.lost.add("a"),
        "b is expelled": lambda: world.expel("b"),
    }
    b.step()
    busy = False
    a.work()
    busy = True
    for worker in (a, b):
        worker.work()
        worker.die()
    Worker(world, "c", kind).work()
    return Found(world.outputs, happened, branches)


def runs(events: Sequence[str], kind: type[KafkaSubscription], *, forgetful: bool, most: int) -> Iterator[Found]:
    """All runs in which at most a number of things happen."""
    choices: list[int] = []
    while True:
        found = run(choices, events, kind, forgetful=forgetful)
        yield found
        tried = [*choices, *[0] * (len(found.branches) - len(choices))]
        while tried:
            last = tried.pop() + 1
            if last < found.branches[len(tried)] and sum(map(bool, tried)) < most:
                choices = [*tried, last]
                break
        else:
            return


def wrong(found: Found) -> bool:
    """Whether something was lost, or is there twice."""
    due = [(number, offset) for number in range(2) for offset in range(RECORDS)]
    return sorted((each.partition.number, each.offset) for each in found.outputs) != due


@pytest.mark.parametrize("forgetful", [True, False])
@pytest.mark.parametrize(
    ("events", "most", "least"),
    [
        pytest.param(EVENTS[:3], 3, 1000, marks=pytest.mark.slow),
        (EVENTS, 2, 1000),
        pytest.param(EVENTS, 4, 100_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_every_record_counts_once_whatever_happens_in_between(
    events: Sequence[str], most: int, least: int, *, forgetful: bool
) -> None:
    count = 0
    for found in runs(events, KafkaSubscription, forgetful=forgetful, most=most):
        count += 1
        assert not wrong(found), found
    print(f"{count} runs")
    assert count > least


@pytest.mark.slow
def test_a_member_that_trusts_its_client_commits_twice() -> None:
    """What the check is for: a client that joins anew without a word, and takes its transactional id anew, too."""
    events = EVENTS[:3]
    found = [each for each in runs(events, Trusting, forgetful=True, most=3) if wrong(each)]
    assert found
    assert all(len(set(each.outputs)) < len(each.outputs) for each in found), "twice, and nothing lost"
    honest = (each for each in runs(events, Trusting, forgetful=False, most=3))
    assert not any(map(wrong, honest))
