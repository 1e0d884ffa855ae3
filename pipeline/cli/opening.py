"""From the settings to an open bus with its topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.bus.opening import open_bus
from laggard.pipeline.cli.exits import NO_DATA, CommandError
from laggard.pipeline.cli.options import to_type
from laggard.pipeline.topics import Topics

if TYPE_CHECKING:
    from laggard.pipeline.bus import Bus
    from laggard.pipeline.settings import Settings


def bus_of(settings: Settings) -> Bus:
    """Open the bus, and create what is missing of it and its topics. Raises what `open_bus` does."""
    bus = open_bus(
        settings.text("bus.location"),
        max_bytes=settings.size("bus.max_bytes"),
        retention_s=settings.seconds("bus.retention"),
    )
    bus.create(topics_of(settings).specs())
    return bus


def existing_bus(settings: Settings) -> Bus:
    """Open a bus to ask it something. Raises `CommandError` where nothing has ever been recorded."""
    location = settings.text("bus.location")
    if "://" not in location and not Path(location.removeprefix("embedded:")).expanduser().exists():
        raise CommandError(f"nothing is recorded at {location}; start `{to_type(settings, 'up')}` first", NO_DATA)
    return bus_of(settings)


def topics_of(settings: Settings) -> Topics:
    """The topics under the configured prefix."""
    return Topics(settings.text("topics.prefix"))
