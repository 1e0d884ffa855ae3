"""Brokers that want to know who asks, over TLS: both clients work, a wrong password ends it, and no secret is shown."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.cli.exits import FAILED, USAGE
from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit, Outgoing, Partition, TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from tests.brokers import Cluster, Security
from tests.kafka.machine import Machine
from tests.pipeline.core.bus.test_kafka_tokens import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus.kafka.options import Client, Sasl

pytestmark = pytest.mark.slow

HUSH, WRONG = "hush-e4b7c0de", "wrong-77c1d00d"
CLIENTS: tuple[Client, ...] = ("kafka-python", "librdkafka")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    security = Security(tls=True, sasl=("plain", "scram-sha-256", "scram-sha-512", "oauthbearer"), users={"me": HUSH})
    with Cluster(tmp_path_factory.mktemp("secured") / "cluster", security=security) as cluster:
        yield cluster


@pytest.fixture
def options(cluster: Cluster) -> KafkaOptions:
    assert cluster.authority is not None
    return KafkaOptions(
        (cluster.bootstrap,),
        security="tls",
        ca_file=cluster.authority.ca_file,
        sasl="scram-sha-512",
        username="me",
        password=HUSH,
    )


def exchange(options: KafkaOptions, topic: str) -> None:
    """Create, append, join, commit, read."""
    with KafkaBus(options) as bus:
        bus.create([TopicSpec(topic)])
        bus.append([Outgoing(topic, "web-1", b"frame", 1.0)])
        (partition,) = bus.partitions(topic)
        member = bus.subscribe(f"group-{topic}", [topic])
        try:
            deadline = time.monotonic() + 60
            while not (polled := member.poll(0.5)).records:
                assert time.monotonic() < deadline
            assert [one.value for one in polled.records] == [b"frame"]
            member.commit(Commit({partition: polled.records[-1].offset + 1}, [Outgoing(topic, "web-1", b"out", 2.0)]))
        finally:
            member.close()
        assert [one.value for one in bus.read(partition, 0)] == [b"frame", b"out"]


@pytest.mark.parametrize(
    ("sasl", "client"),
    [
        ("plain", "kafka-python"),
        ("scram-sha-256", "kafka-python"),
        ("scram-sha-512", "kafka-python"),
        ("scram-sha-512", "librdkafka"),
    ],
)
def test_passwords(options: KafkaOptions, sasl: Sasl, client: Client) -> None:
    exchange(replace(options, client=client, sasl=sasl), f"passwords-{client}-{sasl}")


@pytest.mark.parametrize("client", CLIENTS)
def test_tokens_from_a_file(options: KafkaOptions, cluster: Cluster, client: Client, tmp_path: Path) -> None:
    assert cluster.authority is not None
    token = tmp_path / "token"
    token.write_text(cluster.authority.token("alice"))
    exchange(
        replace(options, client=client, sasl="oauthbearer", username="", password="", token_file=token),
        f"tokens-{client}",
    )


def test_tokens_from_an_endpoint(options: KafkaOptions, cluster: Cluster) -> None:
    assert cluster.authority is not None
    with serving() as (endpoint, url):
        endpoint.answer = {"access_token": cluster.authority.token("alice"), "expires_in": 3600}
        exchange(replace(options, sasl="oauthbearer", token_url=url), "tokens-fetched")
        assert endpoint.asked[0][1] == {"grant_type": ["client_credentials"]}


def test_certificates(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", security=Security(tls=True, client_certificates=True)) as cluster:
        assert cluster.authority is not None
        certificate, key = cluster.authority.client("alice", HUSH)
        options = KafkaOptions(
            (cluster.bootstrap,),
            security="tls",
            ca_file=cluster.authority.ca_file,
            certificate_file=certificate,
            key_file=key,
            key_password=HUSH,
        )
        for client in CLIENTS:
            exchange(replace(options, client=client), f"certificates-{client}")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_wrong_password_is_no_matter_of_waiting(options: KafkaOptions, client: Client) -> None:
    with KafkaBus(options) as bus:
        bus.create([TopicSpec("guarded")])
    wrong = replace(options, client=client, password=WRONG, request_timeout_s=1.0)
    with KafkaBus(wrong) as bus:
        # Where it is known that the topic is there, the next to ask is another part of the client.
        bus._counts["guarded"] = 1
        asks: list[Callable[[], object]] = [
            lambda: bus.create([TopicSpec("other")]),
            lambda: bus.append([Outgoing("guarded", "a", b"", 1.0)]),
            lambda: bus.subscribe("group-guarded", ["guarded"]),
            lambda: bus.client.reader().fetch(Partition("guarded", 0), 0, 1.0),
        ]
        for ask in asks:
            began = time.monotonic()
            with pytest.raises(BusError) as raised:
                ask()
            assert not isinstance(raised.value, BusUnavailable), raised.value
            assert "refuses user me (Authentication failed" in str(raised.value)
            assert str(raised.value).endswith("check kafka.username, kafka.password and kafka.sasl")
            assert WRONG not in str(raised.value)
            assert time.monotonic() - began < 30, "one that waits would do so for ever"


def machine(folder: Path, options: KafkaOptions, password: str, prefix: str = "laggard.") -> Machine:
    """A machine whose settings hold a password; with a wrong one it is not to try for long."""
    settings = {
        **({} if password == HUSH else {"kafka.request_timeout": "2s"}),
        "bus.location": f"kafka://{options.bootstrap[0]}",
        "kafka.security": "tls",
        "kafka.ca_file": options.ca_file,
        "kafka.sasl": options.sasl,
        "kafka.username": options.username,
        "kafka.password": password,
        "topics.partitions": 1,
        "topics.prefix": prefix,
    }
    return Machine(folder, settings)


@pytest.mark.timeout(900)  # many commands
def test_no_command_shows_a_secret(options: KafkaOptions, tmp_path: Path) -> None:
    right = machine(tmp_path / "right", options, HUSH)
    wrong = machine(tmp_path / "wrong", options, WRONG)
    commands = [
        (right, ["topics", "create"], 0),
        (right, ["work", "--duration", "3s"], 0),
        (wrong, ["topics", "check", "--debug"], FAILED),  # with its traceback
        (wrong, ["topics", "list", "--json"], FAILED),
        (wrong, ["doctor"], FAILED),
        (wrong, ["reset", "--yes"], FAILED),
        (wrong, ["why"], FAILED),
        (wrong, ["agent", "--interval", "1s"], 0),  # it keeps its records for later
        (wrong, ["work"], FAILED),
    ]
    refuses = "refuses user me (Authentication failed"
    for one, words, code in commands:
        if words[0] == "agent":
            done = one.run_until(words, lambda said: refuses in said)
        else:
            done = (one.run if words[0] == "work" or "--debug" in words else one.call)(words)
        said = done.stdout + done.stderr
        assert HUSH not in said, words
        assert WRONG not in said, words
        assert done.returncode == code, (words, said)
        assert one is right or refuses in said, (words, said)
    assert HUSH.encode() not in right.written()
    assert WRONG.encode() not in wrong.written()


def test_a_secret_on_a_command_line_is_refused(options: KafkaOptions, tmp_path: Path) -> None:
    done = machine(tmp_path / "machine", options, HUSH).call(["topics", "list", "--set", f"kafka.password={HUSH}"])
    assert done.returncode == USAGE
    assert "kafka.password is a secret, and everybody on a machine sees its command lines" in done.stderr
    assert HUSH not in done.stderr


def test_what_doctor_says(options: KafkaOptions, tmp_path: Path) -> None:
    right = machine(tmp_path / "right", options, HUSH, "examined.")
    found = {one["check"]: one for one in json.loads(right.call(["doctor", "--json"]).stdout)["findings"]}
    assert (found["topics"]["level"], found["topics"]["advice"]) == ("problem", "`laggard topics create`")
    assert "rights" not in found, "of topics that are missing brokers tell no rights"
    assert right.call(["topics", "create"]).returncode == 0
    (tmp_path / "right/laggard.toml").chmod(0o644)
    found = {one["check"]: one for one in json.loads(right.call(["doctor", "--json"]).stdout)["findings"]}
    assert found["configuration"]["found"] == "others may read kafka.password"
    assert found["brokers"]["level"] == "ok"
    assert found["brokers"]["found"].endswith(f"at {options.bootstrap[0]}, as user me (tls, scram-sha-512)")
    assert found["topics"] == {
        "check": "topics",
        "level": "ok",
        "found": "14 topics are as expected",
        "advice": "",
    }
    roles = "agent, measurer, tracer, worker, reader, annotator, viewer, page, admin"
    assert found["rights"]["found"].startswith(f"user me has the rights of {roles}")
    assert re.search(r"0 workers in group examined\.(gaussian|cpu|saturation|incidents)", found["lag"]["found"])
    wrong = machine(tmp_path / "wrong", options, WRONG)
    found = {one["check"]: one for one in json.loads(wrong.call(["doctor", "--json"]).stdout)["findings"]}
    assert found["brokers"]["level"] == "problem"
    assert "refuses user me (Authentication failed" in found["brokers"]["found"]
    assert found["brokers"]["advice"] == "check kafka.username, kafka.password and kafka.sasl"
    assert "topics" not in found
    lost = machine(tmp_path / "lost", replace(options, ca_file=tmp_path / "nowhere.pem"), HUSH)
    found = {one["check"]: one for one in json.loads(lost.call(["doctor", "--json"]).stdout)["findings"]}
    assert found["brokers"]["found"].startswith(f"kafka.ca_file: {tmp_path}/nowhere.pem cannot be read")
    assert found["brokers"]["advice"] == "check that setting"
