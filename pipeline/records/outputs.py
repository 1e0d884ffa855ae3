"""What leaves for other people's tools: JSON, one object each, whose `kind` says which.

NaN and infinity, which JSON does not have, are written as null; null is read as NaN.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from laggard.operators.ranking import Basis, Phase, Ranking, RowScore
from laggard.pipeline.records.errors import RecordError, shown
from laggard.pipeline.records.features import features_json, read_features
from laggard.pipeline.records.feedback import Feedback, checked_feedback, plain_feedback
from laggard.pipeline.records.fields import Fields
from laggard.pipeline.records.frame import UNNUMBERED, Frame, KeyedBy
from laggard.pipeline.records.ids import derived_id
from laggard.pipeline.records.limits import MAX_NAME, MAX_RESOURCES, MAX_SEQUENCE
from laggard.pipeline.records.models import ModelOutput, PredictionOutput, read_model, read_prediction
from laggard.pipeline.records.pools import PoolOutput, read_pool
from laggard.pipeline.records.requests import RequestOutput, read_request
from laggard.pipeline.records.strict_json import json_number, parse_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Change = Literal["opened", "extended", "closed"]
"""What happened to an incident."""

AnomalyChange = Literal["extended", "ended"]
"""What became of an anomaly."""

NoticeChange = Literal["opened", "ended"]
"""What happened to a notice."""

Excuse = Literal["", "usual", "expected"]
"""What a person said, by which an anomaly has ended; empty if nobody did."""

Parameter = float | str | bool

KEY_NAMES: Final[tuple[KeyedBy, ...]] = get_args(KeyedBy)
"""The field that holds a key is called like this."""

CHANGES: Final[tuple[Change, ...]] = ("opened", "extended", "closed")
ANOMALY_CHANGES: Final[tuple[AnomalyChange, ...]] = ("extended", "ended")
NOTICE_CHANGES: Final[tuple[NoticeChange, ...]] = ("opened", "ended")
EXCUSES: Final[tuple[Excuse, ...]] = get_args(Excuse)
BASES: Final[tuple[Basis, ...]] = ("itself", "name", "starts", "all", "threshold")


def anomaly_id(operator: str, key: str, found: str) -> str:
    """The id of what an operator found about a key; `found` tells it from all else of that key.

    The same arguments give the same id, so that a reader can always tell what it has seen before.
    """
    return derived_id(operator, key, found)


def frame_id(operator: str, frame: Frame, found: str = "") -> str:
    """The id of what an operator found in a frame; `found` tells it from what else it found there.

    It depends on the frame alone, not on where that is in a topic: the frame may come to another place.
    """
    return anomaly_id(operator, frame.key, f"{frame.scope} {frame.ts!r} {frame.sequence} {found}".rstrip())


def incident_id(anomaly: str) -> str:
    """The id of the incident that an anomaly, given by its id, opens."""
    return derived_id("incident", anomaly)


@dataclass(frozen=True, slots=True)
class Blame:
    """Who is likely to blame, and the counter that tells so: what the sentence names first.

    Attributes:
        row: the row's id; the host's name where it is the host itself.
        name: the row's.
        feature: the counter, with its base unit; empty where none is known.
        value: of that counter, in its base unit; NaN where it is not known.
        usual: the mean of what is usual; NaN where nothing is known.
        usual_deviation: the standard deviation of that.
        resources: what it takes or lacks: `cpu`, `disk`, `memory`, `network`; none where the counter does not tell.

    """

    row: str
    name: str
    feature: str = ""
    value: float = math.nan
    usual: float = math.nan
    usual_deviation: float = math.nan
    resources: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "row": self.row,
            "name": self.name,
            "feature": self.feature,
            "value": json_number(self.value),
            "usual": json_number(self.usual),
            "usual_deviation": json_number(self.usual_deviation),
            "resources": list(self.resources),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """What one operator found about a key: what an anomaly and its progress have in common.

    Attributes:
        id: of the anomaly, see `anomaly_id`.
        operator: which one found it.
        parameters: the operator's.
        keyed_by: what `key` names.
        key: the host, application, pool or service.
        ts: the time of the frame or request, seconds since the Unix epoch.
        score: above 1.
        ranking: the evidence. Only its rows are written: its time, score and age are those of the anomaly.
        sentence: what it is, in plain words.
        model_age_s: how long the operator has been learning, in seconds.
        young: whether that is too short to be relied on.
        live: whether it is about now; false for a replay of recorded data, which never alerts.
        scope: what the rows are, see `Frame.scope`; empty where an older laggard wrote it.
        blame: who is likely to blame; None where nobody is, and where an older laggard wrote it.
        onset_ts: the estimated time of its onset, seconds since the Unix epoch; NaN if it is the time of its detection.

    """

    kind: ClassVar[str]

    id: str
    operator: str
    parameters: Mapping[str, Parameter]
    keyed_by: KeyedBy
    key: str
    ts: float
    score: float
    ranking: Ranking
    sentence: str
    model_age_s: float
    young: bool
    live: bool
    scope: str = ""
    blame: Blame | None = None
    onset_ts: float = math.nan

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "id": self.id,
            "operator": self.operator,
            "parameters": {name: _parameter(value) for name, value in self.parameters.items()},
            self.keyed_by: self.key,
            "score": json_number(self.score),
            "ranking": _rows(self.ranking),
            "sentence": self.sentence,
            "model_age_s": json_number(self.model_age_s),
            "young": bool(self.young),
            "live": bool(self.live),
            "scope": self.scope,
            "blame": _blame(self.blame),
            "onset_ts": json_number(self.onset_ts),
        }


@dataclass(frozen=True, slots=True)
class Anomaly(Found):
    """A score passed 1. It is told once."""

    kind: ClassVar[str] = "anomaly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Found):
    """What became of an anomaly: it got worse, blames another row, goes on for long, or has ended.

    It says of the anomaly what that said at first, as it is at `ts`: the worst score so far; and the newest ranking,
    which is empty when it has ended.

    Attributes:
        change: what became of it.
        number: of this record among those of the anomaly; the first is 1.
        opened_ts: when the anomaly was told first, seconds since the Unix epoch.
        until_ts: when its score was last above 1, seconds since the Unix epoch. Ended is what has been calm for a
            while since: what comes again before is the same trouble.
        silent_since_ts: where it has ended without being seen to, the time of the last frame that told of it, after
            which none came, or none that could be compared; else NaN.
        accepted: whether it has ended because it lasted for so long that it is the new baseline.
        feedback: what a person said, where it has ended by that; else empty.

    """

    kind: ClassVar[str] = "progress"

    change: AnomalyChange
    number: int
    opened_ts: float
    until_ts: float
    silent_since_ts: float = math.nan
    accepted: bool = False
    feedback: Excuse = ""

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return Found.to_json(self) | {
            "change": self.change,
            "number": self.number,
            "opened_ts": json_number(self.opened_ts),
            "until_ts": json_number(self.until_ts),
            "silent_since_ts": json_number(self.silent_since_ts),
            "accepted": bool(self.accepted),
            "feedback": self.feedback,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Found):
    """Something suspicious, but not unusual enough for an anomaly: it opens, and ends.

    Its score is a share of what the budget of notices allows, so that it is above 1, too.

    Attributes:
        change: what happened to it.
        opened_ts: when it was told first, seconds since the Unix epoch.
        until_ts: when its score was last above 1, seconds since the Unix epoch.
        became: the id of the anomaly that it has become; else empty.

    """

    kind: ClassVar[str] = "notice"

    change: NoticeChange
    opened_ts: float
    until_ts: float
    became: str = ""

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return Found.to_json(self) | {
            "change": self.change,
            "opened_ts": json_number(self.opened_ts),
            "until_ts": json_number(self.until_ts),
            "became": self.became,
        }


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one operator saw of an incident: an anomaly, as it was told last.

    Attributes:
        anomaly: its id.
        operator: which one found it.
        scope: what its rows are, see `Frame.scope`.
        opened_ts: when it began, seconds since the Unix epoch: at its onset, or when it was detected.
        until_ts: when its score was last above 1; NaN while it has not ended.
        score: the worst so far.
        young: whether the operator had not learned for long enough to be relied on.
        sentence: the newest, in plain words.
        blame: who is likely to blame.

    """

    anomaly: str
    operator: str
    scope: str
    opened_ts: float
    until_ts: float
    score: float
    young: bool
    sentence: str
    blame: Blame | None

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "anomaly": self.anomaly,
            "operator": self.operator,
            "scope": self.scope,
            "opened_ts": json_number(self.opened_ts),
            "until_ts": json_number(self.until_ts),
            "score": json_number(self.score),
            "young": bool(self.young),
            "sentence": self.sentence,
            "blame": _blame(self.blame),
        }


