"""The comparison of the members of pools, and the re-keying of their counters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from laggard.operators.covariance import Covariance
from laggard.pipeline.core.topics import POOLS
from laggard.pipeline.explaining.counters import RESOLUTION
from laggard.pipeline.methods.pools.pooling import Members, Pooling
from laggard.pipeline.methods.pools.settings import CovarianceSettings, PoolsSettings
from laggard.pipeline.methods.pools.stage import MEMBER, PoolStage

if TYPE_CHECKING:
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.settings import Settings


def pool_stage(settings: Settings) -> PoolStage:
    """Return the stage that compares the members of pools, whether or not a worker with these settings runs it."""
    own = settings[CovarianceSettings]
    windows = tuple(map(int, own.windows))
    return PoolStage(
        "covariance",
        POOLS,
        (MEMBER,),
        partial(
            Covariance,
            method=own.method,
            windows=windows,
            false_alarms_per_day=own.false_alarms,
            resolution=RESOLUTION,
            replicates=own.replicates,
        ),
        Covariance.state_version,
        {
            "method": own.method,
            "windows": ", ".join(map(str, windows)),
            "false_alarms_per_day": own.false_alarms,
            "replicates": own.replicates,
        },
        answers_marks=False,
    )


def stages(settings: Settings) -> tuple[Stage, ...]:
    """Return the comparing stage, after the one that re-keys hosts and processes to pools if settings define some."""
    if not (patterns := settings[PoolsSettings].members):
        return (pool_stage(settings),)
    return Pooling(Members({pool: str(pattern) for pool, pattern in patterns.items()})), pool_stage(settings)
