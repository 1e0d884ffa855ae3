"""The publishers of records by the settings: for the agent, `laggard measure` and `laggard trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.opening import topics_of
from laggard.pipeline.settings.general import BusSettings, GeneralSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.sending.outbox import Published
    from laggard.pipeline.core.topics import Topic
    from laggard.pipeline.settings import Settings


NAMELESS: Final = {"localhost", "localhost.localdomain", "(none)"}
"""Host names that do not identify a machine."""


class Publisher(Protocol):
    """A publisher of records: an outbox before an embedded bus, or a spool and its sender before a remote one."""

    def publish(self, records: Sequence[Published]) -> None:
        """Publish records on the bus, in order."""

    @property
    def waiting(self) -> int:
        """The number of records that have not arrived yet."""

    @property
    def dropped(self) -> int:
        """The number of lost records."""


class Publishers:
    """The waiting and lost records of several publishers together."""

    def __init__(self, *publishers: Publisher) -> None:
        self._publishers = publishers

    @property
    def waiting(self) -> int:
        """The number of records that have not arrived yet."""
        return sum(each.waiting for each in self._publishers)

    @property
    def dropped(self) -> int:
        """The number of lost records."""
        return sum(each.dropped for each in self._publishers)


def is_remote(settings: Settings) -> bool:
    """Return whether the bus is on the network."""
    return "://" in settings[BusSettings].location


def check_host(settings: Settings) -> None:
    """Raise `CommandError` for a host name that does not identify this machine on a bus on the network."""
    host = settings[GeneralSettings].host
    if is_remote(settings) and host in NAMELESS:
        raise CommandError(
            f"{settings.place(GeneralSettings.host)}: host is {host!r}, a name that other machines also have; "
            "expected a name that is unique on the bus",
            USAGE,
        )


def publisher_of(
    settings: Settings, bus: Bus, topic: Topic, stack: ExitStack, *, spool: str, spool_bytes: int
) -> Publisher:
    """Return the publisher of a topic. The stack closes it, which tries to publish the records that still wait.

    Args:
        settings: the settings.
        bus: the open bus.
        topic: the topic.
        stack: closes the publisher.
        spool: the name of the file in the directory `state` where records wait for a remote bus.
        spool_bytes: the limit of its size.

    """
    name = topics_of(settings).name(topic)
    if not is_remote(settings):
        from laggard.pipeline.core.sending.outbox import Outbox  # noqa: PLC0415 - one of the two is needed

        outbox = Outbox(bus, name)
        stack.callback(outbox.close)
        return outbox
    from laggard.pipeline.core.sending.sender import Sender  # noqa: PLC0415
    from laggard.pipeline.core.sending.spool import Spool  # noqa: PLC0415

    path = settings[GeneralSettings].state / spool
    sender = Sender(Spool(path, spool_bytes, settings[BusSettings].retention, name), bus)
    stack.callback(sender.close)
    return sender
