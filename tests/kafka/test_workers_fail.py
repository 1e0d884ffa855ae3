"""Workers that are killed, and workers that come back from the dead."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.topics import ANOMALIES
from tests.kafka.scene import Flow

if TYPE_CHECKING:
    from tests.brokers import Cluster
    from tests.kafka.conftest import NewScene
    from tests.kafka.scene import Scene

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_killed_workers_leave_what_an_undisturbed_one_leaves() -> None:
    """The short form of tests/evaluation/kafka_kill.py."""
    short = ["--frames", "1200", "--seconds", "9", "--kills", "4", "--seed", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluation.kafka_kill", *short],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=560,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_first_result_after_a_kill_comes_soon_after_its_session(broker: Cluster, new_scene: NewScene) -> None:
    """Of six seconds; with what a machine that others use too takes besides. How long it takes, a benchmark says."""
    scene = new_scene(broker, partitions=2, kafka__session_timeout="6s")
    workers = [scene.worker(), scene.worker()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.await_ready()
    with Flow(scene, 6000, 100) as flow:
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
            assert now < killed_at + 20 + stood_still_s, f"nothing new is committed in {waiting}"
            waiting = {
                partition: offset
                for partition, offset in waiting.items()
                # What was committed at the moment of the kill does not count.
                if scene.bus.committed(scene.group, partition) < offset + 50
            }
            time.sleep(0.1)
        print(f"the first new results came {time.monotonic() - killed_at:.1f} s after the kill")
        assert flow.flows
        flow.stop()
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
    results = anomalies(scene)
    zombie.resume()
    time.sleep(2)
    zombie.await_ready()
    assert anomalies(scene) == results
    # It is a member like any other again.
    scene.send(200)
    other.stop()
    scene.await_all()
    scene.check()


def anomalies(scene: Scene) -> list[tuple[int, int]]:
    """Where they are. The end of a partition may still move when a transaction is told to be committed."""
    partitions = scene.bus.partitions(scene.topics.name(ANOMALIES))
    return [(partition.number, one.offset) for partition in partitions for one in scene.bus.read(partition, 0)]
