"""The documents that describe the topics to other people's tools: `deploy/asyncapi.json` and `deploy/schemas/`.

A test fails when they are not current; `pytest --update-golden` writes them anew.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.engine.publishing import CLOUD_EVENT_HEADERS, CONTENT_TYPE, DEAD_LETTER_HEADERS
from laggard.pipeline.records.checked import WISHES
from laggard.pipeline.records.codec import VERSION as RECORD_VERSION
from laggard.pipeline.records.declared import VERSION, schema_id, shape_of
from laggard.pipeline.records.diagnosis import Diagnosis
from laggard.pipeline.records.diagnosis_json import diagnosis_schema
from laggard.pipeline.records.layout import ROW_TEXTS
from laggard.pipeline.records.limits import MAX_SEGMENTS, MAX_SPENT
from laggard.pipeline.records.outputs import KINDS, DeadLetterOutput
from laggard.pipeline.records.request_packing import LATER, TEXTS
from laggard.pipeline.records.requests import Segment, Spent
from laggard.pipeline.topics import (
    ANOMALIES,
    APPLICATIONS,
    COUNTERS,
    DEAD_LETTERS,
    DIAGNOSES,
    MODELS,
    POOLS,
    PREFIX,
    REQUESTS,
    TOPICS,
    Topic,
    Topics,
)

if TYPE_CHECKING:
    from laggard.pipeline.records.declared import Schema

SCHEMAS: Final[dict[str, Schema]] = {
    **{kind: shape_of(each).document() for kind, each in KINDS.items() if each is not DeadLetterOutput},
    Diagnosis.kind: diagnosis_schema(),
}
"""Of what the topics of anomalies, models and diagnoses hold and `laggard replay --json` prints, by kind."""

ASYNCAPI: Final = "3.0.0"
MESSAGEPACK: Final = "application/vnd.msgpack"
_BINDING: Final = "0.5.0"

OUTLYING: Final = "outlying_request"
"""What the event of the kind `request` is called, beside the traced request that it is about."""

_MESSAGES: Final = {
    COUNTERS: ("frame", "mark"),
    APPLICATIONS: ("frame", "wish"),
    POOLS: ("frame",),
    REQUESTS: ("request",),
    ANOMALIES: ("anomaly", "progress", "notice", "incident", "ranking", "pool", OUTLYING),
    MODELS: ("model",),
    DIAGNOSES: ("diagnosis",),
    DEAD_LETTERS: ("dead_letter",),
}
"""What a topic holds; nothing where nothing is published yet."""

_INTRODUCTION: Final = f"""\
laggard finds what is slow on machines, and what is to blame. Agents publish the counters of their hosts; workers read
them, and publish what is unusual.

The topics of anomalies, of models and of diagnoses are public: other people's tools subscribe to them (pages for them
are `anomalies.md`, `models.md` and `diagnoses.md`). Their records are JSON and CloudEvents 1.0 in the binary content
mode of the Kafka protocol binding. Readers use the isolation level `read_committed`. Whoever knows the form may publish
frames, marks, requests and wishes too. The other topics are laggard's own: what they hold may change with any version.

