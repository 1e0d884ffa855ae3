"""The harness itself: brokers that start, end and fail as asked. What secures them is tested in tests/kafka."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from kafka import KafkaProducer

from tests.brokers.jars import jars
from tests.brokers.java import STARTED
from tests.brokers.keeper import keep, kept
from tests.brokers.node import BrokerError
from tests.programs import MissingPartError, started

if TYPE_CHECKING:
    from tests.brokers import Cluster
    from tests.brokers.fixtures import NewCluster

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_one_broker_takes_transactions_and_prints_only_what_was_committed(broker: Cluster) -> None:
    broker.tools.run("kafka-topics", "--create", "--topic", "harness.one", "--partitions", "2")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="harness.one")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        headers = [("a", b"1"), ("b", b"x:y,z")]
        producer.send("harness.one", b"value\n%d" % number, b"key", headers, number % 2, timestamp_ms=1234)
        producer.flush()
        if number < 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    printed = broker.tools.consume("harness.one", 2)
    assert sorted((one.partition, one.value) for one in printed) == [(0, "value\n0"), (1, "value\n1")]
    assert {(one.offset, one.ts, one.headers, one.key) for one in printed} == {
        (0, 1.234, (("a", "1"), ("b", "x:y,z")), "key")
    }
    assert broker.tools.offsets("harness.one") == {0: 4, 1: 4}


def test_a_killed_broker_has_its_records_when_it_starts_again(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.tools.run("kafka-topics", "--create", "--topic", "kept")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("kept", b"value").get(10)
    node = cluster.nodes[0]
    node.kill()
    assert not node.alive
    node.start()
    assert [one.value for one in cluster.tools.consume("kept", 1)] == ["value"]
    node.stop()
    assert "Shutdown completed" in node.said() or "shut down completed" in node.said()


def test_a_command_that_fails_says_why(broker: Cluster) -> None:
    with pytest.raises(BrokerError, match=r"kafka-topics --describe --topic none ended with 1:\n(.|\n)*does not exist"):
        broker.tools.run("kafka-topics", "--describe", "--topic", "none")


def test_the_shared_broker_ends_with_the_run_however_that_ends(tmp_path: Path) -> None:
    with started(["sleep", "600"]) as run:
        keep(tmp_path, run.pid)
        (node,) = kept(tmp_path).nodes
        assert STARTED in node.said()
        with pytest.raises(BrokerError, match="does not run"):  # here: it is another process's
            node.kill()
        java = next(each for each in psutil.process_iter(["name"]) if runs(each, "java", node.folder))
        run.kill()
    java.wait(60)


def runs(process: psutil.Process, name: str, folder: Path) -> bool:
    """Whether it is a program of this name with something of the folder on its command line."""
    with suppress(psutil.Error):
        return process.name() == name and str(folder) in " ".join(process.cmdline())
    return False


def test_what_is_started_ends_with_the_process_that_started_it() -> None:
    held = """
import subprocess, time
from tests.brokers.processes import start
print(start(["sleep", "600"], subprocess.DEVNULL).pid, flush=True)
time.sleep(600)
"""
    with started([sys.executable, "-c", held], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        while child.cmdline()[:1] != ["sleep"]:  # before that it may not have asked to be killed
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        child.wait(60)


def test_a_machine_without_maven_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPartError, match="apt install default-jdk-headless maven"):
        jars()
