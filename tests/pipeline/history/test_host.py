"""What is told when no process is the culprit: the host was slowed from outside, or has just booted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.cli import run
from laggard.pipeline.cli.pages import tick_line
from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import wire
from tests.pipeline.history.conftest import FEATURES, LAYOUT, ROWS, TICK_S, append, at, work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pipeline.history.conftest import Recorded

COUNTERS = (
    "cpu_user_ratio",
    "cpu_steal_ratio",
    "cpu_busy_ratio",
    "pressure_cpu_some_ratio",
    "pressure_io_some_ratio",
    "load_1m",
    "switches_per_s",
    "interrupts_per_s",
    "forks_per_s",
    "memory_used_bytes",
    "page_faults_minor_per_s",
    "boot_timestamp_seconds",
)
HOST = make_layout(("host",), ("host",), COUNTERS)
TICKS = 200
SLOWED = range(150, 160)
REBOOTED = 180
DOWN = 12


def frames(ticks: range) -> Iterator[Frame]:
    noise = np.random.default_rng(3)
    for tick in ticks:
        values = noise.normal(100.0, 5.0, (len(ROWS), len(FEATURES)))
        values[:, :3] /= 1000.0
        host = noise.normal(100.0, 5.0, (1, len(COUNTERS)))
        host[0, :5] /= 1000.0
        host[0, COUNTERS.index("cpu_steal_ratio")] = abs(noise.normal(0.0, 0.001))
        host[0, -1] = at(-1000.0 if tick < REBOOTED else REBOOTED - 4.0)
        if tick in SLOWED:
            values[:, FEATURES.index("cpu_wait_ratio")] += noise.normal(0.45, 0.02, len(ROWS))
            host[0, COUNTERS.index("cpu_steal_ratio")] = 0.62
            host[0, COUNTERS.index("pressure_cpu_some_ratio")] = 0.9
        if not REBOOTED - DOWN <= tick < REBOOTED:
            yield Frame("host", "web-1", "process", at(tick), 2 * tick, LAYOUT, values)
            yield Frame("host", "web-1", "host", at(tick), 2 * tick + 1, HOST, host)


@pytest.fixture
def slowed(empty: Recorded) -> Recorded:
    append(empty.bus, frames(range(TICKS)))
    # Half of the budget is for processes that deviate for long.
    flags = {"operators": "gaussian", "gaussian.context": "40m", "gaussian.false_alarms": "2/day"}
    work(
        empty.bus, wire(read_settings(environ={}, flags=[Given(name, value, "test") for name, value in flags.items()]))
    )
    return empty


def told(recorded: Recorded, capsys: pytest.CaptureFixture[str], tick: float) -> str:
    asked = ["--host", "web-1", "--set", "gaussian.context=40m", "--at", str(at(tick))]
    assert run(["why", "--bus", str(recorded.path), *asked]) == 0
    return capsys.readouterr().out


def test_a_host_that_is_slowed_from_outside_is_said_to_be_and_who_waits_is_told_apart(slowed, capsys):
    text = told(slowed, capsys, SLOWED.stop - 1)
    assert (
        "It is the host, no single process: the hypervisor takes 62 % of its CPUs away, usually 0.1 ± 0.1 %, since "
        in text
    )
    assert f"({(len(SLOWED) - 1) * TICK_S:.0f} s)." in text
    assert "No process takes far more than usual. Waiting longer than usual: " in text
    assert "11 `worker` (one waits for a free core " in text
    assert "Waiting for others:" not in text, "there is no other that is to blame"
    assert "cpu_steal_ratio of web-1, 0 to 62 %" in text
    text = told(slowed, capsys, SLOWED.stop + 8)
    assert "It is the host" not in text, "it is over, although its load falls slowly"
    assert "Longer than usual" not in text


def test_a_reboot_is_told_until_ten_minutes_are_over(slowed, capsys):
    assert "The machine booted" not in told(slowed, capsys, REBOOTED - DOWN - 1)
    assert "The machine booted 25 s before." in told(slowed, capsys, REBOOTED + 1)
    assert "It is the host" not in told(slowed, capsys, REBOOTED + 1)


def test_a_line_of_a_tick_and_an_anomaly_report_the_host_too(slowed):
    asked = slowed.history.ask("web-1", at(SLOWED.stop - 1), 5, 3)
    line = tick_line(asked)
    assert "\n" not in line
    assert "the hypervisor takes 62 % of its CPUs away" in line
    (partition,) = slowed.bus.partitions("laggard.anomalies")
    found = [record.value.decode() for record in slowed.bus.read(partition, 0) if b'"row":"host"' in record.value]
    assert [each for each in found if "On the host the hypervisor takes 62 % of its CPUs away" in each]
