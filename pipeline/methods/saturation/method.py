"""The operator `saturation`: scarce resources of hosts, and their top consumers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from laggard.operators.saturation import Saturation, Users
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.methods.saturation.settings import SaturationSettings
from laggard.pipeline.methods.saturation.stage import HOST, LIMIT, PROCESS, SaturationStage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.saturation.results import Name
    from laggard.pipeline.settings import Settings


def saturation(settings: Settings) -> SaturationStage:
    """Return the operator with its settings."""
    own = settings[SaturationSettings]
    limits: Mapping[Name, float] = {
        "cpu": own.cpu,
        "heat": own.heat,
        "memory_pressure": own.memory_pressure,
        "memory": own.memory,
        "disk": own.disk,
        "filesystem": own.filesystem,
        "descriptors": own.descriptors,
        "pids": own.pids,
    }
    of_parts: Mapping[Name, float] = {
        "group_memory": limits["memory"],
        "group_pids": limits["pids"],
        "process_descriptors": limits["descriptors"],
    }
    of_host = partial(Saturation, duration_s=own.duration, limits={**limits, **of_parts}, forecast_s=own.forecast)

    def make(*, scope: str = HOST) -> Saturation | Users:
        return Users() if scope == PROCESS else of_host()

    return SaturationStage(
        "saturation",
        COUNTERS,
        (HOST, PROCESS, LIMIT),
        make,
        Saturation.state_version + Users.state_version - 1,
        {
            "duration_s": own.duration,
            "forecast_s": own.forecast,
            **{f"{name}_limit": limit for name, limit in limits.items()},
        },
        of_scope={scope: {"scope": scope} for scope in (HOST, PROCESS, LIMIT)},
        # Processes have no anomalies here: their use only completes the sentences on the host.
        hidden=frozenset({PROCESS}),
    )
