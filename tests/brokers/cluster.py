"""A cluster of brokers on this machine, each of them also a controller."""

from __future__ import annotations

import base64
import shutil
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tests.brokers.node import BrokerError, Node
from tests.brokers.ports import free_port
from tests.brokers.security import Security
from tests.brokers.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.brokers.authority import Authority

HEAP_MB = 256
"""Of each broker. Most of what Kafka keeps in memory is the kernel's page cache."""

CLIENT, INTERNAL, CONTROLLER = "CLIENT", "INTERNAL", "CONTROLLER"

ANSWERS_S = 60.0
COORDINATING = 3
"""Partitions of the topics in which groups and transactions are kept; the leader of one coordinates what is in it."""

# Everything that a real broker does now and then is done soon here, and with few threads and little memory.
QUICK: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "background.threads": "2",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "group.coordinator.threads": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "262144",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.retention.ms": "-1",  # tests write of the past; a topic may have a retention of its own
    "log.segment.delete.delay.ms": "500",
    "num.io.threads": "3",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": str(COORDINATING),
    "replica.fetch.wait.max.ms": "200",
    "replica.lag.time.max.ms": "3000",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": str(COORDINATING),
}


class Cluster:
    """Brokers that know each other.

    Attributes:
        nodes: the brokers.
        bootstrap: what clients are given: addresses with commas between them.
        location: the same as the setting `bus.location`.
        internal: an address without any security, for what is to be prepared or looked at.
        security: what the brokers demand of clients.
        authority: who vouches for certificates and tokens; None where nothing is secured.
        tools: Kafka's own commands.

    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        heap_mb: int = HEAP_MB,
    ) -> None:
        self.security = security or Security()
        self.authority = _authority(folder / "authority") if security else None
        self._folder = folder
        self._id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._formatted = False
        ports = [(free_port(), free_port(), free_port()) for _ in range(brokers)]
        replicas = min(3, brokers)
        common = {
            **QUICK,
            "process.roles": "broker,controller",
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, (_, _, port) in enumerate(ports, 1)),
            "controller.listener.names": CONTROLLER,
            "inter.broker.listener.name": INTERNAL,
            "listener.security.protocol.map": (
                f"{CLIENT}:{self.security.protocol},{INTERNAL}:PLAINTEXT,{CONTROLLER}:PLAINTEXT"
            ),
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(min(2, replicas)),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(2, replicas)),
            "min.insync.replicas": str(min(2, replicas)),
            **(self.security.properties(self.authority, CLIENT) if self.authority else {}),
            **(properties or {}),
        }
        flags = []
        if self.authority and "oauthbearer" in self.security.sasl:
            allowed = self.authority.keys_file.as_uri()
            flags.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
        self.nodes: list[Node] = []
        for number, (port, internal, controller) in enumerate(ports, 1):
            own = folder / f"broker-{number}"
            outside = f"{CLIENT}://127.0.0.1:{port},{INTERNAL}://127.0.0.1:{internal}"
            settings = {
                **common,
                "node.id": str(number),
                "listeners": f"{outside},{CONTROLLER}://127.0.0.1:{controller}",
                "advertised.listeners": outside,
                "log.dirs": str(own / "data"),
            }
            self.nodes.append(Node(own, number, port, settings, heap_mb=heap_mb, flags=flags))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port, _, _ in ports)
        self.location = f"kafka://{self.bootstrap}"
        self.internal = ",".join(f"127.0.0.1:{port}" for _, port, _ in ports)
        self.tools = Tools(self.internal)

    def start(self) -> None:
        """Start all brokers that do not run, and wait until they serve."""
        if not self._formatted:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(lambda node: node.format(self._id, self.security.scram()), self.nodes))
            self._formatted = True
        starting = [node for node in self.nodes if not node.alive]
        for node in starting:
            node.start(wait=False)
        for node in starting:
            node.await_started()

    def stop(self) -> None:
        """Stop all brokers; their data stays."""
        for node in self.nodes:
            node.stop()

    def leader(self, topic: str, partition: int = 0) -> Node:
        """The broker that leads a partition now; waits for one where there is none."""
        # Here, so that tests without brokers load no client.
        from kafka import KafkaAdminClient  # noqa: PLC0415
        from kafka.errors import KafkaError  # noqa: PLC0415

        deadline = time.monotonic() + ANSWERS_S
        while True:
            with suppress(KafkaError), KafkaAdminClient(bootstrap_servers=self.internal) as admin:
                (described,) = admin.describe_topics([topic])
                leaders = {one["partition_index"]: one["leader_id"] for one in described["partitions"]}
                for node in self.nodes:
                    if node.number == leaders.get(partition):
                        return node
            if time.monotonic() > deadline:
                raise BrokerError(f"nobody says who leads {topic}[{partition}]")
            time.sleep(0.1)

    def coordinator(self, *, group: str = "", transactional_id: str = "") -> Node:
        """The broker that coordinates a group, or a producer's transactions."""
        topic, name = ("__consumer_offsets", group) if group else ("__transaction_state", transactional_id)
        return self.leader(topic, coordinating(name, COORDINATING))

    def end(self) -> None:
        """Kill all brokers and delete their data; what they said stays."""
        for node in self.nodes:
            if node.alive:
                node.kill()
            shutil.rmtree(self._folder / f"broker-{node.number}" / "data", ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def coordinating(name: str, partitions: int) -> int:
    """Which partition a group or a transactional id belongs to: by Java's hash of an ASCII text."""
    code = 0
    for character in name:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return abs(code - (1 << 32) if code >> 31 else code) % partitions


def _authority(folder: Path) -> Authority:
    # Here, so that tests without security do not load cryptography.
    from tests.brokers.authority import Authority  # noqa: PLC0415

    return Authority(folder)
