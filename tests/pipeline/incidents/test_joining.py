"""The stage that joins, record by record: what it takes, what it shows, and whom an anomaly blames."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from laggard.operators.ranking import Ranking
from laggard.pipeline.bus import Incoming, Partition
from laggard.pipeline.engine.observers import Observer
from laggard.pipeline.engine.publishing import outgoing
from laggard.pipeline.incidents.joining import Joining
from laggard.pipeline.records.outputs import Incident, RankingOutput
from laggard.pipeline.topics import ANOMALIES, Topics
from tests.pipeline.incidents.test_joiner import T0, anomaly, blame, ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.incidents.joining import JoiningTask
    from laggard.pipeline.records.frame import KeyedBy
    from laggard.pipeline.records.outputs import Anomaly, Progress

TOPICS = Topics()
WHERE = Partition(TOPICS.name(ANOMALIES), 0)


class Shown(Observer):
    """Remembers how many are open, and how many were opened."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.opened = 0

    def joined(self, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], opened: int) -> None:
        self.open.append(len(incidents))
        self.opened += opened


def give(task: JoiningTask, *found: Anomaly | Progress) -> None:
    for each in found:
        one = outgoing(each, TOPICS)
        task.process(Incoming(WHERE, task.position, one.key, one.value, one.ts, one.headers))


def test_live_incidents_that_open_are_counted_once() -> None:
    shown = Shown()
    task = Joining().task(WHERE, observers=[shown])
    first, replayed = anomaly(0, blame("hog")), anomaly(5, blame("other"), live=False)
    give(task, first)
    assert (shown.open, shown.opened) == ([1], 1)
    give(task, replayed)
    assert (shown.open, shown.opened) == ([1, 2], 1), "what is replayed is no news"
    give(task, ended(first, 60))
    assert (shown.open, shown.opened) == ([1, 2, 1], 1)


def test_what_others_write_to_the_topic_is_passed_over() -> None:
    task = Joining().task(WHERE)
    ranking = RankingOutput(T0, "web-1", "slow", Ranking(T0, 1.0, (), 60.0, young=False), "")
    one = anomaly(0, blame("hog"))
    for each in (outgoing(ranking, TOPICS), outgoing(one, TOPICS)):
        task.process(Incoming(WHERE, task.position, each.key, each.value, each.ts))  # without a header that tells
    assert [type(each) for each in task.outputs] == [Incident]
    wrong = replace(outgoing(one, TOPICS), key="web-2")
    task.process(Incoming(WHERE, task.position, wrong.key, wrong.value, wrong.ts, wrong.headers))
    assert "expected the record's key 'web-2', got 'web-1'" in str(task.outputs[-1])
