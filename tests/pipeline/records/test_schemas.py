"""The promise to other people's tools: what is written is what the schemas say, and all of it."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from laggard.operators.ranking import FeatureScore, Phase, Ranking, RowScore
from laggard.pipeline.asyncapi import schema_document
from laggard.pipeline.records.diagnosis_json import diagnosis_object, read_diagnosis, write_diagnosis
from laggard.pipeline.records.errors import RecordError
from laggard.pipeline.records.outputs import (
    ANOMALY_CHANGES,
    BASES,
    CHANGES,
    KEY_NAMES,
    Anomaly,
    Blame,
    Evidence,
    Incident,
    Progress,
    RankingOutput,
    ScoreOutput,
    anomaly_id,
    incident_id,
    read_output,
    write_output,
)
from laggard.pipeline.records.schemas import SCHEMAS
from tests.pipeline.records.conftest import KEYS, TEXTS, TIMES
from tests.pipeline.records.test_diagnosis_json import DIAGNOSES, DIAGNOSIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.records.diagnosis import Diagnosis
    from laggard.pipeline.records.outputs import Output

DEPLOY = Path(__file__).parents[3] / "deploy"


def closed(schema: Any) -> Any:
    """The schema without its openness to fields that later versions may add."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    same = {name: closed(each) for name, each in schema.items()}
    return {"additionalProperties": False, **same} if schema.get("type") == "object" else same


def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(closed(SCHEMAS[kind]), format_checker=FormatChecker(["uuid", "date-time"]))


VALIDATORS = {kind: validator(kind) for kind in SCHEMAS}

NUMBERS = st.floats()
AGES = st.floats(0.0) | st.just(math.nan)
FEATURES = st.builds(FeatureScore, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
PHASES = st.builds(Phase, st.booleans(), TIMES, TIMES, NUMBERS, st.integers(0, 1 << 40))
ROWS = st.builds(
    RowScore, TEXTS, TEXTS, NUMBERS, st.lists(FEATURES, max_size=3).map(tuple), AGES, st.sampled_from(BASES),
    st.booleans(), st.just(0.0), st.lists(PHASES, max_size=2).map(tuple),
)  # fmt: skip
RANKINGS = st.builds(
    Ranking, TIMES | st.just(math.nan), NUMBERS, st.lists(ROWS, max_size=3).map(tuple), AGES, st.booleans()
)
BLAMES = st.none() | st.builds(
    Blame, TEXTS, TEXTS, TEXTS, NUMBERS, NUMBERS, NUMBERS, st.lists(TEXTS, max_size=2).map(tuple)
)
IDS = st.builds(anomaly_id, TEXTS, KEYS, TEXTS)
SCORES = st.floats(1.0, exclude_min=True)
FOUND: dict[str, st.SearchStrategy[Any]] = {
    "id": IDS,
    "operator": TEXTS,
    "parameters": st.dictionaries(TEXTS, NUMBERS | TEXTS | st.booleans(), max_size=3),
    "keyed_by": st.sampled_from(KEY_NAMES),
    "key": KEYS,
    "ts": TIMES,
    "score": SCORES,
    "ranking": RANKINGS,
    "sentence": TEXTS,
    "model_age_s": AGES,
    "young": st.booleans(),
    "live": st.booleans(),
    "scope": TEXTS,
    "blame": BLAMES,
}
ANOMALIES = st.builds(Anomaly, **FOUND)
COUNTS = st.integers(1, 1 << 40)
PROGRESS = st.builds(
    Progress, **FOUND, change=st.sampled_from(ANOMALY_CHANGES), number=COUNTS, opened_ts=TIMES, until_ts=TIMES
)
UNTIL = TIMES | st.just(math.nan)
EVIDENCES = st.builds(Evidence, IDS, TEXTS, TEXTS, TIMES, UNTIL, SCORES, st.booleans(), TEXTS, BLAMES)
INCIDENTS = st.builds(
    Incident,
    **{name: each for name, each in FOUND.items() if name not in {"id", "parameters", "scope"}},
    id=st.builds(incident_id, TEXTS),
    number=COUNTS,
    change=st.sampled_from(CHANGES),
    opened_ts=TIMES,
    until_ts=UNTIL,
    evidence=st.lists(EVIDENCES, min_size=1, max_size=3).map(tuple),
    left_out=COUNTS,
    merged_into=TEXTS,
)
OUTPUTS: st.SearchStrategy[Output] = st.one_of(
    ANOMALIES,
    PROGRESS,
    INCIDENTS,
    st.builds(RankingOutput, TIMES, KEYS, TEXTS, RANKINGS, TEXTS),
    st.builds(ScoreOutput, TIMES, TEXTS, st.sampled_from(KEY_NAMES), KEYS, NUMBERS, TEXTS),
)
ANOMALY = Anomaly(
    id=anomaly_id("gaussian", "web-1", "laggard.counters[3]@1042"),
    operator="gaussian",
    parameters={"context": 14400.0},
    keyed_by="host",
    key="web-1",
    ts=1.7e9,
    score=2.5,
    ranking=Ranking(
        1.7e9, 2.5, (RowScore("a[1]", "a", 2.5, (FeatureScore("x_bytes", 1, 2, 3, 4),), 9.0),), 9.0, young=True
    ),
    sentence="a",
    model_age_s=9.0,
    young=True,
    live=True,
    scope="process",
    blame=Blame("a[1]", "a", "x_bytes", 1.0, 2.0, 3.0, ("memory",)),
)
ENDED = Progress(
    **{each.name: getattr(ANOMALY, each.name) for each in fields(ANOMALY)},
    change="ended",
    number=1,
    opened_ts=1.6e9,
    until_ts=1.65e9,
)
INCIDENT = Incident(
    id=incident_id(ANOMALY.id),
    number=1,
    change="closed",
    ts=1.7e9,
    opened_ts=1.6e9,
    until_ts=1.65e9,
    keyed_by="host",
    key="web-1",
    operator="gaussian",
    score=2.5,
    blame=ANOMALY.blame,
    ranking=ANOMALY.ranking,
    sentence="a",
    model_age_s=9.0,
    young=True,
    live=True,
    evidence=(
        Evidence(ANOMALY.id, "gaussian", "process", 1.6e9, 1.65e9, 2.5, young=True, sentence="a", blame=ANOMALY.blame),
    ),
)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_is_one_and_stands_in_the_repository(kind: str, golden: Callable[[Path, str], None]) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind])
    golden(DEPLOY / f"schemas/{kind}.json", schema_document(kind))


