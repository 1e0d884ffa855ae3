"""The bus of the settings and its topics, opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.cli.exits import NO_DATA, UNAVAILABLE, CommandError
from laggard.pipeline.cli.options import to_type
from laggard.pipeline.core.bus.kafka.options import is_kafka
from laggard.pipeline.core.bus.opening import open_bus
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.settings.general import BusSettings, TopicsSettings
from laggard.pipeline.settings.kafka import kafka_options

if TYPE_CHECKING:
    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.settings import Settings


def opened_bus(settings: Settings) -> Bus:
    """Open the bus.

    Raises what `open_bus` does, and `SettingError` for inconsistent settings of Kafka.
    """
    bus = settings[BusSettings]
    return open_bus(
        bus.location,
        max_bytes=bus.max_bytes,
        retention_s=bus.retention,
        kafka=kafka_options(settings),
    )


def bus_of(settings: Settings) -> Bus:
    """Open the bus, and create an embedded bus or its topics if they are missing. Raises what `opened_bus` does.

    On Kafka `laggard topics create` creates topics: it decides on partitions, and needs rights that no other part does.
    """
    bus = opened_bus(settings)
    if not is_kafka(settings[BusSettings].location):
        bus.create(topics_of(settings).specs())
    return bus


def existing_bus(settings: Settings) -> Bus:
    """Open a bus for queries. Raises what `check_existing` and `bus_of` do."""
    check_existing(settings)
    return bus_of(settings)


def check_existing(settings: Settings) -> None:
    """Raise `CommandError` if an embedded bus does not exist, or this user may not see whether it does."""
    location = settings[BusSettings].location
    if "://" in location:
        return
    try:
        exists = Path(location.removeprefix("embedded:")).expanduser().exists()
    except PermissionError:
        raise CommandError(
            f"cannot read {location}: permission denied; run this as the user that laggard runs as", UNAVAILABLE
        ) from None
    if not exists:
        raise CommandError(f"there are no records at {location}; start `{to_type(settings, 'up')}` first", NO_DATA)


def topics_of(settings: Settings) -> Topics:
    """Return the topics under the configured prefix."""
    return Topics(settings[TopicsSettings].prefix)
