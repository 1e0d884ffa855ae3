"""When incidents end. No record says so, but the metrics do: Grafana's data source for Prometheus is asked for them.

As long as an incident is open, `laggard_anomaly_start_timestamp_seconds` is there with the time of its anomaly. It has
ended at the first moment after that at which `laggard_anomalies_open` of its stream is 0, or another incident has
begun; a worker that is away says neither, and the incident stays open until there is one again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.grafana.client import Grafana, Series
    from laggard.pipeline.grafana.notes import Open

STEP_S: Final = 15.0

MOST_STEPS: Final = 5000
"""Of one answer of Prometheus."""

UNSEEN_S: Final = 600.0
"""An incident that Prometheus has not shown after so long is one that it never will."""

_MATCHED_S: Final = 0.002
"""Annotations have whole milliseconds."""


class Ends:
    """Asks for ends.

    Parameters:
        grafana: whose data source is asked.
        data_source: its uid.
        step_s: how closely an end is looked for: about as often as Prometheus scrapes.

    """

    def __init__(self, grafana: Grafana, data_source: str, step_s: float = STEP_S) -> None:
        self.step_s = step_s
        self._grafana = grafana
        self._data_source = data_source

    def of(self, one: Open, now: float) -> tuple[Open, float | None]:
        """The incident as it is known now, and when it ended; None where it has not, or Prometheus does not know.

        Raises GrafanaError where it cannot be asked.
        """
        step_s = max(self.step_s, (now - one.seen) / MOST_STEPS)
        matchers = {one.keyed_by: one.key, "operator": one.operator}
        others: list[float] = []
        for series in self._series("laggard_anomaly_start_timestamp_seconds", matchers, one.seen, now, step_s):
            if one.scope and series.labels.get("scope") != one.scope:
                continue
            mine = [at for at, start in series.points if abs(start - one.ts) <= _MATCHED_S]
            if mine:
                one = replace(one, scope=series.labels.get("scope", ""), seen=max(one.seen, *mine))
            others += [at for at, start in series.points if start > one.ts + _MATCHED_S]
        if not one.scope or now - one.seen < step_s:
            return one, None
        matchers["scope"] = one.scope
        calm = [
            at
            for series in self._series("laggard_anomalies_open", matchers, one.seen, now, step_s)
            for at, is_open in series.points
            if is_open == 0
        ]
        return one, min((at for at in (*calm, *others) if at > one.seen), default=None)

    def _series(
        self, metric: str, matchers: Mapping[str, str], start: float, end: float, step_s: float
    ) -> list[Series]:
        """The series of a metric, with their points from start to end."""
        written = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in matchers.items())
        return self._grafana.query(
            self._data_source,
            f"{metric}{{{written}}}",
            start_ms=round(1000 * start),
            end_ms=round(1000 * end),
            step_s=step_s,
        )
