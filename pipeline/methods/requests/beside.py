"""The model of an application beside its traced requests: one answer to why it is slow.

An application and a service with one name are the same program. The model of the application (S2) says how much of its
response time follows from the counters of its hosts. The traced requests of the service (S4) say what they wait for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.units import counted, readable
from laggard.pipeline.methods.applications.text import named
from laggard.pipeline.methods.incidents.beside import Beside
from laggard.pipeline.methods.incidents.queries import past_incidents, worst
from laggard.pipeline.methods.requests.queries import summaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.methods.requests.queries import RequestsFound, Summary

    Between = Callable[[float, float, str], RequestsFound]

LONGEST_S: Final = 3600.0
"""The longest part of an incident whose requests are read, from its beginning, in seconds."""

SHOWN_CLUSTERS: Final = 3
"""The most clusters of outlying requests in a report, those with the longest total time."""

_RESPONSE_TIME: Final = "response_time_"


def beside(bus: Bus, topics: Topics, incident: Incident, between: Between, now: float) -> Beside | None:
    """Return the report of the other method on an application or a service; None without one.

    Args:
        bus: the bus.
        topics: the names of the topics.
        incident: the last record of an incident of an application or a service; for another one the result is None.
        between: returns the requests of a service that began in a range of time; see `Stored.between`.
        now: the time until which an open incident lasts, seconds since the Unix epoch.

    """
    if incident.keyed_by not in {"application", "service"}:
        return None
    begin = incident.opened_ts
    end = max(begin, now if incident.change != "closed" else incident.until_ts)
    if incident.keyed_by == "service":
        other = _overlapping(bus, topics, incident, end)
        return None if other is None else Beside("Performance model", (other.sentence,), other.id)
    until = min(end, begin + LONGEST_S)
    found = summaries(between(begin, until, incident.key), begin, until, incident.key)
    if not found:
        return None
    other = _overlapping(bus, topics, incident, end)
    sentences = (*_explained(incident), *_waited(found[0]))
    return Beside("Traced requests", sentences, "" if other is None else other.id)


def _overlapping(bus: Bus, topics: Topics, incident: Incident, end: float) -> Incident | None:
    """Return the worst incident of the same name and the other kind in the time of an incident."""
    kind = "service" if incident.keyed_by == "application" else "application"
    past = past_incidents(bus, topics, incident.opened_ts, key=incident.key).incidents
    found = [each for each in past if each.keyed_by == kind and each.opened_ts <= end and not each.merged_into]
    return max(found, key=lambda each: worst(each.score), default=None)


def _explained(incident: Incident) -> Iterator[str]:
    """Yield how much of the response time the model of an application explains."""
    rows = (row for row in incident.ranking.rows if row.row == incident.key)
    for each in (feature for row in rows for feature in row.features if feature.feature.startswith(_RESPONSE_TIME)):
        if math.isfinite(each.mean) and each.value > 0.0:
            explained = min(max(each.mean, 0.0), each.value)
            yield (
                f"The counters of its hosts explain {readable(each.feature, explained)} of the "
                f"{named(each.feature)} of {readable(each.feature, each.value)}."
            )
            return


def _waited(summary: Summary) -> Iterator[str]:
    """Yield how many requests were outliers, and the causes of the clusters that took longest."""
    every, outlying, normal = summary.every, summary.outlying, summary.normal
    if not outlying.requests:
        yield f"None of its {every.requests:,} traced requests is an outlier."
        return
    usual = f"; normal ones have {readable('duration_s', normal.median_s)}" if normal.requests else ""
    yield (
        f"Outliers: {outlying.requests:,} of its {every.requests:,} traced requests, with a median of "
        f"{readable('duration_s', outlying.median_s)}{usual}."
    )
    clusters = [each for each in summary.clusters if each.cluster]
    for each in clusters[:SHOWN_CLUSTERS]:
        yield f"{each.requests:,} of them: {each.cause}."
    if (left := len(clusters) - SHOWN_CLUSTERS) > 0:
        yield f"The others are in {counted(left, 'cluster')} more."
