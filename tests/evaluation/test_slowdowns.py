"""The evaluation itself: its plan, its faults, its bookkeeping; and a short selection of slowdowns, end to end."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.deviations import Deviations
from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.records import Frame, Mark, make_layout
from laggard.pipeline.settings import parse_assignment
from laggard.producers.host.processes import FEATURES, ProcessTable
from laggard.producers.system.clock import Clock
from tests.evaluation import slowdowns
from tests.evaluation.faults import FAULTS, Storm
from tests.evaluation.planning import ORDINARY, SITUATIONS, Setting, names, plan, role_of
from tests.evaluation.recording import Case, Culprit, Decoy, Recorder, read_cases, read_frames, thinned
from tests.evaluation.scoring import (
    ABLATIONS,
    PLAUSIBLE,
    RIGHT,
    STORM_PLAUSIBLE,
    STORM_RIGHT,
    Found,
    Operator,
    Outcome,
    Top,
    evaluate,
    methods,
)
from tests.evaluation.staging import Script, Staged, Workload, record
from tests.evaluation.tables import ablation, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.evaluation.planning import Planned


def case(kind: str = "cpu", *others: Culprit, onset: float = 30.0, mark: float = 38.5) -> Case:
    culprits = (Culprit("web-1", kind, 0.5, pid=7), *others)
    return Case(1, "two" if others else "decoys", "", culprits, onset, mark, onset + 12.0)


def ranking(*rows: str) -> Ranking:
    """Of these ids of rows, the worst first, each with its CPU as its only feature."""
    feature = FeatureScore("cpu_user_ratio", 1.0, 0.0, 0.1, 9.0)
    return Ranking(
        38.0, 1.0, tuple(RowScore(row, row.partition("[")[0], 1.0, (feature,), 0.0) for row in rows), 38.0, True
    )


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
    assert Counter(each.situation for each in planned) == dict.fromkeys(SITUATIONS, 8)
    for situation in set(SITUATIONS) - {"storm", "victims"}:
        kinds = Counter(culprit.kind for each in planned if each.situation == situation for culprit in each.culprits)
        assert set(kinds) == set(FAULTS)
        assert max(kinds.values()) - min(kinds.values()) <= 1
    assert planned[0].onset == setting.warm_up_s
    assert planned[-1].over < 50 * 60
    for before, after in pairwise(planned):
        began = after.onset if after.restart is None else after.restart
        pauses = 2 if before.situation == "restarted" else 1
        assert pauses * setting.pause_s * 5 / 6 <= began - before.over <= pauses * setting.pause_s * 7 / 6
    for each in planned:
        others = [name for name, _ in each.decoys]
        assert not {culprit.name for culprit in each.culprits} & {*others, *each.waiting}
        assert all(1 <= each.mark - at <= 4 for _, at in each.decoys)


def of(situation: str) -> list[Planned]:
    """All cases of it, of two seeds."""
    found = [each for seed in (1, 2) for each in plan(Setting(seed=seed)) if each.situation == situation]
    assert len(found) == 16
    return found


def test_decoys_are_there_where_the_situation_is_called_so() -> None:
    assert all(2 <= len(each.decoys) <= 4 for each in of("decoys"))


def test_a_small_culprit_is_one_that_does_not_usually_do_that() -> None:
    for each in of("small"):
        (culprit,) = each.culprits
        least, most = FAULTS[culprit.kind].SMALL
        assert least <= culprit.amount <= most < FAULTS[culprit.kind].LARGE[0]
        assert role_of(culprit.name) not in ORDINARY[culprit.kind]
        assert each.decoys


def test_some_culprits_have_stopped_and_some_have_ended() -> None:
    assert all(1 <= each.mark - each.end <= 4 for each in of("stopped"))
    assert Counter(each.form for each in of("stopped")) == {"": 8, "ended": 8}


def test_a_new_culprit_starts_beside_one_that_is_as_new() -> None:
    seen: set[str] = set(names(40))
    for each in plan(Setting(seed=5)):
        if each.situation != "new":
            assert not each.newcomers
            continue
        culprit, innocent = each.newcomers
        assert (culprit.name, culprit.at) == (each.culprits[0].name, each.onset)
        assert innocent.name != culprit.name
        assert (culprit.name in names(40)) == (each.form == "known")
        assert (culprit.name in seen) == (each.form == "known")
        seen |= {culprit.name, innocent.name}
        assert all(5 <= each.mark - newcomer.at <= 20 for newcomer in each.newcomers)
    assert Counter(each.form for each in of("new")) == {"unseen": 8, "known": 8}


def test_all_are_restarted_before_the_mark_and_have_a_past_again_before_the_next_case() -> None:
    for each in of("restarted"):
        assert each.restart is not None
        assert 15 <= each.mark - each.restart - 4.0 <= each.mark - each.restart <= 40
        assert each.onset - each.restart >= 4.0 + 15 - 10
    rounds = [each.situation for each in plan(Setting(seed=6))][7::8]
    assert rounds == ["restarted"] * 8


def test_two_culprits_differ_in_process_and_kind() -> None:
    for each in of("two"):
        assert len({culprit.name for culprit in each.culprits}) == len({culprit.kind for culprit in each.culprits}) == 2


def test_a_storm_is_of_a_program_and_a_hog_has_victims() -> None:
    assert {culprit.program for each in of("storm") for culprit in each.culprits} == set(Storm.PROGRAMS)
    assert Counter(each.culprits[0].kind for each in of("victims")) == {"cpu": 8, "io": 8}
    for each in of("victims"):
        assert {name for name, _ in each.decoys} <= set(each.waiting)
        assert len(each.decoys) >= 2


def test_culprits_repeat_only_when_there_are_more_cases_than_processes() -> None:
    planned = plan(Setting(cases=46, workers=22, situations=("decoys",)))
    assert Counter(each.culprits[0].name for each in planned[:44]) == dict.fromkeys(names(22), 2)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"situations": ("calm",)}, "situations: expected some of decoys, .*, got calm"),
        ({"situations": ()}, "situations: expected some of decoys, .*, got none"),
        ({"workers": 21}, "workers: expected at least 22, two of each role, got 21"),
        ({"cases": 0}, "cases: expected at least 1, got 0"),
    ],
)
def test_a_setting_that_cannot_be_planned_is_refused(setting: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(Setting(), **setting)


def test_what_counts_as_right_are_features_that_the_agent_has() -> None:
    for kind, right in RIGHT.items():
        assert right
        assert right <= PLAUSIBLE[kind] <= set(FEATURES)
    assert sum(map(len, RIGHT.values())) == len(frozenset().union(*RIGHT.values())), "each belongs to one kind"
    assert STORM_RIGHT < STORM_PLAUSIBLE <= set(FEATURES)


def test_a_recording_comes_back(tmp_path: Path) -> None:
    frames = stream(slice(0), "threads", ticks=3)
    storm = Culprit("log-0", "cpu", 90.0, "true", 9)
    decoys = (Decoy("web-1", 55.0), Decoy("backup", 52.0, "new"))
    cases = [case("io", storm), Case(2, "storm", "", (storm,), 50.0, 58.0, 62.0, decoys, ("web-2",))]
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
    outcomes = evaluate(frames, [case(kind)], methods())
    (outcome,) = outcomes["laggard"]
    assert outcome.found == (Found(case(kind).culprits[0], 1, 1, feature),)
    assert outcome.feature_is_right
    assert outcomes["top"][0].is_first == (kind == "cpu"), "top sees CPU only"


def test_a_method_knows_nothing_later_than_the_mark() -> None:
    frames = stream(slice(39, 60), "threads")  # goes wrong after the mark only
    quiet = stream(slice(0), "threads")
    assert evaluate(frames, [case("threads")], methods()) == evaluate(quiet, [case("threads")], methods())


def test_a_frame_at_the_time_of_the_mark_counts() -> None:
    frames = stream(slice(38, 39), "cpu_user_ratio")
    (outcome,) = evaluate(frames, [case(mark=38.0)], {"top": Top})["top"]
    assert outcome.is_first


def test_a_mark_without_a_frame_since_the_onset_is_no_case() -> None:
    with pytest.raises(ValueError, match="case 1: expected a frame between its onset and its mark"):
        evaluate(stream(slice(0), "threads", ticks=20), [case()], {"top": Top})


def test_a_culprit_that_is_not_ranked_is_unclear() -> None:
    outcome = Outcome.of(case(), ranking("web-1[70@1]", "web-2[8@1]"))  # one of the same name is not it
    assert (outcome.best.place, outcome.best.feature, outcome.is_first_or_second) == (0, "", False)
    assert "0/1 (0.0 %)" in tables({"laggard": [outcome]})


@pytest.mark.parametrize(
    ("rows", "first", "first_two"),
    [
        (("web-1[7@1]", "log-0[9@1]", "web-2[8@1]"), True, True),
        (("log-0[9@1]", "web-1[7@1]", "web-2[8@1]"), True, True),
        (("log-0[9@1]", "web-2[8@1]", "web-1[7@1]"), True, False),
        (("web-2[8@1]", "log-0[9@1]", "web-1[7@1]"), False, False),
        (("log-0[9@1]", "web-2[8@1]"), True, False),
    ],
)
def test_of_two_culprits_either_is_right_as_the_first_and_both_are_wanted_among_two(
    rows: tuple[str, ...], first: bool, first_two: bool
) -> None:
    outcome = Outcome.of(case("memory", Culprit("log-0", "cpu", 1.0, pid=9)), ranking(*rows))
    assert (outcome.is_first, outcome.is_first_or_second) == (first, first_two)
    assert outcome.feature_is_right == (rows[0] == "log-0[9@1]" or not first), "the CPU is the fault of log-0"


def test_the_culprit_of_a_storm_is_the_parent_or_the_program_by_its_name() -> None:
    storm = replace(case(), culprits=(Culprit("web-1", "cpu", 90.0, "true", 7),))
    for row, place in {"true[812@5]": 1, "web-1[7@1]": 1, "web-1[70@1]": 0, "truecrypt[1@1]": 0}.items():
        assert Outcome.of(storm, ranking(row)).best.place == place


def test_a_culprit_behind_strangers_is_the_first_of_the_evaluation() -> None:
    outcome = Outcome.of(case(), ranking("gcc[9@1]", "bash[3@1]", "web-1[7@1]"))
    assert (outcome.is_first, outcome.is_first_of_own) == (False, True)
    for other in ("web-2[8@1]", "export-1[8@1]", "true[8@1]"):
        assert not Outcome.of(case(), ranking("gcc[9@1]", other, "web-1[7@1]")).is_first_of_own


def test_each_improvement_is_switched_off_by_its_parameters() -> None:
    assert set(ABLATIONS) >= {"evidence", "exclusion", "weights", "likelihood"}

    def switched(without: Sequence[str]) -> dict[str, Any]:
        operator = Operator(without=without)._operator
        assert isinstance(operator, Deviations)
        baselines = vars(operator.gaussian._baselines)
        return {
            **baselines,
            **vars(baselines["references"]),
            **vars(operator.gaussian),
            "cohorts": baselines["cohorts"] is not None,
        }

    usual = switched(())
    for name, parameters in ABLATIONS.items():
        changed = switched([name])
        for parameter, value in parameters.items():
            assert usual[parameter] != changed[parameter] == value


def test_a_setting_reaches_the_operator() -> None:
    operator = Operator([parse_assignment("gaussian.context=1h")])._operator
    assert isinstance(operator, Deviations)
    assert operator.gaussian.context_s == 3600.0


def test_a_recording_is_scored_again_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Recorder(tmp_path / "cases", {"seed": 1}) as recorder:
        recorder.publish(stream(slice(30, 42), "threads"))
        recorder.add(case("threads"))
    slowdowns.main(["--replay", str(tmp_path / "cases"), "--without", "weights", "--set", "gaussian.context=1h"])
    said = capsys.readouterr().out
    assert re.search(r"the first process is to blame +26/31 \(83.9 %\) +1/1 \(100.0 %\) +1/1 \(100.0 %\) +0/1", said)
    assert re.search("decoys +1 1 1 / 1 +1 1 1 / 1 +0 0 0 / 1", said)
    slowdowns.main(["--replay", str(tmp_path / "cases"), "--ablate"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in (line.strip() for line in lines[2:])] == [
        "laggard",
        *(f"without {name}" for name in ABLATIONS),
    ]
    assert all("1/1 (100.0 %)" in line for line in lines[2:])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ablate", "--without", "weights"], "expected one of --ablate and --without"),
        (["--set", "gaussian.contxt=1h"], "did you mean 'gaussian.context'"),
        (["--workers", "3"], "workers: expected at least 22"),
        (["--record", "."], "--record .: expected a folder that does not exist yet"),
    ],
)
def test_a_command_that_cannot_be_done_is_refused_at_once(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        slowdowns.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_nothing_to_score_still_gives_tables() -> None:
    assert "28/31 (90.3 %)" in tables({"laggard": []})
    assert "laggard" in ablation({"laggard": []})


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    """Two processes of each role, at work."""
    workload = Workload(tmp_path_factory.mktemp("workload"), 22, seed=1)
    yield workload
    workload.close()


class Meter:
    """What the agent sees of some processes at work, every 0.3 s."""

    def __init__(self, workload: Workload, *names: str) -> None:
        self._table = ProcessTable(Clock(), 1.0)
        self._rows = {f"{name}[{workload.pid(name)}": name for name in names}
        self._table.read()

    def read(self) -> dict[str, dict[str, float]]:
        """By name and feature."""
        time.sleep(0.3)
        layout, values = self._table.read()
        rows = zip(layout.rows, values.tolist(), strict=True)
        known = ((self._rows.get(row.partition("@")[0]), each) for row, each in rows)
        return {name: dict(zip(layout.features, each, strict=True)) for name, each in known if name}

    def wait_for(
        self, what: Callable[[dict[str, dict[str, float]]], list[str]], start: Callable[[str], None] = lambda _: None
    ) -> None:
        """Let `start` begin it, and read until `what` names nothing that is missing, for 60 s at most.

        Others may use the machine: what began and ended between two looks is begun again after some seconds.
        """
        deadline, start_at = time.monotonic() + 60.0, 0.0
        while missing := what(seen := self.read()):
            now = time.monotonic()
            assert now < deadline, {name: seen[name] for name in missing}
            if now >= start_at:
                start_at = now + 6.0
                for name in missing:
                    start(name)

    def close(self) -> None:
        self._table.close()


@pytest.mark.slow
def test_each_fault_shows_in_its_resource_and_is_over_at_its_end(workload: Workload) -> None:
    culprits = dict(zip(RIGHT, ("log-0", "poll-0", "batch-0", "web-0", "cache-0", "pool-0"), strict=True))
    least = {
        "cpu": (("cpu_user_ratio", "cpu_system_ratio"), 0.03),  # six at once share what cores there are
        "memory": (("memory_rss_bytes",), 5e6),
        "io": (("io_read_characters_per_s", "io_write_characters_per_s"), 1e6),
        "descriptors": (("descriptors",), 40),
        "page_faults": (("page_faults_minor_per_s",), 5_000),
        "threads": (("threads",), 20),
    }

    def amounts(seen: dict[str, dict[str, float]]) -> dict[str, float]:
        return {kind: sum(seen[culprits[kind]][feature] for feature in of) for kind, (of, _) in least.items()}

    meter = Meter(workload, *culprits.values())
    try:
        usual = amounts(meter.read())
        highest = dict(usual)
        kinds = {name: kind for kind, name in culprits.items()}

        def start(name: str) -> None:
            workload.tell(name, f"fault {kinds[name]} {FAULTS[kinds[name]].LARGE[1]} 1.5")

        def not_risen(seen: dict[str, dict[str, float]]) -> list[str]:
            for kind, amount in amounts(seen).items():
                highest[kind] = max(highest[kind], amount)
            return [name for kind, name in culprits.items() if highest[kind] - usual[kind] <= least[kind][1]]

        def not_over(seen: dict[str, dict[str, float]]) -> list[str]:
            half = {kind: (usual[kind] + highest[kind]) / 2 for kind in culprits}
            return [name for kind, name in culprits.items() if amounts(seen)[kind] >= half[kind]]

        meter.wait_for(not_risen, start)
        meter.wait_for(not_over)
    finally:
        meter.close()


@pytest.mark.slow
def test_a_small_fault_shows_too_and_a_storm_shows_in_its_parent(workload: Workload) -> None:
    meter = Meter(workload, "log-1", "sleep-1", "web-1", "build-1")
    least = {
        "log-1": (("page_faults_minor_per_s",), 500),
        "sleep-1": (("threads",), 12),
        "web-1": (("io_read_characters_per_s", "io_write_characters_per_s"), 200_000),
        "build-1": (("cpu_children_ratio",), 0.005),
    }
    seen_once: set[str] = set()

    def not_seen(seen: dict[str, dict[str, float]]) -> list[str]:
        for name, (of, amount) in least.items():
            if sum(seen[name][feature] for feature in of) > amount:
                seen_once.add(name)
        return sorted(least.keys() - seen_once)

    try:
        assert len(not_seen(meter.read())) == len(least)
        wrong = {
            "log-1": f"fault page_faults {FAULTS['page_faults'].SMALL[1]} 3",
            "sleep-1": f"fault threads {FAULTS['threads'].SMALL[1]} 3",
            "web-1": f"fault io {FAULTS['io'].SMALL[1]} 3",
            "build-1": "storm true 200 3",
        }
        meter.wait_for(not_seen, lambda name: workload.tell(name, wrong[name]))
    finally:
        meter.close()


class Hurried(Script):
    """Does all that is planned in its order, at once."""

    def wait(self, timeout: float | None = None) -> bool:
        while self._due:
            self._due.pop()[2]()
        return True


@pytest.mark.slow
def test_what_is_planned_happens_and_is_undone(tmp_path: Path, workload: Workload) -> None:
    setting = Setting(seed=3, cases=8, workers=22)
    planned = plan(setting)
    workers = names(setting.workers)
    cores = os.sched_getaffinity(0)
    with Recorder(tmp_path / "cases", {}) as recorder:
        for number, each in enumerate(planned, 1):
            before = {name: workload.pid(name) for name in workers}
            script = Hurried()
            Staged(number, each, workload, recorder).schedule(script, workers)
            script.wait()
            changed = {name for name in workers if workload.pid(name) != before[name]}
            (recorded,) = read_cases(tmp_path / "cases")[number - 1 :]
            assert (recorded.situation, recorded.form) == (each.situation, each.form)
            assert [replace(culprit, pid=0) for culprit in recorded.culprits] == list(each.culprits)
            pids = {culprit.name: culprit.pid for culprit in recorded.culprits}
            known = {*before.values(), *map(workload.pid, workers)}
            match each.situation:
                case "restarted":
                    assert changed == set(workers)
                    assert pids == {name: workload.pid(name) for name in pids}
                case "stopped" if each.form == "ended":
                    assert changed == set(pids)
                    assert pids == {name: before[name] for name in pids}
                case "new":
                    assert not changed
                    assert not known & set(pids.values())
                    assert [decoy.did for decoy in recorded.decoys].count("new") == 1
                case _:
                    assert not changed
                    assert pids == {name: before[name] for name in pids}
            assert all(os.sched_getaffinity(workload.pid(name)) == cores for name in workers)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_short_selection_of_slowdowns(tmp_path: Path) -> None:
    situations = ("decoys", "stopped", "new", "storm")
    setting = Setting(seed=1, cases=4, situations=situations, warm_up_s=20.0, pause_s=2.0)
    record(tmp_path / "cases", setting)
    cases = read_cases(tmp_path / "cases")
    assert [case.situation for case in cases] == [each.situation for each in plan(setting)]
    outcomes = evaluate(read_frames(tmp_path / "cases", "process"), cases, {"laggard": Operator})
    print(tables(outcomes))
    # The model has seen less than a minute, on a machine that may do anything else: half of them is no accident.
    assert sum(outcome.best.own_place in {1, 2} for outcome in outcomes["laggard"]) >= 2, tables(outcomes)
