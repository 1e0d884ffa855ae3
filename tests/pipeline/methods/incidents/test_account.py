"""The account of an incident, also in Markdown."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from laggard.operators.ranking import Ranking
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.records.outputs import RankingOutput
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.methods.incidents.account import AFTER_S, BEFORE_S, Account, account
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.methods.incidents.markdown import markdown
from tests.pipeline.methods.incidents.joined import closed, incident
from tests.pipeline.methods.incidents.test_joiner import T0, anomaly, blame, ended, extended

if TYPE_CHECKING:
    from laggard.pipeline.core.bus.embedded import EmbeddedBus
    from laggard.pipeline.core.records.outputs import Anomaly, Progress

TOPICS = Topics()
EMPTY = Ranking(math.nan, math.nan, (), 0.0, young=True)


def told(bus: EmbeddedBus, *written: Anomaly | Progress) -> Account:
    """The account of the incident that the first anomaly opens, after all this was written."""
    one = anomaly(0, blame("hog"))
    (opened,) = Joiner().take(one)
    bus.append([outgoing(each, TOPICS) for each in written])
    return account(bus, TOPICS, opened)


def test_it_is_told_in_the_order_of_time_whatever_was_written_first(bus: EmbeddedBus) -> None:
    one = anomaly(0, blame("hog"))
    at_once, later, end = extended(one, 0), extended(one, 90, score=3.0), ended(one, 120)
    found = told(bus, end, later, at_once, one, anomaly(5, blame("other")))
    assert [(each.kind, each.ts - T0) for each in found.records] == [
        ("anomaly", 0.0), ("progress", 0.0), ("progress", 90.0), ("progress", 420.0),
    ]  # fmt: skip
    assert found.left_out == 0


def test_of_marks_those_about_that_time_are_told(bus: EmbeddedBus) -> None:
    times = [-BEFORE_S + 1, -10.0, AFTER_S + 61.0, 30.0]
    marks = [RankingOutput.of(T0 + at, "web-1", f"slow at {at}", EMPTY, "") for at in times]
    one = anomaly(0, blame("hog"))
    (opened,) = Joiner().take(one)
    over = closed(1, T0, T0 + 60.0)
    bus.append([*(outgoing(each, TOPICS) for each in marks), outgoing(one, TOPICS)])
    assert [each.ts - T0 for each in account(bus, TOPICS, over).marks] == [-BEFORE_S + 1, -10.0, 30.0]
    assert [each.ts - T0 for each in account(bus, TOPICS, opened).marks] == sorted(times), "it goes on"


def test_in_markdown_what_was_unusual_is_a_list_below_the_sentence() -> None:
    one = incident(1, T0)
    newest = {one.evidence[0].anomaly: anomaly(0, blame("hog"))}
    text = markdown(one, Account((), 0, newest, ()), (), "", T0 + 60.0)
    assert "what gaussian saw\n```\n\n- 2 `hog[1@1]`\n  - `cpu_user_ratio`: " in text
    alone = markdown(one, Account((), 0, {}, ()), (), "", T0 + 60.0)
    assert alone.endswith("what gaussian saw\n```\n")


def test_in_markdown_each_section_stands_between_empty_lines() -> None:
    """Else some programs take what is below a list or a sentence for a part of it."""
    one = replace(incident(1, T0), left_out=2)
    mark = RankingOutput.of(T0 + 5.0, "web-1", "slow", EMPTY, "")
    text = markdown(one, Account((), 0, {}, [mark]), (), "https://laggard.example/i", T0 + 60.0)
    assert "\n```\n\n- From " in text
    assert "\n- Page: <https://laggard.example/i>\n\n### Seen by\n\n**`gaussian`**" in text
    assert text.endswith(
        "\n```\n\nAnd by 2 more, which have ended.\n\n### Marks\n\n- 2023-11-14 22:13:25 UTC: `slow`\n"
    )