Frames, marks, requests and wishes are one MessagePack map each, of version {RECORD_VERSION[0]}.{RECORD_VERSION[1]};
their schemas here say what the map is, with `format: binary` for a MessagePack byte string. A reader passes over fields
that it does not know. Records carry sequence numbers that grow with each record of a key: an agent appends at least
once, and a reader tells by the number what it has seen. A record's timestamp is the time of its tick, mark, request,
wish, anomaly, model, ranking of a pool, outlying request or diagnosis. The partition of a key is the one that Kafka's
own clients choose (murmur2).
"""


def asyncapi_document() -> str:
    """The AsyncAPI document of all topics, in JSON."""
    channels = {topic.name: _channel(topic, topic.name, _MESSAGES[topic]) for topic in TOPICS}
    channels["snapshots"] = _channel(Topics().snapshots("{operator}"), "snapshots", ("snapshot",))
    channels["snapshots"]["parameters"]["operator"] = {"description": "Whose states they are: `gaussian`."}
    document = {
        "asyncapi": ASYNCAPI,
        "id": "urn:laggard",
        "info": {
            "title": "laggard",
            "version": f"{VERSION}.0.0",
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": channels,
        "operations": dict(_operations()),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }
    return _written(document)


def schema_document(kind: str) -> str:
    """The JSON Schema of a kind of record."""
    return _written(SCHEMAS[kind])


def _written(document: Schema) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _channel(topic: Topic, name: str, messages: tuple[str, ...]) -> Schema:
    said = "" if messages else " Nothing is published here yet."
    configuration: dict[str, Any] = {"cleanup.policy": ["compact" if topic.compacted else "delete"]}
    if topic.retention_s is not None:
        configuration["retention.ms"] = round(topic.retention_s * 1000)
    return {
        "address": "{prefix}" + topic.name,
        "title": name,
        "description": f"{topic.value[0].upper()}{topic.value[1:]}. Key: {topic.key}.{said}",
        "parameters": {
            "prefix": {"default": PREFIX, "description": "The setting `topics.prefix`."},
        },
        "messages": {kind: {"$ref": f"#/components/messages/{kind}"} for kind in messages},
        "bindings": {"kafka": {"topicConfiguration": configuration, "bindingVersion": _BINDING}},
    }


def _operations() -> list[tuple[str, Schema]]:
    """Who does what with which topic."""
    done = [
        ("agent", "send", COUNTERS.name, "Agents publish the counters of their hosts, once a tick."),
        ("agent", "send", POOLS.name, "Agents publish the members of pools that they find, once a tick."),
        ("agent", "send", DIAGNOSES.name, "Agents publish profiles of processes during high use or pressure."),
        (
            "measurer",
            "send",
            APPLICATIONS.name,
            "`laggard measure` tells the performance of applications, each interval.",
        ),
        ("measurer", "send", POOLS.name, "`laggard measure` publishes members of pools, each interval."),
        ("tracer", "send", REQUESTS.name, "`laggard trace` publishes traced requests, as they end."),
        *(("worker", "receive", topic.name, "Workers read it.") for topic in (COUNTERS, APPLICATIONS, POOLS, REQUESTS)),
        *(("worker", "send", topic.name, "Workers publish it.") for topic in (ANOMALIES, MODELS, DEAD_LETTERS)),
        ("worker", "send", APPLICATIONS.name, "Workers re-key the counters of hosts that serve an application."),
        ("worker", "send", POOLS.name, "Workers re-key the counters of a pool's members."),
        ("worker", "receive", ANOMALIES.name, "Workers join anomalies to incidents."),
        ("worker", "send", "snapshots", "Workers keep the states of their operators there ..."),
        ("worker", "receive", "snapshots", "... and load them when they take over a partition."),
    ]
    return [
        (
            f"{who}.{action}.{channel}",
            {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary},
        )
        for who, action, channel, summary in done
    ]


def _messages() -> Schema:
    return {
        "frame": _packed(
            "frame", "All rows and features of one scope at one tick, as a matrix.", "host, application or pool"
        ),
        "mark": _packed("mark", "`It is slow now`, from a person or a program.", "host"),
        "request": _packed("request", "One traced request.", "service"),
        "wish": _packed("wish", "What a person wants of a metric in performance models.", "application"),
        "anomaly": _event("anomaly", "the host, application, pool or service that it is about"),
        "progress": _event("progress", "that of the anomaly"),
        "notice": _event("notice", "the host that it is about"),
        "incident": _event("incident", "that of its anomalies"),
        "ranking": _event("ranking", "the host that was marked"),
        "model": _event("model", "the application that it is about"),
        "pool": _event("pool", "the pool that it is about"),
        OUTLYING: _event("request", "the service that it is about", OUTLYING),
        "diagnosis": _event("diagnosis", "the host that the process is on"),
        "dead_letter": {
            "title": "dead_letter",
            "summary": "A record that could not be used: key, value and headers as they were received, and the reason.",
            "contentType": "application/octet-stream",
            "headers": {"$ref": "#/components/schemas/dead_letter_headers"},
            "payload": {"type": "string", "format": "binary", "description": "The value as it was received."},
            "bindings": _key("as it was received"),
        },
        "snapshot": {
            "title": "snapshot",
            "summary": "An operator's state of one key at an input position. For laggard alone.",
            "contentType": "application/octet-stream",
            "payload": {
                "type": "string",
                "format": "binary",
                "description": "A version, and the state; or a part of it.",
            },
            "bindings": _key("input topic, input partition and key"),
        },
    }


def _key(description: str) -> Schema:
    return {"kafka": {"key": {"type": "string", "description": description}, "bindingVersion": _BINDING}}


def _packed(kind: str, summary: str, key: str) -> Schema:
    return {
        "title": kind,
        "summary": summary,
        "contentType": MESSAGEPACK,
        "payload": {"$ref": f"#/components/schemas/{kind}"},
        "bindings": _key(key),
    }


def _event(kind: str, key: str, component: str = "") -> Schema:
    return {
        "title": component or kind,
        "summary": SCHEMAS[kind]["description"],
        "contentType": CONTENT_TYPE,
        "headers": {
            "allOf": [
                {"$ref": "#/components/schemas/cloud_event_headers"},
                {"properties": {"ce_type": {"const": f"laggard.{kind}"}, "ce_dataschema": {"const": schema_id(kind)}}},
            ]
        },
        "payload": {"$ref": f"#/components/schemas/{component or kind}"},
        "bindings": _key(key),
    }


def _schemas() -> Schema:
    """All schemas. What they define inside is a component here, for AsyncAPI's dialect has no `$defs`."""
    schemas: Schema = {}
    for kind in ("anomaly", "progress", "notice", "incident", "ranking", "model", "pool", "request", "diagnosis"):
        schema = deepcopy(SCHEMAS[kind])
        schemas |= schema.pop("$defs", {})
        component = OUTLYING if kind == "request" else kind
        schemas[component] = {name: value for name, value in schema.items() if not name.startswith("$")}
    schemas |= {
        "frame": _map("frame", _FRAME, optional=("hosts",)),
        "layout": {**_fields(_LAYOUT, optional=tuple(ROW_TEXTS)), "description": "A MessagePack map, packed."},
        "mark": _map("mark", _MARK),
        "request": _map("request", _REQUEST, optional=(*LATER, TEXTS)),
        "wish": _map("wish", _WISH),
        "cloud_event_headers": _fields(
            {name: {"type": "string", "description": said} for name, said in CLOUD_EVENT_HEADERS.items()}
        ),
        "dead_letter_headers": _fields(
            {
                DEAD_LETTER_HEADERS + name: {"type": "string", "description": said}
                for name, said in {
                    "reason": "Why not, and what was expected.",
                    "operator": "Which operator could not use it.",
                    "topic": "Where it was: the topic,",
                    "partition": "the partition,",
                    "offset": "and the offset.",
                    "bytes": "How large the record was, where that is more than any topic takes: of its value this "
                    "is the beginning.",
                }.items()
            },
            optional=(f"{DEAD_LETTER_HEADERS}bytes",),
        ),
    }
    renamed: Schema = json.loads(json.dumps(schemas).replace("#/$defs/", "#/components/schemas/"))
    return renamed


