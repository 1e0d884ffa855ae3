"""What is said of pools as it leaves: its fields are a promise, and what is written comes back."""

from __future__ import annotations

import json
import math
import re
from typing import Any, get_args

import pytest
from hypothesis import strategies as st

from laggard.operators.ranking import FeatureScore, Kind
from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.declared import shape_of
from laggard.pipeline.core.records.outputs import read_output
from laggard.pipeline.core.records.pools import Leaf, LevelOutput, Merge, PoolOutput, Ranked, pool_id
from tests.pipeline.core.records.conftest import (
    AGES,
    FEATURES,
    KEYS,
    NAMES,
    NUMBERS,
    TEXTS,
    TIMES,
    UNTIL,
)

POOL = PoolOutput(
    id=pool_id("covariance", "workers", "laggard.pools[3]@1042"),
    ts=1.7e9,
    operator="covariance",
    pool="workers",
    members=3,
    age_s=3600.0,
    young=False,
    whole=True,
    ranking=(
        Ranked(
            ("w-1[7@9]",), "w-1", "leak", 2.5, 4.0, 99.0, 1.6e9, math.nan, 48, "",
            (FeatureScore("memory_rss_bytes", 1.9e9, 2.1e8, 1.2e7, 9.0),), "`w-1` leaks.",
        ),
    ),
    levels=(LevelOutput(
            "",
            (Leaf("w-1", 1, 1, "leak"), Leaf("w-2"), Leaf("w-3", 2, height=0.25)),
            (Merge(1, 2, 0.5, 3), Merge(0, 3, 4.0, 4)),
            (80.0, math.nan),
        ),
    ),
    live=False,
)  # fmt: skip
POOL_JSON: dict[str, Any] = {
    "kind": "pool",
    "ts": 1.7e9,
    "id": "68142fc6-29cd-5a85-8886-5e6fb6a3773f",
    "operator": "covariance",
    "pool": "workers",
    "members": 3,
    "age_s": 3600.0,
    "young": False,
    "whole": True,
    "ranking": [
        {
            "rows": ["w-1[7@9]"],
            "name": "w-1",
            "kind": "leak",
            "score": 2.5,
            "height": 4.0,
            "p_value": 99.0,
            "begin_ts": 1.6e9,
            "end_ts": None,
            "window": 48,
            "level": "",
            "features": [
                {
                    "feature": "memory_rss_bytes",
                    "value": 1.9e9,
                    "mean": 2.1e8,
                    "standard_deviation": 1.2e7,
                    "score": 9.0,
                }
            ],
            "sentence": "`w-1` leaks.",
        }
    ],
    "levels": [
        {
            "path": "",
            "leaves": [
                {"label": "w-1", "members": 1, "deviating": 1, "kind": "leak", "height": 0.0},
                {"label": "w-2", "members": 1, "deviating": 0, "kind": "", "height": 0.0},
                {"label": "w-3", "members": 2, "deviating": 0, "kind": "", "height": 0.25},
            ],
            "merges": [[1, 2, 0.5, 3], [0, 3, 4.0, 4]],
            "p_values": [80.0, None],
        }
    ],
    "live": False,
}
PERCENT = st.floats(0.0, 100.0) | st.just(math.nan)
RANKED = st.builds(
    Ranked, st.lists(NAMES, min_size=1, max_size=3).map(tuple), TEXTS, st.sampled_from(get_args(Kind)), NUMBERS,
    NUMBERS, PERCENT, UNTIL, UNTIL, st.integers(0, 1 << 40), TEXTS, st.lists(FEATURES, max_size=2).map(tuple), TEXTS,
)  # fmt: skip


LEAVES = st.builds(
    Leaf, NAMES, st.integers(1, 1000), st.integers(0, 1000), st.sampled_from(("", *get_args(Kind))), NUMBERS
)  # fmt: skip


@st.composite
def levels(draw: st.DrawFn) -> LevelOutput:
    leaves = draw(st.lists(LEAVES, max_size=4).map(tuple))
    free, merges = list(range(len(leaves))), []
    for number in range(len(leaves), 2 * len(leaves) - 1):
        first, second = (free.pop(draw(st.integers(0, len(free) - 1))) for _ in range(2))
        merges.append(Merge(first, second, draw(NUMBERS), draw(st.integers(0, 9))))
        free.append(number)
    return LevelOutput(draw(TEXTS), leaves, tuple(merges), tuple(draw(PERCENT) for _ in merges))


POOLS = st.builds(
    PoolOutput, TIMES, st.builds(pool_id, TEXTS, KEYS, TEXTS), TEXTS, KEYS, st.integers(0, 1000),
    AGES, st.booleans(), st.booleans(), st.lists(RANKED, max_size=2).map(tuple),
    st.lists(levels(), max_size=2).map(tuple), st.booleans(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "wrong", "said"),
    [
        ("ranking", {"kind": "odd"}, r"ranking\[0\]\.kind': expected 'spike' or 'busy'"),
        ("ranking", {"rows": "w"}, r"ranking\[0\]\.rows': expected a list of at most"),
        ("ranking", {"features": [{}]}, r"ranking\[0\]\.features\[0\]\.feature': expected text"),
        ("levels", {"merges": [[1, 2, 0.5]]}, r"levels\[0\]\.merges': expected a list of lists of 4 numbers"),
        ("levels", {"merges": [[1, 2, 0.5, 2]]}, r"levels\[0\]\.merges': expected one less than leaves, 2"),
        ("levels", {"merges": [[1, 3, 0.5, 2], [0, 3, 4.0, 3]]}, "expected numbers of leaves, and of clusters"),
        ("levels", {"merges": [[1, None, 0.5, 2], [0, 3, 4.0, 3]]}, "expected numbers of leaves, and of clusters"),
        ("levels", {"merges": [[1, 2, 0.5, 1.5], [0, 3, 4.0, 3]]}, "expected numbers of members"),
        ("levels", {"merges": [[1, 2, "x", 2], [0, 3, 4.0, 3]]}, r"merges\[0\]': expected a list of numbers"),
        ("levels", {"p_values": [1.0]}, r"levels\[0\]\.p_values': expected as many as merges, 2"),
        ("levels", {"merges": [[1, 2, 0.5, 2], [1, 3, 4.0, 3]]}, "made before, each merged once"),
        ("levels", {"merges": [[1, 1, 0.5, 2], [0, 3, 4.0, 3]]}, "made before, each merged once"),
        ("levels", {"leaves": POOL_JSON["levels"][0]["leaves"] * 22}, r"levels\[0\]\.leaves': expected at most 64"),
        ("levels", {"leaves": [{"label": 1}]}, r"leaves\[0\]\.label': expected text"),
    ],
)
def test_what_is_not_like_a_pool_is_refused_by_name(field: str, wrong: dict[str, Any], said: str) -> None:
    (document,) = POOL_JSON[field]
    with pytest.raises(RecordError, match=said):
        read_output(json.dumps(POOL_JSON | {field: [document | wrong]}), "here")


def test_every_kind_is_explained() -> None:
    described = shape_of(Ranked).schema()["properties"]["kind"]["description"]
    assert set(re.findall(r"`(\w+)`", described)) == set(get_args(Kind))