@dataclass(frozen=True, slots=True)
class Incident:
    """Anomalies of one cause, joined over time, rows and operators.

    Attributes:
        id: see `incident_id`: the same in all records of it.
        number: of this record among those of the incident; the first is 1.
        change: what happened to it at `ts`.
        ts: the time of what changed it, seconds since the Unix epoch.
        opened_ts: when it began: at the onset of its first anomaly.
        until_ts: when a score of it was last above 1; NaN while it is open.
        keyed_by: what `key` names.
        key: the host, application, pool or service.
        operator: which one saw the worst of it.
        score: the worst so far.
        blame: who is likely to blame, by the worst of those that blame somebody.
        ranking: the newest that `operator` told.
        sentence: what, where, since when, how bad, and what to look at, in plain words.
        model_age_s: how long `operator` had been learning, in seconds.
        young: whether all that saw it had not learned for long enough to be relied on.
        live: whether it is about now; false for a replay of recorded data, which never alerts.
        evidence: what each operator saw, the oldest first.
        left_out: how many anomalies with less score have ended and are not among the evidence, for its bound.
        merged_into: where it was closed because it proved to be the same trouble as another one, the id of that one,
            which goes on; else empty.
        silent_since_ts: where it was closed without being seen to end, the time at which its host, or the operator,
            was heard last; else NaN.
        accepted: whether it was closed because it lasted for so long that it is the new baseline.
        feedback: what a person said, where it was closed by that; else empty.

    """

    kind: ClassVar[str] = "incident"

    id: str
    number: int
    change: Change
    ts: float
    opened_ts: float
    until_ts: float
    keyed_by: KeyedBy
    key: str
    operator: str
    score: float
    blame: Blame | None
    ranking: Ranking
    sentence: str
    model_age_s: float
    young: bool
    live: bool
    evidence: tuple[Evidence, ...]
    left_out: int = 0
    merged_into: str = ""
    silent_since_ts: float = math.nan
    accepted: bool = False
    feedback: Excuse = ""

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "id": self.id,
            "number": self.number,
            "change": self.change,
            "opened_ts": json_number(self.opened_ts),
            "until_ts": json_number(self.until_ts),
            "operator": self.operator,
            self.keyed_by: self.key,
            "score": json_number(self.score),
            "blame": _blame(self.blame),
            "ranking": _rows(self.ranking),
            "sentence": self.sentence,
            "model_age_s": json_number(self.model_age_s),
            "young": bool(self.young),
            "live": bool(self.live),
            "evidence": [each.to_json() for each in self.evidence],
            "left_out": self.left_out,
            "merged_into": self.merged_into,
            "silent_since_ts": json_number(self.silent_since_ts),
            "accepted": bool(self.accepted),
            "feedback": self.feedback,
        }


