"""Kafka's own commands: clients other than those of laggard."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.brokers.java import java
from tests.brokers.node import BrokerError

_CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}

# Nothing of laggard's holds these.
_FIELD, _HEADER, _RECORD, _NULL = "\x1c", "\x1d", "\x1e\n", "\x1f"


@dataclass(frozen=True)
class Printed:
    """A record as the console consumer printed it; `key` and `value` are None where the record's are."""

    partition: int
    offset: int
    ts: float
    headers: tuple[tuple[str, str], ...]
    key: str | None
    value: str | None


class Tools:
    """Kafka's commands against one cluster.

    Parameters:
        bootstrap: its address without security.

    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def run(self, command: str, *arguments: str, timeout_s: float = 120.0) -> str:
        """What a command printed: `run("kafka-topics", "--list")`. Raises BrokerError when it fails."""
        done = subprocess.run(
            java(_CLASSES[command], "--bootstrap-server", self._bootstrap, *arguments, heap_mb=128),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if done.returncode:
            said = f"{done.stdout[-2000:]}{done.stderr[-3000:]}"
            raise BrokerError(f"{command} {' '.join(arguments)} ended with {done.returncode}:\n{said}")
        return done.stdout

    def consume(self, topic: str, count: int, *, idle_s: float = 60.0) -> list[Printed]:
        """The first committed records of a topic, as the console consumer prints them; partitions in any order.

        It stops after `count` records, or when none came for so long.
        """
        shown = {f"print.{part}": "true" for part in ("partition", "offset", "timestamp", "headers", "key")}
        shown |= {"key.separator": _FIELD, "headers.separator": _HEADER, "line.separator": _RECORD}
        shown |= {"null.literal": _NULL}
        properties = [part for name, value in shown.items() for part in ("--property", f"{name}={value}")]
        printed = self.run(
            "kafka-console-consumer",
            *("--topic", topic, "--from-beginning", "--timeout-ms", str(int(idle_s * 1000))),
            *("--isolation-level", "read_committed", "--max-messages", str(count)),
            *properties,
        )
        return [_parsed(line) for line in printed.split(_RECORD)[:-1]]

    def offsets(self, topic: str, *, beginning: bool = False) -> dict[int, int]:
        """By partition, the offset that the next record gets; or of the oldest record that is still there."""
        printed = self.run("kafka-get-offsets", "--topic", topic, "--time", "-2" if beginning else "-1")
        return {int(number): int(offset) for _, number, offset in (line.split(":") for line in printed.splitlines())}


def _parsed(line: str) -> Printed:
    ts, partition, offset, headers, key, value = line.split(_FIELD, 5)
    pairs = () if headers == "NO_HEADERS" else tuple(_pair(header) for header in headers.split(_HEADER))
    return Printed(
        int(partition.partition(":")[2]),
        int(offset.partition(":")[2]),
        int(ts.partition(":")[2]) / 1000,
        pairs,
        None if key == _NULL else key,
        None if value == _NULL else value,
    )


def _pair(header: str) -> tuple[str, str]:
    name, _, value = header.partition(":")
    return name, value
