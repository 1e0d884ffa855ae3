"""Models and predictions as they leave: their fields are a promise, and what is written comes back."""

from __future__ import annotations

import json
import math
from typing import get_args

import pytest
from hypothesis import strategies as st

from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.models import (
    CandidateOutput,
    Described,
    ModelOutput,
    PredictionOutput,
    Resource,
    TermOutput,
    model_id,
)
from laggard.pipeline.core.records.outputs import read_output
from tests.pipeline.core.records.conftest import (
    KEYS,
    NAMES,
    NUMBERS,
    TEXTS,
    TIMES,
    VALIDATORS,
)

WAIT = Described("web-1", "web-1/nginx", "cpu_wait_ratio", "cpu", "time that `nginx` on web-1 waited for a free CPU")
WAIT_JSON = {
    "host": "web-1",
    "row": "web-1/nginx",
    "feature": "cpu_wait_ratio",
    "resource": "cpu",
    "description": "time that `nginx` on web-1 waited for a free CPU",
}
MODEL = ModelOutput(
    1.7e9, model_id("shop", "response_time_mean_s", "laggard.applications[3]@1042"), "shop",
    "response_time_mean_s", "linear", "response_time_mean_s = 0.05 + 1.5 * web-1/nginx:cpu_wait_ratio",
    0.05, (TermOutput(WAIT, 1.5, ("web-1:load_1m",)),), 0.93, math.nan, 1.6e9, 1.7e9, 20, "first",
    (CandidateOutput(WAIT, -0.99, 1e-9),), live=True,
)  # fmt: skip
MODEL_JSON = {
    "kind": "model",
    "ts": 1.7e9,
    "id": "d4677f48-6a22-548d-a8de-060365826d59",
    "application": "shop",
    "performance": "response_time_mean_s",
    "type": "linear",
    "equation": "response_time_mean_s = 0.05 + 1.5 * web-1/nginx:cpu_wait_ratio",
    "intercept": 0.05,
    "terms": [WAIT_JSON | {"coefficient": 1.5, "family": ["web-1:load_1m"]}],
    "r2": 0.93,
    "p_value": None,
    "begin_ts": 1.6e9,
    "end_ts": 1.7e9,
    "samples": 20,
    "reason": "first",
    "candidates": [WAIT_JSON | {"r": -0.99, "p_value": 1e-9}],
    "live": True,
}
PREDICTION = PredictionOutput(1.7e9, "regression", "shop", "throughput_per_s", 840.0, math.nan, 0.5, 0.9)
PREDICTION_JSON = {
    "kind": "prediction",
    "ts": 1.7e9,
    "operator": "regression",
    "application": "shop",
    "performance": "throughput_per_s",
    "value": 840.0,
    "predicted": None,
    "p_value": 0.5,
    "r2": 0.9,
}
DESCRIBED = st.builds(Described, TEXTS, TEXTS, TEXTS, st.sampled_from(get_args(Resource)), TEXTS)
TERMS = st.builds(TermOutput, DESCRIBED, NUMBERS, st.lists(TEXTS, max_size=2).map(tuple))
CANDIDATES = st.builds(CandidateOutput, DESCRIBED, NUMBERS, NUMBERS)
MODELS = st.builds(
    ModelOutput, TIMES, st.builds(model_id, KEYS, NAMES, TEXTS), KEYS, NAMES, TEXTS, TEXTS, NUMBERS,
    st.lists(TERMS, max_size=2).map(tuple), NUMBERS, NUMBERS, TIMES, TIMES, st.integers(0, 1 << 40), NAMES,
    st.lists(CANDIDATES, max_size=2).map(tuple), st.booleans(),
)  # fmt: skip
PREDICTIONS = st.builds(PredictionOutput, TIMES, TEXTS, KEYS, NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)


def test_what_a_term_is_not() -> None:
    for wrong in ({"resource": "gpu"}, {"family": "x"}, {"coefficient": "1"}, {"host": None}):
        document = MODEL_JSON | {"terms": [MODEL_JSON["terms"][0] | wrong]}  # type: ignore[index]
        assert not VALIDATORS["model"].is_valid(document)
        with pytest.raises(RecordError, match=rf"field 'terms\[0\]\.{next(iter(wrong))}': expected "):
            read_output(json.dumps(document), "here")
