"""`laggard measure`: publishes the performance of applications, and members of pools."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.options import duration_option, to_type, with_settings
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.cli.publishing import Publishers, is_remote, publisher_of
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.settings.producing import AgentSettings
from laggard.pipeline.settings.sources import LinesSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.cli.publishing import Publisher
    from laggard.pipeline.records import Frame
    from laggard.pipeline.records.frame import KeyedBy
    from laggard.pipeline.settings import Settings

SPOOL: Final = "spool-applications.db"
"""In the directory `state`."""

POOLS_SPOOL: Final = "spool-members.db"
"""Likewise: the agent has one for its own pools."""

STANDARD_INPUT: Final = "-"


@click.command()
@with_settings
@duration_option
@supervised_option
def measure(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Publish applications' performance and pools' members until ^C: from each of the `[[sources]]` in the settings."""
    if not settings.sources:
        raise CommandError(
            f"{settings.place(GeneralSettings.sources)}: there are no sources; expected some tables "
            "[[sources]] in the configuration file, see deploy/settings.md",
            USAGE,
        )
    if supervised:
        check_supervised(settings)
    with session(settings, "measure", supervised=supervised, duration_s=duration_s) as running, ExitStack() as stack:
        from laggard.pipeline.cli.opening import bus_of  # noqa: PLC0415 - not for a refused claim
        from laggard.pipeline.measuring import sources_of  # noqa: PLC0415
        from laggard.pipeline.topics import APPLICATIONS, POOLS  # noqa: PLC0415
        from laggard.producers.sources.measuring import Measuring  # noqa: PLC0415

        bus = stack.enter_context(bus_of(settings))
        spool_bytes = settings[AgentSettings].spool_bytes
        sources, remote = sources_of(settings), is_remote(settings)
        publishers: dict[KeyedBy, Publisher] = {}
        for keyed_by in dict.fromkeys(each.source.keyed_by for each in sources):
            topic, spool = (POOLS, POOLS_SPOOL) if keyed_by == "pool" else (APPLICATIONS, SPOOL)
            publishers[keyed_by] = publisher_of(settings, bus, topic, stack, spool=spool, spool_bytes=spool_bytes)
        queue = Publishers(*publishers.values())

        def publish(frames: Sequence[Frame]) -> bool:
            publishers[frames[0].keyed_by].publish(frames)  # of one source, with one of its own at least
            running.report(frames=measuring.frames, failing=measuring.failing)
            running.manager.status(
                f"{measuring.frames} frames, {measuring.failing} sources in trouble, {queue.waiting} records wait"
            )
            # A spool has them on disk; what waits before an embedded bus does so in memory.
            return remote or not queue.waiting

        measuring = Measuring(publish, sources, queue=queue)
        told = told_of((each.source.keyed_by, each.source.key) for each in sources)
        running.say(f"laggard measure publishes {told}. ^C stops it.")
        running.stop.progress = lambda: measuring.has_read
        running.stop.turns = lambda: measuring.turns
        measuring.run(running.stop)


def told_of(keys: Iterable[tuple[KeyedBy, str]]) -> str:
    """What is told of which applications and pools, in words."""
    found = list(dict.fromkeys(keys))
    words = {"application": "the performance of", "pool": "the members of"}
    names = {each: ", ".join(key for keyed_by, key in found if keyed_by == each) for each in words}
    return " and ".join(f"{said} {names[each]}" for each, said in words.items() if names[each])


def check_supervised(settings: Settings) -> None:
    """Raise `CommandError` for a source that only a measure of its own can read."""
    for source in settings.sources:
        if isinstance(source, LinesSource) and source.path == STANDARD_INPUT:
            command = to_type(settings, "measure")
            raise CommandError(
                f"{source.place(LinesSource.path)}: source {source.name}: `laggard up` has no standard input to read; "
                f"expected a file or a named pipe, or `{command}` on its own",
                USAGE,
            )
