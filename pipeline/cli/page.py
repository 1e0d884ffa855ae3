"""Where the page shows what a command has told, if one is served for the bus."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.settings.general import BusSettings, GeneralSettings

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings


def page_url(settings: Settings, path: str, **parameters: str | float) -> str:
    """The address on the page: of the setting serve.url, else of the page that is served on this machine.

    Args:
        settings: those of the command.
        path: of the view: `/incidents`.
        parameters: of it; times in seconds since the Unix epoch.

    Returns:
        Empty where no page is served, as far as this user may know.

    """
    from laggard.pipeline.claims import holder_of  # noqa: PLC0415 - naming a command does not load it

    base = settings[ServeSettings].url
    if not base:
        try:
            holder = holder_of(settings[BusSettings].location, settings[GeneralSettings].state, "serve")
        except OSError:
            return ""
        base = "" if holder is None else holder.url
    given = {name: f"{each:.3f}" if isinstance(each, float) else each for name, each in parameters.items()}
    return f"{base.rstrip('/')}{path}?{urlencode(given)}" if base else ""
