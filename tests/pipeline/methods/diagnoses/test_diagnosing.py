"""When processes are profiled, and what is reported: on a machine made of files, in a time that the test moves.

The sessions are real ones. test_diagnosing_live.py has processes of this machine that misbehave.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.operators.cpu import Machine as StateMachine
from laggard.operators.cpu import State
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from laggard.pipeline.methods.diagnoses import triggers
from laggard.pipeline.methods.diagnoses.diagnosing import KILLED, STOPPED, Diagnosing
from laggard.pipeline.methods.diagnoses.samplings import FAILED, MAX_SESSIONS
from laggard.pipeline.methods.diagnoses.suspicion import MAX_SUSPECTS, SUSPECT_RATIO
from laggard.pipeline.methods.diagnoses.triggers import CHECK_S, CONDITIONS
from laggard.pipeline.methods.diagnoses.unfinished import Unfinished
from laggard.pipeline.settings.producing import DiagnosisSettings
from laggard.producers.diagnosis.bounds import Limits
from laggard.producers.diagnosis.profiling import METHODS
from laggard.producers.diagnosis.symbols import kernel_symbols
from laggard.producers.host.suspects import Suspects
from tests.pipeline.core.records.test_diagnosis_json import DIAGNOSIS
from tests.producers.conftest import STAT, Machine, Time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.methods.diagnoses.triggers import Change
    from laggard.producers.host.utilisation import Use

CPUS = 2
TICKS = os.sysconf("SC_CLK_TCK")
STEP_S = 0.125
BEGIN = 1_700_000_000.0
DEFAULT = tuple(each for each in CONDITIONS if each != "single_cpu")
THRESHOLDS = {"cpu": 0.85, "single_cpu": 0.85, "quota": 0.85, "io_pressure": 0.85, "memory_pressure": 0.6}


class Scene:
    """A machine with processes that use what the test says, and what profiles them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = Time()
        self.machine = Machine(folder / "proc")
        self.told: list[Diagnosis] = []
        self.refuses = False
        self.state = folder / "diagnoses.jsonl"
        self._ticks: dict[int, float] = {}
        self._idle_s = 0.0
        self._stalled_us = {"io": 0.0, "memory": 0.0}
        self._started = 1
        self.write(0.0, {}, {})
        self.diagnosing = self.begin()

    def begin(self, *conditions: str, limits: Limits | None = None) -> Diagnosing:
        made = Diagnosing(
            self.publish,
            "web-1",
            {each: StateMachine(threshold=THRESHOLDS[each], duration_s=5.0) for each in conditions or DEFAULT},
            Unfinished(self.state),
            budget_ratio=0.05,
            methods=[],
            limits=limits,
            clock=self.time.clock,
            root=str(self.machine.root),
            groups=str(self.folder / "groups"),
        )
        self.diagnosing = made
        return made

    def publish(self, diagnosis: Diagnosis) -> None:
        if self.refuses:
            raise OSError("the disk is full")
        write_diagnosis(diagnosis)
        self.told.append(diagnosis)

    def start(self, *pids: int, **fields: object) -> None:
        """Start processes."""
        for pid in pids:
            self._ticks[pid] = 0.0
            self._started = pid
            self.machine.run(pid, comm=f"hog-{pid}".encode(), **fields)

    def end(self, pid: int) -> None:
        """End a process."""
        del self._ticks[pid]
        self.machine.end(pid)

    def pass_(
        self, seconds: float, uses: dict[int, float] | None = None, stalled: dict[str, float] | None = None
    ) -> None:
        """Let time pass, in which processes have these uses of one CPU, and tasks wait for these shares of it."""
        for _ in range(round(seconds / STEP_S)):
            self.time.pass_(STEP_S)
            self.write(STEP_S, uses or {}, stalled or {})
            self.diagnosing.step()

    def write(self, passed_s: float, uses: dict[int, float], stalled: dict[str, float]) -> None:
        for pid, ratio in uses.items():
            if pid in self._ticks:
                self._ticks[pid] += ratio * passed_s * TICKS
                fields = self.machine.fields[pid] | {"comm": f"hog-{pid}", "user": f"{round(self._ticks[pid]):9}"}
                put(self.machine.root / str(pid) / "stat", STAT.format(**fields))
        self._idle_s += passed_s * max(0.0, CPUS - sum(uses.values()))
        put(self.machine.root / "uptime", f"9.00 {self._idle_s:9.2f}\n")
        put(self.machine.root / "loadavg", f"0.00 0.01 0.05 1/90 {self._started:9}\n")
        for resource in self._stalled_us if stalled or not passed_s else ():
            self._stalled_us[resource] += stalled.get(resource, 0.0) * passed_s * 1e6
            text = f"some avg10=0.0 total={round(self._stalled_us[resource]):012}\n"
            put(self.machine.root / "pressure" / resource, text)

    def of(self, pid: int) -> list[Diagnosis]:
        """Return the diagnoses of a process."""
        return [each for each in self.told if each.pid == pid]