def _fields(properties: Schema, optional: tuple[str, ...] = ()) -> Schema:
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
            "description": "Grows with each record of a key; -1 where the producer does not number them.",
        },
    }
    return _fields({**common, **properties}, optional)


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
    "keyed_by": {"enum": ["host", "application", "pool"], "description": "What `key` names."},
    "key": _text("The record's key."),
    "scope": _text("What the rows are: `process`, `host`, `performance`, `member`, ..."),
    "layout": _bytes("The names of rows and features: the schema `layout`, as MessagePack."),
    "values": _bytes("float64, little-endian, one row after the other; NaN where a value is not there at this tick."),
    "hosts": {
        "type": "array",
        "items": {"type": "string"},
        "description": "The hosts that serve an application, all of the stream without; or the host whose members of a "
        "pool these are, all members without.",
    },
}
_LAYOUT: Final = {
    "rows": _bytes(
        "Ids of the rows, in UTF-8, joined by U+0000; unique, the same from tick to tick: `nginx[4711@99]`."
    ),
    "names": _bytes("A name for each row, joined likewise: `nginx`."),
    "features": _bytes("A name for each column, joined likewise, with its base unit: `memory_rss_bytes`."),
    "commands": _bytes("A command line for each row, joined likewise."),
    "users": _bytes("For each row as whom it runs, joined likewise."),
    "containers": _bytes("For each row what it runs in, joined likewise: `docker:3f2a8b`, `nginx.service`."),
}
_MARK: Final = {
    "host": _text("The record's key."),
    "note": _text("What the person or program said; may be empty."),
}
_REQUEST: Final = {
    "service": _text("The record's key."),
    "request": _text("Its id."),
    "duration_s": {"type": "number", "minimum": 0, "description": "How long it took."},
    "counts": _amounts("How often it entered each state."),
    "times_s": _amounts("For how long it was in each state: they sum to `duration_s`."),
    "syscalls": {
        "type": "array",
        "items": {"type": ["integer", "string"]},
        "description": "Its system calls, in order: places in `texts`; without `texts` the names themselves.",
    },
    "texts": _texts("Each once: what `syscalls`, `spent` and `path` refer to by its place, from 0."),
    "host": _text("Which one recorded it."),
    "name": _text("What was asked for: `GET /cart`, without what differs each time."),
    "critical_s": _amounts("Like `times_s`, with each wait replaced by what was waited for, as far as that is known."),
    "spent": {
        "type": "array",
        "maxItems": MAX_SPENT,
        "items": _numbers(
            "State, system call, on what (a file, an address, a device), by whom, the process, the error that was "
            "returned, how often, and for how long in seconds.",
            len(Spent._fields),
        ),
        "description": "What its time was spent on, longest first. Texts are places in `texts`.",
    },
    "threads": _texts("Those of the path, its own first: `php-fpm[812]`; on other hosts `db-1/mysqld[99]`."),
    "path": {
        "type": "array",
        "maxItems": MAX_SEGMENTS,
        "items": _numbers(
            "The thread's place in `threads`, begin and end in seconds after `ts`, state, and detail.",
            len(Segment._fields),
        ),
        "description": "Its critical path in the order of time. State and detail are places in `texts`.",
    },
    "notes": _texts("What limits the trust in it, in words."),
}
_WISH: Final = {
    "application": _text("The record's key."),
    "metric": _text("A row and a feature: `web-1/nginx:cpu_wait_ratio`."),
    "wish": {"enum": list(WISHES), "description": "`pin` it into the models, `ban` it from them, `free` it."},
}
