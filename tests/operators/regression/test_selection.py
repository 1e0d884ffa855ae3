"""What a model may be made of: which metrics speak for the performance, and which columns a window keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from laggard.operators.regression.models import Role, Trait
from laggard.operators.regression.selection import WITHIN, WORK, Diagnosis, Purpose
from laggard.operators.regression.traits import Traits
from laggard.operators.regression.window import GONE_SHARE, Window

EVEN = Purpose(dict.fromkeys(("wait", "free", "use", "load", ""), 1.0), 12, 0.02, physical=False)


@dataclass(frozen=True)
class Names:
    ids: tuple[str, ...]


def diagnosis(
    values: np.ndarray, target: np.ndarray, since: int, before: np.ndarray, *, roles: tuple[Role, ...], purpose: Purpose
) -> Diagnosis:
    """Of metrics of these roles, each of a host of its own."""
    names = [f"web-{at}:cpu" for at in range(len(roles))]
    traits = Traits(lambda name: Trait("cpu", roles[names.index(name)]), {})
    traits.follow(names)
    banned = np.empty(0, np.intp)
    return Diagnosis(values, target, since, before=before, traits=traits, banned=banned, candidates=9, purpose=purpose)


def by_column(found: Diagnosis) -> list[float]:
    return [float(found.strength[found.columns.tolist().index(column)]) for column in range(len(found.strength))]


@pytest.mark.parametrize("past", [60, WITHIN - 1])
def test_a_metric_that_is_as_it_often_was_speaks_less_than_one_that_has_left_what_it_was(past: int) -> None:
    chance = np.random.default_rng(3)
    target = np.concatenate([np.ones(20), np.full(20, 2.0)]) + 0.01 * chance.normal(size=40)
    values = np.stack([target, target], axis=1)
    before = np.ones((past, 2)) + 0.01 * chance.normal(size=(past, 2))
    before[::3, 1] += 3.0
    left, often = by_column(diagnosis(values, target, 20, before, roles=("use", "use"), purpose=EVEN))
    if past >= WITHIN:
        assert left > 3.0 * often
    else:
        assert left == often, "of so little nobody knows what was usual"


def test_to_predict_anything_else_the_work_that_is_done_speaks_most() -> None:
    target = np.random.default_rng(4).normal(size=40)
    roles: tuple[Role, ...] = ("wait", "free", "use", "load")
    values = np.repeat(target[:, None], len(roles), axis=1)
    found = by_column(diagnosis(values, target, len(target), np.empty((0, len(roles))), roles=roles, purpose=WORK))
    assert found == sorted(found)
    assert len(set(found)) == len(roles)


@pytest.mark.parametrize(("gone", "left"), [(2, 11), (4, 7)])
def test_columns_are_given_up_once_those_of_metrics_that_are_gone_are_many(gone: int, left: int) -> None:
    window = Window(("throughput",), capacity=4, limit=100)
    names = [f"web-{at}:cpu" for at in range(10)]
    assert (gone >= GONE_SHARE * len(names)) == (left < len(names))
    stay = names[: len(names) - gone]
    for ts, ids in enumerate([names] + [stay] * 4 + [[*stay, "web-new:cpu"]]):
        window.add(float(ts), Names(tuple(ids)), np.arange(float(len(ids))), {"throughput": 1.0})
    assert len(window.ids) == left
    newest = dict(zip(window.ids, window.last(1)[0].tolist(), strict=True))
    assert {name: newest[name] for name in stay} == {name: float(at) for at, name in enumerate(stay)}
    assert newest["web-new:cpu"] == len(stay)
