"""Static members: one that the group takes for another joins anew; of two with one name, one gives way."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

import pytest

from laggard.pipeline.core.bus import BusError, Outgoing, TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of

if TYPE_CHECKING:
    from laggard.pipeline.core.bus import Subscription
    from tests.brokers import Cluster

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_of_two_workers_with_one_name_one_gives_way(
    broker: Cluster, client: Literal["kafka-python", "librdkafka"]
) -> None:
    name = f"namesakes-{uuid.uuid4().hex}"
    options = KafkaOptions(bootstrap=servers_of(broker.location), client=client, instance="one", session_timeout_s=2.0)
    with ExitStack() as stack:
        buses = [stack.enter_context(KafkaBus(options)) for _ in range(2)]
        buses[0].create([TopicSpec(name)])
        members: list[Subscription] = [bus.subscribe(name, [name]) for bus in buses]
        said: list[str] = []
        deadline = time.monotonic() + 90
        while not said:
            assert time.monotonic() < deadline
            for member in members:
                try:
                    member.poll(0.1)
                except BusError as error:
                    said.append(str(error))
                    members.remove(member)
        assert "another worker has joined as worker.instance 'one'; each needs a name of its own" in said[0]
        # The other one works.
        (left,) = members
        buses[0].append([Outgoing(name, "key", b"value", 1_700_000_000.0)])
        while not (records := left.poll(0.5).records):
            assert time.monotonic() < deadline
        assert records[0].value == b"value"
        for member in members:
            member.close()
