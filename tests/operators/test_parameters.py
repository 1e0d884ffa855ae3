"""Parameters that make no sense are refused before any data, each by its name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from laggard.operators.calibration import Calibration
from laggard.operators.covariance import Covariance
from laggard.operators.cpu import Cpu
from laggard.operators.gaussian import Gaussian
from laggard.operators.regression import Regression
from laggard.operators.requests.detector import Requests


@pytest.mark.parametrize(
    ("refuses", "parameters", "said"),
    [
        (Gaussian, {"likelihood": "x"}, "expected"),
        (Gaussian, {"context_s": 0.0}, "expected"),
        (Gaussian, {"minimum_features": 0}, "expected"),
        (Gaussian, {"evidence_s": -1.0}, "expected"),
        (Gaussian, {"false_alarms_per_day": 0.0}, "expected"),
        (Calibration, {"per_day": 0.0}, "expected"),
        (Calibration, {"per_day": math.nan}, "expected"),
        (Calibration, {"memory_s": -1.0}, "expected"),
        (Calibration, {"prior": (1.0, 0.0)}, "expected"),
        (Calibration, {"prior_s": 0.0}, "expected"),
        (Cpu, {"conditions": ["cpu", "disk"]}, "conditions: expected some of cpu, single_cpu, .*, got disk"),
        (Cpu, {"conditions": []}, "conditions: expected at least one"),
        (Cpu, {"threshold": 0.0}, "threshold: expected a number above 0, got 0"),
        (Cpu, {"duration_s": 0.0}, "duration_s: expected a time above 0, got 0"),
        (
            Cpu,
            {"conditions": ["spikes"], "thresholds": {"spikes": 1 / 120}},
            "spikes: expected more than one in 120 s, as each alone would be frequent, got 0.0083",
        ),
        (Cpu, {"smoothing": "median"}, "smoothing: expected none, mean or trimmed, got 'median'"),
        (Cpu, {"smoothing": "mean", "window_s": 0.0}, "window_s: expected a time above 0, got 0"),
        (Covariance, {"method": "another"}, "expected 'adaptive' or 'published', got 'another'"),
        (Covariance, {"windows": ()}, r"windows: expected lengths of 4 ticks and more, growing, got \[\]"),
        (Covariance, {"windows": (3, 12)}, r"got \[3, 12\]"),
        (Covariance, {"windows": (12, 6)}, r"got \[12, 6\]"),
        (Covariance, {"windows": (6, 6)}, r"got \[6, 6\]"),
        (Covariance, {"false_alarms_per_day": 0.0}, "false_alarms_per_day=0.0"),
        (Covariance, {"false_alarms_per_day": math.nan}, "false_alarms_per_day=nan"),
        (Covariance, {"replicates": -1}, "replicates=-1"),
        (Covariance, {"limit": 2}, "limit=2"),
        (Regression, {"candidates": 0}, "expected .*candidates=0"),
        (Regression, {"window": 3}, "expected .*window=3"),
        (Regression, {"history": 9}, "expected .*history=9"),
        (Regression, {"limit": 0}, "expected .*limit=0"),
        (Regression, {"significance": 1.0}, "expected .*significance=1.0"),
        (Regression, {"minimum_gain": -0.1}, "expected .*minimum_gain=-0.1"),
        (Regression, {"kind": "cubic"}, "expected .*kind='cubic'"),
        (Regression, {"method": "other"}, "expected .*method='other'"),
        (Regression, {"criterion": "aic"}, "expected .*criterion='aic'"),
        (Requests, {"eps_s": 0.0}, "expected"),
        (Requests, {"minimum_points": 0}, "expected"),
        (Requests, {"reference": 50}, "expected"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or ("" if isinstance(value, str) else str(value)),
)
def test_parameters_that_make_no_sense_are_refused(refuses: type, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        refuses(**parameters)