def put(path: Path, text: str) -> None:
    """Write a text over one that is as long: without having to empty a file this takes a tenth of the time."""
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with path.open("r+") as file:
        file.write(text)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(os, "cpu_count", lambda: CPUS)
    made = Scene(tmp_path)
    yield made
    made.diagnosing.let_go(STOPPED)
    made.diagnosing._triggers.close()


def check_phases(diagnosis: Diagnosis, begin: float, *turns: float) -> None:
    """Its phases, high ones and dips, turn when they should, in seconds since the scene began, or up to 1 s later."""
    phases = diagnosis.phases
    assert [phase.high for phase in phases] == [number % 2 == 0 for number in range(len(turns))]
    assert all(earlier.end_ts == later.begin_ts for earlier, later in itertools.pairwise(phases))
    times = [phases[0].begin_ts, *(phase.end_ts for phase in phases)]
    late = [found - BEGIN - wanted for found, wanted in zip(times, (begin, *turns), strict=True)]
    assert all(0.0 <= each <= 1.0 for each in late), late


def test_states_and_methods_are_those_that_others_know() -> None:
    assert (triggers._NORMAL, triggers._HIGH, triggers._DIAGNOSIS) == (State.NORMAL, State.HIGH, State.DIAGNOSIS)
    assert set(DiagnosisSettings.method.choices) == {"auto", "proc", *(method.NAME for method in METHODS)}


def test_a_process_that_uses_all_processors_for_5_s_is_profiled_until_that_is_over(scene: Scene) -> None:
    scene.start(7, 8)
    scene.pass_(10.0, {8: 1.6})
    assert scene.diagnosing.running == 0, "below the threshold"
    scene.pass_(8.0, {7: 1.9})
    assert scene.diagnosing.running == 1
    scene.pass_(10.0, {7: 0.1})
    assert scene.diagnosing.running == 0
    assert [each.progress for each in scene.told] == ["opened", "closed"]
    last = scene.told[-1]
    assert (last.host, last.name, last.reason, last.complete) == ("web-1", "hog-7", "cpu", True)
    assert last.value == pytest.approx(0.95, abs=0.03)
    assert last.threshold == 0.85
    assert {each.id for each in scene.told} == {last.id}
    check_phases(last, 15.0, 18.0, 23.0)
    assert scene.diagnosing.failures == 0


def test_the_published_case_is_one_event_with_its_phases(scene: Scene) -> None:
    """High use from 50 s to 170 s, with dips around 110 s and 150 s (S1, Fig. 2)."""
    scene.start(7)
    for second in range(200):
        high = 50 <= second < 170 and second not in {110, 111, 150, 151}
        scene.pass_(1.0, {7: 2.0 if high else 0.1})
    assert [each.progress for each in scene.told].count("opened") == 1
    assert len({each.id for each in scene.told}) == 1
    check_phases(scene.told[-1], 55.0, 110.0, 112.0, 150.0, 152.0, 170.0, 175.0)
    samples = [phase.samples for phase in scene.told[-1].phases]
    assert samples == pytest.approx([440, 16, 304, 16, 144, 40], abs=6), "one at each step"
    # Told when there is something, and then ever more seldom.
    times = [each.ts - scene.told[0].ts for each in scene.told]
    assert times[0] == 0.0
    assert all(later - earlier >= 10.0 for earlier, later in itertools.pairwise(times))
    assert len(times) == 6


