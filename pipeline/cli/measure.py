"""`laggard measure`: publishes the performance of applications."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.options import duration_option, to_type, with_settings
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.cli.publishing import is_remote, publisher_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.records import Frame
    from laggard.pipeline.settings import Settings

SPOOL: Final = "spool-applications.db"
"""In the directory `state`."""

STANDARD_INPUT: Final = "-"


@click.command()
@with_settings
@duration_option
@supervised_option
def measure(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Publish the performance of applications until ^C: from each of the `[[sources]]` that the settings name."""
    if not settings.sources:
        raise CommandError(
            f"{settings.place('sources')}: there are no sources; expected some tables [[sources]] in the configuration "
            "file, see deploy/settings.md",
            USAGE,
        )
    if supervised:
        check_supervised(settings)
    with session(settings, "measure", supervised=supervised, duration_s=duration_s) as running, ExitStack() as stack:
        from laggard.pipeline.cli.opening import bus_of  # noqa: PLC0415 - not for a refused claim
        from laggard.pipeline.measuring import sources_of  # noqa: PLC0415
        from laggard.pipeline.topics import APPLICATIONS  # noqa: PLC0415
        from laggard.producers.measuring import Measuring  # noqa: PLC0415

        bus = stack.enter_context(bus_of(settings))
        spool_bytes = settings.size("agent.spool_bytes")
        publisher = publisher_of(settings, bus, APPLICATIONS, stack, spool=SPOOL, spool_bytes=spool_bytes)
        remote = is_remote(settings)

        def publish(frames: Sequence[Frame]) -> bool:
            publisher.publish(frames)
            running.report(frames=measuring.frames, failing=measuring.failing)
            running.manager.status(
                f"{measuring.frames} frames, {measuring.failing} sources in trouble, {publisher.waiting} records wait"
            )
            # A spool has them on disk; what waits before an embedded bus does so in memory.
            return remote or not publisher.waiting

        sources = sources_of(settings)
        measuring = Measuring(publish, sources, queue=publisher)
        applications = ", ".join(dict.fromkeys(each.source.application for each in sources))
        running.say(f"laggard measure publishes the performance of {applications}. ^C stops it.")
        running.stop.progress = lambda: measuring.has_read
        measuring.run(running.stop)


def check_supervised(settings: Settings) -> None:
    """Raise `CommandError` for a source that only a measure of its own can read."""
    for source in settings.sources:
        if source.choice("kind") == "lines" and source.text("path") == STANDARD_INPUT:
            command = to_type(settings, "measure")
            raise CommandError(
                f"{source.place('path')}: source {source.text('name')}: `laggard up` has no standard input to read; "
                f"expected a file or a named pipe, or `{command}` on its own",
                USAGE,
            )
