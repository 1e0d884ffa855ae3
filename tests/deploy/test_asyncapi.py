"""The AsyncAPI document: valid, current, and about records as they are."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgpack
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event
from cloudevents.core.exceptions import CloudEventValidationError
from jsonschema import Draft7Validator, Draft202012Validator

from deploy.generate.asyncapi import ACCEPTED, MESSAGEPACK, OUTLYING, SCHEMAS, asyncapi_document
from deploy.generate.records import records_page
from laggard.pipeline.core.engine.publishing import MAX_LETTER_BYTES, outgoing, outgoing_diagnosis
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.records import Case, Feedback, Mark, Received, Request, Segment, Spent, Wish, encode
from laggard.pipeline.core.records.diagnosis import Diagnosis
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.limits import MAX_DIAGNOSIS_BYTES
from laggard.pipeline.core.records.outputs import Anomaly, RankingOutput, anomaly_id, read_output
from laggard.pipeline.core.topics import DIAGNOSES, TOPICS, Topics
from laggard.pipeline.methods.incidents.joiner import Joiner
from tests.pipeline.core.engine.conftest import TOPICS as TEST_TOPICS
from tests.pipeline.core.engine.conftest import frame, record
from tests.pipeline.core.records.conftest import VALIDATORS
from tests.pipeline.core.records.test_diagnosis_json import DIAGNOSIS, WRITTEN
from tests.pipeline.core.records.test_models import MODEL
from tests.pipeline.core.records.test_outputs import ANOMALY
from tests.pipeline.core.records.test_pools import POOL
from tests.pipeline.core.records.test_requests import OUTLYING_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.core.bus import Outgoing

ROOT = Path(__file__).parents[2]
DOCUMENT = json.loads(asyncapi_document())
FEEDBACK = FeedbackOutput.of(
    Feedback("host", "web-1", 1.7e9, "f1", "usual", (Case("pg_dump", ("disk",)),)), "gaussian", live=True
)
RANKING = RankingOutput.of(1.7e9, "web-1", "slow", ANOMALY.ranking)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from references(each)


def resolved(reference: str) -> Any:
    found = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def component(name: str) -> Draft202012Validator:
    """A validator of a schema of the document; the keywords it uses mean the same in AsyncAPI's dialect."""
    return Draft202012Validator({"components": DOCUMENT["components"], "$ref": f"#/components/schemas/{name}"})


def test_it_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "deploy/asyncapi.json", asyncapi_document())


def test_it_is_valid() -> None:
    official = json.loads(gzip.decompress((ROOT / "tests/schemas/asyncapi-3.0.0.json.gz").read_bytes()))
    validate = Draft7Validator(official)
    validate.validate(DOCUMENT)
    assert not validate.is_valid({**DOCUMENT, "channels": {"a": {"adress": "a"}}})
    assert list(references(DOCUMENT))
    for reference in references(DOCUMENT):
        resolved(reference)


def test_every_kind_of_record_is_in_a_channel() -> None:
    messages = DOCUMENT["components"]["messages"]
    sent = {name for channel in DOCUMENT["channels"].values() for name in channel["messages"]}
    events = {
        name: each["headers"]["allOf"][1]["properties"]["ce_type"]["const"].removeprefix("laggard.")
        for name, each in messages.items()
        if "allOf" in each.get("headers", {})
    }
    only_replayed = {"score", "prediction"}
    assert set(events.values()) == set(SCHEMAS) - only_replayed
    packed = {name for name, each in messages.items() if each["contentType"] == MESSAGEPACK}
    assert packed == {each.__name__.lower() for each in get_args(Received)}
    assert {*events, *packed} <= sent


def test_every_topic_is_there_and_every_part_is_used() -> None:
    assert set(DOCUMENT["channels"]) == {topic.name for topic in TOPICS} | {"snapshots"}
    used = set(references(DOCUMENT))
    for kind, components in DOCUMENT["components"].items():
        # The layout is packed inside a frame, so that nothing can refer to it.
        unused = {name for name in components if f"#/components/{kind}/{name}" not in used} - {"layout"}
        assert not unused, f"{kind}: {unused}"


