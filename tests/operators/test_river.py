"""River's detectors as operators: which are refused, that their state is plain, and that they find what is slow."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from functools import partial
from typing import Any

import numpy as np
import pytest
from river import anomaly, base

from laggard.operators.river import Blueprint, River, detector
from laggard.operators.river.blueprint import usable
from laggard.operators.river.plain import NotPlainError, Parts
from laggard.pipeline.core.engine.snapshots import decode_state, encode_state

from .conftest import names, plain
from .test_contract import MAKERS, RIVERS

FEATURES = [
    *("cpu_user_ratio", "cpu_system_ratio", "timeslices_per_s", "switches_involuntary_per_s"),
    *("page_faults_minor_per_s", "io_write_bytes_per_s", "memory_rss_bytes", "descriptors"),
]
USUAL = np.array([0.05, 0.02, 50.0, 3.0, 20.0, 1e4, 1e8, 20.0])
ROWS = 24
HOG = 7


def process_stream(ticks: int, seed: int, hog_from: int) -> list[np.ndarray]:
    """Processes of all sizes, with bursts; from a tick on one of them takes a whole core."""
    chance = np.random.default_rng(seed)
    level = chance.lognormal(0.0, 1.0, (ROWS, len(FEATURES))) * USUAL
    frames = []
    for tick in range(ticks):
        values = level * chance.lognormal(0.0, 0.2, level.shape)
        values[chance.random(ROWS) < 0.02, :4] *= 2.0
        if tick >= hog_from:
            values[HOG, :4] = [0.97, 0.1 + level[HOG, 1], 600.0 + level[HOG, 2], 90.0 + level[HOG, 3]]
        frames.append(values)
    return frames


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("HalfSpaceTrees", {"n_trees": 25}),
        ("LODA", {}),
        ("LocalOutlierFactor", {"window_size": 40}),
        ("GaussianScorer", {"grace_period": 20}),
        ("StandardAbsoluteDeviation", {}),
    ],
)
def test_a_process_that_starts_to_burn_cpu_is_ranked_first(name: str, parameters: dict[str, Any]) -> None:
    river = River(detector=name, parameters=parameters)
    layout = names([f"p[{each}]" for each in range(ROWS)], FEATURES)
    raw = []
    for tick, values in enumerate(process_stream(62, 3, 60)):
        scores = river.score(1e9 + 5.0 * tick, layout, values)
        raw.append(scores.raw[HOG])
        ranking = scores.ranking(3, 3)
        river.learn(1e9 + 5.0 * tick, layout, values)
    worst = ranking.rows[0]
    assert worst.row == f"p[{HOG}]"
    assert worst.features[0].feature in FEATURES[:4]
    assert worst.features[0].score > 0.0
    assert worst.features[0].value > 5.0 * worst.features[0].mean
    assert raw[61] > 1.5 * np.median(raw[40:60])


def test_a_row_of_which_nothing_is_known_is_not_ranked() -> None:
    river = River(parameters=RIVERS["HalfSpaceTrees"])
    assert river.score(0.0, names(["a[1]"], 3), np.ones((1, 3))).ranking().rows == ()


def test_only_the_worst_rows_are_explained_before_and_after_learning() -> None:
    river = River(parameters=RIVERS["HalfSpaceTrees"])
    layout = names([f"p[{each}]" for each in range(ROWS)], FEATURES)
    frames = process_stream(20, 1, 99)
    for tick, values in enumerate(frames):
        scores = river.score(5.0 * tick, layout, values)
        held = river.score(5.0 * tick + 1.0, layout, values)
        early = repr(scores.ranking())
        river.learn(5.0 * tick, layout, values)
        assert repr(scores.ranking()) == early
        told = [len(row.features) for row in held.ranking().rows]
        assert told == [len(FEATURES) if place < detector.EXPLAINED else 0 for place in range(len(told))]
    assert len(told) == ROWS


def test_a_detector_starts_anew_with_features_that_it_has_never_seen() -> None:
    river = River(parameters={"n_trees": 5, "window_size": 20})
    chance = np.random.default_rng(5)

    def last(features: int, rounds: int) -> float:
        layout = names(["a[1]", "b[2]"], features)
        for tick in range(rounds):
            river.learn(1e6 * features + 5.0 * tick, layout, chance.normal(5.0, 1.0, (2, features)))
        values = np.full((2, features), 5.0)
        values[1, features - 1] = 500.0
        return float(river.score(1e6 * features + 5.0 * rounds, layout, values).raw[1])

    assert last(3, 15) > 0.0
    assert last(4, 15) > 0.0


@pytest.mark.parametrize("name", list(RIVERS))
def test_the_state_of_each_detector_goes_through_a_snapshot_and_on_bit_for_bit(name: str) -> None:
    blueprint = Blueprint(name, RIVERS[name])
    chance = np.random.default_rng(2)
    rows = [dict(zip("abcdef", row, strict=True)) for row in chance.random((400, 6)).tolist()]
    first = blueprint.new()
    for row in rows[:200]:
        blueprint.learn(first, row, row["a"])
    written = encode_state({"detector": blueprint.parts.table(first)})
    # Another process knows the class from its own settings alone.
    elsewhere = Blueprint(name, RIVERS[name])
    second = elsewhere.parts.object_of(decode_state(written, "here")["detector"])
    for row in rows[200:]:
        assert repr(blueprint.score(first, row, row["a"])) == repr(elsewhere.score(second, row, row["a"]))
        blueprint.learn(first, row, row["a"])
        elsewhere.learn(second, row, row["a"])
    assert encode_state({"detector": elsewhere.parts.table(second)}) == encode_state(
        {"detector": blueprint.parts.table(first)}
    )


def test_every_detector_of_the_installed_river_is_tested_here() -> None:
    assert set(usable()) == set(RIVERS)


@pytest.mark.slow
def test_the_same_answers_come_in_another_process() -> None:
    """Where texts have other hashes, sets have another order."""
    code = (
        "from tests.operators.test_contract import *\n"
        "for name in RIVERS: print(repr(answers(MAKERS[f'river, {name}'](), lively_stream(25, 1)))[-3000:])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert len(said.pop()) > 3000


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("HalfSpaceTree", {}, "expected one of GaussianScorer, HalfSpaceTrees, .*got HalfSpaceTree"),
        ("QuantileFilter", {}, "got QuantileFilter: it passes on the answers of another"),
        ("HalfSpaceTrees", {"n_tree": 3}, r"expected parameters of HalfSpaceTrees \(n_trees, height.*got n_tree"),
        ("HalfSpaceTrees", {"n_trees": "many"}, "n_trees: expected a value such as 10, got 'many'"),
        ("HalfSpaceTrees", {"n_trees": True}, "n_trees: expected a value such as 10, got True"),
        ("HalfSpaceTrees", {"n_trees": 0}, "n_trees: expected at least 1, got 0"),
        ("HalfSpaceTrees", {"height": 30}, "n_trees, height: expected at most 200,000 nodes"),
        ("HalfSpaceTrees", {"limits": 1}, "got limits"),
        ("LocalOutlierFactor", {"window_size": 0}, "window_size: expected"),
        ("PredictiveAnomalyDetection", {"horizon": 1.5}, "horizon: expected a value such as 1, got 1.5"),
    ],
)
def test_what_cannot_be_used_is_refused_before_any_data(name: str, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Blueprint(name, parameters)


class Unreadable(base.AnomalyDetector):
    def __init__(self) -> None:
        self.seen = (each for each in range(3))

    def learn_one(self, x: Any) -> None: ...

    def score_one(self, x: Any) -> float:
        return 0.0


class Restless(Unreadable):
    def __init__(self) -> None:
        self.asked = 0

    def score_one(self, x: Any) -> float:
        self.asked += 1
        return self.asked / 1e6


@pytest.mark.parametrize(
    ("cls", "said"), [(Unreadable, "cannot be .*|does not take|fails on"), (Restless, "on differently|scoring changes")]
)
def test_a_detector_that_cannot_be_kept_is_refused(cls: type[Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anomaly, cls.__name__, cls, raising=False)
    monkeypatch.setattr(anomaly, "__all__", [*anomaly.__all__, cls.__name__])
    with pytest.raises(ValueError, match=said):
        Blueprint(cls.__name__, {})


class Part:
    def __init__(self) -> None:
        self.other: Any = None


def test_every_kind_of_part_comes_back_with_what_is_shared_and_what_goes_in_circles() -> None:
    first, second = Part(), Part()
    first.other, second.other = second, first
    counts: defaultdict[str, list[int]] = defaultdict(list, {"a": [1]})
    kinds: list[Any] = [
        *(None, True, 1, -0.0, float("nan"), "text", (), [], {}, {1: "one", 1.5: None}),
        *(OrderedDict(b=1, a=2), Counter("aab"), counts, deque([1, 2], maxlen=3), frozenset({"a", "b"}), {3}),
        *(np.arange(6.0).reshape(2, 3), partial(int, "10", base=2), first, counts, len),
    ]
    table = Parts(kinds).table(kinds)
    again = Parts(kinds).object_of(decode_state(encode_state(table), "here"))
    assert plain(Parts(kinds).table(again)) == plain(table)
    assert [type(each) for each in again] == [type(each) for each in kinds]
    assert again[-3].other.other is again[-3]
    assert again[-2] is again[12]
    assert again[12]["new"] == []
    assert again[13].maxlen == 3
    assert again[-4]() == 2


def test_a_table_makes_nothing_that_its_example_had_not() -> None:
    parts = Parts([Part()])
    table = parts.table([Part()])
    text = repr(table)
    assert "Part" in text
    for group in table["kinds"]:
        if group["kind"] == "object":
            group["head"] = "subprocess.Popen"
    with pytest.raises(ValueError, match=r"expected a part that such a detector has, got 'subprocess.Popen'"):
        parts.object_of(table)
    with pytest.raises(ValueError, match="expected the state of such a detector"):
        parts.object_of({"root": [0], "kinds": []})
    with pytest.raises(NotPlainError, match=r"expected a part that was there from the start, got .*Popen"):
        parts.table([subprocess.Popen])
    with pytest.raises(NotPlainError, match="64 bits"):
        parts.table([1 << 70])
    with pytest.raises(NotPlainError, match=r"got .*<lambda>"):
        Parts([lambda: 0])


def test_a_state_of_another_detector_is_refused() -> None:
    first, second = (MAKERS[f"river, {name}"]() for name in ("LODA", "OneClassSVM"))
    with pytest.raises(ValueError, match="detector: expected a state of OneClassSVM, got one of LODA"):
        second.restore(first.snapshot())
