"""The operator `saturation`: what a host is short of, and who takes it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from laggard.operators.saturation import Saturation, Users
from laggard.pipeline.saturation.stage import HOST, LIMIT, PROCESS, Saturating
from laggard.pipeline.topics import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.saturation.results import Name
    from laggard.pipeline.settings import Settings


def saturation(settings: Settings) -> Saturating:
    """Return the operator as the settings ask for it."""
    duration_s, forecast_s = settings.seconds("saturation.duration"), settings.seconds("saturation.forecast")
    limits: Mapping[Name, float] = {
        "cpu": settings.ratio("saturation.cpu"),
        "heat": settings.ratio("saturation.heat"),
        "memory_pressure": settings.ratio("saturation.memory_pressure"),
        "memory": settings.ratio("saturation.memory"),
        "disk": settings.ratio("saturation.disk"),
        "filesystem": settings.ratio("saturation.filesystem"),
        "descriptors": settings.ratio("saturation.descriptors"),
        "pids": settings.ratio("saturation.pids"),
    }
    of_parts: Mapping[Name, float] = {
        "group_memory": limits["memory"],
        "group_pids": limits["pids"],
        "process_descriptors": limits["descriptors"],
    }
    of_host = partial(Saturation, duration_s=duration_s, limits={**limits, **of_parts}, forecast_s=forecast_s)

    def make(*, scope: str = HOST) -> Saturation | Users:
        return Users() if scope == PROCESS else of_host()

    return Saturating(
        "saturation",
        COUNTERS,
        (HOST, PROCESS, LIMIT),
        make,
        Saturation.state_version + Users.state_version - 1,
        {
            "duration_s": duration_s,
            "forecast_s": forecast_s,
            **{f"{name}_limit": limit for name, limit in limits.items()},
        },
        answers_marks=False,
        of_scope={scope: {"scope": scope} for scope in (HOST, PROCESS, LIMIT)},
        # Nothing of processes is unusual here: it is known for what is said of the host.
        hidden=frozenset({PROCESS}),
    )
