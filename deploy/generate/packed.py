"""The schemas of the inputs, which are one MessagePack map each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records.checked import WISHES
from laggard.pipeline.core.records.declared import shape_of
from laggard.pipeline.core.records.feedback import KEYS
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.layout import ROW_TEXTS
from laggard.pipeline.core.records.limits import MAX_CASES, MAX_SEGMENTS, MAX_SPENT
from laggard.pipeline.core.records.request_packing import LATER, TEXTS
from laggard.pipeline.core.records.requests import Segment, Spent

if TYPE_CHECKING:
    from laggard.pipeline.core.records.declared import Schema


def packed_schemas() -> Schema:
    """Return the schemas by kind, and that of the layout of a frame."""
    return {
        "frame": _map("frame", _FRAME, optional=("hosts",)),
        "layout": {**fields(_LAYOUT, optional=tuple(ROW_TEXTS)), "description": "A MessagePack map, packed."},
        "mark": _map("mark", _MARK),
        "request": _map("request", _REQUEST, optional=(*LATER, TEXTS)),
        "wish": _map("wish", _WISH),
        "feedback": _map("feedback", _FEEDBACK),
    }


def fields(properties: Schema, optional: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object with these properties. All but the optional ones are required."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties}


def _map(kind: str, properties: Schema, optional: tuple[str, ...] = ()) -> Schema:
    common = {
        "v": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "The version [major, minor] of this form. A newer minor one may have more fields.",
        },
        "kind": {"const": kind},
        "ts": {"type": "number", "minimum": 0, "description": "Seconds since the Unix epoch, by the producer's clock."},
        "sequence": {
            "type": "integer",
            "minimum": -1,
            "description": "Grows with each record of a key; -1 if the producer does not number them.",
        },
    }
    return fields({**common, **properties}, optional)


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _bytes(description: str) -> Schema:
    return {"type": "string", "format": "binary", "description": description}


def _amounts(description: str) -> Schema:
    return {"type": "object", "additionalProperties": {"type": "number"}, "description": description}


def _texts(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _numbers(description: str, count: int) -> Schema:
    return {
        "type": "array",
        "items": {"type": "number"},
        "minItems": count,
        "maxItems": count,
        "description": description,
    }


_FRAME: Final = {
    "keyed_by": {"enum": ["host", "application", "pool"], "description": "The kind of `key`."},
    "key": _text("The record's key."),
    "scope": _text("The kind of the rows: `process`, `host`, `performance`, `member`, ..."),
    "layout": _bytes("The names of rows and features: the schema `layout`, as MessagePack."),
    "values": _bytes("float64, little-endian, one row after the other; NaN for a missing value."),
    "hosts": {
        "type": "array",
        "items": {"type": "string"},
        "description": "The hosts that serve an application, or the host of these members of a pool. Without it, all "
        "hosts of the stream, or all members.",
    },
}
_LAYOUT: Final = {
    "rows": _bytes(
        "Ids of the rows, in UTF-8, joined by U+0000; unique, the same from tick to tick: `nginx[4711@99]`."
    ),
    "names": _bytes("A name for each row, joined likewise: `nginx`."),
    "features": _bytes("A name for each column, joined likewise, with its base unit: `memory_rss_bytes`."),
    "commands": _bytes("A command line for each row, joined likewise."),
    "users": _bytes("The user of each row, joined likewise."),
    "containers": _bytes("The container or service of each row, joined likewise: `docker:3f2a8b`, `nginx.service`."),
}
_MARK: Final = {
    "host": _text("The record's key."),
    "note": _text("The note of the person or program; may be empty."),
}
_REQUEST: Final = {
    "service": _text("The record's key."),
    "request": _text("Its id."),
    "duration_s": {"type": "number", "minimum": 0, "description": "Its duration."},
    "counts": _amounts("The number of times that it entered each state."),
    "times_s": _amounts("The time in each state; the sum is `duration_s`."),
    "syscalls": {
        "type": "array",
        "items": {"type": ["integer", "string"]},
        "description": "Its system calls, in order: indexes of `texts`; without `texts` the names themselves.",
    },
    "texts": _texts("The distinct texts that `syscalls`, `spent` and `path` refer to by index, from 0."),
    "host": _text("The host that recorded it."),
    "name": _text("Its name, without varying parts: `GET /cart`."),
    "critical_s": _amounts("Like `times_s`, with each wait replaced by its cause, as far as that is known."),
    "spent": {
        "type": "array",
        "maxItems": MAX_SPENT,
        "items": _numbers(
            "State, system call, target (a file, an address, a device), name and id of the process that caused the "
            "wait, returned error, count, and time in seconds.",
            len(Spent._fields),
        ),
        "description": "The uses of its time, longest first. Texts are indexes of `texts`.",
    },
    "threads": _texts("The threads of the path, its own first: `php-fpm[812]`; on other hosts `db-1/mysqld[99]`."),
    "path": {
        "type": "array",
        "maxItems": MAX_SEGMENTS,
        "items": _numbers(
            "The thread's index in `threads`, begin and end in seconds after `ts`, state, and detail.",
            len(Segment._fields),
        ),
        "description": "Its critical path in the order of time. State and detail are indexes of `texts`.",
    },
    "notes": _texts("Limits of its reliability, in words."),
    "missing_ratio": {
        "type": "number",
        "minimum": 0,
        "description": "The share of the minute before its end in which the tracer missed events: other requests at "
        "these times have no record.",
    },
}
_WISH: Final = {
    "application": _text("The record's key."),
    "metric": _text("A row and a feature: `web-1/nginx:cpu_wait_ratio`."),
    "wish": {"enum": list(WISHES), "description": "`pin` it into the models, `ban` it from them, `free` it."},
}
_ACCEPTED: Final = shape_of(FeedbackOutput).document()["properties"]
_FEEDBACK: Final = {
    "keyed_by": {"enum": list(KEYS), "description": "The kind of `key`."},
    "key": _text("The record's key."),
    **{name: _ACCEPTED[name] for name in ("id", "says", "cases", "until_ts", "incident", "note")},
    "cases": _ACCEPTED["cases"] | {"maxItems": MAX_CASES},
}