@dataclass(frozen=True, slots=True)
class FeedbackOutput:
    """Feedback, told once an operator has taken it.

    Attributes:
        feedback: what a person said.
        operator: which one took it.
        live: whether it is about now.

    """

    kind: ClassVar[str] = "feedback"

    feedback: Feedback
    operator: str
    live: bool

    @property
    def ts(self) -> float:
        """When it was said, seconds since the Unix epoch."""
        return self.feedback.ts

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        said = plain_feedback(self.feedback)
        key = {said.pop("keyed_by"): said.pop("key")}
        del said["sequence"]
        return {"kind": self.kind, "operator": self.operator, **key, **said, "live": bool(self.live)}


@dataclass(frozen=True, slots=True)
class RankingOutput:
    """The answer to a mark.

    Attributes:
        ts: the mark's time, seconds since the Unix epoch.
        host: the mark's.
        mark: its note.
        ranking: of the frame that was nearest, whose time is written as `frame_ts`.
        sentence: what it is, in plain words, of the host too; empty where an older laggard wrote it.

    """

    kind: ClassVar[str] = "ranking"

    ts: float
    host: str
    mark: str
    ranking: Ranking
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "host": self.host,
            "mark": self.mark,
            "frame_ts": json_number(self.ranking.ts),
            "score": json_number(self.ranking.score),
            "model_age_s": json_number(self.ranking.age_s),
            "young": bool(self.ranking.young),
            "sentence": self.sentence,
            "rows": _rows(self.ranking),
        }


