"""The page that is served for the bus: links from commands to it, and the token that it requires."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.settings.general import BusSettings, GeneralSettings

if TYPE_CHECKING:
    from laggard.pipeline.investigator.tokens import Token
    from laggard.pipeline.settings import Settings


def page_url(settings: Settings, path: str, **parameters: str | float) -> str:
    """Return the address of a view on the page: that of the setting serve.url, otherwise the one on this machine.

    Args:
        settings: the settings of the command.
        path: the path of the view, such as `/incidents`.
        parameters: the parameters of the view; times in seconds since the Unix epoch.

    Returns:
        The address; empty if no page is served, or this user may not see one.

    """
    base = settings[ServeSettings].url
    if not base:
        try:
            holder = holder_of(settings[BusSettings].location, settings[GeneralSettings].state, "serve")
        except OSError:
            return ""
        base = "" if holder is None else holder.url
    given = {name: f"{each:.3f}" if isinstance(each, float) else each for name, each in parameters.items()}
    return f"{base.rstrip('/')}{path}?{urlencode(given)}" if base else ""


def asking(token: Token, url: str) -> str:
    """Return the sentence about a generated token: its link the first time, later its file."""
    sentence = f"It asks for a token, because {token.why}: the one in {token.path}"
    return f"{sentence}, or once by this link: {token.link(url)}" if token.new and not _is_shared() else f"{sentence}."


def _is_shared() -> bool:
    """Return whether standard output is a file that other users may read."""
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(mode) and bool(mode & 0o077)
