"""The agent before real brokers: not there yet, killed, back again; and the agent itself killed in between."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.core.bus import BusError, Partition, TopicSpec
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.core.records import Decoder, Frame, make_layout
from laggard.pipeline.core.sending.sender import Sender
from laggard.pipeline.core.sending.spool import BATCH_RECORDS, Spool
from laggard.producers.host.agent import AGENT_FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.brokers import Cluster
    from tests.brokers.fixtures import NewCluster

# kafka-python leaves sockets that were refused to the garbage collector.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

ROOT = Path(__file__).parents[2]
LAGGARD = [sys.executable, "-P", "-m", "laggard.pipeline.cli"]
TOPIC = "laggard.counters"
INTERVAL_S = 0.5
NARROW = make_layout(("a[1@1]",), ("a",), ("threads",))
WIDE = make_layout(tuple(f"r{n}" for n in range(1000)), ("r",) * 1000, tuple(f"f{n}" for n in range(10)))

DRIVER = """
import sys, time
sys.path.insert(0, {root!r})
from tests.kafka.test_agent import driven
driven({location!r}, {spool!r}, int(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Here, where that is no error."""
    yield
    for _ in range(5):
        gc.collect()


def opened(location: str) -> KafkaBus:
    return KafkaBus(KafkaOptions(bootstrap=servers_of(location), request_timeout_s=2.0))


def driven(location: str, spool: str, sequence: int) -> None:
    """Publishes frames with consecutive numbers until it is killed; what was kept is printed."""
    sender = Sender(Spool(Path(spool), 1 << 26, 86400.0, TOPIC), opened(location))
    while True:
        sender.publish([Frame("host", "driven", "process", 1e9 + sequence, sequence, NARROW, np.ones((1, 1)))])
        print(sequence, flush=True)
        sequence += 1
        time.sleep(0.005)


@contextmanager
def agent(cluster: Cluster, state: Path, errors: Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(state),
        "LAGGARD_STATE": str(state),
        "LAGGARD_HOST": "watched",
        "LAGGARD_BUS_LOCATION": cluster.location,
        "LAGGARD_AGENT_INTERVAL": f"{INTERVAL_S}s",
        "LAGGARD_POOLS_DISCOVER": "false",  # there is one topic here
        "LAGGARD_KAFKA_REQUEST_TIMEOUT": "2s",
    }
    with errors.open("ab") as log, subprocess.Popen([*LAGGARD, "agent"], env=environ, stdout=log, stderr=log) as one:
        try:
            yield one
        finally:
            if one.poll() is None:
                one.kill()


def kept(state: Path) -> int:
    """How many records the agent's spool has had so far."""
    if (state / "spool.db").exists():
        with suppress(BusError), EmbeddedBus(state / "spool.db") as spool:
            return spool.bounds(Partition("spool", 0))[1]
    return 0


def await_ticks(state: Path, records: int) -> None:
    """Wait until the spool has had a number of them."""
    until = time.monotonic() + 120
    while kept(state) < records:
        assert time.monotonic() < until, "the agent keeps nothing"
        time.sleep(0.1)


def frames(bus: KafkaBus, host: str) -> list[Frame]:
    """In the order of their arrival."""
    decoder = Decoder()
    found = [decoder.decode(each.value, "test") for each in bus.read(bus.partition_of(TOPIC, host), 0, key=host)]
    return [each for each in found if isinstance(each, Frame)]


def starts(found: list[Frame]) -> int:
    """How many agents have begun: the first tick of each knows no share of a processor yet."""
    ticks = [each for each in deduplicated(found) if each.scope == "agent"]
    return sum(bool(np.isnan(each.values[0, AGENT_FEATURES.index("cpu_ratio")])) for each in ticks)


def deduplicated(found: list[Frame]) -> list[Frame]:
    return list({each.sequence: each for each in reversed(found)}.values())[::-1]


def test_an_agent_that_is_there_before_its_broker(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster, log, spool = new_cluster(start=False), tmp_path / "log", tmp_path / "spool.db"
    with opened(cluster.location) as bus, agent(cluster, tmp_path / "state", log) as watching:
        sender = Sender(Spool(spool, 2 << 20, 86400.0, TOPIC), bus)
        draw = np.random.default_rng(1)
        for sequence in range(100):
            sender.publish([Frame("host", "large", "process", 1e9 + sequence, sequence, WIDE, draw.random((1000, 10)))])
        dropped = sender.dropped
        assert dropped > 50
        assert spool.stat().st_size <= 2 << 20
        await_ticks(tmp_path / "state", 9)
        cluster.start()
        bus.create([TopicSpec(TOPIC, 3)])
        until = time.monotonic() + 120
        while time.monotonic() < until and (sender.waiting or len(frames(bus, "watched")) < 15):
            time.sleep(0.2)
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(60) == 0
        sender.close()
        large = [each.sequence for each in frames(bus, "large")]
        assert large == sorted(set(large))
        assert large[-10:] == list(range(90, 100))
        assert len(large) + dropped == 100, "what did not arrive was counted"
        own = frames(bus, "watched")
    assert {each.scope for each in own} - {"limit"} == {"process", "host", "agent"}
    told = log.read_text()
    # For the brokers, then for the topic; on a busy machine the broker may be away again.
    waits = re.findall(r"waits in \S+( until then)?$|(takes records again)", told, re.MULTILINE)
    assert ("", "takes records again") in waits
    assert all(one != other for one, other in itertools.pairwise(waits)), "said when it changes, not at each try"
    # The frames of the first ticks waited for the broker.
    costs = [each for each in own if each.scope == "agent"]
    waiting = [dict(zip(AGENT_FEATURES, each.values[0], strict=True))["waiting_records"] for each in costs]
    assert max(waiting) >= 6
    assert "Traceback" not in told


def test_records_too_large_for_the_broker_are_skipped(broker: Cluster, tmp_path: Path) -> None:
    topic = f"small-{uuid.uuid4().hex}"
    arguments = ("--create", "--topic", topic, "--partitions", "1", "--config", "max.message.bytes=20000")
    broker.tools.run("kafka-topics", *arguments)
    draw = np.random.default_rng(1)
    with opened(broker.location) as bus:
        sender = Sender(Spool(tmp_path / "spool.db", 1 << 26, 86400.0, topic), bus)
        for sequence in range(6):
            # 80 kB that cannot be compressed, now and then.
            layout, values = (WIDE, draw.random((1000, 10))) if sequence % 3 == 1 else (NARROW, np.ones((1, 1)))
            sender.publish([Frame("host", "one", "process", 1e9 + sequence, sequence, layout, values)])
        sender.close(60.0)
        arrived = [Decoder().decode(each.value, "test").sequence for each in bus.read(bus.partitions(topic)[0], 0)]
    assert list(dict.fromkeys(arrived)) == [0, 2, 3, 5]
    assert (sender.refused, sender.dropped) == (2, 2)


def test_brokers_and_agents_that_are_killed(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster, log = new_cluster(), tmp_path / "log"
    (node,) = cluster.nodes
    with opened(cluster.location) as bus:
        bus.create([TopicSpec(TOPIC, 3)])
        code = DRIVER.format(root=str(ROOT), location=cluster.location, spool=str(tmp_path / "driven.db"))
        published = -1
        for round_ in range(3):
            command = [sys.executable, "-c", code, str(published + 1)]
            driver, had = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), kept(tmp_path / "state")
            with driver, agent(cluster, tmp_path / "state", log) as watching:
                assert driver.stdout is not None
                published = int(driver.stdout.readline())
                await_ticks(tmp_path / "state", had + 3)
                if round_ == 0:
                    node.kill()
                    time.sleep(1.0)
                if round_ == 1:
                    node.start(wait=False)  # both are killed while it starts
                if round_ == 2:
                    node.await_started()
                    time.sleep(1.5)
                driver.kill()
                watching.kill()
                published = max([published, *map(int, driver.stdout)])
        had = kept(tmp_path / "state")
        with agent(cluster, tmp_path / "state", log) as watching:
            Sender(Spool(tmp_path / "driven.db", 1 << 26, 86400.0, TOPIC), bus).close(60.0)
            await_ticks(tmp_path / "state", had + 3)
            until = time.monotonic() + 120
            while starts(frames(bus, "watched")) < 4:
                assert time.monotonic() < until, "what was kept does not arrive"
                time.sleep(0.2)
            watching.send_signal(signal.SIGTERM)
            assert watching.wait(60) == 0
        found = [each.sequence for each in frames(bus, "driven")]
        own = deduplicated(frames(bus, "watched"))
    firsts = list(dict.fromkeys(found))
    assert firsts == list(range(len(firsts))), "nothing is missing, and in order"
    assert published <= firsts[-1] <= published + 4, "a kill may come between keeping a frame and saying so"
    assert len(found) - len(firsts) <= 4 * BATCH_RECORDS
    assert [each.ts for each in own] == sorted(each.ts for each in own)
    assert [each.sequence for each in own] == sorted(each.sequence for each in own)
    ticks = [each for each in own if each.scope == "agent"]
    features = [dict(zip(AGENT_FEATURES, each.values[0], strict=True)) for each in ticks]
    pairs = list(itertools.pairwise(zip(ticks, features, strict=True)))
    lives = [pair for pair in pairs if not np.isnan(pair[1][1]["cpu_ratio"])]
    assert len(pairs) - len(lives) == 3, "each start of an agent is seen"
    for (before, had_missed), (after, has_missed) in lives:
        # What the agent did not miss itself has arrived. A tick that is late skips those after it, and says so at once;
        # it may itself be late by half an interval without having missed one.
        missed = had_missed["missed_ticks"] + has_missed["missed_ticks"]
        assert (after.ts - before.ts) / INTERVAL_S <= missed + 1.5 + 0.1
    assert "Traceback" not in log.read_text()
