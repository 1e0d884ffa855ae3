"""`laggard agent`: only the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laggard.pipeline.cli.options import duration_option, setting_flag, with_settings
from laggard.pipeline.cli.part import session, supervised_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.records import Mark
    from laggard.pipeline.settings import Settings


@click.command()
@with_settings
@duration_option
@setting_flag("--interval", "agent.interval", "DURATION", "Time between ticks (setting agent.interval).")
@supervised_option
def agent(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Publish this machine's counters until ^C: every process, and the host itself."""
    with session(settings, "agent", supervised=supervised, duration_s=duration_s) as running:
        from laggard.pipeline.cli.opening import bus_of, topics_of  # noqa: PLC0415 - not for a refused claim
        from laggard.pipeline.outbox import Outbox  # noqa: PLC0415
        from laggard.pipeline.records import Frame  # noqa: PLC0415
        from laggard.pipeline.topics import COUNTERS  # noqa: PLC0415
        from laggard.producers.agent import Agent  # noqa: PLC0415

        host, interval_s = settings.text("host"), settings.seconds("agent.interval")
        with bus_of(settings) as bus:
            outbox = Outbox(bus, topics_of(settings).name(COUNTERS))
            ticks = 0

            def publish(frames: Sequence[Frame | Mark]) -> None:
                nonlocal ticks
                outbox.publish(frames)
                ticks += 1
                rows = (len(frame.values) for frame in frames if isinstance(frame, Frame) and frame.scope == "process")
                running.report(ticks=ticks, rows=sum(rows))

            counters = Agent(publish, host, interval_s, command_lines=settings.flag("agent.command_lines"))
            running.say(f"laggard agent publishes the counters of {host} every {interval_s:g} s. ^C stops it.")
            counters.run(running.stop)
            outbox.close()
