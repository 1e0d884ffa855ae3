"""The report of another method on the subject of an incident at the same time, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.incidents.queries import SHORT_ID

if TYPE_CHECKING:
    from collections.abc import Iterator


class Beside(NamedTuple):
    """A report of another method on the subject of an incident.

    Attributes:
        title: what it is about, in a word or two: `Traced requests`.
        sentences: the report.
        incident: the id of the incident that the other method detected at that time; empty without one.

    """

    title: str
    sentences: tuple[str, ...]
    incident: str


def beside_lines(found: Beside) -> Iterator[Text]:
    """Yield the lines of a report."""
    yield Text()
    known = f" (incident {found.incident[:SHORT_ID]})" if found.incident else ""
    yield Text(f"{found.title} meanwhile{known}:", "dim")
    for sentence in found.sentences:
        yield Text(f"{'':8}{printable(sentence)}")
