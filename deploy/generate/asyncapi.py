"""Generate `deploy/asyncapi.json` and `deploy/schemas/`, which describe the topics to other tools."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from deploy.generate.packed import fields, packed_schemas
from laggard.pipeline.core.engine.publishing import CLOUD_EVENT_HEADERS, CONTENT_TYPE, DEAD_LETTER_HEADERS
from laggard.pipeline.core.records.codec import VERSION as RECORD_VERSION
from laggard.pipeline.core.records.declared import VERSION, schema_id, shape_of
from laggard.pipeline.core.records.diagnosis import Diagnosis
from laggard.pipeline.core.records.diagnosis_json import diagnosis_schema
from laggard.pipeline.core.records.outputs import KINDS, DeadLetterOutput
from laggard.pipeline.core.topics import (
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
    from laggard.pipeline.core.records.declared import Schema

SCHEMAS: Final[dict[str, Schema]] = {
    **{kind: shape_of(each).document() for kind, each in KINDS.items() if each is not DeadLetterOutput},
    Diagnosis.kind: diagnosis_schema(),
}
"""The schemas of the records on the topics of anomalies, models and diagnoses, by kind."""

ASYNCAPI: Final = "3.0.0"
MESSAGEPACK: Final = "application/vnd.msgpack"
_BINDING: Final = "0.5.0"

OUTLYING: Final = "outlying_request"
"""The name of the event of the kind `request`, other than that of the traced request itself."""

ACCEPTED: Final = "accepted_feedback"
"""The name of the event of the kind `feedback`, other than that of the feedback itself."""

_NAMES: Final = {"request": OUTLYING, "feedback": ACCEPTED}
"""The names of events whose kind is also that of an input."""

_EVENTS: Final = ("anomaly", "progress", "notice", "incident", "feedback", "ranking", "pool", "request")
"""The kinds of events on the topic of anomalies."""

_MESSAGES: Final = {
    COUNTERS: ("frame", "mark", "feedback"),
    APPLICATIONS: ("frame", "wish", "feedback"),
    POOLS: ("frame", "feedback"),
    REQUESTS: ("request", "feedback"),
    ANOMALIES: tuple(_NAMES.get(kind, kind) for kind in _EVENTS),
    MODELS: ("model",),
    DIAGNOSES: ("diagnosis",),
    DEAD_LETTERS: ("dead_letter",),
}
"""The messages of each topic."""

_INTRODUCTION: Final = f"""\
laggard finds what is slow on a machine, and what causes it. Agents publish the counters of their hosts; workers read
them, and publish anomalies.

The topics of anomalies, models and diagnoses are public: other tools may subscribe to them (see `anomalies.md`,
`models.md` and `diagnoses.md` in `docs/reference`). Their records are JSON and CloudEvents 1.0 in the binary content
mode of the Kafka protocol binding. Readers use the isolation level `read_committed`. Other programs may publish
frames, marks, requests, wishes and feedback, too. The other topics are internal: their content may change with any
version.

