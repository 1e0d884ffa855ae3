"""Prolonged high use in plain words, as the operator's own rankings are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.cpu import Cpu
from laggard.operators.cpu.measures import CONDITIONS
from laggard.operators.saturation.conditions import CONDITIONS as RESOURCES
from laggard.pipeline.core.records import make_layout
from laggard.pipeline.explaining.phrases import PHRASES, PROLONGED
from laggard.pipeline.explaining.text import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.ranking import Ranking

PROCESS = ["cpu_user_ratio", "cpu_system_ratio", "cpus", "cpu_quota_throttled_ratio"]
HOST = ["cpus", "cpu_busy_ratio", "pressure_io_some_ratio", "pressure_memory_some_ratio"]
COMMANDS = {"java[7@1]": "java -jar shop.jar"}


def ranked(
    frames: Sequence[Sequence[Sequence[float]]], rows: Sequence[str], features: Sequence[str] = PROCESS, **more: Any
) -> Ranking:
    """The ranking of the last of these frames, one a second."""
    operator, layout = Cpu(**more), make_layout(rows, [row.partition("[")[0] for row in rows], features)
    for ts, values in enumerate(frames):
        scores = operator.score(1e9 + ts, layout, np.array(values))
        operator.learn(1e9 + ts, layout, np.array(values))
    return scores.ranking(20, 20)


def java(shares: Sequence[float], **more: Any) -> str:
    return sentence(ranked([[[4.0 * share, 0.0, 4.0, np.nan]] for share in shares], ["java[7@1]"], **more), COMMANDS)


WHO = "`java` (pid 7, `java -jar shop.jar`)"
TWO_DIPS = [0.1, *[0.92] * 60, 0.1, *[0.92] * 30, 0.0, *[0.92] * 28]


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([0.1, *[0.92] * 5], f"{WHO} used 92 % of all processors for 5 s."),
        (TWO_DIPS, f"{WHO} used 92 % of all processors for 2 min, with two dips."),
        ([0.1, *[0.92] * 20, 0.1, 0.92], f"{WHO} used 92 % of all processors for 22 s, with one dip."),
        ([0.1, *[0.92] * 20, 0.1, 0.1], f"{WHO} used 92 % of all processors for 20 s, until 2 s before."),
        ([0.1] * 3, f"Nothing is high for long. Most of all is {WHO}: it uses 10 % of all processors."),
    ],
)
def test_an_event_of_a_process_is_told_with_how_long_it_was_and_its_dips(shares: list[float], told: str) -> None:
    assert java(shares) == told


def test_dips_that_are_kept_no_longer_are_counted() -> None:
    assert java([0.1, *[0.9] * 9, *[0.1, 0.9, 0.9] * 30]).endswith("for 99 s, with 30 dips.")


def test_a_row_in_two_conditions_is_reported_with_both() -> None:
    ranking = ranked([[[1.0, 0.0, 4.0, 0.97]]] * 8, ["java[7@1]"], conditions=["single_cpu", "quota"])
    assert sentence(ranking, {}) == (
        "`java` (pid 7) used 100 % of one processor for 7 s; and ran out of CPU quota in 97 % of the periods."
    )


def test_spikes_are_told_by_the_minute() -> None:
    assert " used most of all processors in short spikes, " in java(
        [1.0 if tick % 6 < 2 else 0.0 for tick in range(300)], conditions=["spikes"]
    )


def test_a_process_that_has_ended_is_told_to_have() -> None:
    operator, layout = Cpu(), make_layout(["java[7@1]"], ["java"], PROCESS)
    for ts in range(8):
        operator.learn(1e9 + ts, layout, np.array([[3.8, 0.0, 4.0, np.nan]]))
    nobody = make_layout([], [], PROCESS)
    assert sentence(operator.score(1e9 + 8, nobody, np.zeros((0, 4))).ranking(5, 5), {}) == (
        "`java` (pid 7) used 95 % of all processors for 7 s, and has ended."
    )


def test_of_many_the_worst_are_told_and_the_others_counted() -> None:
    rows = [f"p{number}[{number}@1]" for number in range(6)]
    frame = [[8.0 * (0.9 + number / 100.0), 0.0, 8.0, np.nan] for number in range(6)]
    told = sentence(ranked([frame] * 7, rows), {})
    assert told.startswith("`p5` (pid 5) used 95 % of all processors for 6 s. `p4` (pid 4) used 94 %")
    assert told.endswith("So do 2 more.")


def test_pressure_is_reported_for_the_host() -> None:
    slow, calm = [[4.0, 0.2, 0.92, 0.7]], [[4.0, 0.2, 0.0, 0.0]]
    ranking = ranked([calm, *[slow] * 60, calm, *[slow] * 30], ["host"], HOST)
    assert sentence(ranking, {}, "host") == (
        "On the host some task waited for I/O 92 % of the time for 91 s, with one dip; "
        "and some task waited for memory 70 % of the time."
    )
    assert sentence(ranked([calm] * 3, ["host"], HOST), {}, "host") == (
        "Nothing is high for long: on the host some task waits for I/O 0 % of the time."
    )


def test_names_cannot_write_on_a_terminal() -> None:
    row = "ja\x1b[2Jva[7@1]"
    layout, operator = make_layout([row], ["ja\x1b[2Jva"], PROCESS), Cpu()
    for ts in range(8):
        operator.learn(1e9 + ts, layout, np.array([[3.8, 0.0, 4.0, np.nan]]))
    told = sentence(operator.score(1e9 + 8, layout, np.array([[3.8, 0.0, 4.0, np.nan]])).ranking(5, 5), {})
    assert told.isprintable()


def test_every_condition_has_its_words() -> None:
    told = {feature for each in CONDITIONS.values() for feature in (each.feature, each.own) if feature}
    told |= {each.feature for each in RESOURCES.values() if not each.fills}
    assert told == PROLONGED.keys()
    assert told <= PHRASES["process"].keys() | PHRASES["host"].keys()