@dataclass(frozen=True, slots=True)
class ScoreOutput:
    """One operator's score of one key at one tick.

    Attributes:
        ts: of the tick, or when the request began, seconds since the Unix epoch.
        operator: whose score it is.
        keyed_by: what `key` names.
        key: the host, application, pool or service.
        score: above 1 is anomalous; NaN where nothing could be scored.
        request: the id of the request whose it is; empty where it is that of a tick.

    """

    kind: ClassVar[str] = "score"

    ts: float
    operator: str
    keyed_by: KeyedBy
    key: str
    score: float
    request: str = ""

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "operator": self.operator,
            self.keyed_by: self.key,
            **({"request": self.request} if self.request else {}),
            "score": json_number(self.score),
        }


@dataclass(frozen=True, slots=True)
class DeadLetterOutput:
    """Something that could not be used.

    Attributes:
        ts: its time, seconds since the Unix epoch; NaN where nobody knows.
        place: where it is: `laggard.counters[3]@1042`, `day.jsonl:17`.
        reason: why not, and what was expected.

    """

    kind: ClassVar[str] = "dead_letter"

    ts: float
    place: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {"kind": self.kind, "ts": json_number(self.ts), "place": self.place, "reason": self.reason}


Published = (
    Anomaly | Progress | Notice | Incident | FeedbackOutput | RankingOutput | ModelOutput | PoolOutput | RequestOutput
)
Told = Published | ScoreOutput | PredictionOutput
Output = Told | DeadLetterOutput


def write_output(output: Output) -> str:
    """The output as one line of strict JSON, in ASCII and without its end."""
    return json.dumps(output.to_json(), separators=(",", ":"), allow_nan=False)


def read_output(text: str | bytes, place: str) -> Output:
    """The output that was written. Fields that are not known are passed over.

    Args:
        text: JSON, as bytes in UTF-8.
        place: where it comes from, for errors.

    Raises:
        RecordError: the text is no strict JSON, of no kind that is known here, or a field is not what it should be.

    """
    fields = Fields(parse_object(text, place), place)
    kind = fields.raw("kind")
    if isinstance(kind, str) and (read := _READERS.get(kind)) is not None:
        return read(fields)
    expected = "one of the kinds " + ", ".join(repr(each.kind) for each in get_args(Output))
    raise RecordError(place, "kind", expected, shown(kind))


def _parameter(value: Parameter) -> Parameter | None:
    return json_number(value) if isinstance(value, float) else value


def _blame(blame: Blame | None) -> dict[str, Any] | None:
    return None if blame is None else blame.to_json()


def _rows(ranking: Ranking) -> list[dict[str, Any]]:
    return [
        {
            "row": row.row,
            "name": row.name,
            "score": json_number(row.score),
            "age_s": json_number(row.age_s),
            "basis": row.basis,
            "waits": bool(row.waits),
            "features": features_json(row.features),
            **({"phases": [_phase(each) for each in row.phases]} if row.phases else {}),
        }
        for row in ranking.rows
    ]


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "high": bool(phase.high),
        "begin_ts": json_number(phase.begin_ts),
        "end_ts": json_number(phase.end_ts),
        "mean": json_number(phase.mean),
        "dips": phase.dips,
    }


