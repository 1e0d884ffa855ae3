"""The table of incidents, which more than one dashboard has: what stood out, its value, and what was usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.grafana.panels import SCORE, TIMES_USUAL, host_url, series, worst
from laggard.pipeline.grafana.tables import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEFORE_S, AFTER_S = 1800, 600
"""What a link to an incident shows: so long before it began, so that what was usual is seen, and so long after, but
not what is yet to come: what is asked for the end of the time range would be empty."""

_PLACE = {"environment": "Environment", "cluster": "Cluster", "host": "Host"}
_LABELS = {"row": "Process", "feature": "Feature", "scope": "Scope", "operator": "Operator"}


def incident_labels(*, host: bool) -> Mapping[str, str]:
    """The labels of the table and the heads of their columns; on the dashboard of one host without the host."""
    return {**_PLACE, **_LABELS} if host else _LABELS


def incident_columns(matchers: Sequence[str], window: str = "", *, host: bool = True) -> list[Column]:
    """The columns: of incidents that are open at the end of the time range, or with a window, of all in it."""
    by = ", ".join(incident_labels(host=host))

    def of(metric: str, over: str = "last_over_time") -> str:
        selected = series(f"laggard_anomaly_{metric}", *matchers, window=window)
        return worst(by, f"{over}({selected})" if window else selected)

    began, value, usual, spread = of("start_timestamp_seconds"), of("value"), of("usual"), of("usual_deviation")
    return [
        Column("Began", f"{began} * 1000", unit="dateTimeAsIso"),
        Column("Score", of("score", "max_over_time"), decimals=2, limits=SCORE),
        Column("Value", value),
        Column("Usual", usual),
        Column("±", spread),
        Column("Times usual", f"{value} / ({usual} > 0)", unit=TIMES_USUAL, decimals=1),
        Column("from", f"floor({began} - {BEFORE_S}) * 1000", hidden=True),
        Column("to", f"floor(clamp_max({began} + {AFTER_S}, time())) * 1000", hidden=True),
    ]


def incident_links() -> Mapping[str, tuple[str, str]]:
    """By column, where it leads."""
    at = "from=${__data.fields.from.numeric}&to=${__data.fields.to.numeric}"
    return {"Host": ("Look why: this host when the incident began", host_url(time=at))}
