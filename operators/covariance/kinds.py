"""The kind of a deviation, by its metrics and its duration (S3, section V.H, and further kinds)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.covariance.results import Kind

Nature = Literal["use", "stock", "wait"]

WAITS: Final = ("wait", "delay", "throttled", "pressure", "latency", "response_time", "queue", "blocked", "stolen")
USES: Final = ("_ratio", "_per_s", "_percent", "_rate")

MAPPED: Final = ("virtual", "mapping", "mapped")
"""Parts of the names of metrics that are only reserved: what a member uses comes before them."""

SHORT_S: Final = 300.0
SHORT_TICKS: Final = 128
"""A past deviation of at most this time, in seconds or ticks, was a spike. Windows prolong it: section V.H has spikes
of 1 to 3 min."""

SUDDEN_S: Final = 60.0
SUDDEN_TICKS: Final = 30
"""A lasting deviation is called a spike for this time, in seconds or ticks."""

NOTHING: Final = 0.1
"""A member that does less than this share of what the others do is stuck."""

YOUNGER: Final = 0.5
"""A member below this share of the others' age holds less for that reason."""


def nature(feature: str) -> Nature:
    """Return the meaning of a metric by its name: use of a resource, a stock, or waiting."""
    name = feature.lower()
    if any(word in name for word in WAITS):
        return "wait"
    if name.endswith(USES) or "cpu" in name:
        return "use"
    return "stock"


def is_mapped(feature: str) -> bool:
    """Return whether a metric counts what is mapped, whether or not it is used."""
    return any(word in feature.lower() for word in MAPPED)


@dataclass(frozen=True, slots=True)
class Sign:
    """A deviating metric of a member.

    Attributes:
        feature: its name; empty for the covariance.
        above: whether it is above that of the others.
        evidence: its evidence as a share of what the budget allows.
        value: its value at the largest deviation.
        usual: that of the others then.
        rising: whether it deviates more now than over the whole life.
        lasting: whether it deviates now.

    """

    feature: str
    above: bool
    evidence: float
    value: float
    usual: float
    rising: bool
    lasting: bool


def kind_of(  # noqa: PLR0911 - a decision list
    signs: Sequence[Sign], *, duration_s: float, interval_s: float, age_share: float
) -> Kind:
    """Return the kind of a deviation.

    Args:
        signs: its metrics, worst first.
        duration_s: its duration in seconds; NaN if unknown.
        interval_s: the time between ticks in seconds.
        age_share: the age of the member as a share of the others'.

    """
    metrics = [sign for sign in signs if sign.feature]
    if not metrics:
        return "different"
    if any(_is_idle(sign) for sign in metrics if sign.evidence > 1.0):
        return "stuck"
    # A smaller stock means little if there is another deviation.
    worst = next((sign for sign in metrics if sign.above or nature(sign.feature) != "stock"), metrics[0])
    if nature(worst.feature) == "wait":
        # A member that computes more waits for the CPU, and one that gets less done waits less: their use decides.
        computes = [sign for sign in metrics if sign.above and "cpu" in sign.feature and nature(sign.feature) == "use"]
        less = [sign for sign in metrics if not sign.above and nature(sign.feature) == "use"]
        if not computes and (worst.above or less):
            return "slower"
        worst = computes[0] if computes else worst
    what = nature(worst.feature)
    if what == "wait":
        return "different"
    longest = (SUDDEN_S, SUDDEN_TICKS) if worst.lasting else (SHORT_S, SHORT_TICKS)
    short = not duration_s > max(longest[0], longest[1] * interval_s)
    if what == "use":
        if not worst.above:
            return "slower"
        return "spike" if short else "busy"
    if worst.above:
        if any(not sign.above and nature(sign.feature) == "use" and sign.evidence > 1.0 for sign in metrics):
            return "slower"  # it holds more because it gets less done
        if worst.lasting:
            return "leak" if worst.rising or short else "different"
        return "spike" if short else "different"
    return "younger" if age_share < YOUNGER else "different"


def _is_idle(sign: Sign) -> bool:
    return (
        nature(sign.feature) == "use"
        and not sign.above
        and math.isfinite(sign.usual)
        and abs(sign.value) <= NOTHING * abs(sign.usual)
    )
