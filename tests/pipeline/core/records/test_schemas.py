"""The promise to other people's tools: what is written is what the schemas say, and all of it."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from deploy.generate.asyncapi import SCHEMAS, schema_document
from laggard.pipeline.core.records.declared import (
    Shape,
    amount,
    amounts,
    choice,
    count,
    flag,
    many,
    number,
    perhaps,
    text,
    texts,
    time,
    uuid,
)
from laggard.pipeline.core.records.diagnosis_json import diagnosis_object, read_diagnosis
from laggard.pipeline.core.records.errors import RecordError
from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.outputs import read_output, write_output
from tests.pipeline.core.records.conftest import OUTPUTS, VALIDATORS
from tests.pipeline.core.records.test_diagnosis_json import DIAGNOSIS
from tests.pipeline.core.records.test_models import MODEL, MODEL_JSON, MODELS, PREDICTION, PREDICTION_JSON, PREDICTIONS
from tests.pipeline.core.records.test_outputs import (
    ANOMALY,
    ANSWER,
    DEAD_LETTERS,
    INCIDENT,
    NOTICE,
    PINNED,
    PROGRESS,
    SAID,
    SCORE,
)
from tests.pipeline.core.records.test_pools import POOL, POOL_JSON, POOLS
from tests.pipeline.core.records.test_requests import OUTLYING_JSON, OUTLYING_REQUEST, outlying

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.records.declared import Form
    from laggard.pipeline.core.records.outputs import Output

DEPLOY = Path(__file__).parents[4] / "deploy"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_is_one_and_stands_in_the_repository(kind: str, golden: Callable[[Path, str], None]) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind])
    golden(DEPLOY / f"schemas/{kind}.json", schema_document(kind))


def test_no_other_schema_stands_there() -> None:
    assert {path.stem for path in (DEPLOY / "schemas").iterdir()} == set(SCHEMAS)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where each field of a JSON value is."""
    if isinstance(value, dict):
        inner = [place for name, each in value.items() for place in places(each, (*path, name))]
        return [(*path, name) for name in value] + inner
    if isinstance(value, list):
        return [place for number, each in enumerate(value) for place in places(each, (*path, number))]
    return []


WHOLE = [(MODEL, MODEL_JSON), (PREDICTION, PREDICTION_JSON), (POOL, POOL_JSON), (OUTLYING_REQUEST, OUTLYING_JSON)]


@pytest.mark.parametrize(("output", "written"), [*PINNED, *WHOLE], ids=lambda value: getattr(value, "kind", ""))
def test_the_fields_of_each_kind_are_what_they_were(output: Output, written: dict[str, Any]) -> None:
    assert output.to_json() == written
    assert next(iter(output.to_json())) == "kind"
    assert json.loads(write_output(output)) == written
    assert read_output(json.dumps(written), "here").to_json() == written


@pytest.mark.parametrize(
    "outputs",
    [OUTPUTS | DEAD_LETTERS, MODELS | PREDICTIONS, POOLS, outlying()],
    ids=["what operators tell", "models", "pools", "requests"],
)
@given(data=st.data())
def test_what_is_written_is_what_the_schema_says_and_nothing_else_and_comes_back(
    outputs: st.SearchStrategy[Output], data: st.DataObject
) -> None:
    output = data.draw(outputs)
    written = write_output(output)
    if output.kind != "dead_letter":
        VALIDATORS[output.kind].validate(json.loads(written))
    # NaN differs from itself; the text that Python has for it does not.
    assert repr(read_output(written, "here")) == repr(output)


@pytest.mark.parametrize("output", [output for output, _ in WHOLE], ids=lambda output: output.kind)
def test_no_field_of_what_was_always_told_may_be_absent_or_something_else(output: Output) -> None:
    written = output.to_json()
    for name in written:
        absent = {field: written[field] for field in written if field != name}
        for document in (*([absent] if (output.kind, name) not in OPTIONAL else ()), written | {name: {"a": "map"}}):
            assert not VALIDATORS[output.kind].is_valid(document), name
            with pytest.raises(RecordError, match=f"here: .*{name}"):
                read_output(json.dumps(document), "here")


OPTIONAL = {
    ("ranking", "sentence"), ("anomaly", "scope"), ("anomaly", "blame"),
    ("progress", "silent_since_ts"), ("incident", "silent_since_ts"),
    ("anomaly", "onset_ts"), ("progress", "onset_ts"), ("progress", "accepted"), ("incident", "accepted"),
    ("progress", "feedback"), ("incident", "feedback"), ("request", "cluster_cause"), ("request", "missing_ratio"),
}  # fmt: skip
"""What an older laggard did not write."""


