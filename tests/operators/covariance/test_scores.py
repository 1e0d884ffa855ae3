from __future__ import annotations

import math

from laggard.operators.covariance.present import Candidate, Scores
from laggard.operators.covariance.results import Deviation


def test_who_is_only_younger_is_no_anomaly_however_far_out() -> None:
    nan = math.nan
    younger = Deviation(("w",), "w", "younger", 1.0, (), nan, nan, 12, nan, nan, "", 60.0)
    rows = [Candidate("w", "w", 1.7, 60.0, tuple), Candidate("v", "v", 0.4, 900.0, tuple)]
    assert Scores(0.0, rows, (younger,), 2, 900.0, young=False).score == 1.0
    assert Scores(0.0, rows[1:], (), 2, 900.0, young=False).score == 0.4
    assert Scores(0.0, [], (), 0, 0.0, young=True).score == 0.0