def _read_key(fields: Fields) -> tuple[KeyedBy, str]:
    """What the key names, and the key."""
    names = [name for name in KEY_NAMES if name in fields]
    if len(names) != 1:
        got = " and ".join(names) or "none of them"
        raise RecordError(fields.place, "", f"one of the fields {', '.join(KEY_NAMES)}", got)
    return names[0], fields.key(names[0])


def _read_parameters(fields: Fields) -> dict[str, Parameter]:
    found = fields.raw("parameters")
    if isinstance(found, dict) and all(isinstance(each, float | int | str | None) for each in found.values()):
        return {name: math.nan if each is None else each for name, each in found.items()}
    raise fields.error("parameters", "an object of names and numbers, texts, true or false")


def _read_found(fields: Fields) -> dict[str, Any]:
    """The arguments of an anomaly, and of its progress."""
    keyed_by, key = _read_key(fields)
    ts, score = fields.ts("ts"), fields.number("score")
    age_s, young = fields.number("model_age_s"), fields.boolean("young")
    return {
        "id": fields.text("id"),
        "operator": fields.text("operator"),
        "parameters": _read_parameters(fields),
        "keyed_by": keyed_by,
        "key": key,
        "ts": ts,
        "score": score,
        "ranking": Ranking(ts=ts, score=score, rows=_read_rows(fields, "ranking"), age_s=age_s, young=young),
        "sentence": fields.text("sentence"),
        "model_age_s": age_s,
        "young": young,
        "live": fields.boolean("live"),
        # An older laggard wrote neither.
        "scope": fields.text("scope") if "scope" in fields else "",
        "blame": _read_blame(fields) if "blame" in fields else None,
        "onset_ts": fields.number("onset_ts") if "onset_ts" in fields else math.nan,
    }


def _read_progress(fields: Fields) -> Progress:
    return Progress(
        **_read_found(fields),
        change=fields.choice("change", ANOMALY_CHANGES),
        number=fields.integer("number", 1, MAX_SEQUENCE),
        opened_ts=fields.ts("opened_ts"),
        until_ts=fields.ts("until_ts"),
        silent_since_ts=_read_silent(fields),
        accepted=_read_accepted(fields),
        feedback=_read_excuse(fields),
    )


def _read_notice(fields: Fields) -> Notice:
    return Notice(
        **_read_found(fields),
        change=fields.choice("change", NOTICE_CHANGES),
        opened_ts=fields.ts("opened_ts"),
        until_ts=fields.ts("until_ts"),
        became=fields.text("became"),
    )


def _read_incident(fields: Fields) -> Incident:
    keyed_by, key = _read_key(fields)
    ts, score = fields.ts("ts"), fields.number("score")
    age_s, young = fields.number("model_age_s"), fields.boolean("young")
    return Incident(
        id=fields.text("id"),
        number=fields.integer("number", 1, MAX_SEQUENCE),
        change=fields.choice("change", CHANGES),
        ts=ts,
        opened_ts=fields.ts("opened_ts"),
        until_ts=fields.number("until_ts"),
        keyed_by=keyed_by,
        key=key,
        operator=fields.text("operator"),
        score=score,
        blame=_read_blame(fields),
        ranking=Ranking(ts=ts, score=score, rows=_read_rows(fields, "ranking"), age_s=age_s, young=young),
        sentence=fields.text("sentence"),
        model_age_s=age_s,
        young=young,
        live=fields.boolean("live"),
        evidence=tuple(
            Evidence(
                anomaly=each.text("anomaly"),
                operator=each.text("operator"),
                scope=each.text("scope"),
                opened_ts=each.ts("opened_ts"),
                until_ts=each.number("until_ts"),
                score=each.number("score"),
                young=each.boolean("young"),
                sentence=each.text("sentence"),
                blame=_read_blame(each),
            )
            for each in fields.objects("evidence")
        ),
        left_out=fields.integer("left_out", 0, MAX_SEQUENCE),
        merged_into=fields.text("merged_into"),
        silent_since_ts=_read_silent(fields),
        accepted=_read_accepted(fields),
        feedback=_read_excuse(fields),
    )