OPTIONAL = {
    "frame": ("hosts",),
    "request": ("host", "name", "critical_s", "spent", "threads", "path", "notes", "missing_ratio", "texts"),
}


@pytest.mark.parametrize(
    "received",
    [
        frame("h1", 1, 5.0),
        Mark("h1", 5.0, "slow"),
        Request("shop", 5.0, "r1", 0.1),
        Request(
            "shop",
            5.0,
            "r1",
            0.1,
            {"RS": 2.0},
            {"RS": 0.02},
            ("open", "read"),
            7,
            "web-1",
            "GET /",
            {"RS": 0.1},
            (Spent("RS", "read", "/srv/a", "", 0, "", 3, 0.02),),
            ("php-fpm[7]",),
            (Segment(0, 0.0, 0.1, "RS", ""),),
            ("clocks differ",),
            0.2,
        ),
        Wish("shop", 5.0, "web-1/nginx:cpu_wait_ratio", "pin"),
        Feedback("host", "h1", 5.0, "f1", "usual", (Case("pg_dump", ("disk",), "io_write_bytes_per_s", 2e6), Case())),
        Feedback("pool", "h1/gunicorn", 5.0, "f2", "expected", until_ts=9.0),
    ],
    ids=["frame", "mark", "request", "request-in-full", "wish", "usual", "expected"],
)
def test_what_is_packed_has_the_fields_that_are_told(received: Received) -> None:
    kind = type(received).__name__.lower()
    fields = msgpack.unpackb(encode(received))
    check(kind, fields, optional=set(OPTIONAL.get(kind, ())))
    if kind == "frame":
        layout = msgpack.unpackb(fields["layout"])
        check("layout", layout, optional={"commands", "users", "containers"})
        assert layout["rows"].decode().split("\0") == ["a[1]", "b[2]"]


def check(name: str, fields: dict[str, Any], optional: set[str]) -> None:
    told = DOCUMENT["components"]["schemas"][name]
    assert set(fields) | optional == set(told["properties"]) | optional
    assert set(told["properties"]) - set(told["required"]) <= optional
    for field, value in fields.items():
        assert isinstance(value, bytes) == (told["properties"][field].get("format") == "binary"), field
    component(name).validate({field: "" if isinstance(value, bytes) else value for field, value in fields.items()})


def told(headers: Any) -> Draft202012Validator:
    return Draft202012Validator({"components": DOCUMENT["components"], **headers})


def sent_of(output: Any) -> Outgoing:
    if isinstance(output, Diagnosis):
        return outgoing_diagnosis(output, TEST_TOPICS.name(DIAGNOSES))
    return outgoing(output, TEST_TOPICS)


@pytest.mark.parametrize(
    "output", [ANOMALY, RANKING, MODEL, POOL, OUTLYING_REQUEST, FEEDBACK, DIAGNOSIS], ids=lambda output: output.kind
)
def test_an_event_is_what_is_told_and_what_the_sdk_reads(output: Any) -> None:
    sent = sent_of(output)
    headers = {name: value.decode() for name, value in sent.headers}
    assert set(headers) == set(DOCUMENT["components"]["schemas"]["cloud_event_headers"]["properties"])
    name = {"request": OUTLYING, "feedback": ACCEPTED}.get(output.kind, output.kind)
    told(DOCUMENT["components"]["messages"][name]["headers"]).validate(headers)
    component(name).validate(json.loads(sent.value))

    event = read(sent)
    assert event.get_specversion() == "1.0"
    assert event.get_id() == headers["ce_id"]
    assert event.get_type() == f"laggard.{output.kind}"
    assert event.get_dataschema() == SCHEMAS[output.kind]["$id"]
    assert event.get_datacontenttype() == "application/json"
    assert event.get_time().timestamp() == output.ts
    assert event.get_time().utcoffset().total_seconds() == 0
    assert event.get_data() == (WRITTEN if output is DIAGNOSIS else output.to_json())


