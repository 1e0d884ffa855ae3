"""JSON Schemas (draft 2020-12) of what leaves for other people's tools: a promise, see `deploy/anomalies.md`.

`deploy/schemas/` and the AsyncAPI document follow from what is here, and a test holds it against what `outputs` writes.
A minor version of laggard may add fields and kinds; so an object may have fields that its schema does not name. What a
reader relies on changes only with a new major version, which the schema's id and the header `ce_dataschema` tell.
"""

from __future__ import annotations

from typing import Any, Final

from laggard.pipeline.records.outputs import BASES, KEY_NAMES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
VERSION: Final = 1
"""Of all of them: the major one. It grows when a reader of the older form would misread the newer one."""

Schema = dict[str, Any]


def schema_id(kind: str) -> str:
    """What names the schema of a kind: `urn:laggard:anomaly:1`."""
    return f"urn:laggard:{kind}:{VERSION}"


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _number(description: str, **more: Any) -> Schema:
    return {"type": "number", "description": description, **more}


def _perhaps(description: str, **more: Any) -> Schema:
    """A number, or null for one that is not there or that JSON does not have."""
    return {"type": ["number", "null"], "description": description, **more}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _object(description: str, properties: Schema, **more: Any) -> Schema:
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
        **more,
    }


FEATURE: Final = _object(
    "One counter of a row.",
    {
        "feature": _text("Its name, with its base unit: `memory_rss_bytes`."),
        "value": _perhaps("What it was, in that unit."),
        "mean": _perhaps("What is usual for this row; null where nothing is known yet."),
        "standard_deviation": _perhaps("How far it usually is from that."),
        "score": _perhaps("How unusual the value is."),
    },
)
ROW: Final = _object(
    "One entity: a process, or the host itself.",
    {
        "row": _text("Its id, unique in the frame, the same from tick to tick: `nginx[4711@99]`."),
        "name": _text("Its name: `nginx`."),
        "score": _perhaps("How unusual it is."),
        "age_s": _perhaps("How long it has been learned, in seconds.", minimum=0),
        "basis": _text(
            "What it is compared with: its own past (`itself`); as far as that is too short, other rows of its name "
            "(`name`), where there were none, how rows of any name began (`starts`), or all rows (`all`).",
            enum=list(BASES),
        ),
        "waits": _flag("Whether what is most unusual about it is that it waits for others: a victim, not the cause."),
        "features": {
            "type": "array",
            "description": "The worst first; not all of them.",
            "items": {"$ref": "#/$defs/feature"},
        },
    },
    required=["row", "name", "score", "age_s", "features"],
)

_TS: Final = _number("The time that it is about, by the clock of the host: seconds since the Unix epoch.", minimum=0)
_OPERATOR: Final = _text("The operator that found it: `gaussian`.")
_AGE: Final = _perhaps("How long the operator has been learning this key, in seconds.", minimum=0)
_YOUNG: Final = _flag("Whether that is too short to be relied on.")
_SENTENCE: Final = _text("What it is, in plain words. For people: its wording may change at any time.")
_ROWS: Final = {
    "type": "array",
    "description": "The evidence: the worst rows first; not all of them.",
    "items": {"$ref": "#/$defs/row"},
}
_KEYS: Final = {
    "host": _text("The host that it is about. The record's key.", minLength=1),
    "application": _text("The application that it is about. The record's key.", minLength=1),
    "pool": _text("The pool that it is about. The record's key.", minLength=1),
    "service": _text("The service that it is about. The record's key.", minLength=1),
}


def _kind(
    kind: str,
    description: str,
    properties: Schema,
    *,
    keyed: bool = False,
    ranked: bool = False,
    optional: tuple[str, ...] = (),
) -> Schema:
    """A record's schema.

    Args:
        kind: the record's.
        description: what it says.
        properties: its fields, required but for those that are optional.
        keyed: whether it has exactly one of the fields that hold a key, too.
        ranked: whether it has rows with features.
        optional: what an older laggard of the same major version did not write.

    """
    schema = {
        "$schema": DIALECT,
        "$id": schema_id(kind),
        "title": kind,
        **_object(description, {"kind": {"const": kind}, **properties}),
    }
    schema["required"] = [name for name in schema["required"] if name not in optional]
    if keyed:
        schema["properties"] |= _KEYS
        schema["oneOf"] = [{"required": [name]} for name in KEY_NAMES]
    if ranked:
        schema["$defs"] = {"feature": FEATURE, "row": ROW}
    return schema


SCHEMAS: Final[dict[str, Schema]] = {
    "anomaly": _kind(
        "anomaly",
        "A score passed 1, the false-alarm budget. It is told once, and again only after the score has stayed at 1 or "
        "below for a minute.",
        {
            "ts": _TS,
            "id": _text("Of this anomaly: the same whenever the same input is processed again.", format="uuid"),
            "operator": _OPERATOR,
            "parameters": {
                "type": "object",
                "description": "The operator's, by name.",
                "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
            },
            "score": _perhaps("How unusual: above 1. Null where it is too great for a number.", exclusiveMinimum=1),
            "ranking": _ROWS,
            "sentence": _SENTENCE,
            "model_age_s": _AGE,
            "young": _YOUNG,
            "live": _flag("Whether it is about now; false for recorded data that was replayed, which never alerts."),
        },
        keyed=True,
        ranked=True,
    ),
    "ranking": _kind(
        "ranking",
        "The answer to a mark (`it is slow now`): what was unusual on that host at that moment.",
        {
            "ts": _number("The time of the mark, seconds since the Unix epoch.", minimum=0),
            "host": _text("The host that was marked. The record's key.", minLength=1),
            "mark": _text("The note that came with the mark; may be empty."),
            "frame_ts": _perhaps("The time of the frame that was ranked; null where none was near.", minimum=0),
            "score": _perhaps("Of that frame; null where none was near."),
            "model_age_s": _AGE,
            "young": _YOUNG,
            "sentence": _SENTENCE,
            "rows": _ROWS,
        },
        ranked=True,
        optional=("sentence",),
    ),
    "score": _kind(
        "score",
        "One operator's score of one key at one tick. Only `laggard replay --json --scores` prints it.",
        {"ts": _TS, "operator": _OPERATOR, "score": _perhaps("Above 1 is anomalous; null where nothing was scored.")},
        keyed=True,
    ),
}
"""Of what the topic of anomalies holds and `laggard replay --json` prints, by kind."""
