"""The configured sources of performance and pool members, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.cli.exits import USAGE, CommandError
from laggard.pipeline.cli.options import to_type
from laggard.pipeline.settings.sources import LinesSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.settings import Settings

STANDARD_INPUT: Final = "-"


def sources_text(keys: Iterable[tuple[KeyedBy, str]]) -> str:
    """Return the applications and pools with their sources, in words."""
    found = list(dict.fromkeys(keys))
    words = {"application": "the performance of", "pool": "the members of"}
    names = {each: ", ".join(key for keyed_by, key in found if keyed_by == each) for each in words}
    return " and ".join(f"{phrase} {names[each]}" for each, phrase in words.items() if names[each])


def check_supervised(settings: Settings) -> None:
    """Raise `CommandError` for a source on standard input, which only `laggard measure` on its own can read."""
    for source in settings.sources:
        if isinstance(source, LinesSource) and source.path == STANDARD_INPUT:
            command = to_type(settings, "measure")
            raise CommandError(
                f"{source.place(LinesSource.path)}: source {source.name}: `laggard up` has no standard input to read; "
                f"expected a file or a named pipe, or `{command}` on its own",
                USAGE,
            )
