"""Any record and any output that there can be, what makes two of them the same, and the schemas to hold them to."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from deploy.generate.asyncapi import SCHEMAS
from laggard.operators.ranking import Basis, FeatureScore, Phase, Ranking, RowScore
from laggard.pipeline.core.records import (
    UNNUMBERED,
    Case,
    Feedback,
    Frame,
    Layout,
    Mark,
    Received,
    Request,
    Segment,
    Spent,
    Wish,
    make_layout,
    name_of,
)
from laggard.pipeline.core.records.declared import KEY_NAMES
from laggard.pipeline.core.records.feedback import KEYS as KEYED_BY
from laggard.pipeline.core.records.feedback import SAYS
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.json_lines import SCOPES
from laggard.pipeline.core.records.limits import MAX_PID, MAX_SEQUENCE, MAX_TS
from laggard.pipeline.core.records.outputs import (
    Anomaly,
    AnomalyChange,
    Blame,
    Change,
    Evidence,
    Excuse,
    Incident,
    Notice,
    NoticeChange,
    Output,
    Progress,
    RankingOutput,
    ScoreOutput,
    anomaly_id,
    incident_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NAMES = TEXTS.filter(bool) | st.sampled_from(
    ["nginx[4711@99]", "[kthreadd]", "kworker/0:1[12@3]", "host-3/worker", '"', "ts"]
)
KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
TIMES = st.floats(0.0, MAX_TS)
SEQUENCES = st.integers(UNNUMBERED, MAX_SEQUENCE)
AMOUNTS = st.dictionaries(NAMES, st.floats(0.0, allow_infinity=False), max_size=4)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    rows = draw(st.lists(NAMES, max_size=6, unique=True))
    count = len(rows)
    names = draw(st.just([name_of(row) for row in rows]) | st.lists(NAMES, min_size=count, max_size=count))
    texts: st.SearchStrategy[list[str]] = st.just([]) | st.lists(TEXTS, min_size=count, max_size=count)
    features = draw(st.lists(NAMES, max_size=5, unique=True))
    return make_layout(rows, names, features, draw(texts), users=draw(texts), containers=draw(texts))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    keyed_by = draw(st.sampled_from(list(SCOPES)))
    key = draw(KEYS)
    layout = draw(layouts())
    if draw(st.booleans()):
        layout = make_layout([key], [key], layout.features)
    shape = len(layout.rows), len(layout.features)
    # Any bits, so that there are all kinds of NaN; and numbers as they occur.
    size = shape[0] * shape[1]
    values = np.frombuffer(
        draw(
            st.binary(min_size=size * 8, max_size=size * 8)
            | st.lists(st.floats(), min_size=size, max_size=size).map(lambda each: np.array(each, "<f8").tobytes())
        ),
        "<f8",
    ).reshape(shape)
    return Frame(
        keyed_by,
        key,
        draw(st.sampled_from(["process", "host", "performance", "member"]) | KEYS),
        draw(TIMES),
        draw(SEQUENCES),
        layout,
        values,
        tuple(draw(st.lists(KEYS, max_size=3, unique=True))) if keyed_by != "host" else (),
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    amounts = st.floats(0.0, allow_infinity=False)
    threads = tuple(draw(st.lists(NAMES, max_size=3)))
    spans = st.tuples(amounts, amounts).map(sorted)
    pieces = st.builds(
        lambda thread, span, state, detail: Segment(thread, span[0], span[1], state, detail),
        st.integers(0, max(len(threads) - 1, 0)), spans, NAMES, TEXTS,
    )  # fmt: skip
    spent = st.builds(
        Spent, NAMES, TEXTS, TEXTS, TEXTS, st.integers(0, MAX_PID), TEXTS, st.integers(0, MAX_SEQUENCE), amounts
    )
    return Request(
        draw(KEYS),
        draw(TIMES),
        draw(NAMES),
        draw(amounts),
        draw(AMOUNTS),
        draw(AMOUNTS),
        tuple(draw(st.lists(NAMES, max_size=4))),
        draw(SEQUENCES),
        draw(st.just("") | KEYS),
        draw(TEXTS),
        draw(AMOUNTS),
        tuple(draw(st.lists(spent, max_size=3))),
        threads,
        tuple(draw(st.lists(pieces, max_size=3))) if threads else (),
        tuple(draw(st.lists(NAMES, max_size=2))),
    )


st.register_type_strategy(Layout, layouts())
st.register_type_strategy(Frame, frames())
st.register_type_strategy(Mark, st.builds(Mark, KEYS, TIMES, TEXTS, SEQUENCES))
st.register_type_strategy(
    Request,
    requests(),
)  # fmt: skip
st.register_type_strategy(
    Wish,
    st.builds(
        Wish, KEYS, TIMES, st.builds("{}:{}".format, NAMES, NAMES.filter(lambda name: ":" not in name)),
        st.sampled_from(["pin", "ban", "free"]), SEQUENCES,
    ),
)  # fmt: skip


CASES = st.builds(
    Case, TEXTS, st.lists(NAMES, max_size=2).map(tuple), TEXTS, st.floats(0.0, allow_infinity=False) | st.just(math.nan)
)


@st.composite
def feedback(draw: st.DrawFn) -> Feedback:
    says = draw(st.sampled_from(SAYS))
    return Feedback(
        draw(st.sampled_from(KEYED_BY)), draw(KEYS), draw(TIMES), draw(NAMES), says,
        tuple(draw(st.lists(CASES, max_size=3))), draw(TIMES) if says == "expected" else math.nan, draw(TEXTS),
        draw(TEXTS), draw(SEQUENCES),
    )  # fmt: skip


st.register_type_strategy(Feedback, feedback())
RECORDS = st.one_of(*map(st.from_type, (Frame, Mark, Request, Wish, Feedback)))
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
"""Any JSON, and more."""


def unnumbered(said: Feedback) -> Feedback:
    """As it is told: without its number."""
    return replace(said, sequence=UNNUMBERED)


# Outputs. NaN is written as null and comes back; so is what is infinite, which does not.

NUMBERS = st.floats(allow_infinity=False)
AGES = st.floats(0.0, allow_infinity=False) | st.just(math.nan)
COUNTS = st.integers(1, (1 << 63) - 1)
UNTIL = TIMES | st.just(math.nan)
FEATURES = st.builds(FeatureScore, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
PHASES = st.builds(Phase, st.booleans(), TIMES, TIMES, NUMBERS, st.integers(0, 1 << 40))
ROWS = st.builds(
    RowScore, TEXTS, TEXTS, NUMBERS, st.lists(FEATURES, max_size=3).map(tuple), AGES, st.sampled_from(get_args(Basis)),
    st.booleans(), st.just(0.0), st.lists(PHASES, max_size=2).map(tuple),
)  # fmt: skip
RANKINGS = st.builds(Ranking, UNTIL, NUMBERS, st.lists(ROWS, max_size=3).map(tuple), AGES, st.booleans())
BLAMES = st.none() | st.builds(
    Blame, TEXTS, TEXTS, TEXTS, NUMBERS, NUMBERS, NUMBERS, st.lists(TEXTS, max_size=2).map(tuple)
)
IDS = st.builds(anomaly_id, TEXTS, KEYS, TEXTS)
SCORES = st.floats(1.0, exclude_min=True, allow_infinity=False) | st.just(math.nan)
FOUND: dict[str, st.SearchStrategy[Any]] = {
    "id": IDS,
    "operator": TEXTS,
    "parameters": st.dictionaries(TEXTS, NUMBERS | TEXTS | st.booleans() | st.integers(), max_size=3),
    "keyed_by": st.sampled_from(KEY_NAMES),
    "key": KEYS,
    "sentence": TEXTS,
    "live": st.booleans(),
    "scope": TEXTS,
    "blame": BLAMES,
    "onset_ts": UNTIL,
}
"""What it says of itself beside what its ranking says."""


@st.composite
def found(draw: st.DrawFn, /, kind: Any, **more: st.SearchStrategy[Any]) -> Any:
    """An anomaly, or what becomes of one, of any ranking."""
    ranking = draw(st.builds(Ranking, TIMES, SCORES, st.lists(ROWS, max_size=3).map(tuple), AGES, st.booleans()))
    names = {each.name for each in fields(kind)}
    given = {name: draw(each) for name, each in (FOUND | more).items() if name in names}
    own = {"ts": ranking.ts, "score": ranking.score, "model_age_s": ranking.age_s, "young": ranking.young}
    return kind(**given, **own, ranking=ranking)


OUTPUTS: st.SearchStrategy[Output] = st.one_of(
    found(Anomaly),
    found(
        Progress, change=st.sampled_from(get_args(AnomalyChange)), number=COUNTS, opened_ts=TIMES, until_ts=TIMES,
        silent_since_ts=UNTIL, accepted=st.booleans(), feedback=st.sampled_from(get_args(Excuse)),
    ),
    found(Notice, change=st.sampled_from(get_args(NoticeChange)), opened_ts=TIMES, until_ts=TIMES, became=TEXTS),
    found(
        Incident, id=st.builds(incident_id, TEXTS), change=st.sampled_from(get_args(Change)), number=COUNTS,
        opened_ts=TIMES, until_ts=UNTIL, silent_since_ts=UNTIL, left_out=COUNTS, merged_into=TEXTS,
        accepted=st.booleans(), feedback=st.sampled_from(get_args(Excuse)),
        evidence=st.lists(
            st.builds(Evidence, IDS, TEXTS, TEXTS, TIMES, UNTIL, SCORES, st.booleans(), TEXTS, BLAMES),
            min_size=1, max_size=3,
        ).map(tuple),
    ),
    st.builds(FeedbackOutput.of, feedback().map(unnumbered), TEXTS, live=st.booleans()),
    st.builds(RankingOutput.of, TIMES, KEYS, TEXTS, RANKINGS, TEXTS),
    st.builds(
        ScoreOutput, ts=TIMES, operator=TEXTS, keyed_by=st.sampled_from(KEY_NAMES), key=KEYS, request=TEXTS,
        score=NUMBERS
    ),
)  # fmt: skip


def closed(schema: Any) -> Any:
    """The schema without its openness to fields that later versions may add."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    same = {name: closed(each) for name, each in schema.items()}
    return {"additionalProperties": False, **same} if schema.get("type") == "object" else same


VALIDATORS = {
    kind: Draft202012Validator(closed(schema), format_checker=FormatChecker(["uuid", "date-time"]))
    for kind, schema in SCHEMAS.items()
}


@pytest.fixture(scope="session")
def parts() -> Callable[[Received], list[Any]]:
    """What a record is made of, each part as what can be compared: two records with the same parts are the same."""

    def of(value: Any) -> Any:
        match value:
            case Frame() | Layout() | Mark() | Request() | Wish() | Feedback():
                return [type(value).__name__, *(of(getattr(value, field.name)) for field in fields(value))]
            case np.ndarray():
                return value.shape, value.dtype.str, value.tobytes()
            case float():
                return value.hex()
            case dict():
                return [(name, of(each)) for name, each in value.items()]
        return value

    return of
