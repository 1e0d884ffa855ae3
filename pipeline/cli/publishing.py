"""From the settings to what brings a producer's records to the bus: for agent and `laggard measure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.opening import topics_of
from laggard.pipeline.settings.general import BusSettings, GeneralSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from laggard.pipeline.bus import Bus
    from laggard.pipeline.sending.outbox import Published
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.topics import Topic


NAMELESS: Final = {"localhost", "localhost.localdomain", "(none)"}
"""Host names that say nothing of which machine it is."""


class Publisher(Protocol):
    """What takes records: an outbox before an embedded bus, a spool and its sender before a remote one."""

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


def is_remote(settings: Settings) -> bool:
    """Whether the bus is on the network."""
    return "://" in settings[BusSettings].location


def check_host(settings: Settings) -> None:
    """Raise `CommandError` for a name that does not tell this machine from others on a bus on the network."""
    host = settings[GeneralSettings].host
    if is_remote(settings) and host in NAMELESS:
        raise CommandError(
            f"{settings.place(GeneralSettings.host)}: host is {host!r}, which other machines are called too; "
            "expected a name of its own, which tells this machine from all others on the bus",
            USAGE,
        )


def publisher_of(
    settings: Settings, bus: Bus, topic: Topic, stack: ExitStack, *, spool: str, spool_bytes: int
) -> Publisher:
    """What brings records to a topic, until the stack is left; then it brings what still waits, for a while.

    Args:
        settings: all of them.
        bus: open.
        topic: which.
        stack: closes it.
        spool: the name of the file in the directory `state` where records wait for a remote bus.
        spool_bytes: how large that grows.

    """
    name = topics_of(settings).name(topic)
    if not is_remote(settings):
        from laggard.pipeline.sending.outbox import Outbox  # noqa: PLC0415 - one of the two is needed

        outbox = Outbox(bus, name)
        stack.callback(outbox.close)
        return outbox
    from laggard.pipeline.sending.sender import Sender  # noqa: PLC0415
    from laggard.pipeline.sending.spool import Spool  # noqa: PLC0415

    path = settings[GeneralSettings].state / spool
    sender = Sender(Spool(path, spool_bytes, settings[BusSettings].retention, name), bus)
    stack.callback(sender.close)
    return sender
