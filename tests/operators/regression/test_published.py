"""The published method to the letter, beside a plain transcription of Algorithms 1 and 2 and section 2.3."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import pearsonr, ttest_ind

from laggard.operators.regression import Regression

from .slow_climb import slow_climb
from .streams import RT, THR, Interval, run, stream

WINDOW, CANDIDATES, GAIN, SIGNIFICANCE = 10, 12, 0.01, 0.05


class Built(NamedTuple):
    """A model of the transcription."""

    at: int
    candidates: list[str]
    predictors: list[str]
    r2: float
    coefficients: list[float]
    p_value: float


def transcription(intervals: list[Interval], performance: str, window: int = WINDOW) -> list[Built]:
    ids = intervals[0][1].ids
    metrics = np.array([values for _, _, values, _ in intervals])
    perf = np.array([each[performance] for _, _, _, each in intervals])
    found: list[Built] = []
    predictors: list[int] = []
    b = before = residuals = np.empty(0)
    for t in range(len(intervals)):
        p_value = np.nan
        if found:
            # Section 2.3: are the residuals of W(t) and those of W(t') of the same mean?
            residuals = np.append(residuals, perf[t] - (b[0] + metrics[t, predictors] @ b[1:]))[-window:]
            p_value = float(ttest_ind(before, residuals, equal_var=False).pvalue)
            if not p_value < SIGNIFICANCE:
                continue
        elif t + 1 < window:
            continue
        m, y = metrics[t + 1 - window : t + 1], perf[t + 1 - window : t + 1]
        # Algorithm 1.
        tested = [(at, pearsonr(m[:, at], y)) for at in range(len(ids)) if np.isfinite(m[:, at]).all()]
        best = sorted(tested, key=lambda each: (-abs(each[1].statistic), each[1].pvalue))[:CANDIDATES]
        # Algorithm 2.
        predictors, r2 = slow_climb(m, y, [at for at, _ in best], minimum_gain=GAIN, most=window - 2)
        design = np.column_stack((np.ones(window), m[:, predictors]))
        b = np.linalg.lstsq(design, y, rcond=None)[0]
        before = residuals = y - design @ b
        kept, chosen = [ids[at] for at, _ in best], [ids[at] for at in predictors]
        found.append(Built(t, kept, chosen, r2, b.tolist(), p_value))
    return found


@pytest.mark.parametrize("performance", [RT, THR])
@pytest.mark.parametrize(("seed", "window"), [(1, 10), (2, 10), (3, 20)])
def test_it_is_the_transcription(performance: str, seed: int, window: int) -> None:
    intervals = stream(90, seed, change=50)
    for at in (30, 31, 60):
        intervals[at][2][7] = np.nan
    expected = transcription(intervals, performance, window)
    operator = Regression(
        performance=(performance,), candidates=CANDIDATES, window=window, method="published", history=window
    )
    models = [(at, model) for at, (_, built) in enumerate(run(operator, intervals)) for model in built]
    assert [at for at, _ in models] == [each.at for each in expected]
    assert len(models) >= 2
    for (_, model), each in zip(models, expected, strict=True):
        assert [candidate.metric for candidate in model.candidates] == each.candidates
        assert [term.metric for term in model.terms] == each.predictors
        assert model.r2 == pytest.approx(each.r2, rel=1e-9)
        np.testing.assert_allclose(
            [model.intercept, *(term.coefficient for term in model.terms)], each.coefficients, rtol=1e-6
        )
        assert model.p_value == pytest.approx(each.p_value, rel=1e-6, nan_ok=True)
        assert (model.samples, model.end_ts - model.begin_ts) == (window, 60.0 * (window - 1))


def test_predictions_and_p_values_are_told_with_each_interval() -> None:
    intervals = stream(40, 4)
    operator = Regression(performance=(RT,), method="published")
    judged = [judgement for judgement, _ in run(operator, intervals)]
    assert all(not judgement.predictions for judgement in judged[:10])
    model = operator.models[RT]
    since = next(at for at, interval in enumerate(intervals) if interval[0] == model.end_ts) + 1
    for judgement, (_, names, values, performance) in zip(judged[since:], intervals[since:], strict=True):
        (prediction,) = judgement.predictions
        assert prediction.value == performance[RT]
        assert prediction.predicted == pytest.approx(model.predict(dict(zip(names.ids, values.tolist(), strict=True))))
        assert 0.05 <= prediction.p_value <= 1.0


def test_the_criterion_r2_rebuilds_where_the_model_predicts_too_little_of_the_variance() -> None:
    intervals = stream(80, 5, change=40)
    operator = Regression(performance=(RT,), method="published", criterion="r2")
    for at, (judgement, built) in enumerate(run(operator, intervals)):
        if at >= 10:
            (prediction,) = judgement.predictions
            assert bool(built) == (prediction.r2 < 0.8)
            assert {model.reason for model in built} <= {"poor"}


def test_without_a_change_the_test_rejects_models_at_its_known_rate() -> None:
    # Adjacent windows are tested at every interval, so far more than 5 % of models fall: the budget is for that.
    built = sum(len(models) for _, models in run(Regression(performance=(RT,), method="published"), stream(400, 6)))
    assert 5 < built < 200


@pytest.mark.parametrize("constant", [0.0, 0.3, -7.1, 1e9, 1e-9])
def test_a_response_time_that_never_varies_has_one_model_of_nothing(constant: float) -> None:
    intervals = [(ts, names, values, {RT: constant}) for ts, names, values, _ in stream(60, 7)]
    operator = Regression(performance=(RT,), method="published")
    built = [model for _, models in run(operator, intervals) for model in models]
    assert len(built) == 1
    assert built[0].terms == ()
    assert built[0].intercept == pytest.approx(constant)
