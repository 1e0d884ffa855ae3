"""The lab: its schedules, what it writes, and that it gives back what it took."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.core.records import Frame
from laggard.pipeline.core.records.json_lines import read_line
from laggard.producers.host.processes import FEATURES
from tests.evaluation.lab import groups, recording, scenarios, stage, tiers
from tests.evaluation.lab.__main__ import main
from tests.evaluation.lab.scenarios import SCENARIOS
from tests.evaluation.lab.stage import PERFORMANCE, Interval, performance
from tests.evaluation.lab.writing import METRICS, write_frames
from tests.misbehaving.programs import needs_own_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("web", "app", "db")
TAKES = """
import time
from tests.evaluation.lab.hosts import MIB, Disk, Lab
with Lab() as lab:
    host = lab.host("web", 64 * MIB)
    disk = Disk(lab, 32 * MIB)
    host.add("sleeper")
    host.start("sleeper", ["sh", "-c", f"exec 3> {disk.folder}/held; sleep 600"])
    print(lab.name, disk.device, flush=True)
    time.sleep(600)
"""


def intervals(count: int, ts: float = 1_700_000_000.0) -> list[Interval]:
    """As if they had been recorded; a process comes at the third."""
    made = []
    for number in range(count):
        one = Interval(ts + number, ts + number + 1, 80)
        one.performance = dict.fromkeys(PERFORMANCE, 0.1)
        one.hosts = {host: {"cpu_busy_ratio": 0.5, "cpu_idle_ratio": 0.5} for host in HOSTS}
        one.processes = {host: {"nginx": np.full(len(FEATURES), 2.0)} for host in HOSTS}
        if number >= 2:
            one.processes["db"] = {**one.processes["db"], "late": np.full(len(FEATURES), 3.0)}
        made.append(one)
    return made


@pytest.mark.parametrize(("scenario", "published"), [("workload", 1000), ("cpu", 1200), ("memory", 1000)])
def test_as_many_visitors_come_as_was_published(scenario: str, published: int) -> None:
    planned = SCENARIOS[scenario]
    visitors = planned.visitors(seed=1)
    assert len(visitors) == planned.intervals
    usual = [count for number, count in enumerate(visitors, 1) if not (planned.surge[1] and planned.contended(number))]
    assert published / scenarios.SCALE == pytest.approx(np.mean(usual), rel=0.03)
    assert visitors == planned.visitors(seed=1) != planned.visitors(seed=2)


def test_the_surge_is_that_of_the_paper() -> None:
    visitors = SCENARIOS["workload"].visitors(seed=1)
    assert np.mean(visitors[20:40]) / np.mean(visitors[:20] + visitors[40:]) == pytest.approx(2.3, rel=0.03)


def test_neighbors_come_and_go_as_in_the_paper() -> None:
    noise = SCENARIOS["cpu"].noise
    there = [sum(each.share(number - 0.5, 0.3) > 0 for each in noise) for number in range(1, 121)]
    assert there == [0] * 20 + [2] * 20 + [4] * 40 + [2] * 20 + [0] * 20
    shares = [noise[0].share(time, 0.3) for time in np.linspace(20, 80, 600, endpoint=False)]
    assert min(shares) == pytest.approx(0.1, abs=0.01)
    assert max(shares) == pytest.approx(0.4, abs=0.01)
    together = [
        noise[0].share(time, 0.3) + noise[1].share(time, 0.3) for time in np.linspace(20, 80, 50, endpoint=False)
    ]
    assert together == pytest.approx([0.5] * 50), "those that come together take turns"
    assert noise[0].share(25.25, 0.3) == pytest.approx(noise[0].share(27.25, 0.3)), "it swings within two intervals"


def test_a_recording_has_as_many_metrics_as_the_paper_and_can_be_replayed() -> None:
    file = io.StringIO()
    recorded = write_frames(file, HOSTS, intervals(4), 1.0, seed=1)
    assert recorded == 3 * 2 + 4 * len(FEATURES)
    frames = [read_line(line, "lab") for line in file.getvalue().splitlines()]
    assert len(frames) == 4 * (2 * len(HOSTS) + 1)
    metrics: set[tuple[str, str]] = set()
    for frame in frames:
        assert isinstance(frame, Frame)
        assert (frame.keyed_by, frame.key) == ("application", "shop")
        if frame.scope == "performance":
            assert not frame.hosts
        else:
            (host,) = frame.hosts
            assert {row.partition("/")[0] for row in frame.layout.rows} == {host}
        metrics |= {(row, feature) for row in frame.layout.rows for feature in frame.layout.features}
    assert len(metrics) == METRICS
    late = [f for f in frames if isinstance(f, Frame) and f.hosts == ("db",) and f.scope == "process"]
    rows = [frame.values[frame.layout.rows.index("db/late")] for frame in late]
    assert np.isnan(rows[:2]).all()
    assert (np.array(rows[2:]) == 3.0).all()


@pytest.mark.slow
def test_padding_follows_the_seed_and_moves() -> None:
    texts = []
    for seed in (1, 1, 2):
        file = io.StringIO()
        write_frames(file, HOSTS, intervals(10), 1.0, seed)
        texts.append(file.getvalue())
    assert texts[0] == texts[1] != texts[2]
    found = [json.loads(line)["rows"] for line in texts[0].splitlines() if '"scope":"process"' in line]
    web = [each for each in found if "web/nginx" in each]
    moving = {
        (row, feature)
        for row in web[0]
        if row != "web/nginx"
        for feature in FEATURES
        if len({each[row][feature] for each in web}) > 5
    }
    assert len(moving) > 150, "of some 2,500; many processes sleep, and many counters are constant"


def test_performance_is_of_answers_that_were_pages() -> None:
    answers = [(1.0, 0.1, 200), (1.1, 0.3, 200), (1.2, 30.0, 0), (1.3, 0.01, 502)]
    found = performance(answers, 2.0)
    assert (found["throughput_per_s"], found["errors_per_s"]) == (1.0, 1.0)
    assert found["response_time_mean_s"] == pytest.approx(0.2)
    assert found["response_time_standard_deviation_s"] == pytest.approx(0.1)
    assert found["response_time_p50_s"] == pytest.approx(0.2)
    none = performance([], 2.0)
    assert none["throughput_per_s"] == 0.0
    assert math.isnan(none["response_time_mean_s"])


def test_a_recording_that_shows_nothing_is_told() -> None:
    planned = SCENARIOS["workload"]
    calm = intervals(planned.intervals)
    assert [check.held for check in recording.checked(planned, calm)] == [False, False]
    for number, each in enumerate(calm, 1):
        if planned.contended(number):
            each.performance["response_time_mean_s"] = 0.5
            each.hosts["web"]["cpu_busy_ratio"] = 0.99
    assert [check.held for check in recording.checked(planned, calm)] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record", "--scenario", "net", "--out", "x"], "invalid choice: 'net'"),
        (["record", "--scenario", "cpu", "--out", "/nowhere/x"], "expected a folder that exists"),
        (["record", "--scenario", "cpu", "--out", "x", "--interval", "0.1"], "expected 0.5 to 60 seconds"),
        (["record", "--scenario", "cpu", "--out", __file__], "expected a file that does not exist yet"),
    ],
)
def test_a_command_that_cannot_be_done_is_refused_at_once(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def able() -> None:
    """Skips where control groups, networks and loop devices cannot be made."""
    try:
        groups.own_paths()
    except OSError as error:
        pytest.skip(f"no control groups as the lab needs them: {error}")
    if os.geteuid() != 0:
        pytest.skip("control groups, networks and loop devices need root")
    needs_own_mounts()
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network can be made here")
    if not Path("/dev/loop-control").exists():
        pytest.skip("there are no loop devices here")


def left(name: str, device: str) -> Iterator[str]:
    """What is still there of a lab."""
    yield from map(str, Path("/dev/shm").glob(f"{name}*"))
    yield from map(str, Path("/run/netns").glob(f"{name}*"))
    yield from (str(path / name) for path in groups.own_paths().values() if (path / name).exists())
    yield from (line for line in Path("/proc/mounts").read_text().splitlines() if f"/{name}-" in line)
    backing = Path("/sys/block", device, "loop/backing_file")
    if backing.exists():
        yield device


@pytest.mark.slow
@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_all_is_given_back_by_one_that_is_killed(number: signal.Signals) -> None:
    lab = subprocess.Popen([sys.executable, "-c", TAKES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with lab:
        assert lab.stdout is not None
        name, device = lab.stdout.readline().split()
        assert len(list(left(name, device))) >= 10
        lab.send_signal(number)
    deadline = time.monotonic() + 30.0
    while found := list(left(name, device)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("able")
def test_a_small_contention_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (tiers, "REVIEWS", 20_000),
        (tiers, "PRODUCTS", 1_000),
        (stage, "PRODUCTS", 1_000),
        (stage, "CAPACITY", 28.0),
        (stage, "WARM_UP_S", 3.0),
        (stage, "CALIBRATION_S", 4.0),
        (stage, "SETTLING_S", 2.0),
        (scenarios, "SCALE", 60),
        (groups, "PERIOD_US", 100_000),
    ):
        monkeypatch.setattr(module, name, value)
    published = SCENARIOS["cpu"]
    noise = tuple(dataclasses.replace(each, begin=5, end=9) for each in published.noise)
    planned = dataclasses.replace(published, intervals=12, begin=5, end=9, noise=noise)
    file = tmp_path / "cpu.jsonl"
    assert recording.record(planned, file, 1.0, seed=1)
    truth = json.loads((tmp_path / "cpu.truth.json").read_text())
    assert [each["host"] for each in truth["intervals"]] == [""] * 4 + ["web"] * 5 + [""] * 3
    assert truth["recorded_metrics"] > 1_000
    values: dict[str, list[float]] = {"wait": [], "performance": [], "rows": []}
    for line in file.read_text().splitlines():
        fields = json.loads(line)
        if "performance" in fields:
            values["performance"].append(fields["performance"]["response_time_mean_s"])
        elif "web/nginx" in fields["rows"]:
            values["wait"].append(fields["rows"]["web/nginx"]["cpu_wait_ratio"])
    assert np.corrcoef(values["wait"], values["performance"])[0, 1] > 0.6, "nginx waits for what the neighbours take"
