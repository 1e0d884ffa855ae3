"""A resource is short only if the host agrees: by pressure, by a queue, or because it is withheld."""

from __future__ import annotations

import numpy as np
import pytest

from laggard.operators.regression import Regression, Trait
from laggard.operators.regression.shortage import shortages
from laggard.operators.regression.traits import Traits

from .streams import RT, THR, Names

TRAITS = {
    "cpus": Trait("cpu", gauge="size"),
    "run_queue": Trait("cpu", "wait", 1, gauge="queue", short=0.5),
    "pressure": Trait("cpu", "wait", 1, gauge="pressure", short=0.1),
    "throttled": Trait("cpu", "wait", 1, gauge="stops", short=0.1),
    "busy": Trait("cpu", "use", 1, gauge="use"),
    "wait": Trait("cpu", "wait", 1),
    "blocked": Trait("disk", "wait", 1, gauge="queue", short=0.5),
    "read_wait": Trait("disk", "wait", 1),
    "lock_wait": Trait("lock", "wait", 1),
    "packets": Trait("network", "load"),
    "held_bytes": Trait("memory", "use", 1, level=True),
    "own": Trait("cpu", "wait", 1, barred=True),
}


def trait(metric: str) -> Trait:
    return TRAITS.get(metric.partition(":")[2], Trait())


def short(now: dict[str, float], *, more: float = 5.0, cpus: float = 4.0) -> dict[str, float]:
    """How short each resource of a host is, after a calm time of all its gauges."""
    names = [f"a:{name}" for name in TRAITS]
    calm = {"cpus": cpus, "run_queue": 1.0, "pressure": 0.02, "blocked": 0.1}
    random = np.random.default_rng(1)
    before = np.array([[calm.get(name, 0.0) for name in TRAITS]] * 30)
    before *= 1.0 + 0.01 * random.standard_normal(before.shape)
    before[:, 0] = cpus
    values = np.array([[(calm | now).get(name, 0.0) for name in TRAITS]] * 3)
    traits = Traits(trait, {})
    traits.follow(names)
    found = shortages(values, before, traits=traits, more=more)
    return {traits.resources[group][1]: float(share) for group, share in enumerate(found)}


@pytest.mark.parametrize(
    ("now", "cpu", "disk"),
    [
        ({}, 0.0, 0.0),
        # A queue counts beyond the CPUs, whose tasks run.
        ({"run_queue": 4.0}, 0.0, 0.0),
        ({"run_queue": 8.0}, 1.0, 0.0),
        ({"run_queue": 4.6}, 0.0, 0.0),  # 0.6 of 4 tasks
        ({"run_queue": 6.0}, 0.5, 0.0),
        ({"pressure": 0.9}, 0.88, 0.0),
        ({"pressure": 0.08}, 0.0, 0.0),  # below the least value
        ({"throttled": 0.4}, 1.0, 0.0),
        ({"blocked": 3.0}, 0.0, 1.0),
        # Work that waits shows nothing by itself.
        ({"wait": 3.0, "read_wait": 2.0}, 0.0, 0.0),
    ],
)
def test_how_short_a_resource_is(now: dict[str, float], cpu: float, disk: float) -> None:
    found = short(now)
    assert [found["cpu"], found["disk"]] == pytest.approx([cpu, disk], abs=0.02)
    assert found["network"] == found["memory"] == 0.0, "the other gauges of the host speak for it"
    assert np.isnan(found["lock"]), "no gauge of a host shows a lock"


def test_of_few_waiting_requests_a_small_queue_is_a_good_part() -> None:
    """Little's law: 0.5 requests more than usual, 0.4 of which want a CPU."""
    assert short({"run_queue": 4.4 + 0.2}, more=0.5)["cpu"] == 1.0
    assert short({"run_queue": 4.4 + 0.2}, more=50.0)["cpu"] == 0.0
    assert short({"run_queue": 8.0}, more=np.nan)["cpu"] == 1.0


def test_without_gauges_and_without_a_time_before_nothing_is_known() -> None:
    traits = Traits(lambda name: Trait("cpu", "wait", 1), {})
    traits.follow(["a:wait"])
    assert np.isnan(shortages(np.ones((2, 1)), np.ones((9, 1)), traits=traits, more=1.0)).all()
    traits = Traits(trait, {})
    traits.follow(["a:pressure"])
    assert shortages(np.ones((2, 1)), np.ones((0, 1)), traits=traits, more=1.0).tolist() == [0.0]
    assert shortages(np.full((2, 1), np.nan), np.ones((9, 1)), traits=traits, more=1.0).tolist() == [0.0]
    traits = Traits(None, {})
    traits.follow(["a:pressure"])
    assert shortages(np.ones((2, 1)), np.ones((9, 1)), traits=traits, more=1.0).tolist() == []


def test_of_two_short_resources_the_busier_one_comes_first() -> None:
    """Requests that the first tier has not accepted yet are in no queue of it, though its CPUs are short."""
    traits = Traits(trait, {})
    traits.follow(["a:pressure", "a:busy", "b:pressure", "b:busy"])
    before = np.array([[0.01, 0.3, 0.02, 0.2], [0.02, 0.3, 0.01, 0.2]] * 5)
    a, b = shortages(np.array([[0.5, 1.0, 0.9, 0.8]]), before, traits=traits, more=9.0)
    assert (a, b) == (pytest.approx(0.485), pytest.approx(0.885 / 4.0))
    # What is withheld is short however idle the host is; and the use of a resource alone shows no shortage.
    traits.follow(["a:throttled", "a:busy", "b:pressure", "b:busy"])
    a, b = shortages(np.array([[0.5, 0.3, 0.9, 0.8]]), before * 0.1, traits=traits, more=9.0)
    assert (a, b) == (1.0, pytest.approx(0.9, abs=0.01))
    traits.follow(["a:busy", "c:busy", "b:busy"])
    assert np.isnan(shortages(np.ones((1, 3)), before[:, :3], traits=traits, more=9.0)).all()


