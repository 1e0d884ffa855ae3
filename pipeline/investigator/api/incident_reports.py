"""Reports on one incident: that of the other method on its subject, and all of it as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.investigator.api.incident import IncidentQuestion
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Endpoint,
    Text,
)
from laggard.pipeline.methods.incidents.account import account
from laggard.pipeline.methods.incidents.diagnosed import during
from laggard.pipeline.methods.incidents.markdown import markdown
from laggard.pipeline.methods.requests.beside import beside

if TYPE_CHECKING:
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.incidents.beside import Beside


class OtherReport(Answer, frozen=True):
    """The report of the other method: traced requests of an application, or the performance model of a service."""

    title: Annotated[str, msgspec.Meta(description="its subject in a word or two; empty without a report")]
    sentences: Annotated[list[str], msgspec.Meta(description="the report; empty without one")]
    incident: Annotated[
        str, msgspec.Meta(description="the id of the incident that the other method detected; empty without one")
    ]


class Markdown(Answer, frozen=True):
    """An incident as Markdown."""

    text: Annotated[str, msgspec.Meta(description="the incident as Markdown")]


class MarkdownQuestion(IncidentQuestion, frozen=True):
    """An incident, and the address of its page for a link in the text."""

    link: Annotated[
        Text, msgspec.Meta(description="the URL of the page of the incident; ignored unless it is of http or https")
    ] = ""


def incident_beside(reading: Reading, question: IncidentQuestion) -> OtherReport:
    """Return the report of the other method on the application or service of an incident."""
    found = _beside(reading, reading.incident(question.id))
    return OtherReport("", [], "") if found is None else OtherReport(found.title, list(found.sentences), found.incident)


def _beside(reading: Reading, found: Incident) -> Beside | None:
    return beside(reading.bus, reading.topics, found, reading.requests.stored.between, reading.clock())


def incident_markdown(reading: Reading, question: MarkdownQuestion) -> Markdown:
    """Return an incident as Markdown."""
    found = reading.incident(question.id)
    details = account(reading.bus, reading.topics, found)
    diagnoses = during(reading.bus, reading.topics, found)
    other = _beside(reading, found)
    return Markdown(markdown(found, details, diagnoses, question.link, reading.clock(), beside=other))


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/incident/beside",
        "The report of the other method on an application or a service.",
        OtherReport,
        incident_beside,
        IncidentQuestion,
    ),
    Endpoint(
        "/incident/markdown",
        "One incident as Markdown, for a ticket or a chat.",
        Markdown,
        incident_markdown,
        MarkdownQuestion,
    ),
)
