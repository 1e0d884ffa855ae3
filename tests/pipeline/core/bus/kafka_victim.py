"""A member that stops in the middle of a transaction: what it was to commit is sent, its end is not yet asked for.

    python -m tests.pipeline.core.bus.kafka_victim OPTIONS GROUP INPUT OUTPUT

It says `open`, and waits for a line. Then it goes on and says how its commit ended.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit, Outgoing
from laggard.pipeline.core.bus.kafka import kafka_python_producer
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.librdkafka_producer import LibrdkafkaTransactions
from laggard.pipeline.core.bus.kafka.options import KafkaOptions


def main() -> None:
    options, group, topic, results = sys.argv[1:]
    given = json.loads(options)
    bus = KafkaBus(KafkaOptions(**{**given, "bootstrap": tuple(given["bootstrap"])}))
    member = bus.subscribe(group, [topic])
    records: list[Any] = []
    while not records:
        records += member.poll(0.5).records
    wait_after_sending()
    output = Outgoing(results, records[0].key, b"by the victim", records[0].ts)
    said = ""
    while not said:
        try:
            member.commit(Commit({records[0].partition: records[0].offset + 1}, [output]))
            said = "committed"
        except BusUnavailable:
            pass  # for now: it is asked again, as the runner does
        except BusError as error:
            said = type(error).__name__
    print(said, flush=True)
    member.close()
    bus.close()


def wait_after_sending() -> None:
    """Stop where all of a transaction is at the broker, but its end, whichever client it is."""
    for owner, name in ((kafka_python_producer._Producer, "flush_by"), (LibrdkafkaTransactions, "_send")):
        setattr(owner, name, waiting_after(getattr(owner, name)))


def waiting_after(send: Any) -> Any:
    waited: list[bool] = []

    def waiting(*arguments: Any) -> None:
        send(*arguments)
        if not waited:
            waited.append(True)
            print("open", flush=True)
            sys.stdin.readline()

    return waiting


if __name__ == "__main__":
    main()