def test_one_core_is_a_condition_of_its_own(scene: Scene) -> None:
    scene.begin("single_cpu")
    scene.start(7)
    scene.pass_(12.0, {7: 1.0})
    assert [each.reason for each in scene.told] == ["single_cpu"]


def test_a_process_with_several_troubles_is_profiled_once(scene: Scene) -> None:
    scene.begin("cpu", "single_cpu")
    scene.start(7)
    scene.pass_(10.0, {7: 2.0})
    assert scene.diagnosing.running == 1
    scene.pass_(10.0, {7: 1.0})
    assert {each.reason for each in scene.told} == {"cpu"}
    # It is still too much for one core, and the first trouble alone is over.
    assert scene.diagnosing.running == 1
    assert scene.told[-1].phases[-1].high, "that is no dip"
    scene.pass_(8.0, {7: 0.0})
    assert scene.diagnosing.running == 0
    assert {each.id for each in scene.told} == {scene.told[0].id}


def test_waiting_and_top_processes_are_profiled_while_a_host_waits_for_its_disk(scene: Scene) -> None:
    scene.start(*range(2, 9))
    scene.machine.run(3, state="D")
    for second in range(12):
        scene.machine.run(4, read=second * 9_000_000)
        scene.pass_(1.0, stalled={"io": 0.95})
    assert {each.pid for each in scene.told} == {3, 4}
    assert {each.reason for each in scene.told} == {"io_pressure"}
    assert scene.told[0].value == pytest.approx(0.95)
    scene.pass_(8.0)
    assert {each.pid for each in scene.told if each.progress == "closed"} == {3, 4}


def test_who_waits_in_a_control_group_of_its_own_is_found_beside_those_who_compute(scene: Scene) -> None:
    """The host's pressure is half then, and no event."""
    groups = scene.folder / "groups"

    def group(name: str, pids: str, io_s: float) -> None:
        folder = groups / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(pids)
        (folder / "io.pressure").write_text(f"some avg10=0.00 total={round(io_s * 1e6)}\n")
        (folder / "memory.pressure").write_text("some avg10=0.00 total=0\n")

    groups.mkdir()
    (groups / "cgroup.controllers").write_text("io memory\n")
    (groups / "cgroup.stat").write_text("nr_descendants 2\n")
    scene.begin("io_pressure", "memory_pressure")
    scene.start(*range(2, 9))
    scene.machine.run(6, state="D")
    begun = None
    for eighth in range(8 * 20):
        stuck = 40 <= eighth < 8 * 14
        waited_s = (min(max(eighth - 40, 0), 8 * 14 - 40) + 1) / 8
        scene.machine.run(5, read=eighth * 100_000 if stuck else 0)
        group("stuck", "4\n5\n6\n7\n", waited_s)
        group("busy", "2\n3\n", 0.02 * waited_s)
        scene.pass_(0.125, {2: 1.0, 3: 0.97}, {"io": 0.5 if stuck else 0.0})
        if begun is None and scene.diagnosing.running:
            begun = eighth / 8
    assert begun is not None
    assert 5.0 + 5.0 <= begun <= 5.0 + 6.0
    assert {each.pid for each in scene.told} == {5, 6}, "who reads and who waits, of the four of the group"
    assert {each.reason for each in scene.told} == {"io_pressure"}
    assert scene.told[0].value == pytest.approx(1.0, abs=0.01)
    assert {each.pid for each in scene.told if each.progress == "closed"} == {5, 6}
    assert scene.diagnosing.failures == 0


