"""Answers to marks: what was unusual at a moment that a person noted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.operators.ranking import Ranking
from laggard.pipeline.explaining.text import story
from laggard.pipeline.explaining.verdict import VERDICT_FEATURES, VERDICT_ROWS, narrowed, verdict_of
from laggard.pipeline.scoring.narrator import commands_of
from laggard.pipeline.scoring.scopes import answering, is_near

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.records import Mark
    from laggard.pipeline.scoring.stream import Stream
    from laggard.pipeline.scoring.wired import Wired

MARK_ROWS, MARK_FEATURES = 20, 10

NOTHING_RANKED: Final = Ranking(ts=math.nan, score=math.nan, rows=(), age_s=0.0, young=True)
"""The answer to a mark when no frame is near it."""


def answered(streams: Mapping[str, Stream], wired: Wired, mark: Mark) -> tuple[Ranking | None, str]:
    """Return the ranking at a mark, None when no frame is near it, and the sentences on it."""
    blamed = answering(streams, wired, mark.ts)
    found = _ranking(streams[blamed], mark)
    if found is None:
        return None, ""
    text = _story(found, streams, blamed)
    return narrowed(found, MARK_ROWS, MARK_FEATURES), text


def _ranking(stream: Stream, mark: Mark) -> Ranking | None:
    """Return the ranking of the newest frame; None when that is too far from the mark."""
    scores = stream.scores()
    if scores is None or not is_near(stream, mark.ts):
        return None
    return scores.ranking(rows=VERDICT_ROWS, features=VERDICT_FEATURES)


def _story(ranking: Ranking, streams: Mapping[str, Stream], scope: str) -> str:
    """Return what a ranking of the frame of a scope says, with the part of the host in it."""
    frame, about_host = streams[scope].frame, streams.get("host")
    scores = None if about_host is None else about_host.scores()
    host = None if scores is None else scores.ranking(rows=1, features=VERDICT_FEATURES)
    commands = {} if frame is None else commands_of(frame)
    return " ".join(story(verdict_of(ranking, host), ranking, commands, scope))