def test_records_of_one_diagnosis_are_several_events() -> None:
    records = [DIAGNOSIS, replace(DIAGNOSIS, ts=DIAGNOSIS.ts + 1.0), replace(DIAGNOSIS, progress="closed")]
    assert len({read(sent_of(each)).get_id() for each in [*records, *records]}) == 3
    assert {read(sent_of(each)).get_source() for each in records} == {"/laggard/diagnosis"}


def read(sent: Outgoing) -> Any:
    return from_binary_event(KafkaMessage(headers=dict(sent.headers), key=sent.key.encode(), value=sent.value))


def test_the_sdk_refuses_what_is_no_event() -> None:
    sent = outgoing(ANOMALY, TEST_TOPICS)
    for left_out in ("ce_source", "ce_type"):
        headers = tuple(header for header in sent.headers if header[0] != left_out)
        with pytest.raises(CloudEventValidationError, match=left_out.removeprefix("ce_")):
            read(replace(sent, headers=headers))


def test_a_dead_letter_has_the_headers_that_are_told() -> None:
    received = record(frame("h1", 1, 5.0), 42)
    schema = DOCUMENT["components"]["schemas"]["dead_letter_headers"]
    for letter, told in (
        (received, schema["required"]),
        (replace(received, value=bytes(MAX_LETTER_BYTES + 1)), list(schema["properties"])),
    ):
        sent = outgoing(DeadLetter("drift", letter, "expected something else"), TEST_TOPICS)
        assert [name for name, _ in sent.headers] == told


# The pages for subscribers.


def page(name: str) -> str:
    return (ROOT / f"deploy/docs/reference/{name}.md").read_text()


def example(page: str, sent: Outgoing) -> None:
    """The headers and the topic in the page are those with which its example would be sent."""
    (headers,) = re.findall(r"```\n(ce_.*?)```", page, re.DOTALL)
    assert [f"{name}: {text.decode()}" for name, text in sent.headers] == headers.splitlines()
    assert f"`{sent.topic}`" in page


PAGE = page("anomalies")


def test_the_example_is_what_would_be_sent() -> None:
    (value,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    VALIDATORS["anomaly"].validate(json.loads(value))
    read_back = read_output(value, "anomalies.md")
    assert isinstance(read_back, Anomaly)
    assert read_back.to_json() == json.loads(value)
    (found,) = re.findall(r"`(process [\d.]+ \d+)`", PAGE)
    assert read_back.id == anomaly_id(read_back.operator, read_back.key, found)
    example(PAGE, outgoing(read_back, Topics()))


def test_the_example_of_an_incident_is_that_of_the_anomaly() -> None:
    (anomaly,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    found = read_output(anomaly, "anomalies.md")
    assert isinstance(found, Anomaly)
    (opened,) = Joiner().take(found)
    sent = outgoing(opened, Topics())
    text = (ROOT / "deploy/docs/tasks/subscribe.md").read_text()
    (value,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    left_out = {"ranking", "blame", "evidence"}
    fields = json.loads(sent.value)
    assert json.loads(value) == {name: part for name, part in fields.items() if name not in left_out}
    example(text, sent)


def test_the_reference_of_records_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "deploy/docs/reference/records.md", records_page())


def test_the_example_of_a_diagnosis_is_what_would_be_sent() -> None:
    told = page("diagnoses")
    (value,) = re.findall(r"```json\n(.*?)```", told, re.DOTALL)
    VALIDATORS["diagnosis"].validate(json.loads(value))
    sent = outgoing_diagnosis(read_diagnosis(value, "diagnoses.md"), Topics().name(DIAGNOSES))
    assert json.loads(sent.value) == json.loads(value)
    example(told, sent)
    assert f"{MAX_DIAGNOSIS_BYTES:,} bytes" in told


def test_the_example_of_a_model_is_one() -> None:
    told = page("models")
    (value,) = re.findall(r"```json\n(.*?)```", told, re.DOTALL)
    VALIDATORS["model"].validate(json.loads(value))