def test_the_hosts_pressure_leaves_room_for_others(scene: Scene) -> None:
    scene.begin("single_cpu", "io_pressure", "memory_pressure")
    pids = range(2, 30)
    scene.start(*pids, state="D", faults_major=0)
    for second in range(12):
        for pid in pids:
            scene.machine.run(pid, state="D", faults_major=second * pid)
        scene.pass_(1.0, stalled={"io": 0.95, "memory": 0.95})
    assert scene.diagnosing.running == MAX_SUSPECTS
    scene.start(90)
    scene.pass_(8.0, {90: 1.0}, {"io": 0.95, "memory": 0.95})
    assert scene.of(90)


def test_where_it_is_expensive_to_look_at_who_waits_that_is_done_seldom_and_still_tells_who(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with 5,000 processes a look takes 0.23 s of CPU time."""
    looked = []
    look = Suspects.sample

    def expensive(suspects: Suspects) -> None:
        look(suspects)
        looked.append(scene.time.monotonic)
        scene.time.cpu += 230_000_000

    monkeypatch.setattr(Suspects, "sample", expensive)
    scene.start(*range(2, 9))
    for second in range(90):
        scene.pass_(1.0, stalled={"io": 0.95 if second % 4 < 2 else 0.1})
    assert 1 <= len(looked) <= 1 + 90 * SUSPECT_RATIO / 0.23
    assert not scene.told
    scene.pass_(60.0, stalled={"io": 0.1})
    for second in range(14):
        scene.machine.run(4, read=second * 9_000_000)
        scene.pass_(1.0, stalled={"io": 0.95})
    assert {each.pid for each in scene.told} == {4}


def test_looking_at_who_waits_makes_no_event_late(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with 95 processes a look takes 10 ms of CPU time."""
    look = Suspects.sample

    def expensive(suspects: Suspects) -> None:
        look(suspects)
        scene.time.cpu += 10_000_000

    monkeypatch.setattr(Suspects, "sample", expensive)
    scene.start(*range(2, 9))
    scene.pass_(5.0)
    for eighth in range(9 * 8):
        scene.machine.run(4, read=eighth * 1_000_000)
        scene.pass_(0.125, stalled={"io": 0.95})
    assert 10.0 <= scene.told[0].phases[0].begin_ts - BEGIN <= 11.0


def test_two_looks_are_not_a_sliver_of_time_apart(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late one of them is, as on a machine that has no CPU time left."""
    looked = []
    look = scene.diagnosing._triggers.check

    def noted() -> Sequence[Change]:
        looked.append(scene.time.monotonic / 1e9)
        return look()

    monkeypatch.setattr(scene.diagnosing._triggers, "check", noted)
    scene.start(7)
    scene.pass_(2.0, {7: 2.0})
    looked.clear()
    for late in range(20):
        scene.time.pass_(0.5 + 0.05 * late)
        for _ in range(80):
            scene.time.pass_(0.01)
            scene.write(0.01, {7: 2.0}, {})
            scene.diagnosing.step()
    assert min(later - earlier for earlier, later in itertools.pairwise(looked)) >= CHECK_S / 2 - 1e-6


def test_what_returns_to_high_use_by_another_trouble_is_in_no_dip(scene: Scene) -> None:
    group = scene.folder / "groups" / "cpu" / "shop"
    group.mkdir(parents=True)
    for path in (group, group.parent):
        (path / "cpu.cfs_quota_us").write_text("-1\n")
        (path / "cpu.stat").write_text("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
    scene.begin("cpu", "quota")
    scene.start(7)
    (group / "cgroup.procs").write_text("7\n")
    (group / "cpu.cfs_quota_us").write_text("150000\n")
    # Held back, it uses less; but for a moment now and then, so that the first event goes on.
    for quarter in range(120):
        periods = 5 * quarter
        (group / "cpu.stat").write_text(f"nr_periods {periods}\nnr_throttled {max(0, periods - 200)}\n")
        scene.pass_(0.25, {7: 2.0 if quarter < 40 or quarter % 16 < 4 else 1.5})
    last = scene.of(7)[-1]
    assert {each.reason for each in scene.told} == {"cpu"}
    assert last.phases[-1].high
    assert last.phases[-1].end_ts - last.phases[-1].begin_ts > 5.0


def test_the_number_of_sessions_is_limited_and_top_consumers_come_first(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    scene.begin("single_cpu")
    pids = list(range(2, 2 + MAX_SESSIONS + 2))
    scene.start(*pids)
    uses = {pid: 1.0 + 0.1 * pid for pid in pids}
    scene.pass_(8.0, uses)
    assert {each.pid for each in scene.told} == set(pids[2:])
    # The next one when there is room.
    scene.end(pids[-1])
    scene.pass_(3.0, uses)
    assert {each.pid for each in scene.told} == set(pids[1:])


def test_a_process_that_ends_is_reported_at_once(scene: Scene) -> None:
    scene.start(7, 8)
    scene.pass_(8.0, {7: 2.0})
    scene.end(7)
    scene.pass_(1.0, {8: 0.1})
    assert scene.told[-1].progress == "closed"
    assert not scene.told[-1].complete
    assert scene.told[-1].notes


def test_a_bound_ends_the_look_and_not_the_event(scene: Scene) -> None:
    scene.begin("cpu", limits=Limits(duration_s=3.0))
    scene.start(7)
    scene.pass_(30.0, {7: 2.0})
    assert [each.progress for each in scene.told] == ["opened", "closed"]
    assert not scene.told[-1].complete


def test_an_idle_host_is_not_asked_for_its_processes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    utilisation = scene.diagnosing._triggers._utilisation
    read = utilisation.read

    def counted() -> Use:
        asked.append(scene.time.monotonic)
        return read()

    monkeypatch.setattr(utilisation, "read", counted)
    scene.start(7)
    scene.pass_(1.0)
    asked.clear()
    scene.pass_(20.0, {7: 0.2})
    assert not asked
    scene.pass_(8.0, {7: 2.0})
    assert asked
    assert [each.progress for each in scene.told] == ["opened"]


# What goes wrong.


def test_what_cannot_be_published_is_counted_and_told_the_next_time(scene: Scene) -> None:
    scene.start(7)
    scene.refuses = True
    scene.pass_(8.0, {7: 2.0})
    assert scene.diagnosing.failures == 1
    assert scene.diagnosing.running == 1
    scene.refuses = False
    scene.pass_(10.0, {7: 2.0})
    assert [each.progress for each in scene.told] == ["extended"]


def test_a_session_that_fails_is_over_and_nothing_else(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.start(7)
    scene.pass_(8.0, {7: 2.0})
    (look,) = scene.diagnosing._samplings._each.values()

    def fail() -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(look.session, "sample", fail)
    scene.pass_(1.0, {7: 2.0})
    assert scene.diagnosing.running == 0
    assert scene.diagnosing.failures == 1
    assert (scene.told[-1].progress, scene.told[-1].complete, scene.told[-1].notes[0]) == ("closed", False, FAILED)


def test_a_clean_stop_closes_what_is_open(scene: Scene) -> None:
    scene.start(7)
    scene.pass_(8.0, {7: 2.0})
    assert scene.state.exists()
    scene.diagnosing.let_go(STOPPED)
    assert (scene.told[-1].progress, scene.told[-1].complete, scene.told[-1].notes[0]) == ("closed", False, STOPPED)
    assert not scene.state.exists()


def test_who_comes_after_a_killed_agent_closes_what_that_left_open(scene: Scene) -> None:
    scene.start(7)
    scene.pass_(8.0, {7: 2.0})
    opened = scene.told[-1]
    scene.begin()
    scene.diagnosing.finish()
    assert scene.told[-1] == replace(opened, progress="closed", complete=False, notes=(KILLED, *opened.notes))
    assert not scene.state.exists()
    scene.pass_(8.0, {7: 2.0})
    assert scene.told[-1].progress == "opened"
    assert scene.told[-1].id != opened.id, "what goes on is another event, as nobody saw what was in between"


def test_one_that_was_being_closed_goes_out_again_as_it_was(scene: Scene) -> None:
    closed = replace(DIAGNOSIS, progress="closed")
    Unfinished(scene.state).write([closed])
    scene.diagnosing.finish()
    assert scene.told == [closed]
    assert not scene.state.exists()


def test_what_could_not_be_closed_keeps_no_other_open_and_waits_for_the_next_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = (replace(DIAGNOSIS, id=name) for name in ("first", "second", "third"))
    Unfinished(scene.state).write([first, second, third])

    def refuse(diagnosis: Diagnosis) -> None:
        if diagnosis.id == second.id:
            raise OSError("the topic takes nothing so large")
        scene.publish(diagnosis)

    monkeypatch.setattr(scene.diagnosing, "_publish", refuse)
    scene.diagnosing.finish()
    assert [(each.id, each.progress) for each in scene.told] == [("first", "closed"), ("third", "closed")]
    assert [each.id for each in Unfinished(scene.state).read()] == ["second"]
    assert scene.diagnosing.failures == 1
    assert caplog.messages == [f"closing diagnosis second, of {DIAGNOSIS.row}, failed"]
    scene.begin().finish()
    assert [each.id for each in scene.told] == ["first", "third", "second"]
    assert scene.told[-1] == replace(second, progress="closed", complete=False, notes=(KILLED, *second.notes))
    assert not scene.state.exists()


def test_a_damaged_file_of_open_diagnoses_is_said_and_one_that_cannot_be_written_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.state.write_text(f"{write_diagnosis(DIAGNOSIS)}\nnothing\n{json.dumps({'kind': 'anomaly'})}\n")
    assert Unfinished(scene.state).read() == [DIAGNOSIS]
    assert f"{scene.state}:2" in caplog.text
    assert f"{scene.state}:3: field 'kind'" in caplog.text
    caplog.clear()
    unfinished = Unfinished(scene.folder / "nothing" / "diagnoses.jsonl")
    unfinished.write([DIAGNOSIS])
    unfinished.write([DIAGNOSIS])
    assert len(caplog.messages) == 1
    assert "diagnoses that are open when the agent is killed stay so" in caplog.text


def test_a_look_that_fails_is_logged_once_and_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        scene.time.pass_(1.0)
        raise RuntimeError("no procfs")

    diagnosing = scene.diagnosing
    monkeypatch.setattr("laggard.pipeline.methods.diagnoses.diagnosing.CHECK_S", 0.01)
    monkeypatch.setattr(diagnosing._triggers, "check", fail)
    diagnosing.start()
    for _ in range(1000):
        if diagnosing.failures >= 2:
            break
        diagnosing._thread.join(0.01)
    diagnosing.close()
    assert not diagnosing._thread.is_alive()
    assert diagnosing.failures >= 2
    assert caplog.text.count("RuntimeError: no procfs") == 1


@pytest.mark.parametrize(("methods", "loaded"), [(None, 1), (["perf"], 1), (["py-spy"], 0), ([], 0)])
def test_what_is_large_is_loaded_before_anything_is_wrong(
    scene: Scene, methods: list[str] | None, loaded: int, tmp_path: Path
) -> None:
    kernel_symbols.cache_clear()
    diagnosing = Diagnosing(
        scene.publish, "web-1", {}, Unfinished(tmp_path / "open"), budget_ratio=0.05, methods=methods
    )
    diagnosing.start()
    until = time.monotonic() + 60.0
    while diagnosing.delay_s() == 0.0:  # until it has looked at the host
        assert time.monotonic() < until
        time.sleep(0.01)
    diagnosing.close()
    assert kernel_symbols.cache_info().currsize == loaded
    assert diagnosing.failures == 0
    # To others than root the kernel tells few of its symbols.
    assert diagnosing.cpu_s > (0.01 * loaded if os.geteuid() == 0 else 0.0), "what it took is counted"
