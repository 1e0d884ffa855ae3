"""What people ask of the models of an application: to have a metric in them, or in none; and what would be if."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from laggard.pipeline.applications.queries import application_now, known_metrics
from laggard.pipeline.applications.report import WhatIf
from laggard.pipeline.bus import Outgoing
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.names import nearest
from laggard.pipeline.records import Wish, encode
from laggard.pipeline.topics import APPLICATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.applications.application import Operator
    from laggard.pipeline.applications.stage import Regressing
    from laggard.pipeline.bus import Bus
    from laggard.pipeline.topics import Topics


class UnknownApplicationError(LookupError):
    """Nothing is recorded of the application, but maybe its performance or its counters."""


class UnknownMetricError(LookupError):
    """An application does not have this metric.

    Attributes:
        near: those that may be meant.

    """

    def __init__(self, application: str, metric: str, known: int, near: Sequence[str]) -> None:
        super().__init__(f"{printable(application)} has no metric {printable(metric)} among its {known:,}")
        self.near = tuple(near)


def publish(bus: Bus, topics: Topics, stage: Callable[[], Regressing], wish: Wish) -> None:
    """Make a wish: it holds from the application's next interval on.

    Args:
        bus: where it goes.
        topics: the names of the topics.
        stage: makes what builds the models; called for a metric that the newest records do not have.
        wish: of which application and metric.

    Raises:
        RecordError: a name is none.
        UnknownApplicationError: nothing is recorded of the application.
        UnknownMetricError: the application has no such metric.

    """
    value = encode(wish)
    known = known_metrics(bus, topics, wish.application)
    if wish.metric not in known:
        # One that is gone may have been wished for while it was there.
        state = application_now(bus, topics, stage(), wish.application)
        if state is None:
            raise UnknownApplicationError(wish.application)
        wished = {*state.operator.pinned, *state.operator.banned, *(each for _, each, _ in state.wishes)}
        if wish.metric not in wished:
            raise UnknownMetricError(wish.application, wish.metric, len(known), nearest(wish.metric, [*known, *wished]))
    bus.append([Outgoing(topics.name(APPLICATIONS), wish.application, value, wish.ts)])


def what_if(operator: Operator, metric: str, value: float) -> list[WhatIf]:
    """What the models say where a metric has this value, and all others their newest; none where no model has it."""
    newest = operator.newest.get(metric, math.nan)
    return [
        WhatIf(name, operator.what_if(name, metric, newest), operator.what_if(name, metric, value))
        for name, model in operator.models.items()
        if metric in {term.metric for term in model.terms}
    ]
