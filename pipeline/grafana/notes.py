"""What an annotation in Grafana says: of an incident, of a mark, and what of it is read back.

Everything is in its tags: whom it is about, what found it, whose annotation it is, and whether it has an end.
"""

from __future__ import annotations

import html
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from laggard.pipeline.records.errors import RecordError
from laggard.pipeline.records.outputs import KEY_NAMES, Anomaly, RankingOutput, read_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.bus import Incoming

TAG: Final = "laggard"
INCIDENT: Final = "incident"
MARK: Final = "mark"
OPEN: Final = "open"
_OPERATOR: Final = "operator:"

MAX_TAG: Final = 100
"""Letters of a tag's name and of its value, by the columns of Grafana's database."""

_TYPES: Final = {f"laggard.{kind}".encode() for kind in (Anomaly.kind, RankingOutput.kind)}


@dataclass(frozen=True, slots=True)
class Note:
    """An annotation that is to be written: of an incident or of a mark.

    Attributes:
        id: the anomaly's, or the mark's; unique.
        kind: which of them.
        keyed_by: what `key` names.
        key: the host, or whom else it is about.
        operator: which found it, empty of a mark.
        ts: when it began, seconds since the Unix epoch.
        text: what it says, as HTML.

    """

    id: str
    kind: Literal["incident", "mark"]
    keyed_by: str
    key: str
    operator: str
    ts: float
    text: str

    @property
    def tags(self) -> list[str]:
        """What it is found by: the key also as it is, which is what a dashboard's variable has."""
        key = self.key[:MAX_TAG]
        tags = [TAG, self.kind, key, f"{self.keyed_by}:{key}", id_tag(self.id)]
        return [*tags, f"{_OPERATOR}{self.operator}", OPEN] if self.kind == INCIDENT else tags

    def to_json(self) -> dict[str, Any]:
        """For Grafana's API."""
        return {"time": round(1000 * self.ts), "tags": self.tags, "text": self.text}


def id_tag(identity: str) -> str:
    """The tag by which the annotation of an anomaly or a mark is found."""
    return f"anomaly:{identity}"


def note_of(record: Incoming) -> Note | None:
    """What a record of the topic is annotated with; None for what is not live, or of another kind.

    Raises RecordError for what cannot be read.
    """
    place = f"{record.partition.topic}[{record.partition.number}]@{record.offset}"
    headers = dict(record.headers)
    if headers.get("ce_type") not in _TYPES:
        return None  # as subscribers do with what they do not know
    output = read_output(record.value, place)
    if isinstance(output, Anomaly):
        if not output.live:
            return None
        said = html.escape(output.sentence, quote=False)
        if output.young:
            said += " (The operator has not learned long enough yet to be relied on.)"
        text = f"{said}{_why(output.keyed_by, output.key, output.ts)}"
        return Note(output.id, INCIDENT, output.keyed_by, output.key, output.operator, output.ts, text)
    if isinstance(output, RankingOutput):
        identity = headers.get("ce_id", b"").decode()
        if not re.fullmatch(r"[0-9A-Za-z-]{1,80}", identity):
            raise RecordError(place, "ce_id", "a header with the mark's id", repr(identity))
        said = html.escape(output.mark or "it is slow", quote=False)
        found = html.escape(output.sentence, quote=False)
        text = f"{said}<br/>{found}{_why('host', output.host, output.ts)}"
        return Note(identity, MARK, "host", output.host, "", output.ts, text)
    return None


def _why(keyed_by: str, key: str, ts: float) -> str:
    """The command that tells more of it."""
    if keyed_by != "host":
        return ""
    return f"<br/>{html.escape(shlex.join(['laggard', 'why', '--host', key, '--at', f'{ts:.3f}']), quote=False)}"


@dataclass(frozen=True, slots=True)
class Open:
    """An annotation of an incident that has no end yet.

    Attributes:
        annotation: its id in Grafana.
        tags: all that it has.
        keyed_by: what `key` names.
        key: whom it is about.
        operator: which found it.
        ts: when it began.
        scope: that of its frames, empty until Prometheus has shown it.
        seen: until when it was seen to be open, seconds since the Unix epoch.

    """

    annotation: int
    tags: tuple[str, ...]
    keyed_by: str
    key: str
    operator: str
    ts: float
    scope: str = ""
    seen: float = 0.0

    @classmethod
    def read(cls, annotation: Mapping[str, Any]) -> Open | None:
        """Of an annotation as Grafana has it; None where a person has changed what it is known by."""
        tags = tuple(str(tag) for tag in annotation.get("tags") or ())
        named = [
            (name, tag.removeprefix(f"{name}:")) for tag in tags for name in KEY_NAMES if tag.startswith(f"{name}:")
        ]
        operators = [tag.removeprefix(_OPERATOR) for tag in tags if tag.startswith(_OPERATOR)]
        if len(named) != 1 or len(operators) != 1:
            return None
        ts = int(annotation["time"]) / 1000.0
        return cls(int(annotation["id"]), tags, *named[0], operators[0], ts, seen=ts)
