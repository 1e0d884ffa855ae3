"""What leaves: the fields of each kind, strict JSON, and what is written comes back."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.records import Case, Feedback, RecordError
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.outputs import (
    Anomaly,
    Blame,
    DeadLetterOutput,
    Evidence,
    Incident,
    Notice,
    Output,
    Progress,
    RankingOutput,
    ScoreOutput,
    anomaly_id,
    incident_id,
    read_output,
)
from tests.pipeline.core.records.conftest import JUNK, NUMBERS, OUTPUTS, TEXTS

PLACE = "anomalies[0]@7"
RANKING = Ranking(
    ts=1.7e9,
    score=2.5,
    rows=(
        RowScore(
            row="hog[4711@99]",
            name="hog",
            score=2.5,
            features=(
                FeatureScore("cpu_user_ratio", 1.0, 0.01, 0.02, 4.0),
                FeatureScore("memory_rss_bytes", 1e9, math.nan, math.inf, 1.0),
            ),
            age_s=600.0,
            basis="starts",
            waits=True,
        ),
    ),
    age_s=3600.0,
    young=False,
)
BLAME = Blame("hog[4711@99]", "hog", "memory_rss_bytes", 1e9, math.nan, math.inf, ("memory", "disk"))
BLAME_JSON = {
    "row": "hog[4711@99]",
    "name": "hog",
    "feature": "memory_rss_bytes",
    "value": 1e9,
    "usual": None,
    "usual_deviation": None,
    "resources": ["memory", "disk"],
}
ANOMALY = Anomaly(
    id=anomaly_id("gaussian", "web-1", "laggard.counters[3]@1042"),
    operator="gaussian",
    parameters={"context_s": 14400.0, "likelihood": "scale-free"},
    keyed_by="host",
    key="web-1",
    ts=1.7e9,
    score=2.5,
    ranking=RANKING,
    sentence="`hog` is behaving unusually.",
    model_age_s=3600.0,
    young=False,
    live=True,
    scope="process",
    blame=BLAME,
    onset_ts=1.61e9,
)
EVIDENCE = Evidence(
    ANOMALY.id, "gaussian", "process", 1.6e9, math.nan, 2.5, young=False, sentence=ANOMALY.sentence, blame=BLAME
)
ROWS = [
    {
        "row": "hog[4711@99]",
        "name": "hog",
        "score": 2.5,
        "age_s": 600.0,
        "basis": "starts",
        "waits": True,
        "features": [
            {"feature": "cpu_user_ratio", "value": 1.0, "mean": 0.01, "standard_deviation": 0.02, "score": 4.0},
            {"feature": "memory_rss_bytes", "value": 1e9, "mean": None, "standard_deviation": None, "score": 1.0},
        ],
    }
]
ANOMALY_JSON = {
    "kind": "anomaly",
    "ts": 1.7e9,
    "id": "ac722afe-1469-5404-93a6-b0f03d6304af",
    "operator": "gaussian",
    "parameters": {"context_s": 14400.0, "likelihood": "scale-free"},
    "host": "web-1",
    "score": 2.5,
    "ranking": ROWS,
    "sentence": "`hog` is behaving unusually.",
    "model_age_s": 3600.0,
    "young": False,
    "live": True,
    "scope": "process",
    "blame": BLAME_JSON,
    "onset_ts": 1.61e9,
}
EVIDENCE_JSON = {
    "anomaly": "ac722afe-1469-5404-93a6-b0f03d6304af",
    "operator": "gaussian",
    "scope": "process",
    "opened_ts": 1.6e9,
    "until_ts": None,
    "score": 2.5,
    "young": False,
    "sentence": "`hog` is behaving unusually.",
    "blame": BLAME_JSON,
}


# The fields of each kind are a promise to other people's tools.


PROGRESS = Progress(
    **{each.name: getattr(ANOMALY, each.name) for each in fields(ANOMALY)} | {"keyed_by": "application", "key": "shop"},
    change="ended", number=2, opened_ts=1.6e9, until_ts=1.65e9, silent_since_ts=1.66e9, accepted=True, feedback="usual",
)  # fmt: skip
PROGRESS_JSON = {
    **{name: value for name, value in ANOMALY_JSON.items() if name != "host"},
    "kind": "progress", "application": "shop",
    "change": "ended", "number": 2, "opened_ts": 1.6e9, "until_ts": 1.65e9, "silent_since_ts": 1.66e9,
    "accepted": True, "feedback": "usual",
}  # fmt: skip
NOTICE = Notice(
    **{each.name: getattr(ANOMALY, each.name) for each in fields(ANOMALY)},
    change="ended", opened_ts=1.6e9, until_ts=1.65e9, became="1c",
)  # fmt: skip
NOTICE_JSON = ANOMALY_JSON | {
    "kind": "notice", "change": "ended", "opened_ts": 1.6e9, "until_ts": 1.65e9, "became": "1c",
}  # fmt: skip
INCIDENT = Incident(
    ts=1.7e9, id=incident_id(ANOMALY.id), number=3, change="closed", opened_ts=1.6e9, until_ts=1.65e9,
    operator="gaussian", keyed_by="host", key="web-1", score=2.5, blame=BLAME, ranking=RANKING, sentence="Over.",
    model_age_s=3600.0, young=False, live=True, evidence=(EVIDENCE,), left_out=1, merged_into="1c",
    silent_since_ts=1.66e9, accepted=True, feedback="usual",
)  # fmt: skip
INCIDENT_JSON = {
    "kind": "incident", "ts": 1.7e9, "id": "628b5d20-5080-5bad-9364-b2f2ad779b8a", "number": 3, "change": "closed",
    "opened_ts": 1.6e9, "until_ts": 1.65e9, "operator": "gaussian", "host": "web-1", "score": 2.5, "blame": BLAME_JSON,
    "ranking": ROWS, "sentence": "Over.", "model_age_s": 3600.0, "young": False, "live": True,
    "evidence": [EVIDENCE_JSON], "left_out": 1, "merged_into": "1c", "silent_since_ts": 1.66e9,
    "accepted": True, "feedback": "usual",
}  # fmt: skip
ANSWER = RankingOutput.of(1.7e9 + 2.0, "web-1", "checkout hangs", RANKING, "`hog` waits.")
ANSWER_JSON = {
    "kind": "ranking", "ts": 1.7e9 + 2.0, "host": "web-1", "mark": "checkout hangs", "frame_ts": 1.7e9, "score": 2.5,
    "model_age_s": 3600.0, "young": False, "sentence": "`hog` waits.", "rows": ROWS,
}  # fmt: skip
SAID = FeedbackOutput.of(
    Feedback(
        "host", "web-1", 1.7e9, "5f0c", "expected", (Case("backup", ("disk",), "io_write_bytes_per_s", 8e7),), 1.8e9,
        INCIDENT.id, "a load test",
    ),
    "gaussian", live=True,
)  # fmt: skip
SAID_JSON = {
    "kind": "feedback", "operator": "gaussian", "host": "web-1", "ts": 1.7e9, "id": "5f0c", "says": "expected",
    "cases": [{"name": "backup", "resources": ["disk"], "feature": "io_write_bytes_per_s", "excess": 8e7}],
    "until_ts": 1.8e9, "incident": INCIDENT.id, "note": "a load test", "live": True,
}  # fmt: skip
SCORE = ScoreOutput(ts=1.7e9, operator="covariance", keyed_by="pool", key="workers", score=math.nan)


PINNED: list[tuple[Output, dict[str, Any]]] = [
    (ANOMALY, ANOMALY_JSON),
    (PROGRESS, PROGRESS_JSON),
    (NOTICE, NOTICE_JSON),
    (replace(ANOMALY, onset_ts=math.nan), ANOMALY_JSON | {"onset_ts": None}),
    (replace(PROGRESS, blame=None, silent_since_ts=math.nan), PROGRESS_JSON | {"blame": None, "silent_since_ts": None}),
    (INCIDENT, INCIDENT_JSON),
    (SAID, SAID_JSON),
    (ANSWER, ANSWER_JSON),
    (SCORE, {"kind": "score", "ts": 1.7e9, "operator": "covariance", "pool": "workers", "score": None}),
    (
        DeadLetterOutput(math.nan, "day.jsonl:17", "expected JSON"),
        {"kind": "dead_letter", "ts": None, "place": "day.jsonl:17", "reason": "expected JSON"},
    ),
]


# Any output.

DEAD_LETTERS = st.builds(DeadLetterOutput, NUMBERS, TEXTS, TEXTS)


def read_or_refuse(text: str | bytes) -> Output | None:
    """Any other error than the one is for the test to fail on."""
    try:
        return read_output(text, PLACE)
    except RecordError as error:
        if error.place != PLACE or not str(error).isprintable():
            raise AssertionError(repr(str(error))) from error
        return None


@given(output=OUTPUTS | DEAD_LETTERS, name=st.text(max_size=5), value=JUNK, data=st.data())
def test_any_field_may_hold_anything(output: Output, name: str, value: Any, data: st.DataObject) -> None:
    written = output.to_json()
    read_or_refuse(json.dumps(written | {data.draw(st.sampled_from([*written, name])): value}))
    read_or_refuse(json.dumps(value))
    for rows in {"ranking", "rows"} & written.keys():
        read_or_refuse(json.dumps(written | {rows: [*written[rows], value]}))
        read_or_refuse(json.dumps(written | {rows: [{**row, name or "features": value} for row in written[rows]]}))


@given(text=st.text() | st.binary())
def test_any_text_gives_an_output_or_one_error(text: str | bytes) -> None:
    read_or_refuse(text)


@pytest.mark.parametrize(
    ("whole", "unsaid"),
    [
        (ANOMALY_JSON, {"scope": "", "blame": None, "onset_ts": None}),
        (INCIDENT_JSON, {"silent_since_ts": None, "accepted": False, "feedback": ""}),
        (PROGRESS_JSON, {"silent_since_ts": None, "onset_ts": None, "accepted": False, "feedback": ""}),
        (ANSWER_JSON | {"rows": [ROWS[0] | {"basis": "itself", "waits": False}]}, {"sentence": ""}),
    ],
    ids=[
        "neither scope, nor whom to blame, nor its onset",
        "an end that was seen to, and not accepted",
        "an end",
        "rows with a past that wait for nobody",
    ],
)
def test_what_an_older_laggard_did_not_say_is_read_as_what_it_meant(
    whole: dict[str, Any], unsaid: dict[str, Any]
) -> None:
    older = {name: value for name, value in whole.items() if name not in unsaid}
    if "rows" in older:
        older["rows"] = [
            {name: each[name] for name in each if name not in {"basis", "waits"}} for each in whole["rows"]
        ]
    assert read_output(json.dumps(older), PLACE).to_json() == whole | unsaid


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": "anomalies"}, "field 'kind': expected one of the kinds 'anomaly', 'progress', "),
        ({"kind": ["anomaly"]}, "field 'kind': expected"),
        ({"ts": None}, "field 'ts': expected seconds since the Unix epoch"),
        ({"id": 7}, "field 'id': expected text"),
        ({"pool": "p"}, "expected one of the fields host, application, pool, service, got host and pool"),
        ({"host": ""}, "field 'host': expected text of 1 to 253"),
        ({"score": "2.5"}, "field 'score': expected a number that float64 can hold, or null, got '2.5'"),
        ({"score": True}, "field 'score': expected a number"),
        ({"score": 10**400}, "field 'score': expected a number that float64 can hold, or null, got an integer"),
        ({"young": 1}, "field 'young': expected true or false, got 1"),
        ({"parameters": {"a": []}}, "field 'parameters': expected an object of names and numbers"),
        ({"ranking": {}}, "field 'ranking': expected a list of objects, got dict of length 0"),
        ({"ranking": [*ROWS, 1]}, "field 'ranking[1]': expected an object, got 1"),
        ({"ranking": [{**ROWS[0], "name": None}]}, "field 'ranking[0].name': expected text"),
        ({"ranking": [{**ROWS[0], "features": [{}]}]}, "field 'ranking[0].features[0].feature': expected text"),
        ({"scope": 1}, "field 'scope': expected text"),
        ({"blame": []}, "field 'blame': expected an object, or null, got list of length 0"),
        ({"blame": {**BLAME_JSON, "usual": "?"}}, "field 'blame.usual': expected a number"),
        ({"blame": {**BLAME_JSON, "resources": "cpu"}}, "field 'blame.resources': expected a list of at most 16 texts"),
        ({"kind": "progress", "change": "closed"}, "field 'change': expected 'extended' or 'ended', got 'closed'"),
        ({"kind": "progress", "change": "ended", "number": 0}, "field 'number': expected an integer from 1 to"),
        ({"kind": "incident", "number": 1, "change": "flapped"}, "field 'change': expected 'opened' or 'extended' or"),
    ],
)  # fmt: skip
def test_what_is_no_output_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RecordError, match=re.escape(f"{PLACE}: {told}")):
        read_output(json.dumps(ANOMALY_JSON | changes), PLACE)


@pytest.mark.parametrize("name", [name for name in ANOMALY_JSON if name not in {"scope", "blame", "onset_ts"}])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    fields = {field: value for field, value in ANOMALY_JSON.items() if field != name}
    with pytest.raises(RecordError, match=name if name != "host" else "one of the fields host"):
        read_output(json.dumps(fields), PLACE)


# Ids.


def test_ids_are_the_same_for_the_same_input_and_differ_for_any_other() -> None:
    # Pinned: ids that change would make readers count everything twice.
    assert anomaly_id("gaussian", "web-1", "laggard.counters[3]@1042") == "ac722afe-1469-5404-93a6-b0f03d6304af"
    arguments = [
        ("gaussian", "web-1", "c[0]@1"),
        ("cpu", "web-1", "c[0]@1"),
        ("gaussian", "web-2", "c[0]@1"),
        ("gaussian", "web-1", "c[0]@2"),
    ]
    assert len({anomaly_id(*each) for each in arguments}) == len(arguments)
    assert anomaly_id("a", "bc", "d") != anomaly_id("ab", "c", "d")


def test_the_id_of_an_incident_follows_from_that_of_its_first_anomaly() -> None:
    assert incident_id("ac722afe-1469-5404-93a6-b0f03d6304af") == "628b5d20-5080-5bad-9364-b2f2ad779b8a"
    assert incident_id("a") != incident_id("b")
