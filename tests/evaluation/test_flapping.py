"""A short time of what `flapping.py` simulates for a day."""

from __future__ import annotations

import numpy as np
import pytest

from laggard.operators.cpu import Cpu

from .flapping import KINDS, count, events, job_times, jobs, main, plain, readings

pytestmark = pytest.mark.slow

SECONDS = 1200.0


def test_a_plain_threshold_counts_every_time_that_it_is_passed() -> None:
    values = np.array([[0.9, 0.1], [0.8, 0.1], [0.85, 0.9], [0.9, 0.9]])
    assert plain(values, ["a", "b"]) == {"a": 2, "b": 1}


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, int]]:
    return count(SECONDS, 1)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_use_that_flaps_is_fewer_events_and_hardly_an_anomaly(found: dict[str, dict[str, int]], kind: str) -> None:
    assert found["`cpu`"][kind] <= found["... for 5 s"][kind] <= found["plain threshold"][kind]
    assert found["... anomalies told"][kind] <= found["plain threshold"][kind] / 5


def test_bursts_are_none(found: dict[str, dict[str, int]]) -> None:
    assert found["plain threshold"]["bursts"] > 100
    assert found["`cpu`"]["bursts"] == found["5 s ticks: `cpu`"]["bursts"] == 0


@pytest.mark.parametrize("interval_s", [1.0, 5.0])
def test_a_job_with_pauses_is_one_event(interval_s: float) -> None:
    chance = np.random.default_rng(3)
    use = {"jobs": jobs(chance, 72_000)}
    wanted = len(list(job_times(np.random.default_rng(np.random.default_rng(3).integers(1 << 32)), 7200.0)))
    values = readings(use, interval_s)
    assert wanted >= 3
    assert events(Cpu(), values, ["jobs"], interval_s)[0] == {"jobs": wanted}
    assert plain(values, ["jobs"])["jobs"] > 3 * wanted


def test_the_command_prints_a_row_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--hours", "0.02", "--seed", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(KINDS)