def test_no_other_schema_stands_there() -> None:
    assert {path.stem for path in (DEPLOY / "schemas").iterdir()} == set(SCHEMAS)


@given(OUTPUTS)
def test_what_is_written_is_what_the_schema_says_and_nothing_else(output: Output) -> None:
    VALIDATORS[output.kind].validate(json.loads(write_output(output)))


@given(DIAGNOSES)
def test_and_so_with_a_diagnosis(diagnosis: Diagnosis) -> None:
    VALIDATORS["diagnosis"].validate(json.loads(write_diagnosis(diagnosis)))


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where each field of a JSON value is."""
    if isinstance(value, dict):
        inner = [place for name, each in value.items() for place in places(each, (*path, name))]
        return [(*path, name) for name in value] + inner
    if isinstance(value, list):
        return [place for number, each in enumerate(value) for place in places(each, (*path, number))]
    return []


OPTIONAL = {
    ("ranking", "sentence"), ("anomaly", "scope"), ("anomaly", "blame"),
    ("progress", "silent_since_ts"), ("incident", "silent_since_ts"),
}  # fmt: skip
"""What an older laggard did not write."""


@pytest.mark.parametrize(
    "output",
    [
        ANOMALY,
        ENDED,
        INCIDENT,
        RankingOutput(5.0, "web-1", "slow", ANOMALY.ranking),
        ScoreOutput(5.0, "gaussian", "host", "web-1", 0.5),
    ],
    ids=lambda output: output.kind,
)
@pytest.mark.parametrize("wrong", ["absent", {"a": "map"}])
def test_a_field_that_is_absent_or_something_else_is_no_record(output: Output, wrong: object) -> None:
    for place in places(output.to_json()):
        may_be_absent = place == ("parameters", "context") or place[-1] in {"basis", "waits"}
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


def test_fields_of_a_later_version_are_passed_over() -> None:
    document = {**ANOMALY.to_json(), "added_later": 1}
    Draft202012Validator(SCHEMAS["anomaly"]).validate(document)
    read_output(json.dumps(document), "here")


def test_an_id_is_a_uuid_that_never_changes() -> None:
    # Pinned: a subscriber that stored it has to find it again with every later version.
    assert ANOMALY.id == "ac722afe-1469-5404-93a6-b0f03d6304af"
    assert UUID(ANOMALY.id).version == 5
