from __future__ import annotations

import logging
import math
import subprocess
import sys

import numpy as np
import pytest

from laggard.pipeline.core.records import Frame
from laggard.producers.host.agent import AGENT_FEATURES, Agent


class Stop:
    """An event whose waiting makes the test's time pass."""

    def __init__(self, time, after_s):
        self.time = time
        self.until = time.monotonic + round(after_s * 1e9)

    def is_set(self):
        return self.time.monotonic >= self.until

    def wait(self, timeout=None):
        self.time.pass_(min(timeout, (self.until - self.time.monotonic) / 1e9))
        return self.is_set()


@pytest.fixture
def published():
    return []


@pytest.fixture
def agent(machine, time, published):
    machine.write("loadavg", "1 2 3 1/2 3\n")
    agent = Agent(published.append, "web-1", 5.0, root=str(machine.root), clock=time.clock)
    yield agent
    agent.close()


def cost(frames):
    (frame,) = (each for each in frames if each.scope == "agent")
    return dict(zip(AGENT_FEATURES, frame.values[0].tolist(), strict=True))


def test_a_tick_publishes_processes_host_and_agent(machine, agent, published):
    machine.run(7)
    agent.tick()
    (frames,) = published
    assert all(isinstance(frame, Frame) for frame in frames)
    assert [(frame.keyed_by, frame.key, frame.scope, frame.ts) for frame in frames] == [
        ("host", "web-1", scope, 1_700_000_000.0) for scope in ("process", "host", "limit", "agent")
    ]
    for frame in frames:
        assert frame.values.dtype == np.float64
        assert frame.values.shape == (len(frame.layout.rows), len(frame.layout.features))
        assert not frame.values.flags.writeable
        assert len(frame.layout.names) == len(frame.layout.rows)
    assert cost(frames)["processes"] == 1
    diagnosed = [value for name, value in cost(frames).items() if name.startswith("diagnos")]
    assert diagnosed
    assert np.isnan(diagnosed).all(), "nothing looks into processes here"


def test_sequences_grow_in_a_tick_over_ticks_and_over_restarts(machine, time, agent, published):
    agent.tick()
    time.pass_(0.001)
    agent.tick()
    agent.close()
    time.pass_(0.01)
    Agent(published.append, "web-1", 5.0, root=str(machine.root), clock=time.clock).tick()
    sequences = [frame.sequence for frames in published for frame in frames]
    assert sequences[0] == 1_700_000_000_000
    assert sequences == sorted(set(sequences))


def test_time_and_sequences_grow_when_the_clock_steps_back(time, agent, published):
    agent.tick()
    time.pass_(5)
    time.wall -= 3600 * 10**9
    agent.tick()
    first, second = published
    assert second[0].ts == first[0].ts + 2.5
    assert second[0].sequence > first[2].sequence
    assert cost(second)["clock_offset_s"] == pytest.approx(3600 - 2.5)


def test_run_ticks_on_time_until_stopped(time, agent, published):
    agent.run(Stop(time, 23))
    assert [frames[0].ts - 1_700_000_000 for frames in published] == [0, 5, 10, 15, 20]
    assert [cost(frames)["missed_ticks"] for frames in published] == [0] * 5


def test_a_publish_that_takes_long_costs_ticks_and_makes_no_burst(machine, time):
    published = []

    def publish(frames):
        published.append(frames)
        if len(published) == 2:
            time.pass_(33)

    machine.run(7)
    Agent(publish, "web-1", 5.0, root=str(machine.root), clock=time.clock).run(Stop(time, 60))
    assert [frames[0].ts - 1_700_000_000 for frames in published] == [0, 5, 38, 45, 50, 55]
    assert [cost(frames)["missed_ticks"] for frames in published] == [0, 0, 6, 0, 0, 0]
    assert cost(published[2])["publish_duration_s"] == 33


def test_the_cost_and_failures_of_profiling_are_reported(machine, time, published):
    class Watch:
        running, failures, cpu_s = 0, 0, 1.0

    watch = Watch()
    watched = Agent(published.append, "web-1", 5.0, root=str(machine.root), clock=time.clock, watch=watch)
    watched.tick()
    time.pass_(5)
    watch.running, watch.failures, watch.cpu_s = 2, 1, 1.1
    watched.tick()
    watched.close()
    first, second = map(cost, published)
    assert (first["diagnosed_processes"], first["diagnosis_failures"]) == (0, 0)
    assert math.isnan(first["diagnosis_cpu_ratio"])
    assert (second["diagnosed_processes"], second["diagnosis_failures"]) == (2, 1)
    assert second["diagnosis_cpu_ratio"] == pytest.approx(0.02)


