"""Some of what `diagnoses.py` shows, in a minute; with a lower threshold, for others may use this machine too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from . import bad_cases, dips, troubles

if TYPE_CHECKING:
    from pathlib import Path

# Each measures how soon and how correctly this machine is diagnosed. The parts that do not depend on it are guarded, in
# a time of their own, by the tests of sessions and of `Diagnosing`.
pytestmark = pytest.mark.long

DURATION_S: Final = 2.0
SETTINGS: Final = {"cpu_threshold": "50%", "cpu_duration": f"{DURATION_S:g}s"}


@pytest.mark.parametrize("name", ["c", "python"])
def test_a_program_that_burns_is_noticed_in_time_and_told_by_its_function(name: str, tmp_path: Path) -> None:
    (found,) = troubles.run(troubles.troubles()[name], 1, tmp_path, SETTINGS)
    assert found.after_s is not None
    # Use begins at an unknown moment between two looks; a second more is for a machine that is full.
    assert DURATION_S - 0.5 <= found.after_s <= DURATION_S + 2.0
    assert found.is_first
    assert found.samples >= 20
    assert found.named >= 0.9 * found.samples
    assert found.sampler <= 0.05
    assert found.closed_s is not None


def test_two_dips_are_one_event_that_tells_what_ran_before_and_after_each() -> None:
    found = dips.run(0.15, 1.2, SETTINGS | {"agent_interval": "0.5s"})
    (diagnosis,) = found.diagnoses
    assert [phase.high for phase in diagnosis.phases] == [True, False, True, False, True, False]
    high = [phase for phase in diagnosis.phases if phase.high]
    for phase, function, (begun, ended) in zip(high, dips.FUNCTIONS, found.spans, strict=True):
        assert begun - 0.1 <= phase.begin_ts <= phase.end_ts <= ended + 1.0
        assert dips.top(phase)[0] == function
        assert dips.top(phase)[1] >= 0.9
    assert len(found.events) == 1
    assert [phase["high"] for phase in found.phases] == [True, False, True, False, True, False]


@pytest.mark.skipif(os.geteuid() != 0, reason="looks as another user, and into a namespace")
def test_of_each_bad_case_something_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bad_cases, "SAMPLES", 20)  # rounds of 5,000 threads are a second apart
    rows = bad_cases.told().splitlines()[2:]
    assert len(rows) == len(bad_cases.CASES)
    assert any("| yes |" in row for row in rows), "none was sampled to its limit"
    for row, needed in (
        ("ends while", "sampling stopped: the process ended"),
        ("is a zombie", "it is a zombie until its parent"),
        ("own pid namespace", "its pid is 1"),
        ("5,000 threads", "`grind`"),
        ("was deleted", "`grind`"),
    ):
        assert any(row in each and needed in each for each in rows), row
