"""The status of a host in one word, the same on the page, in `laggard why`, in Prometheus and in Grafana."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Status = Literal["incident", "saturated", "suspicious", "learning", "calm"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
"""The statuses in order: the first one that applies is reported."""

ALARMED: Final[frozenset[Status]] = frozenset({"incident", "saturated"})
"""With these statuses no sentence says that a score is below the alert level."""

MEANINGS: Final[dict[Status, str]] = {
    "incident": "an incident is open that is not only about a saturated resource",
    "saturated": "all open incidents are only about saturated resources of the host",
    "suspicious": "a notice is open",
    "learning": "the model is too young to be relied on",
    "calm": "none of these",
}


def status_of(incidents: Iterable[Collection[str]], *, suspicious: bool, young: bool) -> Status:
    """Return the status of a host, or of another key.

    Args:
        incidents: the operators that detected each open incident, or each anomaly that becomes one.
        suspicious: whether a notice is open.
        young: whether the model is too young for reliable scores.

    """
    if found := list(incidents):
        return "saturated" if all(set(each) == {"saturation"} for each in found) else "incident"
    return "suspicious" if suspicious else "learning" if young else "calm"
