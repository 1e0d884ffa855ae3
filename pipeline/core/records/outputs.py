"""The public records: JSON objects, each with its `kind`.

The declarations are a promise, see `deploy/docs/reference/anomalies.md`. `deploy/schemas/` and the AsyncAPI document
are generated from them. A minor version of laggard may add fields and kinds, so an object may have members that its
schema does not name. Incompatible changes need a new major version, which the schema's id and the header
`ce_dataschema` name.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from laggard.operators.ranking import Ranking, RowScore
from laggard.pipeline.core.records.declared import (
    KEYED,
    Declared,
    Form,
    Part,
    choice,
    count,
    flag,
    key,
    many,
    number,
    perhaps,
    shape_of,
    text,
    texts,
    time,
    uuid,
)
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.features import ROW
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.frame import Frame, KeyedBy
from laggard.pipeline.core.records.ids import derived_id
from laggard.pipeline.core.records.limits import MAX_NAME, MAX_RESOURCES
from laggard.pipeline.core.records.members import AGE, LIVE, SENTENCE, SENTENCE_FIELD, YOUNG
from laggard.pipeline.core.records.models import ModelOutput, PredictionOutput
from laggard.pipeline.core.records.pools import PoolOutput
from laggard.pipeline.core.records.requests import RequestOutput
from laggard.pipeline.core.records.strict_json import json_number, parse_object

Change = Literal["opened", "extended", "closed"]
"""The change of an incident."""

AnomalyChange = Literal["extended", "ended"]
"""The change of an anomaly."""

NoticeChange = Literal["opened", "ended"]
"""The change of a notice."""

Excuse = Literal["", "usual", "expected"]
"""The feedback that ended an anomaly; empty if there was none."""

Parameter = float | str | bool


def anomaly_id(operator: str, key: str, found: str) -> str:
    """Return the id of a finding of an operator about a key; `found` is unique among those of the key.

    The same arguments give the same id, so that readers recognize duplicates.
    """
    return derived_id(operator, key, found)


def frame_id(operator: str, frame: Frame, found: str = "") -> str:
    """Return the id of a finding of an operator in a frame; `found` is unique among those of the frame.

    It depends on the frame alone and not on its offset in a topic, which may change.
    """
    return anomaly_id(operator, frame.key, f"{frame.scope} {frame.ts!r} {frame.sequence} {found}".rstrip())


def incident_id(anomaly: str) -> str:
    """Return the id of the incident that an anomaly, given by its id, opens."""
    return derived_id("incident", anomaly)


# Members that several records have.


def _read_parameters(fields: Fields, name: str) -> dict[str, Parameter]:
    value = fields.raw(name)
    if isinstance(value, dict) and all(isinstance(each, float | int | str | None) for each in value.values()):
        return {parameter: math.nan if each is None else each for parameter, each in value.items()}
    raise fields.error(name, "an object of names and numbers, texts, true or false")


def _write_parameters(parameters: Mapping[str, Parameter]) -> dict[str, Parameter | None]:
    return {name: json_number(each) if isinstance(each, float) else each for name, each in parameters.items()}


PARAMETERS: Final = Form(
    {
        "type": "object",
        "description": "The parameters of the operator, by name.",
        "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
    },
    _read_parameters,
    _write_parameters,
)
ROWS: Final = many(ROW, "The evidence: the worst rows first; not all of them.")
RANKING: Final = replace(ROWS, write=lambda ranking: list(map(ROW.write, ranking.rows)))
"""The rows of a ranking, whose time, score and age are those of its record; see `Evident`."""

OPERATOR: Final = text("The operator that detected it: `gaussian`.")
SCOPE: Final = "The kind of the rows: `process`, `host`, ...; empty if unknown."
ONSET: Final = "The estimated time of its onset; null if that of its detection."
WORST: Final = number("The worst score so far, above 1; null if it is too large for a number.", exclusiveMinimum=1)
SILENT: Final = number(
    "The time of the last record of its host or operator, seconds since the Unix epoch, if it counts as ended because "
    "of their silence; otherwise null.",
    minimum=0,
    added=True,
)
ACCEPTED: Final = flag(
    "Whether it ended because it lasted for `gaussian.accepted_after`, and is the new baseline.", added=True
)
EXCUSE: Final = choice("The feedback that ended it, `usual` or `expected`; otherwise empty.", Excuse, added=True)


class Evident(Declared):
    """A record with a ranking. Only the rows of the ranking are members."""

    __slots__ = ()

    @classmethod
    def made(cls, found: Fields, **read: Any) -> Self:  # noqa: ARG003 - others check more
        """Return the record with these attributes."""
        ranking = Ranking(read["ts"], read["score"], read["ranking"], read["model_age_s"], read["young"])
        return cls(**read | {"ranking": ranking})


@dataclass(frozen=True, slots=True)
class Blame(Part):
    """The probable culprit and the counter that shows it. The sentence names both first."""

    row: Annotated[str, text("The row's id: `nginx[4711@99]`.")]
    name: Annotated[str, text("Its name: `nginx`.")]
    feature: Annotated[str, text("The counter, with its base unit; empty if unknown.")] = ""
    value: Annotated[float, number("The value of the counter, in its base unit.")] = math.nan
    usual: Annotated[float, number("The mean of the baseline.")] = math.nan
    usual_deviation: Annotated[float, number("The standard deviation of the baseline.")] = math.nan
    resources: Annotated[
        tuple[str, ...],
        texts(
            "The resources that it uses or lacks: `cpu`, `disk`, `memory`, `network`; empty if unknown.",
            MAX_RESOURCES,
            MAX_NAME,
        ),
    ] = ()


BLAME: Final = shape_of(Blame)
BLAMED: Final = "The probable culprit; null if there is none."


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Evident):
    """A finding of one operator about a key: the common members of anomalies, their progress, and notices."""

    ts: Annotated[float, time("The time of the anomaly by the clock of the host, seconds since the Unix epoch.")]
    id: Annotated[str, uuid("The id of the anomaly: the same whenever the same input is processed again.")]
    operator: Annotated[str, OPERATOR]
    parameters: Annotated[Mapping[str, Parameter], PARAMETERS]
    keyed_by: Annotated[KeyedBy, KEYED]
    key: str
    score: Annotated[float, number("The score, above 1; null if it is too large for a number.", exclusiveMinimum=1)]
    ranking: Annotated[Ranking, RANKING]
    sentence: Annotated[str, SENTENCE_FIELD]
    model_age_s: Annotated[float, AGE]
    young: Annotated[bool, YOUNG]
    live: Annotated[bool, LIVE]
    scope: Annotated[str, text(SCOPE, added=True)] = ""
    blame: Annotated[Blame | None, perhaps(BLAME, BLAMED, added=True)] = None
    onset_ts: Annotated[float, number(ONSET, minimum=0, added=True)] = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly(Found):
    """A score above 1, which is the false-alarm budget. It is published once, when the anomaly opens."""

    kind: ClassVar[str] = "anomaly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Found):
    """The progress of an anomaly.

    It is published when the score has doubled or the culprit is another program or uses other resources, at most once a
    minute and 10 times. It is also published while the anomaly lasts, ever less often, and at its end. It has the
    members of the anomaly as of `ts`; the ranking is empty at the end.
    """

    kind: ClassVar[str] = "progress"

    ts: Annotated[float, time("The time of this state by the clock of the host, seconds since the Unix epoch.")]
    id: Annotated[str, uuid("The id of the anomaly.")]
    score: Annotated[float, WORST]
    change: Annotated[AnomalyChange, choice("The change of the anomaly.", AnomalyChange)]
    number: Annotated[int, count("The number of this record of the anomaly; the first is 1.", 1)]
    opened_ts: Annotated[float, time("The time of the anomaly's first record, seconds since the Unix epoch.")]
    until_ts: Annotated[float, time("The last time at which its score was above 1, seconds since the Unix epoch.")]
    silent_since_ts: Annotated[float, SILENT] = math.nan
    accepted: Annotated[bool, ACCEPTED] = False
    feedback: Annotated[Excuse, EXCUSE] = ""
    # The first versions published anomalies without these, but never their progress.
    scope: Annotated[str, text(SCOPE)] = ""
    blame: Annotated[Blame | None, perhaps(BLAME, BLAMED)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Found):
    """A suspicious score: above the budget of notices, but not above that of anomalies.

    It is published when it opens and when it ends. It belongs to no incident.
    """

    kind: ClassVar[str] = "notice"

    id: Annotated[str, uuid("The id of the notice: the same in both records, whenever the input is processed.")]
    score: Annotated[
        float,
        number("The worst score so far, as a multiple of the level of notices.", exclusiveMinimum=1),
    ]
    change: Annotated[NoticeChange, choice("The change that this record reports.", NoticeChange)]
    opened_ts: Annotated[float, time("The time of its first record, seconds since the Unix epoch.")]
    until_ts: Annotated[
        float, time("The last time at which it was above the level of notices, seconds since the Unix epoch.")
    ]
    became: Annotated[str, text("The id of the anomaly that it has become; otherwise empty.")] = ""
    scope: Annotated[str, text(SCOPE)] = ""
    blame: Annotated[Blame | None, perhaps(BLAME, BLAMED)] = None
    onset_ts: Annotated[float, number(ONSET, minimum=0)] = math.nan


@dataclass(frozen=True, slots=True)
class Evidence(Part):
    """One operator's evidence of an incident: an anomaly, as of its last record."""

    anomaly: Annotated[str, uuid("Its id.")]
    operator: Annotated[str, OPERATOR]
    scope: Annotated[str, text(SCOPE)]
    opened_ts: Annotated[
        float, time("The time of its onset, otherwise of its detection, seconds since the Unix epoch.")
    ]
    until_ts: Annotated[float, number("The last time at which its score was above 1; null while it lasts.", minimum=0)]
    score: Annotated[float, WORST]
    young: Annotated[bool, YOUNG]
    sentence: Annotated[str, SENTENCE_FIELD]
    blame: Annotated[Blame | None, perhaps(BLAME, BLAMED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident(Evident):
    """Anomalies of one cause, joined over time, rows and operators.

    It is published when it opens, when it grows, and when it closes. Each record has the whole incident so far.
    """

    kind: ClassVar[str] = "incident"

    ts: Annotated[float, time("The time of the change by the clock of the host, seconds since the Unix epoch.")]
    id: Annotated[str, uuid("The id of the incident: the same in all its records.")]
    number: Annotated[int, count("The number of this record of the incident; the first is 1.", 1)]
    change: Annotated[Change, choice("The change that this record reports.", Change)]
    opened_ts: Annotated[float, time("The onset of its first anomaly, seconds since the Unix epoch.")]
    until_ts: Annotated[
        float, number("The last time at which one of its scores was above 1; null while it is open.", minimum=0)
    ]
    operator: Annotated[str, text("The operator with the highest score: `gaussian`.")]
    keyed_by: Annotated[KeyedBy, KEYED]
    key: str
    score: Annotated[float, WORST]
    blame: Annotated[Blame | None, perhaps(BLAME, BLAMED)]
    ranking: Annotated[Ranking, RANKING]
    sentence: Annotated[str, SENTENCE_FIELD]
    model_age_s: Annotated[float, AGE]
    young: Annotated[bool, flag("Whether all its operators had learned too little for reliable results.")]
    live: Annotated[bool, LIVE]
    evidence: Annotated[
        tuple[Evidence, ...],
        many(shape_of(Evidence), "The evidence of each operator, the oldest first.", minItems=1),
    ]
    left_out: Annotated[int, count("The number of ended anomalies with lower scores that the evidence leaves out.")] = 0
    merged_into: Annotated[
        str,
        text(
            "The id of the incident that continues this one, if it was closed because both have one cause; otherwise "
            "empty."
        ),
    ] = ""
    silent_since_ts: Annotated[float, SILENT] = math.nan
    accepted: Annotated[bool, ACCEPTED] = False
    feedback: Annotated[Excuse, EXCUSE] = ""


@dataclass(frozen=True, slots=True)
class RankingOutput(Declared):
    """The answer to a mark (`it is slow now`): the most unusual rows of that host at that moment."""

    kind: ClassVar[str] = "ranking"

    ts: Annotated[float, time("The time of the mark, seconds since the Unix epoch.")]
    host: Annotated[str, key("The marked host. The record's key.")]
    mark: Annotated[str, text("The note of the mark; may be empty.")]
    frame_ts: Annotated[float, number("The time of the ranked frame; null without one near.", minimum=0)]
    score: Annotated[float, number("The score of that frame; null without one near.")]
    model_age_s: Annotated[float, AGE]
    young: Annotated[bool, YOUNG]
    sentence: Annotated[str, text(SENTENCE, added=True)] = ""
    rows: Annotated[tuple[RowScore, ...], ROWS] = ()

    @classmethod
    def of(cls, ts: float, host: str, mark: str, ranking: Ranking, sentence: str = "") -> Self:
        """Return the answer to a mark with the note `mark`, by the ranking of the nearest frame."""
        return cls(ts, host, mark, ranking.ts, ranking.score, ranking.age_s, ranking.young, sentence, ranking.rows)

    @property
    def ranking(self) -> Ranking:
        """The ranking of the nearest frame."""
        return Ranking(self.frame_ts, self.score, self.rows, self.model_age_s, self.young)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOutput(Declared):
    """One operator's score of one key at one tick, or of one request.

    Only `laggard replay --json --scores` prints it.
    """

    kind: ClassVar[str] = "score"

    ts: Annotated[float, time("The time of the tick, or of the start of the request, seconds since the Unix epoch.")]
    operator: Annotated[str, OPERATOR]
    keyed_by: Annotated[KeyedBy, KEYED]
    key: str
    request: Annotated[str, text("The id of the request; absent for a tick.", MAX_NAME, sparse=True, minLength=1)] = ""
    score: Annotated[float, number("The score, anomalous above 1; null without one.")]


@dataclass(frozen=True, slots=True)
class DeadLetterOutput(Declared):
    """An unusable record."""

    kind: ClassVar[str] = "dead_letter"

    ts: Annotated[float, number("Its time, seconds since the Unix epoch; null if unknown.")]
    place: Annotated[str, text("Its place: `laggard.counters[3]@1042`, `day.jsonl:17`.")]
    reason: Annotated[str, text("The reason, and what was expected.")]


Published = (
    Anomaly | Progress | Notice | Incident | FeedbackOutput | RankingOutput | ModelOutput | PoolOutput | RequestOutput
)
ReplayOutput = Published | ScoreOutput | PredictionOutput
Output = ReplayOutput | DeadLetterOutput

KINDS: Final[Mapping[str, type[Output]]] = {each.kind: each for each in get_args(Output)}
"""The records by their kinds."""


def write_output(output: Output) -> str:
    """Return the output as one line of strict JSON, in ASCII and without the line feed."""
    return json.dumps(output.to_json(), separators=(",", ":"), allow_nan=False)


def read_output(text: str | bytes, place: str) -> Output:
    """Return the output of a text. Unknown fields are ignored.

    Args:
        text: JSON, as bytes in UTF-8.
        place: its origin, for errors.

    Raises:
        RecordError: the text is no strict JSON, its kind is unknown, or a field is invalid.

    """
    fields = Fields(parse_object(text, place), place)
    kind = fields.raw("kind")
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind].read(fields)
    raise RecordError(place, "kind", "one of the kinds " + ", ".join(map(repr, KINDS)), shown(kind))
