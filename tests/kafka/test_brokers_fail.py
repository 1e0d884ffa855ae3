"""Three brokers, of which one fails, moves what it leads, or goes in the middle of a commit: the workers go on."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, TopicPartition

from laggard.pipeline.core.topics import ANOMALIES, COUNTERS
from tests.brokers.cluster import COORDINATING, coordinating
from tests.kafka.scene import Flow
from tests.kafka.stream import WIRED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers import Cluster
    from tests.kafka.conftest import NewScene
    from tests.kafka.scene import Scene

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

FRAMES, PER_S = 700, 150


@pytest.fixture(autouse=True)
def all_three(three: Cluster) -> Iterator[None]:
    """Whatever a test leaves, the next one finds three brokers."""
    yield
    for node in three.nodes:
        if not node.alive:
            node.start()


def at_work(scene: Scene, *settings: dict[str, object]) -> None:
    """Workers that are ready."""
    workers = [scene.worker(**each) for each in settings]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.await_ready()


def test_a_broker_is_lost(three: Cluster, new_scene: NewScene) -> None:
    scene = new_scene(three)
    at_work(scene, {"kafka__client": "kafka-python"}, {"kafka__client": "kafka-python", "worker__instance": "two"})
    with Flow(scene, FRAMES, PER_S):
        time.sleep(1.5)
        lost = three.leader(scene.topics.name(COUNTERS))
        lost.kill()
    # All that flowed is committed while the broker is still away.
    scene.await_all()
    assert not lost.alive
    lost.start()
    scene.check()


def test_what_a_broker_leads_moves(three: Cluster, new_scene: NewScene) -> None:
    scene = new_scene(three)
    at_work(scene, {"kafka__client": "librdkafka"}, {"kafka__client": "librdkafka", "worker__instance": "two"})
    names = [scene.topics.name(topic) for topic in (COUNTERS, ANOMALIES, scene.topics.snapshots(WIRED[0].snapshots))]
    moved = [TopicPartition(name, number) for name in names for number in range(3)]
    with Flow(scene, FRAMES, PER_S), KafkaAdminClient(bootstrap_servers=three.internal) as admin:
        for turn in range(3):
            time.sleep(1.0)
            # The first of the replicas is the one that should lead.
            orders = [[1 + (turn + one.partition + at) % 3 for at in range(3)] for one in moved]
            admin.alter_partition_reassignments(dict(zip(moved, orders, strict=True)))
            wanted = [1 + (turn + number) % 3 for number in range(3)]
            await_that(lambda: not admin.list_partition_reassignments())

            def moved_to(wanted: list[int] = wanted) -> bool:
                admin.elect_leaders(0, {name: [0, 1, 2] for name in names}, raise_errors=False)
                return [three.leader(names[0], number).number for number in range(3)] == wanted

            await_that(moved_to)
    scene.check()


@pytest.mark.parametrize("of", ["group", "transactions"])
def test_the_coordinator_goes_in_the_middle_of_a_commit(three: Cluster, new_scene: NewScene, of: str) -> None:
    """That of two workers, each of which has another client."""
    scene = new_scene(three)
    one, other = transactional_ids(scene) if of == "transactions" else ("", f"{scene.group}-two")
    at_work(
        scene,
        {"kafka__client": "kafka-python", "worker__instance": one.removeprefix(f"{scene.group}-")},
        {"kafka__client": "librdkafka", "worker__instance": other.removeprefix(f"{scene.group}-")},
    )
    named = {"group": scene.group} if of == "group" else {"transactional_id": one}
    with Flow(scene, FRAMES, PER_S):
        time.sleep(1.5)
        lost = three.coordinator(**named)
        # Commits are 0.2 s apart: when it is killed, it has been asked for one and has not answered.
        lost.pause()
        time.sleep(0.5)
        lost.kill()
        await_that(lambda: three.coordinator(**named) is not lost)
    scene.await_all()
    assert not lost.alive
    lost.start()
    scene.check()


def transactional_ids(scene: Scene) -> tuple[str, str]:
    """Of two workers, in one partition of the topic of transactions, so that one broker coordinates both."""
    ids = (f"{scene.group}-worker-{number}" for number in range(2 * COORDINATING))
    partitions: defaultdict[int, list[str]] = defaultdict(list)
    for each in ids:
        partitions[coordinating(each, COORDINATING)].append(each)
    one, other, *_ = max(partitions.values(), key=len)
    return one, other


def await_that(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it does not come to it"
        time.sleep(0.1)
