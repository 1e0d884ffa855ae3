"""Workers that are killed, and workers that come back from the dead."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.scene import Flow

if TYPE_CHECKING:
    from tests.brokers import Cluster
    from tests.kafka.conftest import NewScene

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_killed_workers_leave_what_an_undisturbed_one_leaves() -> None:
    """The short form of tests/evaluation/kafka_kill.py."""
    short = ["--frames", "1200", "--seconds", "9", "--kills", "4", "--seed", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluation.kafka_kill", *short],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_result_after_a_kill_comes_within_ten_seconds(broker: Cluster, new_scene: NewScene) -> None:
    scene = new_scene(broker, partitions=2, kafka__session_timeout="6s")
    workers = [scene.worker(), scene.worker()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.await_ready()
    with Flow(scene, 1200, 100) as flow:
        time.sleep(2)
        at_kill = {partition: scene.bus.committed(scene.group, partition) for partition in scene.inputs}
        workers[0].kill()
        killed_at = looked_at = time.monotonic()
        stood_still_s = 0.0
        waiting = dict(at_kill)
        while waiting:
            # What the machine stands still for, this process sees as well.
            now = time.monotonic()
            stood_still_s += max(0.0, now - looked_at - 1.0)
            looked_at = now
            assert now < killed_at + 10 + stood_still_s, f"nothing new is committed in {waiting}"
            waiting = {
                partition: offset
                for partition, offset in waiting.items()
                # What was committed at the moment of the kill does not count.
                if scene.bus.committed(scene.group, partition) < offset + 50
            }
            time.sleep(0.1)
        print(f"the first new results came {time.monotonic() - killed_at:.1f} s after the kill")
        assert flow.flows
    scene.check()


def test_a_zombie_writes_nothing(broker: Cluster, new_scene: NewScene) -> None:
    scene = new_scene(broker, partitions=3)
    zombie, other = scene.worker(), scene.worker()
    zombie.start()
    other.start()
    zombie.await_ready()
    other.await_ready()
    with Flow(scene, 1200, 200):
        time.sleep(2)
        zombie.pause()
    # The other one has taken over everything, and has committed it.
    running = [worker for worker in scene.workers if worker is not zombie]
    assert running == [other]
    scene.await_all()
    results = {
        partition: scene.bus.bounds(partition) for partition in scene.bus.partitions(f"{scene.topics.prefix}anomalies")
    }
    zombie.resume()
    time.sleep(2)
    zombie.await_ready()
    assert {partition: scene.bus.bounds(partition) for partition in results} == results
    # It is a member like any other again.
    scene.send(200)
    other.stop()
    scene.await_all()
    scene.check()
