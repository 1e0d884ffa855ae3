"""The evaluation itself: its plan, its faults, its bookkeeping; and a short selection of slowdowns, end to end."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.ranking import Ranking, RowScore
from laggard.pipeline.records import Frame, Mark, make_layout
from laggard.producers.clock import Clock
from laggard.producers.processes import FEATURES, ProcessTable
from tests.evaluation.recording import Case, Decoy, Recorder, read_cases, read_frames, thinned
from tests.evaluation.scoring import PLAUSIBLE, RIGHT, Operator, Outcome, Top, evaluate
from tests.evaluation.slowdowns import FAULT_S, Setting, Workload, names, plan, record
from tests.evaluation.tables import tables

if TYPE_CHECKING:
    from pathlib import Path


def case(number: int = 1, kind: str = "cpu", onset: float = 30.0, mark: float = 38.5) -> Case:
    return Case(number, kind, 0.5, "web-1", 7, onset, mark, onset + FAULT_S)


def stream(fault: slice, feature: str, ticks: int = 60) -> list[Frame]:
    """Twelve quiet rows at 1 s, one of which, `web-1[7@1]`, has a hundred times its usual for a while."""
    rows = [f"web-{number}[{number + 6}@1]" for number in range(12)]
    layout = make_layout(rows, [row.partition("[")[0] for row in rows], FEATURES)
    noise = np.random.default_rng(5)
    frames = []
    for tick in range(ticks):
        values = noise.uniform(1.0, 1.2, (len(rows), len(FEATURES)))
        if tick in range(ticks)[fault]:
            values[1, FEATURES.index(feature)] *= 100
        frames.append(Frame("host", "h", "process", float(tick), tick, layout, values))
    return frames


def test_a_plan_is_fair_and_the_same_for_the_same_seed() -> None:
    setting = Setting(seed=3)
    planned = plan(setting)
    assert planned == plan(setting)
    assert planned != plan(Setting(seed=4))
    assert Counter(each.kind for each in planned) == dict.fromkeys(RIGHT, 6)
    assert len({each.name for each in planned}) == len(planned)
    assert planned[0].onset == setting.warm_up_s
    for before, after in pairwise(planned):
        assert 25 <= after.onset - before.onset - FAULT_S <= 35
    for each in planned:
        assert 8 <= each.mark - each.onset <= 10
        for name, at in each.decoys:
            assert name != each.name
            assert each.onset < at < each.mark


def test_culprits_repeat_only_when_there_are_more_cases_than_processes() -> None:
    planned = plan(Setting(cases=10, workers=4))
    assert Counter(each.name for each in planned[:8]) == dict.fromkeys(names(4), 2)


def test_what_counts_as_right_are_features_that_the_agent_has() -> None:
    for kind, right in RIGHT.items():
        assert right
        assert right <= PLAUSIBLE[kind] <= set(FEATURES)
    assert sum(map(len, RIGHT.values())) == len(frozenset().union(*RIGHT.values())), "each belongs to one kind"


def test_a_recording_comes_back(tmp_path: Path) -> None:
    frames = stream(slice(0), "threads", ticks=3)
    cases = [case(1), Case(2, "io", 1.0, "log-0", 9, 50.0, 58.0, 62.0, (Decoy("web-1", 55.0),))]
    with Recorder(tmp_path / "cases", {"seed": 1}) as recorder:
        recorder.publish([frames[0], Mark("h", 0.5, "case 1"), frames[1]])
        recorder.add(cases[0])
        # Readable up to here while it still goes on.
        assert [frame.ts for frame in read_frames(tmp_path / "cases", "process")] == [0.0, 1.0]
        recorder.add(cases[1])
        recorder.publish(frames[2:])
    assert read_cases(tmp_path / "cases") == cases
    read = list(read_frames(tmp_path / "cases", "process"))
    assert [frame.layout.rows for frame in read] == [frame.layout.rows for frame in frames]
    for back, frame in zip(read, frames, strict=True):
        np.testing.assert_array_equal(back.values, frame.values)
    assert list(read_frames(tmp_path / "cases", "host")) == []


def test_thinned_frames_are_those_of_an_agent_that_ticks_more_rarely() -> None:
    layouts = [make_layout(rows, rows, ("io_read_bytes_per_s", "threads")) for rows in ("ab", "ab", "ac")]
    matrices = [[[1, 1], [9, 9]], [[2, 2], [9, 9]], [[6, 3], [np.nan, 5]]]
    frames = [
        Frame("host", "h", "process", float(tick), tick, layout, np.array(values, float))
        for tick, (layout, values) in enumerate(zip(layouts * 2, matrices * 2, strict=True))
    ]
    first, second = thinned(frames + frames[:2], 3)
    assert (first.ts, second.ts) == (2.0, 5.0)
    assert first.layout is layouts[2]
    np.testing.assert_array_equal(first.values, [[3, 3], [np.nan, 5]])
    np.testing.assert_array_equal(second.values, first.values)


@pytest.mark.parametrize(("kind", "feature"), [("cpu", "cpu_system_ratio"), ("threads", "threads")])
def test_the_culprit_is_found_at_its_mark(kind: str, feature: str) -> None:
    frames = stream(slice(30, 42), feature)
    outcomes = evaluate(frames, [case(kind=kind)])
    assert outcomes["laggard"] == [Outcome(case(kind=kind), 1, feature, outcomes["laggard"][0].first)]
    assert outcomes["laggard"][0].feature_is_right
    assert outcomes["top"][0].is_first == (kind == "cpu"), "top sees CPU only"


def test_a_method_knows_nothing_later_than_the_mark() -> None:
    frames = stream(slice(39, 60), "threads")  # goes wrong after the mark only
    quiet = stream(slice(0), "threads")
    assert evaluate(frames, [case(kind="threads")]) == evaluate(quiet, [case(kind="threads")])


def test_a_frame_at_the_time_of_the_mark_counts() -> None:
    frames = stream(slice(38, 39), "cpu_user_ratio")
    (outcome,) = evaluate(frames, [case(mark=38.0)], {"top": Top})["top"]
    assert outcome.is_first


def test_a_mark_without_a_frame_since_the_onset_is_no_case() -> None:
    with pytest.raises(ValueError, match="case 1: expected a frame between its onset and its mark"):
        evaluate(stream(slice(0), "threads", ticks=20), [case()], {"top": Top})


def test_a_culprit_that_is_not_ranked_is_unclear() -> None:
    other = RowScore("web-2[8@1]", "web-2", 1.0, (), 0.0)
    same_name = RowScore("web-1[70@1]", "web-1", 2.0, (), 0.0)
    outcome = Outcome.of(case(), Ranking(38.0, 1.0, (same_name, other), 38.0, young=True))
    assert (outcome.place, outcome.feature, outcome.is_first_or_second) == (0, "", False)
    assert "0/1 (0.0 %)" in tables({"laggard": [outcome]})


def test_nothing_to_score_still_gives_tables() -> None:
    assert "28/31 (90.3 %)" in tables({"laggard": []})


def test_each_fault_shows_in_its_resource_and_is_over_at_its_end(tmp_path: Path) -> None:
    workload = Workload(tmp_path, 6, seed=1)
    table = ProcessTable(Clock(), 1.0)
    culprits = dict(zip(RIGHT, ("log-0", "poll-0", "batch-0", "web-0", "cache-0", "pool-0"), strict=True))

    def sample() -> dict[str, dict[str, float]]:
        layout, values = table.read()
        rows = {row.partition("@")[0]: values[index] for index, row in enumerate(layout.rows)}
        of = {kind: rows[f"{name}[{workload.pid(name)}"] for kind, name in culprits.items()}
        return {kind: dict(zip(layout.features, row.tolist(), strict=True)) for kind, row in of.items()}

    try:
        sample()
        time.sleep(0.3)
        before = sample()
        for kind, name in culprits.items():
            workload.tell(name, f"fault {kind} 0.5 0.8")
        time.sleep(0.6)
        during = sample()
        time.sleep(0.7)
        sample()
        time.sleep(0.3)
        after = sample()
    finally:
        workload.close()
        table.close()

    least = {
        "cpu": (("cpu_user_ratio", "cpu_system_ratio"), 0.03),  # six at once share what cores there are
        "memory": (("memory_rss_bytes",), 5e6),
        "io": (("io_read_characters_per_s", "io_write_characters_per_s"), 1e6),
        "descriptors": (("descriptors",), 40),
        "page_faults": (("page_faults_minor_per_s",), 5_000),
        "threads": (("threads",), 20),
    }
    for kind, (features, amount) in least.items():
        usual, risen, left = (sum(each[kind][feature] for feature in features) for each in (before, during, after))
        assert risen - usual > amount, (kind, usual, risen)
        assert left - usual < (risen - usual) / 2, (kind, usual, risen, left)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_short_selection_of_slowdowns(tmp_path: Path) -> None:
    record(tmp_path / "cases", Setting(seed=3, cases=6, warm_up_s=25.0, pause_s=6.0))
    outcomes = evaluate(
        read_frames(tmp_path / "cases", "process"),
        read_cases(tmp_path / "cases"),
        {"laggard": lambda: Operator("scale_free")},
    )
    print(tables(outcomes))
    assert sum(outcome.is_first_or_second for outcome in outcomes["laggard"]) >= 5, tables(outcomes)
