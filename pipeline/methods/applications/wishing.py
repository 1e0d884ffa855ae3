"""Wishes for the models of an application, which require or exclude a metric, and what-if predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Wish, encode
from laggard.pipeline.core.topics import APPLICATIONS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.names import nearest
from laggard.pipeline.methods.applications.queries import application_now, known_metrics
from laggard.pipeline.methods.applications.report import WhatIf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.methods.applications.application import Operator
    from laggard.pipeline.methods.applications.stage import RegressionStage


class UnknownApplicationError(LookupError):
    """The application has no state, though its performance or counters may be recorded."""


class UnknownMetricError(LookupError):
    """An application does not have this metric.

    Attributes:
        near: the metrics with similar names.

    """

    def __init__(self, application: str, metric: str, known: int, near: Sequence[str]) -> None:
        super().__init__(f"{printable(application)} has no metric {printable(metric)} among its {known:,}")
        self.near = tuple(near)


def publish(bus: Bus, topics: Topics, stage: Callable[[], RegressionStage], wish: Wish) -> None:
    """Publish a wish, which holds from the next interval of the application.

    Args:
        bus: the bus to append it to.
        topics: the names of the topics.
        stage: makes the stage that builds the models; called for a metric that the newest records do not have.
        wish: the wish.

    Raises:
        RecordError: a name is invalid.
        UnknownApplicationError: the application has no state.
        UnknownMetricError: the application has no such metric.

    """
    value = encode(wish)
    known = known_metrics(bus, topics, wish.application)
    if wish.metric not in known:
        # A metric that is gone may have had a wish while it was there.
        state = application_now(bus, topics, stage(), wish.application)
        if state is None:
            raise UnknownApplicationError(wish.application)
        wished = {*state.operator.pinned, *state.operator.banned, *(each for _, each, _ in state.wishes)}
        if wish.metric not in wished:
            raise UnknownMetricError(wish.application, wish.metric, len(known), nearest(wish.metric, [*known, *wished]))
    bus.append([Outgoing(topics.name(APPLICATIONS), wish.application, value, wish.ts)])


def what_if(operator: Operator, metric: str, value: float) -> list[WhatIf]:
    """Return the predictions with this value of a metric and the newest of all others; empty if no model has it."""
    newest = operator.newest.get(metric, math.nan)
    return [
        WhatIf(name, operator.what_if(name, metric, newest), operator.what_if(name, metric, value))
        for name, model in operator.models.items()
        if metric in {term.metric for term in model.terms}
    ]