@pytest.mark.parametrize(
    "output", [ANOMALY, PROGRESS, NOTICE, INCIDENT, SAID, ANSWER, SCORE], ids=lambda output: output.kind
)
@pytest.mark.parametrize("wrong", ["absent", {"a": "map"}])
def test_a_field_that_is_absent_or_something_else_is_no_record(output: Output, wrong: object) -> None:
    for place in places(output.to_json()):
        may_be_absent = place[:-1] == ("parameters",) or place[-1] in {"basis", "waits"}
        if wrong == "absent" and (may_be_absent or (output.kind, *place) in OPTIONAL):
            continue
        document = output.to_json()
        inside: Any = document
        for step in place[:-1]:
            inside = inside[step]
        if wrong == "absent":
            del inside[place[-1]]
        elif place != ("parameters",):
            inside[place[-1]] = wrong
        else:
            inside[place[-1]] = []
        assert not VALIDATORS[output.kind].is_valid(document), place


@pytest.mark.parametrize("wrong", ["absent", {"a": "map"}])
def test_a_field_of_a_diagnosis_that_is_absent_or_something_else_is_none(wrong: object) -> None:
    document = diagnosis_object(DIAGNOSIS)
    VALIDATORS["diagnosis"].validate(document)
    for place in places(document):
        document = diagnosis_object(DIAGNOSIS)
        inside: Any = document
        for step in place[:-1]:
            inside = inside[step]
        if wrong == "absent":
            del inside[place[-1]]
        else:
            inside[place[-1]] = wrong
        assert not VALIDATORS["diagnosis"].is_valid(document), place
        with pytest.raises(RecordError, match=str(place[-1])):
            read_diagnosis(json.dumps(document), "here")


@pytest.mark.parametrize(
    "changed",
    [
        {"score": 1.0},
        {"ts": -1.0},
        {"id": "no uuid"},
        {"kind": "incident"},
        {"host": ""},
        {"pool": "a second key"},
        {"parameters": {"a": []}},
        {"model_age_s": -1},
        {"unknown": 1},
    ],
    ids=str,
)
def test_what_an_anomaly_is_not(changed: dict[str, object]) -> None:
    document = ANOMALY.to_json()
    VALIDATORS["anomaly"].validate(document)
    assert not VALIDATORS["anomaly"].is_valid({**document, **changed})


@pytest.mark.parametrize(
    "output",
    [ANOMALY, PROGRESS, NOTICE, INCIDENT, SAID, ANSWER, SCORE, *(output for output, _ in WHOLE)],
    ids=lambda output: output.kind,
)
def test_members_named_like_attributes_are_skipped(output: Output) -> None:
    written = output.to_json()
    ours = {"key", "keyed_by", "metric", "ranking", "kept", *(each.name for each in fields(output))} - set(written)
    if output.kind == "score":
        ours -= {"request"}  # it is a member, of some
    document = written | dict.fromkeys(ours, "host")
    assert read_output(json.dumps(document), "here").to_json() == written


def test_fields_of_a_later_version_are_skipped() -> None:
    document = {**ANOMALY.to_json(), "added_later": 1}
    Draft202012Validator(SCHEMAS["anomaly"]).validate(document)
    assert read_output(json.dumps(document), "here").to_json() == ANOMALY.to_json()


PART: Shape[dict[str, Any]] = Shape("part", "A part.", lambda _, **found: found, {}, {})


@pytest.mark.parametrize(
    "make",
    [
        *(text, uuid, flag, count, time, number, amount, amounts),
        *(partial(choice, literal=Literal["a"]), partial(texts, most=3, longest=9)),
        *(partial(many, PART), partial(perhaps, PART)),
    ],
    ids=lambda make: getattr(make, "func", make).__name__,
)
def test_older_records_need_not_have_what_was_added(make: Callable[..., Form]) -> None:
    assert not make("A member.").added
    form = make("A member.", added=True)
    assert form.added
    assert "added" not in form.schema
    shape: Shape[dict[str, Any]] = Shape("part", "A part.", lambda _, **found: found, {"member": form}, {"member": 7})
    assert shape.read(Fields({}, "here")) == {"member": 7}
    assert shape.schema()["required"] == []