def test_rates_are_over_the_time_that_passed(machine, time, agent, published):
    machine.run(7)
    agent.tick()
    time.pass_(50)  # nine ticks are missing
    machine.run(7, rchar=5000)
    agent.tick()
    values = published[1][0].values
    assert values[0, published[1][0].layout.features.index("io_read_characters_per_s")] == 100


def test_a_suspended_machine_has_no_false_rate_and_no_missed_tick(machine, time, agent, published):
    machine.run(7)
    agent.tick()
    time.pass_(2)
    time.suspend(8 * 3600)
    time.pass_(3)
    machine.run(7, rchar=5000)
    agent.tick()
    frame = published[1][0]
    assert frame.ts == 1_700_000_000 + 5 + 8 * 3600
    assert frame.values[0, frame.layout.features.index("io_read_characters_per_s")] == 1000
    assert cost(published[1])["suspended_s"] == 8 * 3600
    assert cost(published[1])["missed_ticks"] == 0


def test_an_agent_whose_frames_are_refused_goes_on_and_says_so(machine, time, caplog):
    attempts = []

    def publish(frames):
        attempts.append(frames)
        if len(attempts) < 3:
            raise ConnectionError("no broker")

    agent = Agent(publish, "web-1", 5.0, root=str(machine.root), clock=time.clock)
    with caplog.at_level(logging.ERROR):
        agent.run(Stop(time, 11))
    assert [cost(frames)["publish_failures"] for frames in attempts] == [0, 1, 2]
    assert "cannot publish the frames of web-1 at 1700000000.000: they are lost" in caplog.text
    assert "no broker" in caplog.text


def test_what_ends_the_program_ends_the_run(machine, time):
    def publish(frames):
        raise KeyboardInterrupt

    agent = Agent(publish, "web-1", 5.0, root=str(machine.root), clock=time.clock)
    with pytest.raises(KeyboardInterrupt):
        agent.run(Stop(time, 11))


def test_its_own_cost(machine, time, agent, published):
    machine.run(7)
    agent.tick()
    time.pass_(5)
    time.cpu += 10**7
    agent.tick()
    first, second = map(cost, published)
    assert math.isnan(first["cpu_ratio"])
    assert second["cpu_ratio"] == pytest.approx(0.002, abs=0.001)  # reading is not by this clock
    assert second["memory_rss_bytes"] > 1e6
    assert second["tick_duration_s"] == 0  # in a test's time
    assert second["held_files"] == 4
    assert second["read_errors"] == 0


def test_without_a_procfs_the_agent_goes_on_and_says_so_once(time, machine, agent, published, caplog):
    machine.root.rename(machine.root.with_name("away"))
    agent.run(Stop(time, 11))
    assert [[frame.scope for frame in frames] for frames in published] == [["host", "agent"]] * 3
    assert {cost(frames)["read_errors"] > 0 for frames in published} == {True}
    assert caplog.text.count("cannot read the process counters") == 1
    machine.root.with_name("away").rename(machine.root)
    machine.run(7)
    agent.tick()
    assert [frame.scope for frame in published[3]] == ["process", "host", "limit", "agent"]
    assert cost(published[3])["read_errors"] == 0


OUT_OF_DESCRIPTORS = """
import os, resource, sys
from laggard.producers.host.agent import Agent
published = []
agent = Agent(published.append, "web-1", descriptor_limit=0)
agent.tick()
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
agent.tick()
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
agent.tick()
print(*([frame.scope for frame in frames if frame.scope != "limit"] for frames in published))
"""
# Without the frame of limits: whether there is one depends on other processes of the machine.


def test_it_outlives_a_machine_without_descriptors():
    ended = subprocess.run([sys.executable, "-c", OUT_OF_DESCRIPTORS], capture_output=True, text=True, check=False)
    assert ended.stdout.split("] [")[-1] == "'process', 'host', 'agent']\n", ended.stderr
    assert ended.returncode == 0
    assert "cannot read the process counters" in ended.stderr
