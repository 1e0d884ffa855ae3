"""Brokers that do not answer: in the middle of a commit, for a while, or not at all."""

from __future__ import annotations

import math
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest

from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit, Outgoing, Partition, Snapshot, TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from tests.brokers import Cluster
from tests.brokers.ports import free_port
from tests.pipeline.core.bus.kafka_buses import CLIENTS, kafka_options, prepare
from tests.pipeline.core.bus.kafka_proxy import Proxy
from tests.pipeline.core.bus.test_contract import NOW, await_assignment, everything, take, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal

    from laggard.pipeline.core.bus import Incoming, Subscription

pytestmark = pytest.mark.slow

T = TypeVar("T")

RECONNECTION_S = 5.0
"""The time in which a client that still runs has reconnected."""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Proxy]]:
    """A broker that clients reach through a proxy alone."""
    cluster = Cluster(tmp_path_factory.mktemp("behind") / "cluster")
    (node,) = cluster.nodes
    with Proxy(node.port) as proxy:
        told = node._settings.read_text()
        own, through = f"CLIENT://127.0.0.1:{node.port}", f"CLIENT://127.0.0.1:{proxy.port}"
        node._settings.write_text(told.replace(f"advertised.listeners={own}", f"advertised.listeners={through}"))
        with cluster:
            yield cluster, proxy


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, line: tuple[Cluster, Proxy]) -> KafkaOptions:
    cluster, proxy = line
    bootstrap = (f"127.0.0.1:{proxy.port}",)
    options = kafka_options(cluster, request.param, bootstrap=bootstrap, request_timeout_s=1.0)
    proxy.heal()
    prepare(patient(options), input=1, results=1)
    return options


def patient(options: KafkaOptions) -> KafkaOptions:
    """For what has to succeed, also on a machine that stands still for longer than the timeout that is tested."""
    return replace(options, request_timeout_s=30.0)


def again(ask: Callable[[], T]) -> T:
    """As long as it says that it cannot for now, as the runner does."""
    deadline = time.monotonic() + 150.0
    while True:
        try:
            return ask()
        except BusUnavailable:
            assert time.monotonic() < deadline


def reading(bus: KafkaBus, options: KafkaOptions) -> Subscription:
    """A member that has read one record."""
    topic = f"{options.prefix}input"
    with KafkaBus(patient(options)) as other:
        other.append([Outgoing(topic, "a", b"0", NOW)])
    # The timeout that is tested is a short one: a broker that answers late is asked again.
    member = again(lambda: bus.subscribe(f"{options.prefix}group", [topic]))
    again(lambda: await_assignment(member))
    assert values(again(lambda: take(member, 1))) == [b"0"]
    return member


def commit_of(options: KafkaOptions) -> Commit:
    partition = Partition(f"{options.prefix}input", 0)
    output = Outgoing(f"{options.prefix}results", "a", b"out", NOW)
    return Commit({partition: 1}, [output], [Snapshot("operator", partition, "a", 1, NOW, b"state")])


def refuse(member: Subscription, commit: Commit, proxy: Proxy) -> list[BusUnavailable]:
    """Commit until the line was cut at the end: on a busy machine what comes before may exceed the timeout."""
    errors = []
    while proxy.cut_at_end:
        with pytest.raises(BusUnavailable, match=str(proxy.port)) as raised:
            member.commit(commit)
        errors.append(raised.value)
    return errors


def await_results(bus: KafkaBus, options: KafkaOptions, expected: list[bytes]) -> None:
    """Wait for committed results. They are visible once their marker is written, even if the answer was lost."""
    deadline = time.monotonic() + 120
    while (found := values(everything(bus, f"{options.prefix}results"))) != expected:
        assert time.monotonic() < deadline, found


