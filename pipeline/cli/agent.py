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

    from laggard.pipeline.bus import Bus
    from laggard.pipeline.diagnoses.diagnosing import Diagnosing
    from laggard.pipeline.records import Frame, Mark
    from laggard.pipeline.records.diagnosis import Diagnosis
    from laggard.pipeline.sending.outbox import Published
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.topics import Topic

SPOOL: Final = "spool.db"
"""In the directory `state`."""

DIAGNOSES_SPOOL: Final = "spool-diagnoses.db"
"""Likewise. It is another file, so that a topic that is missing or may not be written holds back nothing else."""

DIAGNOSES_BYTES: Final = 64 << 20
"""Of that file: some hundreds of diagnoses."""

UNFINISHED: Final = "diagnoses.jsonl"
"""Likewise: the diagnoses that are open."""

NAMELESS: Final = {"localhost", "localhost.localdomain", "(none)"}
"""Host names that say nothing of which machine it is."""


class Publisher(Protocol):
    """What takes the agent's records: an outbox before an embedded bus, a spool and its sender before a remote one."""

    def publish(self, records: Sequence[Published]) -> None:
        """Bring them to the bus, in order."""

    @property
    def waiting(self) -> int:
        """How many have not arrived yet."""

    @property
    def dropped(self) -> int:
        """How many were lost."""


class Publishers:
    """What waits, and what was lost, of several together."""

    def __init__(self, *publishers: Publisher) -> None:
        self._publishers = publishers

    @property
    def waiting(self) -> int:
        """How many records have not arrived yet."""
        return sum(each.waiting for each in self._publishers)

    @property
    def dropped(self) -> int:
        """How many were lost."""
        return sum(each.dropped for each in self._publishers)


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
        from laggard.pipeline.cli.opening import bus_of  # noqa: PLC0415
        from laggard.pipeline.explaining.units import counted  # noqa: PLC0415
        from laggard.pipeline.records import Frame  # noqa: PLC0415 - not for a refused claim
        from laggard.pipeline.topics import COUNTERS, DIAGNOSES  # noqa: PLC0415
        from laggard.producers.agent import Agent  # noqa: PLC0415

        bus = stack.enter_context(bus_of(settings))
        publisher = _publisher(settings, bus, COUNTERS, settings.size("agent.spool_bytes"), stack)
        publishers, watch = Publishers(publisher), None
        if settings.flag("diagnosis.enabled"):
            diagnoses = _publisher(settings, bus, DIAGNOSES, DIAGNOSES_BYTES, stack)
            publishers, watch = Publishers(publisher, diagnoses), _watch(settings, host, diagnoses)
            watch.start()
            stack.callback(watch.close)
        ticks = 0

        def publish(frames: Sequence[Frame | Mark]) -> None:
            nonlocal ticks
            publisher.publish(frames)
            ticks += 1
            rows = sum(len(frame.values) for frame in frames if isinstance(frame, Frame) and frame.scope == "process")
            running.report(ticks=ticks, rows=rows)
            running.manager.status(
                f"{counted(ticks, 'tick')}, {rows} processes, {counted(publishers.waiting, 'record')} waiting"
            )

        command_lines = settings.flag("agent.command_lines")
        counters = Agent(publish, host, interval_s, command_lines=command_lines, queue=publishers, watch=watch)
        running.say(f"laggard agent publishes the counters of {host} every {interval_s:g} s. ^C stops it.")
        running.stop.progress = lambda: ticks > 0
        counters.run(running.stop)


def _remote(settings: Settings) -> bool:
    return "://" in settings.text("bus.location")


def _publisher(settings: Settings, bus: Bus, topic: Topic, spool_bytes: int, stack: ExitStack) -> Publisher:
    """What brings records to a topic, until the stack is left; then it brings what still waits, for a while."""
    from laggard.pipeline.cli.opening import topics_of  # noqa: PLC0415 - see above
    from laggard.pipeline.topics import DIAGNOSES  # noqa: PLC0415

    name = topics_of(settings).name(topic)
    if not _remote(settings):
        from laggard.pipeline.sending.outbox import Outbox  # noqa: PLC0415

        outbox = Outbox(bus, name)
        stack.callback(outbox.close)
        return outbox
    from laggard.pipeline.sending.sender import Sender  # noqa: PLC0415
    from laggard.pipeline.sending.spool import Spool  # noqa: PLC0415

    path = settings.path("state") / (DIAGNOSES_SPOOL if topic == DIAGNOSES else SPOOL)
    sender = Sender(Spool(path, spool_bytes, settings.seconds("bus.retention"), name), bus)
    stack.callback(sender.close)
    return sender


def _watch(settings: Settings, host: str, publisher: Publisher) -> Diagnosing:
    """What looks into processes while something is wrong; not yet started."""
    from laggard.pipeline.diagnoses.diagnosing import Diagnosing  # noqa: PLC0415 - see above
    from laggard.pipeline.diagnoses.triggers import CONDITIONS  # noqa: PLC0415
    from laggard.pipeline.diagnoses.unfinished import Unfinished  # noqa: PLC0415
    from laggard.pipeline.wiring import machines  # noqa: PLC0415

    def publish(diagnosis: Diagnosis) -> None:
        publisher.publish([diagnosis])

    method = settings.choice("diagnosis.method")
    return Diagnosing(
        publish,
        host,
        {name: make() for name, make in machines(settings).items() if name in CONDITIONS},
        Unfinished(settings.path("state") / UNFINISHED),
        budget_ratio=settings.ratio("diagnosis.budget"),
        methods=None if method == "auto" else [] if method == "proc" else [method],
        command_lines=settings.flag("agent.command_lines"),
    )
