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
        "Requests are neighbors if their times in each state differ by at most this. A request is an outlier if it "
        "is farther from all requests with many neighbors. `auto` estimates it from the requests; the paper behind "
        "this operator has 25 ms.",
        check=_check_eps,
    )
    minimum_points = Count(
        "100",
        "A request with this many neighbors is normal. Fewer suffice while there are few requests.",
        minimum="2",
        maximum="10000",
    )
    reference = Count(
        "10000",
        "The number of the newest requests of its service with which each request is compared.",
        minimum="200",
        maximum="100000",
    )
    method = Choice(
        "adaptive",
        "How `laggard replay` compares requests: `adaptive`, each with those before it, as a worker does; or "
        "`published`, as in the paper behind this operator: at the end, each with all others.",
        choices=("adaptive", "published"),
    )
    false_alarms = Rate(
        "1/day",
        "The false-alarm budget of a service for this operator, which reports an unusual rate of outliers.",
        minimum="1/month",
        maximum="10/minute",
    )
