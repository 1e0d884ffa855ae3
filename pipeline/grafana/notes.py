"""The annotations of incidents and marks in Grafana, and the changes of existing ones.

The tags have everything for finding an annotation. A fingerprint of the text is stored with it. It shows whether a
person has changed the text; a later record of the incident may update only laggard's own.
"""

from __future__ import annotations

import hashlib
import html
import math
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from laggard.pipeline.core.records.errors import RecordError
from laggard.pipeline.core.records.outputs import Incident, RankingOutput, read_output
from laggard.pipeline.methods.incidents.queries import SHORT_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.records.outputs import Change

TAG: Final = "laggard"
INCIDENT: Final = "incident"
MARK: Final = "mark"
OPEN: Final = "open"

MAX_TAG: Final = 100
"""The most characters of a tag's name and of its value, by the columns of Grafana's database."""

_TYPES: Final = {f"laggard.{kind}".encode() for kind in (Incident.kind, RankingOutput.kind)}


@dataclass(frozen=True, slots=True)
class Note:
    """The content of an annotation: of an incident by one of its records, or of a mark.

    Attributes:
        id: the unique id of the incident or the mark.
        kind: the kind.
        change: the change of the incident; a mark is always `opened`.
        number: the number of the record among those of the incident.
        keyed_by: the kind of the key.
        key: the host, or another key.
        operators: the operators with evidence, none for a mark.
        ts: the start, seconds since the Unix epoch.
        until_ts: the end; NaN for an open incident, and for a mark.
        text: the text, as HTML.

    """

    id: str
    kind: Literal["incident", "mark"]
    change: Change
    number: int
    keyed_by: str
    key: str
    operators: tuple[str, ...]
    ts: float
    until_ts: float
    text: str

    @property
    def id_tag(self) -> str:
        """The tag that identifies it."""
        # Older versions annotated marks, and anomalies, with the second one.
        return f"incident:{self.id}" if self.kind == INCIDENT else f"anomaly:{self.id}"

    @property
    def tags(self) -> list[str]:
        """All tags. They include the plain key, which is the value of a dashboard's variable."""
        key = self.key[:MAX_TAG]
        tags = [TAG, self.kind, key, f"{self.keyed_by}:{key}", self.id_tag]
        tags += [f"operator:{operator[:MAX_TAG]}" for operator in self.operators]
        return [*tags, OPEN] if self._is_open else tags

    def to_json(self) -> dict[str, Any]:
        """Return the annotation to create, for Grafana's API."""
        return {"time": round(1000 * self.ts), "tags": self.tags, **self._content(), **self._ending()}

    def changes(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes to the existing annotation; none if it is as new, or newer.

        Changes of people stay: a text that is no longer laggard's own, and tags.
        """
        tags = [str(tag) for tag in found.get("tags") or ()]
        if OPEN not in tags:
            return {}  # it has ended, and this record is a repetition
        wanted = [*(tag for tag in tags if tag != OPEN), *(tag for tag in self.tags if tag not in tags)]
        wanted += [OPEN] if self._is_open else []
        changes = self._ending() | ({"tags": wanted} if set(wanted) != set(tags) else {})
        match found:
            case {"text": str(text), "data": {"laggard": {"number": int(number), "print": str(fingerprint)}}}:
                if fingerprint == _print(text) and number < self.number and text != self.text:
                    changes |= self._content()
        return changes

    @property
    def _is_open(self) -> bool:
        return self.kind == INCIDENT and self.change != "closed"

    def _content(self) -> dict[str, Any]:
        return {"text": self.text, "data": {"laggard": {"number": self.number, "print": _print(self.text)}}}

    def _ending(self) -> dict[str, Any]:
        return {} if math.isnan(self.until_ts) else {"timeEnd": round(1000 * max(self.until_ts, self.ts))}


def _print(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def note_of(record: Incoming) -> Note | None:
    """Return the annotation of a record of the topic; None if it is not live, or of another kind.

    Raises RecordError for an unreadable record.
    """
    place = f"{record.partition.topic}[{record.partition.number}]@{record.offset}"
    headers = dict(record.headers)
    if headers.get("ce_type") not in _TYPES:
        return None  # subscribers skip unknown types
    match output := read_output(record.value, place):
        case Incident():
            return _of_incident(output) if output.live else None
        case RankingOutput():
            identity = headers.get("ce_id", b"").decode()
            if not re.fullmatch(r"[0-9A-Za-z-]{1,80}", identity):
                raise RecordError(place, "ce_id", "a header with the mark's id", repr(identity))
            mark = html.escape(output.mark or "it is slow", quote=False)
            sentence = html.escape(output.sentence, quote=False)
            text = f"{mark}<br/>{sentence}{_command('why', '--host', output.host, '--at', f'{output.ts:.3f}')}"
            return Note(identity, MARK, "opened", 1, "host", output.host, (), output.ts, math.nan, text)
        case _:
            return None


def _of_incident(incident: Incident) -> Note:
    text = html.escape(incident.sentence, quote=False)
    if incident.young:
        text += " (The model is young, and may be wrong.)"
    if incident.merged_into:
        text += "<br/>Merged into another incident, which is still open:"
        text += _command("incidents", incident.merged_into[:SHORT_ID])
    text += _command("incidents", incident.id[:SHORT_ID])
    if incident.keyed_by == "host":
        text += _command("why", "--host", incident.key, "--at", f"{incident.opened_ts:.3f}")
    elif incident.keyed_by == "pool":
        text += _command("pools", incident.key, "--at", f"{incident.opened_ts:.3f}")
    elif incident.keyed_by == "service":
        text += _command("requests", incident.key, "--at", f"{incident.opened_ts:.3f}")
    ended = math.nan
    if incident.change == "closed":
        ended = incident.ts if math.isnan(incident.until_ts) else incident.until_ts
    return Note(
        id=incident.id,
        kind="incident",
        change=incident.change,
        number=incident.number,
        keyed_by=incident.keyed_by,
        key=incident.key,
        operators=tuple(sorted({each.operator for each in incident.evidence})),
        ts=incident.opened_ts,
        until_ts=ended,
        text=text,
    )


def _command(*words: str) -> str:
    """Return a command for more details, on a line of its own."""
    return f"<br/>{html.escape(shlex.join(['laggard', *words]), quote=False)}"
