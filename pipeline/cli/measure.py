"""`laggard measure`: publishes the performance of applications, and members of pools."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.measured import check_supervised, sources_text
from laggard.pipeline.cli.opening import bus_of
from laggard.pipeline.cli.options import duration_option, with_settings
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.cli.publishing import Publishers, is_remote, publisher_of
from laggard.pipeline.core.topics import APPLICATIONS, POOLS
from laggard.pipeline.measuring import sources_of
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.settings.producing import AgentSettings
from laggard.producers.sources.measuring import Measuring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.cli.publishing import Publisher
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.settings import Settings

SPOOL: Final = "spool-applications.db"
"""The spool of performance, in the directory `state`."""

POOLS_SPOOL: Final = "spool-members.db"
"""The spool of pools' members, in the same directory; the agent has another one for its own pools."""


@click.command()
@with_settings
@duration_option
@supervised_option
def measure(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Publish the performance of applications and members of pools until ^C, from the `[[sources]]` in the settings."""
    if not settings.sources:
        raise CommandError(
            f"{settings.place(GeneralSettings.sources)}: there are no sources; expected tables "
            "[[sources]] in the configuration file, see deploy/docs/reference/settings.md",
            USAGE,
        )
    if supervised:
        check_supervised(settings)
    with session(settings, "measure", supervised=supervised, duration_s=duration_s) as running, ExitStack() as stack:
        bus = stack.enter_context(bus_of(settings))
        spool_bytes = settings[AgentSettings].spool_bytes
        sources, remote = sources_of(settings), is_remote(settings)
        publishers: dict[KeyedBy, Publisher] = {}
        for keyed_by in dict.fromkeys(each.source.keyed_by for each in sources):
            topic, spool = (POOLS, POOLS_SPOOL) if keyed_by == "pool" else (APPLICATIONS, SPOOL)
            publishers[keyed_by] = publisher_of(settings, bus, topic, stack, spool=spool, spool_bytes=spool_bytes)
        queue = Publishers(*publishers.values())

        def publish(frames: Sequence[Frame]) -> bool:
            publishers[frames[0].keyed_by].publish(frames)  # of one source, at least the one about the source itself
            running.report(frames=measuring.frames, failing=measuring.failing)
            running.manager.status(
                f"{measuring.frames} frames, {measuring.failing} sources failing, {queue.waiting} records waiting"
            )
            # A spool stores waiting records on disk; before an embedded bus they wait in memory.
            return remote or not queue.waiting

        measuring = Measuring(publish, sources, queue=queue)
        published = sources_text((each.source.keyed_by, each.source.key) for each in sources)
        running.print_line(f"laggard measure publishes {published} to {settings[BusSettings].location}. ^C stops it.")
        running.stop.progress = lambda: measuring.has_read
        running.stop.turns = lambda: measuring.turns
        measuring.run(running.stop)
