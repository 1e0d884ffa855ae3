"""From the settings to what finds the pools of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings
    from laggard.producers.host.pools.pools import Pools
    from laggard.producers.system.clock import Clock


def pools_here(settings: Settings, clock: Clock) -> Pools | None:
    """What finds the pools of this machine, and reads their members; None where none are asked for."""
    threads, discover = settings.words("pools.threads"), settings.flag("pools.discover")
    if not threads and not discover:
        return None
    from laggard.producers.host.pools.pools import Pools  # noqa: PLC0415 - not where none are asked for

    return Pools(
        clock,
        settings.text("host"),
        threads=threads,
        discover=discover,
        minimum=settings.count("pools.minimum"),
        titles=settings.flag("agent.command_lines"),
    )
