"""Results of tasks and agents as records of the topics that third-party tools read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, DeadLetter, Rekeyed
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.records.declared import schema_id
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.ids import derived_id
from laggard.pipeline.core.records.models import ModelOutput
from laggard.pipeline.core.records.outputs import (
    Anomaly,
    Incident,
    Notice,
    Progress,
    RankingOutput,
    anomaly_id,
    write_output,
)
from laggard.pipeline.core.records.pools import PoolOutput
from laggard.pipeline.core.records.requests import RequestOutput
from laggard.pipeline.core.topics import ANOMALIES, DEAD_LETTERS, INCIDENTS, MODELS, TOPIC_OF

if TYPE_CHECKING:
    from laggard.pipeline.core.engine.stage import Output
    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.core.records.outputs import Published
    from laggard.pipeline.core.topics import Topics

CONTENT_TYPE: Final = "application/json"
CLOUD_EVENT_HEADERS: Final = {
    "ce_specversion": "Always `1.0`.",
    "ce_id": "Together with `ce_source` unique, and the same whenever the same input is processed again.",
    "ce_source": "What found it: `/laggard/gaussian`; for an incident `/laggard/incidents`, for the answer "
    "to a mark `/laggard/marks`, for a model `/laggard/models`, for a pool `/laggard/pools`, for a request "
    "`/laggard/requests`, for a diagnosis `/laggard/diagnosis`.",
    "ce_type": "`laggard.` and the kind of the record.",
    "ce_time": "The time that it is about, RFC 3339 in UTC, to the microsecond.",
    "ce_dataschema": "The id of the value's JSON Schema, which has its major version: `urn:laggard:anomaly:1`.",
    "content-type": f"Always `{CONTENT_TYPE}`.",
}
"""The headers of a CloudEvent 1.0 (Kafka protocol binding, binary content mode), and their meaning."""
DEAD_LETTER_HEADERS: Final = "laggard-"
"""The prefix of a dead letter's headers: `reason`, `operator`, and its place: `topic`, `partition`, `offset`.

A record that its producer compressed may be larger than any topic accepts. Then `bytes` is its size, its key and value
are cut, and long headers are left out.
"""

MAX_LETTER_BYTES: Final = 8_000_000
"""The most bytes of a dead letter's key, value and headers: below `max.message.bytes` of laggard's topics on Kafka."""

_BEGINNING_BYTES: Final = 100_000
"""The length to which the key and the value of a larger one are cut, and the most bytes of its headers."""


def outgoing(output: Output, topics: Topics) -> Outgoing:
    """Return the record of an output: a CloudEvent with JSON, a frame, or the original bytes of a dead letter."""
    match output:
        case Rekeyed(frame, live):
            recorded = () if live else ((REPLAY_HEADER, b""),)
            return Outgoing(topics.name(TOPIC_OF[frame.keyed_by]), frame.key, encode(frame), frame.ts, recorded)
        case DeadLetter():
            return _dead_letter(output, topics)
        case ModelOutput():
            topic, key, event_id, source = MODELS, output.application, output.id, "models"
        case PoolOutput():
            topic, key, event_id, source = ANOMALIES, output.pool, output.id, "pools"
        case RequestOutput():
            topic, key, event_id, source = ANOMALIES, output.service, output.id, "requests"
        case RankingOutput():
            event_id = anomaly_id(output.kind, output.host, f"{output.ts!r} {output.mark}")
            topic, key, source = ANOMALIES, output.host, "marks"
        case Anomaly():
            topic, key, event_id, source = ANOMALIES, output.key, output.id, output.operator
        case FeedbackOutput():
            event_id = derived_id(output.kind, output.operator, output.key, output.id, output.says)
            topic, key, source = ANOMALIES, output.key, output.operator
        case Notice():
            event_id = derived_id(output.kind, output.id, output.change)
            topic, key, source = ANOMALIES, output.key, output.operator
        case Progress() | Incident():
            # Several records share the id of an anomaly or an incident.
            event_id = derived_id(output.kind, output.id, output.number)
            source = output.operator if isinstance(output, Progress) else INCIDENTS
            topic, key = ANOMALIES, output.key
    headers = _headers(output, event_id, f"/laggard/{source}")
    return Outgoing(topics.name(topic), key, write_output(output).encode(), output.ts, headers)


def outgoing_diagnosis(diagnosis: Diagnosis, topic: str) -> Outgoing:
    """Return the record of a diagnosis, for the topic with this full name.

    Raises:
        RecordError: it is invalid, or too large; see `write_diagnosis`.

    """
    # Several records share the id of a diagnosis.
    event_id = derived_id(diagnosis.kind, diagnosis.id, diagnosis.progress, diagnosis.ts)
    headers = _headers(diagnosis, event_id, "/laggard/diagnosis")
    return Outgoing(topic, diagnosis.host, write_diagnosis(diagnosis).encode(), diagnosis.ts, headers)


def _headers(
    about: Published | Diagnosis,
    event_id: str,
    source: str,
) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of CloudEvents 1.0, Kafka protocol binding, binary content mode."""
    headers = {
        "ce_specversion": "1.0",
        "ce_id": event_id,
        "ce_source": source,
        "ce_type": f"laggard.{about.kind}",
        "ce_time": datetime.fromtimestamp(about.ts, UTC).isoformat(timespec="microseconds"),
        "ce_dataschema": schema_id(about.kind),
        "content-type": CONTENT_TYPE,
    }
    return tuple((name, text.encode()) for name, text in headers.items())


def _dead_letter(dead_letter: DeadLetter, topics: Topics) -> Outgoing:
    record = dead_letter.record
    fields = {
        "reason": dead_letter.reason,
        "operator": dead_letter.operator,
        "topic": record.partition.topic,
        "partition": str(record.partition.number),
        "offset": str(record.offset),
    }
    key, value, theirs = record.key, record.value, record.headers
    size = len(key.encode(errors="surrogatepass")) + len(value)
    size += sum(len(name.encode()) + len(content) for name, content in theirs)
    if size > MAX_LETTER_BYTES:
        fields["bytes"] = str(size)
        # Any of them may be too large, but a producer's key and headers are hardly ever longer than this.
        key, value = key[:_BEGINNING_BYTES], value[:_BEGINNING_BYTES]
        theirs = theirs if sum(len(name) + len(content) for name, content in theirs) <= _BEGINNING_BYTES else ()
    headers = [(DEAD_LETTER_HEADERS + name, text.encode(errors="backslashreplace")) for name, text in fields.items()]
    return Outgoing(topics.name(DEAD_LETTERS), key, value, record.ts, (*theirs, *headers))
