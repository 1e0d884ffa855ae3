"""Incidents as a person reads them in a terminal: a table of them, and what each operator saw of one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rich.text import Text

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.explaining.verdict import narrowed
from laggard.pipeline.history.report import clock, moment, ranked, score_digits
from laggard.pipeline.incidents.queries import SHORT_ID, lasted_s, worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.history.report import Page
    from laggard.pipeline.records.outputs import Evidence, Incident

TOLD_ROWS, TOLD_FEATURES = 3, 3
"""What is shown of the newest ranking."""

_HEADS: Final = ("", "id", "host", "began", "lasted", "score", "seen by")
_NUMBERS: Final = ("lasted", "score")
"""Columns whose cells end below each other."""


def table_lines(incidents: Sequence[Incident], silent: Mapping[str, float], now: float) -> Iterator[Text]:
    """A line for each incident, below it its sentence; those that are open stand out.

    Args:
        incidents: in the order in which they are shown, at least one.
        silent: see `silent_hosts`.
        now: seconds since the Unix epoch, for how long those that are open have lasted.

    """
    rows = [_row(one, now) for one in incidents]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    yield Text(_aligned(_HEADS, widths), "dim")
    for one, row in zip(incidents, rows, strict=True):
        yield Text(_aligned(row, widths), "" if one.change == "closed" else "bold red")
        yield Text(f"{'':{widths[0] + 2}}{printable(one.sentence)}")
        if said := silence(one, silent, now):
            yield Text(f"{'':{widths[0] + 2}}{said}", "yellow")


def silence(incident: Incident, silent: Mapping[str, float], now: float) -> str:
    """Say that nobody knows whether it goes on; nothing where its host is heard."""
    if incident.change == "closed" or incident.keyed_by != "host" or incident.key not in silent:
        return ""
    since = silent[incident.key]
    told = "for long" if math.isnan(since) else f"since {moment(since)}, for {readable_duration(now - since)}"
    return f"{printable(incident.key)} has been silent {told}: whether this goes on is not known."


def _row(incident: Incident, now: float) -> tuple[str, ...]:
    return (
        "closed" if incident.change == "closed" else "open",
        incident.id[:SHORT_ID],
        whose(incident),
        moment(incident.opened_ts),
        readable_duration(lasted_s(incident, now)),
        score_digits(worst(incident.score)),
        ", ".join(sorted({printable(each.operator) for each in incident.evidence})),
    )


def whose(incident: Incident) -> str:
    """Whom it is about: a host's name, or what else it is with its name."""
    key = printable(incident.key)
    return key if incident.keyed_by == "host" else f"{incident.keyed_by} {key}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        f"{cell:>{width}}" if head in _NUMBERS else f"{cell:{width}}"
        for head, cell, width in zip(_HEADS, row, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()


def incident_lines(incident: Incident, page: Page, silent: Mapping[str, float], now: float) -> Iterator[Text]:
    """All that is known of one.

    Args:
        incident: as its last record says.
        page: where it is shown.
        silent: see `silent_hosts`.
        now: seconds since the Unix epoch, for how long it has lasted if it is open.

    """
    is_open = incident.change != "closed"
    until = "and still open" if is_open else f"to {moment(incident.until_ts)}"
    lasted = readable_duration(lasted_s(incident, now))
    yield Text(f"{whose(incident)} from {moment(incident.opened_ts)} {until}, {lasted}: {incident.id}", "dim")
    yield Text()
    yield Text(printable(incident.sentence), "bold" if is_open else "")
    if said := silence(incident, silent, now):
        yield Text(said, "yellow")
    if not incident.live:
        yield Text("It is of recorded data that was replayed.", "dim")
    yield Text()
    yield Text("What each operator saw:", "dim")
    for each in incident.evidence:
        yield from _seen(each)
    if incident.left_out:
        yield Text(f"{'':8}and {incident.left_out:,} more, which have ended", "dim")
    ranking = narrowed(incident.ranking, TOLD_ROWS, TOLD_FEATURES)
    ranking = replace(ranking, rows=tuple(row for row in ranking.rows if row.score > 0.0))
    if ranking.rows:
        yield Text()
        yield Text(f"What {printable(incident.operator)} told last:", "dim")
        yield from ranked(ranking, {}, page)


def _seen(evidence: Evidence) -> Iterator[Text]:
    ended = not math.isnan(evidence.until_ts)
    when = (
        f"{clock(evidence.opened_ts)} to {clock(evidence.until_ts)}" if ended else f"from {clock(evidence.opened_ts)}"
    )
    line = Text(f"{score_digits(worst(evidence.score)):>6}  ", "dim" if ended else "bold red")
    line.append(printable(evidence.operator), "bold")
    yield line.append(f"  {when}" + (", when its model was young" if evidence.young else ""))
    yield Text(f"{'':8}{printable(evidence.sentence)}")
