"""The experiment without a machine: what decides, what is corrected, and how it is told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.confirm import study
from laggard.pipeline.confirm.measures import (
    PRESSURE,
    RESPONSE,
    WAITING,
    Counters,
    MeasureError,
    between,
    counters,
    response,
)

if TYPE_CHECKING:
    from pathlib import Path

NOISE = (0.01, -0.02, 0.03, 0.0, -0.01, 0.02, -0.03, 0.01)
IO = PRESSURE["io"]


def periods(**levels: float) -> list[Any]:
    measures = {"response": RESPONSE, "waiting": WAITING, "io": IO}
    return [{measures[name]: level * (1.0 + noise) for name, level in levels.items()} for noise in NOISE]


def judged(slowed: dict[str, float], free: dict[str, float]) -> study.Result:
    without = periods(**free)
    return study.result_of(without[0], periods(**slowed), without[::-1], without[1])


def test_a_response_time_decides_alone() -> None:
    result = judged({"response": 0.2, "waiting": 3.0}, {"response": 0.5, "waiting": 1.0})
    assert (result.verdict, result.decided) == ("better", (RESPONSE,))
    told = study.sentences(result, "`hog` (pid 7)")
    assert told[0] == "Confirmed: while `hog` (pid 7) was slowed, it got better than chance explains."
    assert told[1].startswith("What the command measures: 0.502 without, 0.202 with it slowed, 0.295 to 0.307 ")
    assert told[1].endswith("less (96% sure; p = 0.008, 8 pairs).")


def test_without_one_the_host_decides_and_the_worse_does_not_hide_the_better() -> None:
    result = judged({"waiting": 1.0, "io": 0.4}, {"waiting": 3.0, "io": 0.2})
    assert (result.verdict, result.decided) == ("better", (WAITING,))
    assert result.p[WAITING] == 2 * result.found[WAITING].p


def test_worse_and_no_difference_are_told_as_such() -> None:
    assert "it got worse. Something needs hog" in study.sentences(judged({"io": 0.5}, {"io": 0.2}), "hog")[0]
    none = judged({"io": 0.2}, {"io": 0.2})
    assert none.verdict == "none"
    told = study.sentences(none, "hog")
    assert told[0] == "Not confirmed: slowing hog made no difference that chance does not explain as well."
    assert "more (96% sure" in told[1]


def test_a_difference_too_small_to_notice_is_none() -> None:
    assert judged({"io": 0.0010}, {"io": 0.0050}).verdict == "none"


def test_p_values_are_corrected_for_their_number() -> None:
    corrected = study._holm({RESPONSE: 0.01, WAITING: 0.04, IO: 0.03})
    assert corrected == pytest.approx({RESPONSE: 0.03, IO: 0.06, WAITING: 0.06})


class Told:
    """A brake and a meter that note what they are told."""

    def __init__(self) -> None:
        self.on: list[bool] = []
        self.measured: list[bool] = []

    def set(self, on: bool) -> None:
        self.on.append(on)

    def period(self, _: float) -> dict[Any, float]:
        self.measured.append(self.on[-1] if self.on else False)
        return {RESPONSE: 1.0 if self.measured[-1] else 2.0}


def ran(seed: int) -> tuple[list[bool], study.Result]:
    told: Any = Told()
    result = study.run(told, told, pairs=8, period_s=0.0, seed=seed)
    assert told.measured == [False, *told.on]
    return told.measured, result


def test_each_pair_has_one_period_of_each_in_an_order_drawn_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    (first, result), (again, _), (other, _) = ran(1), ran(1), ran(2)
    assert first == again != other
    pairs = list(zip(first[1:-1:2], first[2:-1:2], strict=True))
    assert set(pairs) == {(True, False), (False, True)}
    assert first[0] is first[-1] is False
    assert result.verdict == "better"
    assert (result.before[RESPONSE], result.after[RESPONSE]) == (2.0, 2.0)
    assert study.to_json(result)["measures"][0]["difference"] == -1.0


@pytest.mark.parametrize(
    ("command", "value"),
    [("echo 1 0.25", 0.25), ("printf 'time: 3e-2s'", 0.03), ("sleep 0.2", pytest.approx(0.3, abs=5))],
)
def test_the_last_number_that_a_command_prints_counts_or_how_long_it_took(command: str, value: float) -> None:
    assert response(command, 30.0) == value


@pytest.mark.parametrize(
    ("command", "said"), [("exit 7", "code 7"), ("sleep 9", "within 0.2 s"), ("echo 1e999", "a number")]
)
def test_a_command_that_fails_is_an_error(command: str, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        response(command, 0.2 if "sleep" in command else 30.0)


def test_the_suspects_own_waiting_does_not_count(tmp_path: Path) -> None:
    for pid, waited in ((7, 5_000_000_000), (8, 1_000_000_000)):
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/task/{pid}/schedstat").write_text(f"1 {waited} 3\n")
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/io").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n")
    found = counters(7, tmp_path)
    assert found.waited_s == {("8", "8"): 1.0}
    assert found.stalled_s == {"io": 2.5}


def test_only_tasks_that_were_there_all_the_time_count() -> None:
    before = Counters(10.0, {"io": 1.0}, {("1", "1"): 1.0, ("2", "2"): 5.0})
    after = Counters(12.0, {"io": 1.5, "cpu": 9.0}, {("1", "1"): 2.0, ("3", "3"): 90.0})
    assert between(before, after) == {IO: 0.25, WAITING: 0.5}