def run(slow: dict[str, float], calm: dict[str, float] | None = None, *, seed: int = 1) -> Regression:
    """An application of two hosts whose requests take four times as long at the end."""
    random = np.random.default_rng(seed)
    operator = Regression(trait=trait)
    names = Names(tuple(f"{host}:{name}" for host in ("a", "b") for name in TRAITS))
    held = 1e9 + np.cumsum(random.standard_normal(60)) * 1e6
    for at in range(60):
        load = random.uniform(5.0, 9.0)
        values = {f"{host}:{name}": 0.0 for host in ("a", "b") for name in TRAITS}
        for host in ("a", "b"):
            values |= {f"{host}:cpus": 2.0, f"{host}:run_queue": 0.1 * load, f"{host}:packets": 10.0 * load}
            values |= {f"{host}:pressure": 0.005 * load, f"{host}:wait": 0.01 * load, f"{host}:held_bytes": held[at]}
            values |= {f"{host}:blocked": 0.1, f"{host}:own": 0.01 * load}
        if at >= 45:
            values |= slow
        performance = {RT: (0.4 if at >= 45 else 0.1) * (1.0 + 0.03 * random.standard_normal()), THR: load}
        row = np.array([values[name] * (1.0 + 0.02 * random.standard_normal()) for name in names.ids])
        row[[name.endswith("cpus") for name in names.ids]] = 2.0
        operator.learn(60.0 * at, names, row, performance)
    return operator


def test_requests_that_wait_for_no_resource_are_explained_by_none() -> None:
    """Their process is blamed for nothing, whichever of its counters moved as well: it waits for a lock."""
    operator = run({"a:wait": 0.9, "b:packets": 300.0, "a:own": 0.9, "a:held_bytes": 3e9})
    assert operator.suspects() == ()
    assert operator.models[RT].terms == ()
    assert operator.models[RT].intercept == pytest.approx(0.4, rel=0.05)


def test_a_bottleneck_is_named_where_its_host_agrees() -> None:
    moved = {"a:wait": 0.9, "b:wait": 0.9, "a:run_queue": 1.9, "b:run_queue": 6.0, "b:pressure": 0.9}
    operator = run(moved)
    assert {each.metric.partition(":")[0] for each in operator.suspects()} == {"b"}
    assert operator.models[RT].terms[0].metric in {"b:wait", "b:run_queue", "b:pressure"}


def test_levels_and_barred_metrics_are_in_no_model_of_calm_times() -> None:
    for seed in range(3):
        for model in run({}, seed=seed).models.values():
            named = {term.metric for term in model.terms} | {each.metric for each in model.candidates}
            assert not {name for name in named if name.partition(":")[2] in {"held_bytes", "own"}}


def rebuilt(performance: str, rows: list[tuple[float, float, float]]) -> int:
    """How many models are replaced, of one host with this pressure, response time and throughput in each interval."""
    operator, names = Regression(trait=trait), Names(("a:cpus", "a:pressure", "a:packets"))
    count = 0
    for at, (pressure, response, load) in enumerate(rows):
        told = {RT: response, THR: load * (1.0 + 0.005 * (at > 40))}
        built = operator.learn(60.0 * at, names, np.array([2.0, pressure, 10.0 * load]), told)
        count += sum(model.performance == performance and model.reason == "changed" for model in built)
    return count


def test_a_model_of_a_nearly_exact_relation_stays_when_it_bends_a_little() -> None:
    """The packets of a request become fewer by 0.5 %."""
    random = np.random.default_rng(1)
    loads = random.uniform(5.0, 9.0, 70)
    assert rebuilt(THR, [(0.01, 0.1 * (1.0 + 0.05 * random.standard_normal()), load) for load in loads]) == 0


@pytest.mark.parametrize(("share", "least"), [(1.0, 0), (0.0, 1)])
def test_a_model_that_explains_a_slow_time_by_a_short_resource_stays(share: float, least: int) -> None:
    """Another program takes the CPU in some intervals; the model replaces itself where pressure has no part in it."""
    random = np.random.default_rng(2)
    rows = []
    for at in range(70):
        pressure = random.uniform(0.0, 0.2) + 0.6 * share * (45 <= at < 52)
        slow = 0.3 * (1.0 - share) * (45 <= at < 52)
        response = (0.1 + 0.5 * pressure + slow) * (1.0 + 0.02 * random.standard_normal())
        rows.append((pressure, response, random.uniform(5.0, 9.0)))
    assert min(rebuilt(RT, rows), 1) == least


def test_a_model_that_stayed_has_the_baseline_of_the_time_before() -> None:
    random = np.random.default_rng(3)
    operator, names = Regression(trait=trait), Names(("a:cpus", "a:pressure", "a:packets"))
    for at in range(130):
        pressure = random.uniform(0.0, 0.2) + 0.6 * (at >= 125)
        response = (0.1 if at < 30 else 0.05) + 0.5 * pressure  # the model is of the time since interval 30
        told = {RT: response * (1.0 + 0.01 * random.standard_normal()), THR: 7.0}
        operator.learn(60.0 * at, names, np.array([2.0, pressure, 70.0]), told)
    (suspect,) = operator.suspects()
    assert suspect.metric == "a:pressure"
    assert suspect.mean == pytest.approx(0.1, abs=0.02)
    assert suspect.score > 5.0
