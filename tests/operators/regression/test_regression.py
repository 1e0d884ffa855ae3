"""What the operator makes of applications: wishes, questions, gaps, limits, a bottleneck that comes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from laggard.operators.regression import Regression
from laggard.operators.regression.models import KINDS, Kind

from .streams import RT, THR, Names, run, stream, trait

BUSY, QUEUE = "web-1:cpu_busy_ratio", "db-1:disk_queue_length"
METHODS = ("adaptive", "published")


def made(method: str, kind: Kind = "linear") -> Regression:
    return Regression(
        trait=trait, kind=kind, method="published" if method == "published" else "adaptive", candidates=12
    )


def metrics(operator: Regression) -> list[str]:
    """All that the models name, but for what phase 1 found."""
    return [name for model in operator.models.values() for term in model.terms for name in (term.metric, *term.family)]


def test_a_neighbor_that_uses_the_disk_is_named_within_three_intervals() -> None:
    operator = made("adaptive")
    intervals = stream(80, 1, change=50)
    run(operator, intervals[:50])
    found = run(operator, intervals[50:53])
    assert max(judgement.score for judgement, _ in found) > 1.0
    assert any(model.performance == RT for _, built in found for model in built)
    run(operator, intervals[53:60])
    assert [term.metric for term in operator.models[RT].terms] == [QUEUE]
    suspect = operator.suspects()[0]
    assert suspect.metric == QUEUE
    assert suspect.value == pytest.approx(intervals[59][2][intervals[59][1].ids.index(QUEUE)])
    assert suspect.score > 4.0
    judgement = operator.score(*intervals[60])
    assert judgement.age_s == 3600.0
    assert not judgement.young


def test_an_application_is_young_for_three_windows() -> None:
    operator = made("adaptive")
    intervals = stream(40, 1)
    run(operator, intervals[:29])
    assert operator.score(*intervals[29]).young
    run(operator, intervals[29:30])
    assert not operator.score(*intervals[30]).young


def test_a_metric_that_moved_as_if_nothing_were_short_is_no_suspect() -> None:
    """A pinned one stays in the model, though the disk is the cause."""
    operator = made("adaptive")
    intervals = stream(60, 1, change=50)
    operator.pin(BUSY)
    run(operator, intervals[:59])
    assert next(term.metric for term in operator.models[RT].terms) == BUSY
    ts, names, values, performance = intervals[59]
    values = values.copy()
    values[list(names.ids).index(BUSY)] = 0.0
    operator.learn(ts, names, values, performance)
    assert BUSY in {term.metric for term in operator.models[RT].terms}
    assert BUSY not in {suspect.metric for suspect in operator.suspects()}
    assert QUEUE in {suspect.metric for suspect in operator.suspects()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_each_kind_predicts_and_says_what_it_can(method: str, kind: Kind) -> None:
    operator = Regression(
        performance=(RT,),
        trait=trait,
        kind=kind,
        method="published" if method == "published" else "adaptive",
        candidates=3,
        window=20,
    )
    intervals = stream(30, 2)
    errors = []
    for interval in intervals:
        judgement = operator.score(*interval)
        errors += [each.predicted / each.value - 1.0 for each in judgement.predictions]
        operator.learn(*interval)
    model = operator.models[RT]
    assert (model.kind, model.performance, model.reason in {"first", "changed", "grown"}) == (kind, RT, True)
    assert model.terms
    coefficients = [model.intercept, *(term.coefficient for term in model.terms)]
    assert np.isfinite(coefficients).all() == (kind == "linear")
    assert np.abs(errors).mean() < 0.15
    ids, values = intervals[0][1].ids, intervals[-1][2]
    newest = dict(zip(ids, values.tolist(), strict=True))
    same = operator.what_if(RT, model.terms[0].metric, newest[model.terms[0].metric])
    assert same == operator.score(*intervals[-1]).predictions[0].predicted


@pytest.mark.parametrize("method", METHODS)
def test_what_if_is_the_equation_with_another_value(method: str) -> None:
    operator = made(method)
    assert math.isnan(operator.what_if(RT, BUSY, 0.5))
    intervals = stream(10, 3)
    run(operator, intervals)
    model = operator.models[RT]
    values = dict(zip(intervals[-1][1].ids, intervals[-1][2].tolist(), strict=True))
    term = model.terms[0]
    expected = model.predict(values | {term.metric: 1.7})
    assert operator.what_if(RT, term.metric, 1.7) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"expected a metric of the model \(.*\), got 'web-1/other-1:value'"):
        operator.what_if(RT, "web-1/other-1:value", 1.0)
    with pytest.raises(KeyError):
        operator.what_if("errors_per_s", BUSY, 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_pinned_metric_is_in_every_model_of_a_response_time_and_a_banned_one_in_none(method: str) -> None:
    operator = made(method)
    operator.pin("web-1/other-5:value")
    operator.ban(BUSY)
    operator.ban("db-1:cpu_busy_ratio")
    assert (operator.pinned, operator.banned) == (("web-1/other-5:value",), ("db-1:cpu_busy_ratio", BUSY))
    for _, built in run(operator, stream(90, 4, change=50)):
        for model in built:
            pinned = [at for at, term in enumerate(model.terms) if term.metric == "web-1/other-5:value"]
            assert pinned == ([0] if model.performance == RT else [])
            named = {term.metric for term in model.terms} | {each for term in model.terms for each in term.family}
            assert not {BUSY, "db-1:cpu_busy_ratio"} & (named | {each.metric for each in model.candidates})
    assert len(operator.models) == 2


@pytest.mark.parametrize("method", METHODS)
def test_a_wish_is_followed_at_the_next_interval_and_ends_when_it_is_freed(method: str) -> None:
    operator = made(method)
    intervals = stream(40, 5)
    run(operator, intervals[:25])
    first = metrics(operator)
    banned = operator.models[RT].terms[0].metric
    operator.ban(banned)
    built = operator.learn(*intervals[25])
    assert {model.reason for model in built} <= {"wish", "changed", "grown"}
    assert {model.performance for model in built} == {RT, THR}
    assert banned in first
    assert banned not in metrics(operator)
    operator.pin(banned)
    assert (operator.pinned, operator.banned) == ((banned,), ())
    operator.learn(*intervals[26])
    assert operator.models[RT].terms[0].metric == banned
    operator.free(banned)
    assert (operator.pinned, operator.banned) == ((), ())
    assert operator.learn(*intervals[27])


@pytest.mark.parametrize("method", METHODS)
def test_a_pinned_metric_that_is_not_there_is_waited_for(method: str) -> None:
    operator = made(method)
    operator.pin("web-9:cpu_busy_ratio")
    run(operator, stream(30, 6))
    assert operator.models[RT].terms
    assert "web-9:cpu_busy_ratio" not in metrics(operator)


@pytest.mark.parametrize("method", METHODS)
def test_when_a_metric_of_the_model_vanishes_another_takes_its_place(method: str) -> None:
    operator = made(method)
    intervals = stream(60, 7)
    run(operator, intervals[:30])
    gone = operator.models[RT].terms[0].metric
    names = intervals[0][1]
    kept = [at for at, name in enumerate(names.ids) if name != gone]
    fewer = Names(tuple(names.ids[at] for at in kept))
    answers = run(operator, [(ts, fewer, values[kept], told) for ts, _, values, told in intervals[30:]])
    model = operator.models[RT]
    assert gone not in [term.metric for term in model.terms]
    assert model.terms
    assert math.isnan(next(each.predicted for each in answers[0][0].predictions if each.performance == RT))
    assert math.isfinite(next(each.predicted for each in answers[-1][0].predictions if each.performance == RT))


@pytest.mark.parametrize("method", METHODS)
def test_when_all_metrics_are_gone_the_model_is_of_nothing_and_comes_back_with_them(method: str) -> None:
    operator = made(method)
    intervals = stream(160, 8)
    run(operator, intervals[:20])
    nothing = Names(())
    run(operator, [(ts, nothing, np.empty(0), told) for ts, _, _, told in intervals[20:120]])
    assert operator.models[RT].terms == ()
    assert operator.models[RT].intercept == pytest.approx(np.mean([each[3][RT] for each in intervals]), rel=0.3)
    for interval in intervals[120:]:
        operator.learn(*interval)
    if operator.models[RT].end_ts < intervals[120][0]:
        operator.pin(BUSY)
        operator.learn(*intervals[-1])
    assert math.isfinite(operator.score(*intervals[-1]).predictions[0].predicted)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [math.nan, 0.0, 0.25, -1.0])
def test_a_response_time_that_is_missing_nothing_constant_or_negative_is_never_slow(method: str, value: float) -> None:
    operator = made(method)
    for ts, names, values, told in stream(60, 9):
        judgement = operator.score(ts, names, values, {**told, RT: value})
        assert 0.0 <= judgement.score < 1.0
        assert judgement.suspects == ()
        operator.learn(ts, names, values, {**told, RT: value})
    assert (RT in operator.models) == math.isfinite(value)
    if RT in operator.models:
        assert operator.models[RT].terms == ()
        assert operator.models[RT].intercept == pytest.approx(value)


def test_of_more_metrics_than_the_limit_the_first_are_kept_and_the_others_counted() -> None:
    operator = Regression(performance=(RT,), limit=10)
    intervals = stream(40, 10)
    run(operator, intervals[:20])
    assert operator.refused == len(intervals[0][1].ids) - 10
    known = set(intervals[0][1].ids[:10])
    assert {each.metric for each in operator.models[RT].candidates} <= known
    few = Names(("web-1/new:value",))
    run(operator, [(ts, few, values[:1], told) for ts, _, values, told in intervals[20:]])
    assert operator.refused == 1, "those that are in samples of the window still keep their places"
    for at in range(200):
        operator.learn(9e3 + 60.0 * at, few, np.ones(1), {RT: 0.1})
    assert operator.refused == 0


@pytest.mark.slow
def test_fifty_thousand_metrics_are_taken_and_one_more_is_not() -> None:
    chance = np.random.default_rng(11)
    names = Names(tuple(f"host/process-{number}:value" for number in range(50_001)))
    operator = Regression(performance=(RT,))
    for at in range(12):
        values = chance.normal(size=50_001)
        values[31_313] = at % 5
        operator.learn(60.0 * at, names, values, {RT: 1.0 + at % 5})
    assert operator.refused == 1
    assert operator.models[RT].candidates[0].metric == "host/process-31313:value"


def test_of_two_identical_metrics_the_first_is_chosen_and_the_other_is_of_its_family() -> None:
    intervals = stream(30, 12)
    names, at = intervals[0][1], intervals[0][1].ids.index(BUSY)
    twice = Names((*names.ids, "web-1/copy:cpu_busy_ratio"))
    operator = made("published")
    run(operator, [(ts, twice, np.append(values, values[at]), told) for ts, _, values, told in intervals])
    for model in operator.models.values():
        named = [term.metric for term in model.terms]
        assert "web-1/copy:cpu_busy_ratio" not in named
        for term in model.terms:
            if term.metric == BUSY:
                assert "web-1/copy:cpu_busy_ratio" in term.family
