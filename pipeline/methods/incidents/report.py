"""Incidents as text for a terminal: a table of them, and all evidence of one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rich.text import Text

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.explaining.verdict import narrowed
from laggard.pipeline.history.report import clock, moment, ranked, score_digits
from laggard.pipeline.methods.incidents.queries import SHORT_ID, lasted_s, worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.records.outputs import Evidence, Incident
    from laggard.pipeline.history.report import Page

TOLD_ROWS, TOLD_FEATURES = 3, 3
"""The most rows of the newest ranking that are shown, and features of each."""

_HEADS: Final = ("", "id", "host", "began", "lasted", "score", "seen by")
_NUMBERS: Final = ("lasted", "score")
"""Right-aligned columns."""


def table_lines(incidents: Sequence[Incident], silent: Mapping[str, float], now: float) -> Iterator[Text]:
    """Yield a line for each incident, with its sentence below; open ones are highlighted.

    Args:
        incidents: the incidents in the order of the table, at least one.
        silent: see `silent_hosts`.
        now: seconds since the Unix epoch, for the durations of open incidents.

    """
    rows = [_row(one, now) for one in incidents]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    yield Text(_aligned(_HEADS, widths), "dim")
    for one, row in zip(incidents, rows, strict=True):
        yield Text(_aligned(row, widths), "" if one.change == "closed" else "bold red")
        yield Text(f"{'':{widths[0] + 2}}{printable(one.sentence)}")
        if warning := silence(one, silent, now):
            yield Text(f"{'':{widths[0] + 2}}{warning}", "yellow")


def silence(incident: Incident, silent: Mapping[str, float], now: float) -> str:
    """Return a sentence that the state of the incident is unknown; empty unless it is open on a silent host."""
    if incident.change == "closed" or incident.keyed_by != "host" or incident.key not in silent:
        return ""
    since = silent[incident.key]
    how_long = "for long" if math.isnan(since) else f"since {moment(since)}, for {readable_duration(now - since)}"
    return f"{printable(incident.key)} has been silent {how_long}: whether this goes on is unknown."


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
    """Return the name of the host, or the kind of another key with its name."""
    key = printable(incident.key)
    return key if incident.keyed_by == "host" else f"{incident.keyed_by} {key}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        f"{cell:>{width}}" if head in _NUMBERS else f"{cell:{width}}"
        for head, cell, width in zip(_HEADS, row, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()


def incident_lines(incident: Incident, page: Page, silent: Mapping[str, float], now: float) -> Iterator[Text]:
    """Yield all details of an incident.

    Args:
        incident: the last record of the incident.
        page: the terminal.
        silent: see `silent_hosts`.
        now: seconds since the Unix epoch, for the duration of an open incident.

    """
    is_open = incident.change != "closed"
    until = "and still open" if is_open else f"to {moment(incident.until_ts)}"
    lasted = readable_duration(lasted_s(incident, now))
    yield Text(f"{whose(incident)} from {moment(incident.opened_ts)} {until}, {lasted}: {incident.id}", "dim")
    yield Text()
    yield Text(printable(incident.sentence), "bold" if is_open else "")
    if warning := silence(incident, silent, now):
        yield Text(warning, "yellow")
    if not incident.live:
        yield Text("It comes from a replayed recording.", "dim")
    yield Text()
    yield Text("By operator:", "dim")
    for each in incident.evidence:
        yield from _seen(each)
    if incident.left_out:
        yield Text(f"{'':8}and {incident.left_out:,} more, which have ended", "dim")
    ranking = narrowed(incident.ranking, TOLD_ROWS, TOLD_FEATURES)
    ranking = replace(ranking, rows=tuple(row for row in ranking.rows if row.score > 0.0))
    if ranking.rows:
        yield Text()
        yield Text(f"What {printable(incident.operator)} published last:", "dim")
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
