"""The settings of the operator `requests`."""

from __future__ import annotations

from laggard.pipeline.settings.declaring import Choice, Count, Rate, Section, Text
from laggard.pipeline.settings.kinds import duration


def _check_eps(eps: str) -> None:
    try:
        usable = eps == "auto" or duration(eps) > 0.0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("auto, or a duration above 0 such as 25ms")


class RequestsSettings(Section, table="requests"):
    """The operator `requests`."""

    eps = Text(
        "auto",
        "Requests of which the times spent in each state differ by no more than this are neighbours; who is farther "
        "from all that have many is out of line. `auto` estimates it from the requests; the paper that the operator "
        "comes from has 25ms.",
        check=_check_eps,
    )
    minimum_points = Count(
        "100",
        "With so many neighbours a request is usual; fewer while there are few requests.",
        minimum="2",
        maximum="10000",
    )
    reference = Count(
        "10000",
        "With so many of the newest requests of its service each one is compared.",
        minimum="200",
        maximum="100000",
    )
    method = Choice(
        "adaptive",
        "How `laggard replay` judges requests: `adaptive`, each by those before it, as a worker always does; or "
        "`published`, as in the paper that the operator comes from: at the end, each by all others.",
        choices=("adaptive", "published"),
    )
    false_alarms = Rate(
        "1/day",
        "The false-alarm budget of a service for this operator: for more requests out of line than usual.",
        minimum="1/month",
        maximum="10/minute",
    )
