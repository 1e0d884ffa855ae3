"""`laggard agent`: only the agent."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Protocol

import click

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.options import duration_option, setting_flag, with_settings
from laggard.pipeline.cli.part import session, supervised_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.records import Frame, Mark
    from laggard.pipeline.settings import Settings

SPOOL: Final = "spool.db"
"""In the directory `state`."""

NAMELESS: Final = {"localhost", "localhost.localdomain", "(none)"}
"""Host names that say nothing of which machine it is."""


class Publisher(Protocol):
    """What takes the agent's records: an outbox before an embedded bus, a spool and its sender before a remote one."""

    def publish(self, records: Sequence[Frame | Mark]) -> None:
        """Bring them to the bus, in order."""

    @property
    def waiting(self) -> int:
        """How many have not arrived yet."""

    @property
    def dropped(self) -> int:
        """How many were lost."""


@click.command()
@with_settings
@duration_option
@setting_flag("--interval", "agent.interval", "DURATION", "Time between ticks (setting agent.interval).")
@supervised_option
def agent(settings: Settings, duration_s: float | None, supervised: bool) -> None:
    """Publish this machine's counters until ^C: every process, and the host itself."""
    host, interval_s = settings.text("host"), settings.seconds("agent.interval")
    if _remote(settings) and host in NAMELESS:
        raise CommandError(
            f"{settings.place('host')}: host is {host!r}, which other machines are called too; expected a name of its "
            "own, which tells this machine from all others on the bus",
            USAGE,
        )
    with session(settings, "agent", supervised=supervised, duration_s=duration_s) as running, ExitStack() as stack:
        from laggard.pipeline.records import Frame  # noqa: PLC0415 - not for a refused claim
        from laggard.producers.agent import Agent  # noqa: PLC0415

        publisher = _publisher(settings, stack)
        ticks = 0

        def publish(frames: Sequence[Frame | Mark]) -> None:
            nonlocal ticks
            publisher.publish(frames)
            ticks += 1
            rows = sum(len(frame.values) for frame in frames if isinstance(frame, Frame) and frame.scope == "process")
            running.report(ticks=ticks, rows=rows)
            running.manager.status(f"{ticks} ticks, {rows} processes, {publisher.waiting} records wait")

        counters = Agent(publish, host, interval_s, command_lines=settings.flag("agent.command_lines"), queue=publisher)
        running.say(f"laggard agent publishes the counters of {host} every {interval_s:g} s. ^C stops it.")
        running.stop.progress = lambda: ticks > 0
        counters.run(running.stop)


def _remote(settings: Settings) -> bool:
    return "://" in settings.text("bus.location")


def _publisher(settings: Settings, stack: ExitStack) -> Publisher:
    """What brings records to the bus, until the stack is left; then it brings what still waits, for a while."""
    from laggard.pipeline.cli.opening import bus_of, topics_of  # noqa: PLC0415 - see above
    from laggard.pipeline.topics import COUNTERS  # noqa: PLC0415

    bus = stack.enter_context(bus_of(settings))
    topic = topics_of(settings).name(COUNTERS)
    if not _remote(settings):
        from laggard.pipeline.outbox import Outbox  # noqa: PLC0415

        outbox = Outbox(bus, topic)
        stack.callback(outbox.close)
        return outbox
    from laggard.pipeline.sender import Sender  # noqa: PLC0415
    from laggard.pipeline.spool import Spool  # noqa: PLC0415

    path = settings.path("state") / SPOOL
    sender = Sender(Spool(path, settings.size("agent.spool_bytes"), settings.seconds("bus.retention"), topic), bus)
    stack.callback(sender.close)
    return sender