def _read_feedback(fields: Fields) -> FeedbackOutput:
    keyed_by, key = _read_key(fields)
    said = {name: fields.raw(name) for name in ("ts", "id", "says", "cases", "incident", "note")}
    said |= {"keyed_by": keyed_by, "key": key, "until_ts": fields.number("until_ts"), "sequence": UNNUMBERED}
    feedback = checked_feedback(said, fields.place)
    return FeedbackOutput(feedback, fields.text("operator"), fields.boolean("live"))


def _read_accepted(fields: Fields) -> bool:
    # An older laggard did not write it.
    return fields.boolean("accepted") if "accepted" in fields else False


def _read_excuse(fields: Fields) -> Excuse:
    # An older laggard did not write it.
    return fields.choice("feedback", EXCUSES) if "feedback" in fields else ""


def _read_silent(fields: Fields) -> float:
    # An older laggard did not write it.
    return fields.number("silent_since_ts") if "silent_since_ts" in fields else math.nan


def _read_ranking(fields: Fields) -> RankingOutput:
    ranking = Ranking(
        ts=fields.number("frame_ts"),
        score=fields.number("score"),
        rows=_read_rows(fields, "rows"),
        age_s=fields.number("model_age_s"),
        young=fields.boolean("young"),
    )
    sentence = fields.text("sentence") if "sentence" in fields else ""
    return RankingOutput(fields.ts("ts"), fields.key("host"), fields.text("mark"), ranking, sentence)


def _read_score(fields: Fields) -> ScoreOutput:
    request = fields.text("request", MAX_NAME) if "request" in fields else ""
    return ScoreOutput(fields.ts("ts"), fields.text("operator"), *_read_key(fields), fields.number("score"), request)


def _read_dead_letter(fields: Fields) -> DeadLetterOutput:
    return DeadLetterOutput(fields.number("ts"), fields.text("place"), fields.text("reason"))


_READERS: Final[Mapping[str, Callable[[Fields], Output]]] = {
    "anomaly": lambda fields: Anomaly(**_read_found(fields)),
    "progress": _read_progress,
    "notice": _read_notice,
    "incident": _read_incident,
    "feedback": _read_feedback,
    "ranking": _read_ranking,
    "model": read_model,
    "pool": read_pool,
    "request": read_request,
    "score": _read_score,
    "prediction": read_prediction,
    "dead_letter": _read_dead_letter,
}


def _read_blame(fields: Fields) -> Blame | None:
    found = fields.perhaps_object("blame")
    if found is None:
        return None
    return Blame(
        row=found.text("row"),
        name=found.text("name"),
        feature=found.text("feature"),
        value=found.number("value"),
        usual=found.number("usual"),
        usual_deviation=found.number("usual_deviation"),
        resources=found.texts("resources", MAX_RESOURCES, MAX_NAME),
    )


def _read_phase(fields: Fields) -> Phase:
    return Phase(
        high=fields.boolean("high"),
        begin_ts=fields.number("begin_ts"),
        end_ts=fields.number("end_ts"),
        mean=fields.number("mean"),
        dips=fields.integer("dips", 0, 1 << 53),
    )


def _read_rows(fields: Fields, name: str) -> tuple[RowScore, ...]:
    return tuple(
        RowScore(
            row=row.text("row"),
            name=row.text("name"),
            score=row.number("score"),
            features=read_features(row),
            age_s=row.number("age_s"),
            # An older laggard wrote neither.
            basis=row.choice("basis", BASES) if "basis" in row else "itself",
            waits=row.boolean("waits") if "waits" in row else False,
            phases=tuple(map(_read_phase, row.objects("phases"))) if "phases" in row else (),
        )
        for row in fields.objects(name)
    )
