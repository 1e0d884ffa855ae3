"""Wishes for the models of an application: metrics to pin in them, or to ban from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.records import RecordError, Wish
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.investigator.api.applications_models import MetricName  # noqa: TC001 - msgspec reads annotations
from laggard.pipeline.investigator.applications import (
    ApplicationKey,
    ApplicationName,
    KindOfWish,
    Metric,
    metric,
    unknown,
)
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Question, Seconds
from laggard.pipeline.methods.applications.wishing import (
    UnknownApplicationError,
    UnknownMetricError,
    publish,
)
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.investigator.reading import Reading


class NewWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wish for an application's models: to pin a metric in them, to ban it from them, or to free it again."""

    application: ApplicationName
    metric: MetricName
    wish: KindOfWish


class Wished(Answer, frozen=True):
    """A new wish; it takes effect at the application's next interval."""

    application: ApplicationKey
    ts: Seconds
    metric: Annotated[Metric, msgspec.Meta(description="the metric that the wish is about")]
    wish: KindOfWish


def set_wish(reading: Reading, _: Question, new: NewWish) -> Wished:
    """Publish a wish."""
    reading.allowance.take()
    wish = Wish(new.application, reading.clock(), new.metric, new.wish)
    try:
        publish(reading.bus, reading.topics, reading.regressing, wish)
    except RecordError as error:
        raise RequestError(400, f"field {error.field!r} is {error.got}", error.expected) from None
    except UnknownApplicationError:
        raise unknown(reading, new.application) from None
    except UnknownMetricError as error:
        near = f"; similar: {', '.join(map(printable, error.near))}" if error.near else ""
        raise RequestError(404, str(error), f"a metric of it{near}") from None
    return Wished(new.application, wish.ts, metric(new.metric), new.wish)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/applications/wishes",
        "Pin a metric in an application's models, ban it from them, or free it again.",
        Wished,
        set_wish,
        body=NewWish,
        status=201,
    ),
)