Frames, marks, requests, wishes and feedback are one MessagePack map each, of version
{RECORD_VERSION[0]}.{RECORD_VERSION[1]}; their schemas here describe the map, with `format: binary` for a MessagePack
byte string. Readers ignore unknown fields. The sequence numbers of records grow with each record of a key: agents
publish at least once, and readers detect duplicates by the number. A record's timestamp is the time of its tick, mark,
request, wish, feedback, anomaly, model, ranking of a pool, outlying request or diagnosis. The partition of a key is the
one that Kafka's own clients choose (murmur2).
"""


def asyncapi_document() -> str:
    """Return the AsyncAPI document of all topics, in JSON."""
    channels = {topic.name: _channel(topic, topic.name, _MESSAGES[topic]) for topic in TOPICS}
    channels["snapshots"] = _channel(Topics().snapshots("{operator}"), "snapshots", ("snapshot",))
    channels["snapshots"]["parameters"]["operator"] = {"description": "The operator of the states: `gaussian`."}
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
    """Return the JSON Schema of a kind of record."""
    return _written(SCHEMAS[kind])


def _written(document: Schema) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _channel(topic: Topic, name: str, messages: tuple[str, ...]) -> Schema:
    remark = "" if messages else " Nothing is published here yet."
    configuration: dict[str, Any] = {"cleanup.policy": ["compact" if topic.compacted else "delete"]}
    if topic.retention_s is not None:
        configuration["retention.ms"] = round(topic.retention_s * 1000)
    return {
        "address": "{prefix}" + topic.name,
        "title": name,
        "description": f"{topic.value[0].upper()}{topic.value[1:]}. Key: {topic.key}.{remark}",
        "parameters": {
            "prefix": {"default": PREFIX, "description": "The setting `topics.prefix`."},
        },
        "messages": {kind: {"$ref": f"#/components/messages/{kind}"} for kind in messages},
        "bindings": {"kafka": {"topicConfiguration": configuration, "bindingVersion": _BINDING}},
    }


def _operations() -> list[tuple[str, Schema]]:
    """Return the operations: the program, send or receive, the topic, and a summary."""
    done = [
        ("agent", "send", COUNTERS.name, "Agents publish the counters of their hosts, once a tick."),
        ("agent", "send", POOLS.name, "Agents publish the members of pools that they find, once a tick."),
        ("agent", "send", DIAGNOSES.name, "Agents publish profiles of processes during high use or pressure."),
        (
            "measurer",
            "send",
            APPLICATIONS.name,
            "`laggard measure` publishes the performance of applications, each interval.",
        ),
        ("measurer", "send", POOLS.name, "`laggard measure` publishes members of pools, each interval."),
        ("tracer", "send", REQUESTS.name, "`laggard trace` publishes traced requests, as they end."),
        ("page", "send", COUNTERS.name, "The page and commands publish marks, and feedback on hosts."),
        ("page", "send", APPLICATIONS.name, "The page and commands publish wishes, and feedback on applications."),
        ("page", "send", POOLS.name, "The page and commands publish feedback on pools."),
        ("page", "send", REQUESTS.name, "The page and commands publish feedback on services."),
        *(
            ("worker", "receive", topic.name, "Workers read this topic.")
            for topic in (COUNTERS, APPLICATIONS, POOLS, REQUESTS)
        ),
        *(
            ("worker", "send", topic.name, "Workers publish to this topic.")
            for topic in (ANOMALIES, MODELS, DEAD_LETTERS)
        ),
        ("worker", "send", APPLICATIONS.name, "Workers re-key the counters of hosts that serve an application."),
        ("worker", "send", POOLS.name, "Workers re-key the counters of a pool's members."),
        ("worker", "receive", ANOMALIES.name, "Workers join anomalies to incidents."),
        ("worker", "send", "snapshots", "Workers store the states of their operators there ..."),
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
        "mark": _packed("mark", "A moment that a person or a program marked as slow.", "host"),
        "request": _packed("request", "One traced request.", "service"),
        "wish": _packed("wish", "A person's choice about a metric in performance models.", "application"),
        "feedback": _packed("feedback", "A person's feedback on anomalies.", "host, application, pool or service"),
        "anomaly": _event("anomaly", "the host, application, pool or service"),
        "progress": _event("progress", "the key of the anomaly"),
        "notice": _event("notice", "the host"),
        "incident": _event("incident", "the key of its anomalies"),
        ACCEPTED: _event("feedback", "the key of the feedback"),
        "ranking": _event("ranking", "the marked host"),
        "model": _event("model", "the application"),
        "pool": _event("pool", "the pool"),
        OUTLYING: _event("request", "the service"),
        "diagnosis": _event("diagnosis", "the host of the process"),
        "dead_letter": {
            "title": "dead_letter",
            "summary": "An unusable record: key, value and headers as they were received, and the reason.",
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


def _event(kind: str, key: str) -> Schema:
    name = _NAMES.get(kind, kind)
    return {
        "title": name,
        "summary": SCHEMAS[kind]["description"],
        "contentType": CONTENT_TYPE,
        "headers": {
            "allOf": [
                {"$ref": "#/components/schemas/cloud_event_headers"},
                {"properties": {"ce_type": {"const": f"laggard.{kind}"}, "ce_dataschema": {"const": schema_id(kind)}}},
            ]
        },
        "payload": {"$ref": f"#/components/schemas/{name}"},
        "bindings": _key(key),
    }


def _schemas() -> Schema:
    """Return all schemas. Their inner definitions become components, because AsyncAPI's dialect has no `$defs`."""
    schemas: Schema = {}
    for kind in (*_EVENTS, "model", "diagnosis"):
        schema = deepcopy(SCHEMAS[kind])
        schemas |= schema.pop("$defs", {})
        schemas[_NAMES.get(kind, kind)] = {name: value for name, value in schema.items() if not name.startswith("$")}
    schemas |= {
        **packed_schemas(),
        "cloud_event_headers": fields(
            {name: {"type": "string", "description": text} for name, text in CLOUD_EVENT_HEADERS.items()}
        ),
        "dead_letter_headers": fields(
            {
                DEAD_LETTER_HEADERS + name: {"type": "string", "description": text}
                for name, text in {
                    "reason": "The reason, and what was expected.",
                    "operator": "The operator that rejected it.",
                    "topic": "The original topic.",
                    "partition": "The original partition.",
                    "offset": "The original offset.",
                    "bytes": "The size of the record, if it exceeds the limit of all topics; its value is truncated.",
                }.items()
            },
            optional=(f"{DEAD_LETTER_HEADERS}bytes",),
        ),
    }
    renamed: Schema = json.loads(json.dumps(schemas).replace("#/$defs/", "#/components/schemas/"))
    return renamed
