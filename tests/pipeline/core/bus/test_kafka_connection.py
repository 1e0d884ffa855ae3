"""What kafka-python is tuned to give back."""

from __future__ import annotations

import socket
from typing import Any

from laggard.pipeline.core.bus.kafka.connection import connected


def test_a_request_that_waits_keeps_no_socket_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def make(kafka_client: Any, **settings: Any) -> Any:
            return kafka_client(**settings)

        client = connected(make, {"bootstrap_servers": [address]})
        (broker,) = client.cluster.bootstrap_brokers()
        connection = client._manager.get_connection(broker.node_id)
        while connection.transport is None:
            client.poll(timeout_ms=50)
        opened = connection.transport._sock
        connection.initializing = False
        connection._init_future.success(True)
        connection.transport.write(bytes(1 << 26))  # more than the kernel takes without a reader
        client.poll(timeout_ms=50)
        client.close()
        assert opened.fileno() == -1
