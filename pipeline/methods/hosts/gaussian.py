"""The operator `gaussian`: which processes deviate from their baseline, suddenly or for long."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from laggard.operators.deviations import MIGRATIONS, Deviations
from laggard.operators.features import Directions
from laggard.operators.gaussian import Gaussian
from laggard.operators.lasting import Lasting, Series
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.explaining.counters import RESOLUTION, STOCKS, WEIGHTS
from laggard.pipeline.explaining.verdict import WAITS
from laggard.pipeline.methods.hosts.settings import FeaturesSettings, GaussianSettings
from laggard.pipeline.scoring.wired import Wired

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings


def gaussian(settings: Settings) -> Wired:
    """Return the operator as the settings ask for it."""
    own, features = settings[GaussianSettings], settings[FeaturesSettings]
    lasts = own.likelihood == "scale_free"
    directions = Directions(features.rising, features.falling)
    sudden = partial(
        Gaussian,
        context_s=own.context,
        minimum_features=own.minimum_features,
        likelihood=own.likelihood,
        weights=WEIGHTS,
        resolution=RESOLUTION,
        directions=directions,
        waits=tuple(WAITS),
        stocks=STOCKS,
        notices=True,
    )

    def make(*, scope: str = "process", **parameters: Any) -> Deviations:
        if not lasts or scope == "host":  # a host is judged by what it is short of, not by what its processes use
            return Deviations(sudden(**parameters))
        if scope == "process":
            return Deviations(sudden(**parameters), Lasting(accepted_after_s=own.accepted_after))
        series = Series(resolution=RESOLUTION, accepted_after_s=own.accepted_after, directions=directions)
        return Deviations(sudden(**parameters), series)

    return Wired(
        "gaussian",
        COUNTERS,
        ("process", "host"),
        make,
        Deviations.state_version,
        {
            "context_s": own.context,
            "minimum_features": own.minimum_features,
            "likelihood": own.likelihood,
            "false_alarms_per_day": own.false_alarms,
            "accepted_after_s": own.accepted_after,
            **{name: ",".join(ends) for name, ends in directions._asdict().items() if ends},
        },
        MIGRATIONS,
        of_scope={"host": {"scope": "host"}, "": {"scope": ""}},
        others=True,
        false_alarms_per_day=own.false_alarms,
        # What processes do suddenly, what they do for long twice, and what the host does.
        shares={"process": 3.0 if lasts else 1.0},
    )
