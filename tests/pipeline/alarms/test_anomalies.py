"""Whom an anomaly blames, what it opens with, and how bad it has been since."""

from __future__ import annotations

import math

import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.alarms.anomalies import Anomalies, OpenAnomaly, blamed, restored
from laggard.pipeline.core.records.outputs import Blame
from tests.pipeline.core.engine.conftest import frame


def row(name: str, *features: str, score: float = 2.0, waits: bool = False) -> RowScore:
    told = tuple(FeatureScore(feature, 9.0, 1.0, 0.5, 20.0, recent=4.0) for feature in features)
    return RowScore(f"{name}[1]", name, score, told, 60.0, waits=waits)


def ranking(*rows: RowScore) -> Ranking:
    return Ranking(1000.0, 2.0, rows, 60.0, young=False)


def blame(row: RowScore, feature: int, *resources: str) -> Blame:
    return Blame(row.row, row.name, row.features[feature].feature, 4.0, 1.0, 0.5, resources)


def test_whom_the_sentence_names_first_is_blamed() -> None:
    waits, takes = row("waits", "io_delay_ratio", score=3.0, waits=True), row("takes", "cpu_user_ratio")
    assert blamed(ranking(waits, takes), "process") == blame(takes, 0, "cpu")
    assert blamed(ranking(waits), "process") == blame(waits, 0, "disk")
    leaks = row("leaks", "descriptors")
    assert blamed(ranking(leaks), "process") == blame(leaks, 0)
    assert blamed(ranking(row("a")), "process") == Blame("a[1]", "a")
    assert blamed(ranking(), "process") is None


def test_the_feature_that_affects_a_host_is_blamed() -> None:
    host = row("host", "load_1m", "cpu_steal_ratio")
    assert blamed(ranking(host), "host") == blame(host, 1, "cpu")
    for feature, resource in {
        "load_1m": "cpu",
        "pressure_io_some_ratio": "disk",
        "swap_in_bytes_per_s": "memory",
        "network_eth0_receive_bytes_per_s": "network",
    }.items():
        high = RowScore("host", "host", 2.0, (FeatureScore(feature, 9.0, 1.0, 0.5, 2.0),), 60.0)
        found = blamed(ranking(high), "host")
        assert found is not None
        assert (found.feature, found.resources) == (feature, (resource,))


def test_an_anomaly_opens_with_what_was_judged() -> None:
    bare = OpenAnomaly("id", 1000.0, live=True)
    assert bare.blaming(blame(row("a", "cpu_user_ratio"), 0)) == OpenAnomaly(
        "id", 1000.0, True, "a[1]", "a", "cpu_user_ratio", 4.0, 1.0, 0.5
    )
    assert bare.blaming(Blame("a[1]", "a"))[:6] == ("id", 1000.0, True, "a[1]", "a", "")
    assert bare.blaming(None) == bare


def test_the_worst_value_is_on_the_side_that_it_opened_on() -> None:
    low = OpenAnomaly("id", 0.0, True, "a[1]", "a", "cpu_ratio", 4.0, 10.0, 1.0)
    values = {3.0: 3.0, 5.0: 4.0, 30.0: 4.0, math.nan: 4.0}
    assert {value: low.after(frame("h1", 1, value)).value for value in values} == values
    unknown = low._replace(usual=math.nan)
    assert unknown.after(frame("h1", 1, 3.0)) == unknown
    gone = low._replace(row="z[1]")
    assert gone.after(frame("h1", 1, 3.0)) is gone


def test_what_is_no_state_of_anomalies_is_refused() -> None:
    sudden = OpenAnomaly("id", 1000.0, True, "a[1]", "a", "cpu_ratio", 4.0, 1.0, 0.5)
    one = Anomalies(3, (sudden, sudden._replace(id="other", own="a[1] 1000.0")))
    assert restored({"armed": False, **one.snapshot()}) == one
    for unknown in ({"unknown": 1}, [{"unknown": 1}]):
        with pytest.raises(TypeError, match="unknown"):
            restored({"armed": False, "incidents": {"opened": 1, "open": unknown}})
    with pytest.raises(KeyError, match="open"):
        restored({"armed": True, "incidents": {"opened": 1}})


@pytest.mark.parametrize("live", [True, False])
def test_only_a_live_anomaly_is_shown_and_counted(live: bool) -> None:
    assert Anomalies().live == ()
    opened = OpenAnomaly("id", 1000.0, live=live)
    after = Anomalies().opening(opened)
    assert (after.live, after.opened) == (((opened,), 1) if live else ((), 0))


@pytest.mark.parametrize("was_open", [True, False])
def test_what_an_older_laggard_wrote_is_the_only_one_or_none(was_open: bool) -> None:
    one = OpenAnomaly("id", 1000.0, True, "a[1]", "a", "cpu_ratio", 4.0, 1.0, 0.5)
    written = {name: value for name, value in one._asdict().items() if name != "own"} if was_open else None
    state = {"armed": not was_open, "incidents": {"opened": 2, "open": written}}
    found = restored(state)
    assert found == Anomalies(2, (one,) if was_open else ())
    # What an older laggard can read is written as it wrote it.
    assert found.snapshot() == {"incidents": state["incidents"]}
    assert Anomalies().snapshot() == {}
    kept = one._replace(own="a[1] 1000.0")
    assert Anomalies(2, (kept,)).snapshot() == {"incidents": {"opened": 2, "open": [kept._asdict()]}}


def test_those_that_the_operator_keeps_open_are_beside_that_of_the_score() -> None:
    sudden, lasts, other = (OpenAnomaly(f"{own}1", 1000.0, live=True, own=own) for own in ("", "a", "b"))
    every = Anomalies().opening(lasts).opening(sudden).opening(other)
    assert every == Anomalies(3, (lasts, sudden, other))
    assert every.of_score == sudden
    calm = frame("h1", 1, 3.0)
    assert every.after(calm, over=True, kept=("a", "b")) == Anomalies(3, (lasts, other))
    assert every.after(calm, over=False, kept=("b",)) == Anomalies(3, (sudden, other))
    assert every.after(calm, over=True).of_score is None
    # A second one of the score takes the place of the first; what goes on is not counted again.
    assert every.opening(sudden._replace(id="again")) == Anomalies(4, (lasts, other, sudden._replace(id="again")))
    goes_on = sudden._replace(own="c")
    assert every.going_on(goes_on) == Anomalies(3, (lasts, other, goes_on))


@pytest.mark.parametrize(("basis", "usual"), [("itself", 1.0), ("threshold", math.nan)])
def test_a_limit_is_not_what_is_usual(basis: str, usual: float) -> None:
    feature = FeatureScore("cpu_user_ratio", 9.0, 1.0, 0.5, 20.0)
    row = RowScore("hog[1@1]", "hog", 20.0, (feature,), 60.0, basis=basis)  # type: ignore[arg-type]
    found = blamed(Ranking(1000.0, 20.0, (row,), 60.0, young=False), "process")
    assert found is not None
    assert (found.row, found.feature, found.value) == ("hog[1@1]", "cpu_user_ratio", 9.0)
    assert found.usual == pytest.approx(usual, nan_ok=True)