@pytest.mark.parametrize("lost", ["answer", "request"])
@pytest.mark.parametrize("meanwhile", ["nothing", "poll"])
def test_a_commit_without_an_answer_is_made_once(
    options: KafkaOptions, line: tuple[Cluster, Proxy], lost: Literal["answer", "request"], meanwhile: str
) -> None:
    _, proxy = line
    # So long that no broker ends the transaction by itself, however busy the machine is.
    options = replace(options, transaction_timeout_s=60.0)
    with KafkaBus(options) as bus:
        member = reading(bus, options)
        commit = commit_of(options)
        proxy.cut_at_end = lost
        began = time.monotonic()
        refuse(member, commit, proxy)
        with pytest.raises(BusUnavailable, match=str(proxy.port)):
            member.commit(commit)
        assert time.monotonic() - began < 40.0, "nobody waits for the transaction's time"
        proxy.heal()
        with KafkaBus(patient(options)) as other:
            expected = {"answer": [b"out"], "request": []}[lost]
            if meanwhile == "poll":
                assert not again(lambda: member.poll(0.5)).records
                await_results(other, options, expected)
            again(lambda: member.commit(commit))
            assert values(everything(other, f"{options.prefix}results")) == [b"out"]
            (partition,) = commit.offsets
            assert other.committed(f"{options.prefix}group", partition) == 1
            assert list(other.snapshots("operator", partition)) == list(commit.snapshots)
            # What comes next is another one, and is made too.
            other.append([Outgoing(partition.topic, "a", b"1", NOW)])
            (record,) = again(lambda: take(member, 1))
            further = Commit({partition: record.offset + 1}, [Outgoing(f"{options.prefix}results", "a", b"2", NOW)])
            again(lambda: member.commit(further))
            assert values(everything(other, f"{options.prefix}results")) == [b"out", b"2"]
        member.close()


def test_a_transaction_that_was_given_up_is_not_committed_later(
    options: KafkaOptions, line: tuple[Cluster, Proxy]
) -> None:
    _, proxy = line
    # So long that no broker ends the transaction by itself, however busy the machine is.
    options = replace(options, transaction_timeout_s=60.0)
    with KafkaBus(options) as bus:
        member = reading(bus, options)
        proxy.cut_at_end = "request"
        errors = refuse(member, commit_of(options), proxy)
        proxy.heal()
        # Who holds the error does not hold the producer: it would send its request again on a new connection.
        time.sleep(RECONNECTION_S)
        assert errors
        with KafkaBus(patient(options)) as other:
            assert not values(everything(other, f"{options.prefix}results"))
        member.close()


def test_a_commit_that_was_made_is_not_made_again_for_what_is_left_of_it(
    options: KafkaOptions, line: tuple[Cluster, Proxy]
) -> None:
    _, proxy = line
    with KafkaBus(options) as bus:
        member = reading(bus, options)
        commit = commit_of(options)
        proxy.cut_at_end = "answer"
        refuse(member, commit, proxy)
        proxy.heal()
        again(lambda: member.commit(Commit(commit.offsets, commit.outputs)))
        with KafkaBus(patient(options)) as other:
            await_results(other, options, [b"out"])
        member.close()


def test_a_silent_line_is_told_in_time_and_does_no_harm(options: KafkaOptions, line: tuple[Cluster, Proxy]) -> None:
    _, proxy = line
    topic = f"{options.prefix}input"
    with KafkaBus(options) as bus:
        member = reading(bus, options)
        proxy.cut()
        with pytest.raises(BusUnavailable, match=str(proxy.port)):
            poll_for(member, 30.0)
        for ask in (
            lambda: bus.append([Outgoing(topic, "a", b"1", NOW)]),
            lambda: bus.bounds(Partition(topic, 0)),
            lambda: list(bus.read(Partition(topic, 0), 0)),
            lambda: member.commit(commit_of(options)),
        ):
            began = time.monotonic()
            with pytest.raises(BusUnavailable, match=str(proxy.port)):
                ask()
            assert time.monotonic() - began < 30.0
        proxy.heal()
        again(lambda: bus.append([Outgoing(topic, "a", b"2", NOW)]))
        records: list[Incoming] = []
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not any(record.value == b"2" for record in records):
            try:
                records += member.poll(0.2).records
            except BusUnavailable:
                time.sleep(0.05)
        assert [record.value for record in records][-1:] == [b"2"]
        member.close()


def test_an_unacknowledged_append_says_how_long_it_waited(options: KafkaOptions, line: tuple[Cluster, Proxy]) -> None:
    _, proxy = line
    with KafkaBus(options) as bus:
        reading(bus, options).close()
        again(lambda: bus.append([Outgoing(f"{options.prefix}input", "a", b"1", NOW)]))
        proxy.cut()
        waited = f"for now: the brokers have not acknowledged it for {options.request_timeout_s:g} s$"
        with pytest.raises(BusUnavailable, match=waited):
            bus.append([Outgoing(f"{options.prefix}input", "a", b"2", NOW)])


