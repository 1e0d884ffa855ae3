"""What leaves: the fields of each kind, strict JSON, and what is written comes back."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.ranking import FeatureScore, Phase, Ranking, RowScore
from laggard.pipeline.records import RecordError
from laggard.pipeline.records.outputs import (
    ANOMALY_CHANGES,
    BASES,
    CHANGES,
    KEY_NAMES,
    Anomaly,
    Blame,
    DeadLetterOutput,
    Evidence,
    Incident,
    Output,
    Progress,
    RankingOutput,
    ScoreOutput,
    anomaly_id,
    incident_id,
    read_output,
    write_output,
)

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
    id="5f0c",
    operator="gaussian",
    parameters={"context_s": 14400.0, "likelihood": "scale-free"},
    keyed_by="host",
    key="web-1",
    ts=1.7e9,
    score=2.5,
    ranking=RANKING,
    sentence="`hog` is most unlike itself.",
    model_age_s=3600.0,
    young=False,
    live=True,
    scope="process",
    blame=BLAME,
)
EVIDENCE = Evidence(
    "5f0c", "gaussian", "process", 1.6e9, math.nan, 2.5, young=False, sentence=ANOMALY.sentence, blame=BLAME
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
    "id": "5f0c",
    "operator": "gaussian",
    "parameters": {"context_s": 14400.0, "likelihood": "scale-free"},
    "host": "web-1",
    "score": 2.5,
    "ranking": ROWS,
    "sentence": "`hog` is most unlike itself.",
    "model_age_s": 3600.0,
    "young": False,
    "live": True,
    "scope": "process",
    "blame": BLAME_JSON,
}
EVIDENCE_JSON = {
    "anomaly": "5f0c",
    "operator": "gaussian",
    "scope": "process",
    "opened_ts": 1.6e9,
    "until_ts": None,
    "score": 2.5,
    "young": False,
    "sentence": "`hog` is most unlike itself.",
    "blame": BLAME_JSON,
}


# The fields of each kind are a promise to other people's tools.


@pytest.mark.parametrize(
    ("output", "written"),
    [
        (ANOMALY, ANOMALY_JSON),
        (
            Progress(
                "5f0c", "gaussian", ANOMALY.parameters, "application", "shop", 1.7e9, 2.5, RANKING, ANOMALY.sentence,
                3600.0, False, True, "process", None,
                change="extended", number=2, opened_ts=1.6e9, until_ts=1.7e9,
            ),
            {
                **{name: value for name, value in ANOMALY_JSON.items() if name != "host"},
                "kind": "progress", "application": "shop", "blame": None,
                "change": "extended", "number": 2, "opened_ts": 1.6e9, "until_ts": 1.7e9, "silent_since_ts": None,
            },
        ),
        (
            Incident(
                "1d", 3, "closed", 1.7e9, 1.6e9, 1.65e9, "host", "web-1", "gaussian", 2.5, BLAME, RANKING, "Over.",
                3600.0, young=False, live=True, evidence=(EVIDENCE,), left_out=1, merged_into="1c",
                silent_since_ts=1.66e9,
            ),
            {
                "kind": "incident", "ts": 1.7e9, "id": "1d", "number": 3, "change": "closed", "opened_ts": 1.6e9,
                "until_ts": 1.65e9, "operator": "gaussian", "host": "web-1", "score": 2.5, "blame": BLAME_JSON,
                "ranking": ROWS, "sentence": "Over.", "model_age_s": 3600.0, "young": False, "live": True,
                "evidence": [EVIDENCE_JSON], "left_out": 1, "merged_into": "1c",
                "silent_since_ts": 1.66e9,
            },
        ),
        (
            RankingOutput(1.7e9 + 2.0, "web-1", "checkout hangs", RANKING, "`hog` waits."),
            {
                "kind": "ranking", "ts": 1.7e9 + 2.0, "host": "web-1", "mark": "checkout hangs", "frame_ts": 1.7e9,
                "score": 2.5, "model_age_s": 3600.0, "young": False, "sentence": "`hog` waits.", "rows": ROWS,
            },
        ),
        (
            ScoreOutput(1.7e9, "covariance", "pool", "workers", math.nan),
            {"kind": "score", "ts": 1.7e9, "operator": "covariance", "pool": "workers", "score": None},
        ),
        (
            DeadLetterOutput(math.nan, "day.jsonl:17", "expected JSON"),
            {"kind": "dead_letter", "ts": None, "place": "day.jsonl:17", "reason": "expected JSON"},
        ),
    ],
)  # fmt: skip
def test_the_fields_of_each_kind(output: Output, written: dict[str, Any]) -> None:
    assert output.to_json() == written
    assert next(iter(output.to_json())) == "kind"
    assert json.loads(write_output(output)) == written
    assert read_output(json.dumps(written), PLACE).to_json() == written


# Any output.

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
TIMES = st.floats(0.0, 4e9)
NUMBERS = st.floats(allow_infinity=False)
FEATURES = st.builds(FeatureScore, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
PHASES = st.builds(Phase, st.booleans(), NUMBERS, NUMBERS, NUMBERS, st.integers(0, 1 << 40))
ROW_SCORES = st.builds(
    RowScore, TEXTS, TEXTS, NUMBERS, st.lists(FEATURES, max_size=2).map(tuple), NUMBERS, st.sampled_from(BASES),
    st.booleans(), st.just(0.0), st.lists(PHASES, max_size=2).map(tuple),
)  # fmt: skip
RANKINGS = st.builds(Ranking, NUMBERS, NUMBERS, st.lists(ROW_SCORES, max_size=2).map(tuple), NUMBERS, st.booleans())


BLAMES = st.none() | st.builds(
    Blame, TEXTS, TEXTS, TEXTS, NUMBERS, NUMBERS, NUMBERS, st.lists(TEXTS, max_size=2).map(tuple)
)
COUNTS = st.integers(1, (1 << 63) - 1)
EVIDENCES = st.builds(Evidence, TEXTS, TEXTS, TEXTS, TIMES, NUMBERS, NUMBERS, st.booleans(), TEXTS, BLAMES)


@st.composite
def anomalies(draw: st.DrawFn) -> Anomaly | Progress:
    ranking = replace(draw(RANKINGS), ts=draw(TIMES))
    parameters = draw(st.dictionaries(TEXTS, NUMBERS | TEXTS | st.booleans() | st.integers(), max_size=3))
    fields = (
        draw(TEXTS), draw(TEXTS), parameters, draw(st.sampled_from(KEY_NAMES)), draw(KEYS), ranking.ts, ranking.score,
        ranking, draw(TEXTS), ranking.age_s, ranking.young, draw(st.booleans()), draw(TEXTS), draw(BLAMES),
    )  # fmt: skip
    if draw(st.booleans()):
        return Anomaly(*fields)
    change = draw(st.sampled_from(ANOMALY_CHANGES))
    silent = draw(TIMES | st.just(math.nan))
    return Progress(
        *fields, change=change, number=draw(COUNTS), opened_ts=draw(TIMES), until_ts=draw(TIMES), silent_since_ts=silent
    )


@st.composite
def incidents(draw: st.DrawFn) -> Incident:
    ranking = replace(draw(RANKINGS), ts=draw(TIMES))
    return Incident(
        draw(TEXTS), draw(COUNTS), draw(st.sampled_from(CHANGES)), ranking.ts, draw(TIMES), draw(NUMBERS),
        draw(st.sampled_from(KEY_NAMES)), draw(KEYS), draw(TEXTS), ranking.score, draw(BLAMES), ranking, draw(TEXTS),
        ranking.age_s, ranking.young, draw(st.booleans()), draw(st.lists(EVIDENCES, max_size=2).map(tuple)),
        draw(COUNTS), draw(TEXTS), draw(NUMBERS),
    )  # fmt: skip


OUTPUTS = st.one_of(
    anomalies(),
    incidents(),
    st.builds(RankingOutput, TIMES, KEYS, TEXTS, RANKINGS, TEXTS),
    st.builds(ScoreOutput, TIMES, TEXTS, st.sampled_from(KEY_NAMES), KEYS, NUMBERS),
    st.builds(DeadLetterOutput, st.floats(allow_infinity=False), TEXTS, TEXTS),
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def read_or_refuse(text: str | bytes) -> Output | None:
    """Any other error than the one is for the test to fail on."""
    try:
        return read_output(text, PLACE)
    except RecordError as error:
        if error.place != PLACE or not str(error).isprintable():
            raise AssertionError(repr(str(error))) from error
        return None


@given(output=OUTPUTS)
def test_what_is_written_comes_back(output: Output) -> None:
    read = read_output(write_output(output), PLACE)
    # NaN differs from itself; the text that Python has for it does not.
    assert repr(read) == repr(output)


@given(output=OUTPUTS, name=st.text(max_size=5), value=JUNK, data=st.data())
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


def test_an_anomaly_of_an_older_laggard_says_neither_scope_nor_whom_to_blame() -> None:
    written = {name: value for name, value in ANOMALY_JSON.items() if name not in {"scope", "blame"}}
    assert read_output(json.dumps(written), PLACE).to_json() == written | {"scope": "", "blame": None}


@pytest.mark.parametrize(
    "told",
    [
        Incident(
            "1d", 3, "closed", 1.7e9, 1.6e9, 1.65e9, "host", "web-1", "gaussian", 2.5, BLAME, RANKING, "Over.",
            3600.0, young=False, live=True, evidence=(EVIDENCE,), silent_since_ts=1.66e9,
        ),
        Progress(
            "5f0c", "gaussian", ANOMALY.parameters, "application", "shop", 1.7e9, 2.5, RANKING, ANOMALY.sentence,
            3600.0, False, True, "process", None,
            change="ended", number=2, opened_ts=1.6e9, until_ts=1.65e9, silent_since_ts=1.66e9,
        ),
    ],
    ids=lambda each: each.kind,
)  # fmt: skip
def test_what_an_older_laggard_says_has_ended_was_seen_to(told: Incident | Progress) -> None:
    written = told.to_json()
    del written["silent_since_ts"]
    assert read_output(json.dumps(written), PLACE).to_json() == written | {"silent_since_ts": None}


def test_what_an_older_laggard_wrote_has_no_sentence_and_rows_with_a_past_that_wait_for_nobody() -> None:
    written = RankingOutput(1.7e9, "web-1", "slow", RANKING, "`hog` waits.").to_json()
    del written["sentence"]
    for name in ("basis", "waits"):
        del written["rows"][0][name]
    read = read_output(json.dumps(written), PLACE)
    assert isinstance(read, RankingOutput)
    assert (read.ranking.rows[0].basis, read.ranking.rows[0].waits, read.sentence) == ("itself", False, "")


def test_fields_that_are_not_known_are_passed_over() -> None:
    assert read_output(json.dumps(ANOMALY_JSON | {"severity": "high"}), PLACE).to_json() == ANOMALY_JSON


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


@pytest.mark.parametrize("name", [name for name in ANOMALY_JSON if name not in {"scope", "blame"}])
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
