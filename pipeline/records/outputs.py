"""What leaves for other people's tools: JSON, one object each, whose `kind` says which.

NaN and infinity, which JSON does not have, are written as null; null is read as NaN.
"""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from laggard.operators.ranking import Basis, FeatureScore, Ranking, RowScore
from laggard.pipeline.records.errors import RecordError, shown
from laggard.pipeline.records.fields import Fields
from laggard.pipeline.records.frame import KeyedBy
from laggard.pipeline.records.strict_json import parse_object

if TYPE_CHECKING:
    from collections.abc import Mapping

KeyName = KeyedBy | Literal["service"]
"""What a key names; the field that holds the key is called like this."""

Change = Literal["opened", "extended", "closed"]
"""What happened to an incident."""

Parameter = float | str | bool

KEY_NAMES: Final[tuple[KeyName, ...]] = ("host", "application", "pool", "service")
CHANGES: Final[tuple[Change, ...]] = ("opened", "extended", "closed")
BASES: Final[tuple[Basis, ...]] = ("itself", "name", "starts", "all")

# Drawn once, for laggard's ids alone.
_NAMESPACE: Final = uuid.UUID("0f6dd2b6-5c41-4b0e-9d52-8f8f1f6a2c37")


def anomaly_id(operator: str, key: str, position: str) -> str:
    """The id of what an operator found about a key at an input position (`laggard.counters[3]@1042`).

    The same arguments give the same id, so that a reader can always tell what it has seen before.
    """
    return str(uuid.uuid5(_NAMESPACE, json.dumps([operator, key, position])))


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A score passed 1.

    Attributes:
        id: see `anomaly_id`.
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

    """

    kind: ClassVar[str] = "anomaly"

    id: str
    operator: str
    parameters: Mapping[str, Parameter]
    keyed_by: KeyName
    key: str
    ts: float
    score: float
    ranking: Ranking
    sentence: str
    model_age_s: float
    young: bool
    live: bool

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": _number(self.ts),
            "id": self.id,
            "operator": self.operator,
            "parameters": {name: _parameter(value) for name, value in self.parameters.items()},
            self.keyed_by: self.key,
            "score": _number(self.score),
            "ranking": _rows(self.ranking),
            "sentence": self.sentence,
            "model_age_s": _number(self.model_age_s),
            "young": bool(self.young),
            "live": bool(self.live),
        }


@dataclass(frozen=True, slots=True)
class Incident(Anomaly):
    """Anomalies of one cause, joined over time. But for `id` and `ts`, it says what the worst of them so far said.

    Attributes:
        change: what happened to the incident at `ts`.
        opened_ts: when it opened, seconds since the Unix epoch.

    """

    kind: ClassVar[str] = "incident"

    change: Change
    opened_ts: float

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return Anomaly.to_json(self) | {"change": self.change, "opened_ts": _number(self.opened_ts)}


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
            "ts": _number(self.ts),
            "host": self.host,
            "mark": self.mark,
            "frame_ts": _number(self.ranking.ts),
            "score": _number(self.ranking.score),
            "model_age_s": _number(self.ranking.age_s),
            "young": bool(self.ranking.young),
            "sentence": self.sentence,
            "rows": _rows(self.ranking),
        }


@dataclass(frozen=True, slots=True)
class ScoreOutput:
    """One operator's score of one key at one tick.

    Attributes:
        ts: of the tick, seconds since the Unix epoch.
        operator: whose score it is.
        keyed_by: what `key` names.
        key: the host, application, pool or service.
        score: above 1 is anomalous; NaN where nothing could be scored.

    """

    kind: ClassVar[str] = "score"

    ts: float
    operator: str
    keyed_by: KeyName
    key: str
    score: float

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": _number(self.ts),
            "operator": self.operator,
            self.keyed_by: self.key,
            "score": _number(self.score),
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
        return {"kind": self.kind, "ts": _number(self.ts), "place": self.place, "reason": self.reason}


Output = Anomaly | Incident | RankingOutput | ScoreOutput | DeadLetterOutput


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
    match fields.raw("kind"):
        case "anomaly":
            return Anomaly(**_read_anomaly(fields))
        case "incident":
            change = fields.choice("change", CHANGES)
            return Incident(**_read_anomaly(fields), change=change, opened_ts=fields.ts("opened_ts"))
        case "ranking":
            ranking = Ranking(
                ts=fields.number("frame_ts"),
                score=fields.number("score"),
                rows=_read_rows(fields, "rows"),
                age_s=fields.number("model_age_s"),
                young=fields.boolean("young"),
            )
            sentence = fields.text("sentence") if "sentence" in fields else ""
            return RankingOutput(fields.ts("ts"), fields.key("host"), fields.text("mark"), ranking, sentence)
        case "score":
            return ScoreOutput(fields.ts("ts"), fields.text("operator"), *_read_key(fields), fields.number("score"))
        case "dead_letter":
            return DeadLetterOutput(fields.number("ts"), fields.text("place"), fields.text("reason"))
        case kind:
            expected = "'anomaly', 'incident', 'ranking', 'score' or 'dead_letter'"
            raise RecordError(place, "kind", expected, shown(kind))


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _parameter(value: Parameter) -> Parameter | None:
    return _number(value) if isinstance(value, float) else value


def _rows(ranking: Ranking) -> list[dict[str, Any]]:
    return [
        {
            "row": row.row,
            "name": row.name,
            "score": _number(row.score),
            "age_s": _number(row.age_s),
            "basis": row.basis,
            "waits": bool(row.waits),
            "features": [
                {
                    "feature": each.feature,
                    "value": _number(each.value),
                    "mean": _number(each.mean),
                    "standard_deviation": _number(each.standard_deviation),
                    "score": _number(each.score),
                }
                for each in row.features
            ],
        }
        for row in ranking.rows
    ]


def _read_key(fields: Fields) -> tuple[KeyName, str]:
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


def _read_anomaly(fields: Fields) -> dict[str, Any]:
    """The arguments of an anomaly."""
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
    }


def _read_rows(fields: Fields, name: str) -> tuple[RowScore, ...]:
    return tuple(
        RowScore(
            row=row.text("row"),
            name=row.text("name"),
            score=row.number("score"),
            features=tuple(
                FeatureScore(
                    feature=each.text("feature"),
                    value=each.number("value"),
                    mean=each.number("mean"),
                    standard_deviation=each.number("standard_deviation"),
                    score=each.number("score"),
                )
                for each in row.objects("features")
            ),
            age_s=row.number("age_s"),
            # An older laggard wrote neither.
            basis=row.choice("basis", BASES) if "basis" in row else "itself",
            waits=row.boolean("waits") if "waits" in row else False,
        )
        for row in fields.objects(name)
    )