def poll_for(member: Subscription, seconds: float) -> None:
    """Polls, each time within the time that it is given; once it may be the machine that stands still."""
    deadline = time.monotonic() + seconds
    slow = 0
    while time.monotonic() < deadline:
        began = time.monotonic()
        try:
            member.poll(0.2)
        finally:
            slow += time.monotonic() - began > 1.0
            assert slow < 2


def test_closing_waits_for_no_connection_that_is_being_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bus = KafkaBus(KafkaOptions(bootstrap=(f"127.0.0.1:{silent.getsockname()[1]}",), request_timeout_s=5.0))
        failed: list[BusError] = []

        def ask(what: Callable[[], object]) -> None:
            with pytest.raises(BusError) as raised:
                what()
            failed.append(raised.value)

        asking = [
            threading.Thread(target=ask, args=(what,))
            for what in (
                lambda: bus.partitions("input"),
                # The number of partitions is asked for by another connection than that which appends.
                lambda: bus._appender.append([], "append to input"),
            )
        ]
        for each in asking:
            each.start()
        connections = [silent.accept()[0] for _ in asking]
        bus.close()
        assert all(each.is_alive() for each in asking), "both still wait for an answer"
        for each in asking:
            each.join()
        for one in connections:
            one.close()
    assert len(failed) == len(asking)


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_broker_each_call_says_so(client: Literal["kafka-python", "librdkafka"]) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    options = KafkaOptions(bootstrap=(nowhere,), client=client, request_timeout_s=0.5)
    with KafkaBus(options) as bus:
        for ask in (
            lambda: bus.create([TopicSpec("laggard.counters")]),
            lambda: bus.partitions("laggard.counters"),
            lambda: bus.append([Outgoing("laggard.counters", "a", b"", NOW)]),
            lambda: bus.subscribe("laggard.gaussian", ["laggard.counters"]),
            lambda: bus.snapshots("gaussian", Partition("laggard.counters", 0)),
            bus.client.reader,
            lambda: bus.client.join("laggard.gaussian", ["laggard.counters"], "laggard.gaussian-1"),
            lambda: bus.client.transactions("laggard.gaussian-1"),
        ):
            began = time.monotonic()
            with pytest.raises(BusUnavailable, match=nowhere):
                ask()
            assert time.monotonic() - began < 30.0


def test_a_member_with_nothing_to_read_does_not_take_a_slow_line_for_none(
    options: KafkaOptions, line: tuple[Cluster, Proxy]
) -> None:
    _, proxy = line
    with KafkaBus(options) as bus:
        member = reading(bus, options)
        # A machine that stands still for a moment is no line at all either; it does not do so three times.
        for tries_left in (2, 1, 0):
            bus.requests._shared.discard(bus.requests.send("ask", lambda client: client))  # it has to connect anew
            try:
                proxy.bytes_per_s = 1.2e4  # a tenth of a second or two for what a broker says of itself
                deadline = time.monotonic() + 3 * options.request_timeout_s
                while time.monotonic() < deadline:
                    assert not member.poll(0.05).records
                break
            except BusUnavailable:
                if not tries_left:
                    raise
            finally:
                proxy.bytes_per_s = math.inf
        member.close()


def test_a_backlog_is_read_through_a_slow_line(options: KafkaOptions, line: tuple[Cluster, Proxy]) -> None:
    _, proxy = line
    # All of it takes longer than the timeout; one answer, on a busy machine too, does not.
    patient = replace(options, request_timeout_s=10.0)
    partition = Partition(f"{options.prefix}input", 0)
    random = np.random.default_rng(1)
    values = [random.bytes(800_000) for _ in range(30)]
    with KafkaBus(patient) as bus:
        for value in values:
            bus.append([Outgoing(partition.topic, "key", value, NOW)])
        try:
            proxy.bytes_per_s = 2e6
            assert [record.value for record in bus.read(partition, 0)] == values
        finally:
            proxy.bytes_per_s = math.inf
