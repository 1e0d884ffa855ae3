"""Whether the sources of applications' performance can be read from this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.explaining.units import counted
from laggard.pipeline.measuring import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.settings import Settings
    from laggard.producers.measuring import Timed

MOST_TOLD = 5
"""Troubles of one source; the others are counted."""

_AT_ONCE = 8


def examine_sources(settings: Settings) -> Iterator[Finding]:
    """One finding for each source that is well, one for each trouble of the others."""
    if not settings.sources:
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(settings.sources))) as pool:
        for found in pool.map(_examine, sources_of(settings)):
            yield from found


def _examine(timed: Timed) -> list[Finding]:
    source = timed.source
    place = f"{source.name} of {source.application}"
    try:
        troubles = source.check()
    finally:
        source.close()
    if not troubles:
        return [Finding("source", "ok", f"{place} can be read")]
    told = [
        Finding(
            "source", "problem", f"{place}: {each.place}: {each.told}", "see what it names, or its table [[sources]]"
        )
        for each in troubles[:MOST_TOLD]
    ]
    if (left := len(troubles) - MOST_TOLD) > 0:
        told.append(Finding("source", "problem", f"{place}: {counted(left, 'trouble')} more"))
    return told
