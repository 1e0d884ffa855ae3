"""The discovery of the pools of this machine, from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.methods.pools.settings import PoolsSettings
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.settings.producing import AgentSettings

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings
    from laggard.producers.host.pools.pools import Pools
    from laggard.producers.system.clock import Clock


def pools_here(settings: Settings, clock: Clock) -> Pools | None:
    """Return the reader that finds the pools of this machine and reads their members; None if none are configured."""
    threads, discover = settings[PoolsSettings].threads, settings[PoolsSettings].discover
    if not threads and not discover:
        return None
    from laggard.producers.host.pools.pools import Pools  # noqa: PLC0415 - only if needed

    return Pools(
        clock,
        settings[GeneralSettings].host,
        threads=threads,
        discover=discover,
        minimum=settings[PoolsSettings].minimum,
        titles=settings[AgentSettings].command_lines,
    )
