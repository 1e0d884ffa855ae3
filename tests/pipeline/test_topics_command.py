"""`laggard topics` and `laggard reset`, on a file and on a real broker."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import BUSY, FAILED, INTERRUPTED, NO_DATA, UNAVAILABLE, USAGE
from laggard.pipeline.core.bus import Commit, Outgoing, Snapshot
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.claims import Claim
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, TOPICS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.wiring import stages
from tests.kafka.scene import Scene
from tests.kafka.stream import WIRED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.brokers import Cluster

slow = pytest.mark.slow

SNAPSHOTS = f"snapshots.{WIRED[0].snapshots}"
CREATES = "`laggard topics create` creates what is missing"


pytestmark = pytest.mark.usefixtures("nowhere")


class Laggard:
    """Calls the command line on a bus under a prefix."""

    def __init__(self, location: str, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.arguments = ["--bus", location, "--set", f"topics.prefix={prefix}"]
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        code = run([*words, *self.arguments])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def json(self, *words: str) -> Any:
        code, out, err = self(*words, "--json")
        assert code in {0, FAILED}, err
        return json.loads(out)


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:8]}."


@pytest.fixture
def laggard(broker: Cluster, prefix: str, capsys: pytest.CaptureFixture[str]) -> Laggard:
    return Laggard(broker.location, prefix, capsys)


# On a file.


def test_topics_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    laggard = Laggard(str(tmp_path / "bus.db"), "laggard.", capsys)
    code, out, err = laggard("topics", "list")
    assert (code, out) == (NO_DATA, "")
    assert "there are no records at" in err
    code, out, _ = laggard("topics", "create")
    assert code == 0
    assert len(out.splitlines()) == len(TOPICS)
    assert out.startswith("created        laggard.counters      1 partition, 0 records\n")
    assert laggard("topics", "create")[1].startswith("there already  laggard.counters ")
    assert laggard("topics", "check") == (0, f"All {len(TOPICS)} topics are as expected.\n", "")
    (counters,) = [each for each in laggard.json("topics", "list")["topics"] if each["name"] == "laggard.counters"]
    assert (counters["exists"], counters["partitions"], counters["records"]) == (True, 1, 0)


def test_reset_of_a_file_is_refused_while_a_worker_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = str(tmp_path / "bus.db")
    laggard = Laggard(location, "laggard.", capsys)
    assert laggard("reset", "--yes")[0] == NO_DATA
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(Topics().specs())
    with Claim(location, tmp_path / "state", "work"):
        code, _, err = laggard("reset", "--yes")
    assert code == BUSY
    assert "`laggard work` runs already" in err
    code, out, _ = laggard("reset", "--yes")
    assert code == 0
    heads = [line for line in out.splitlines() if " on " in line and not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == [
        "gaussian",
        "cpu",
        "saturation",
        "covariance",
        "requests",
        "incidents",
    ]
    plan = [
        "  forgets    what it has learned of 0 hosts",
        "  learns     from the 0 records that laggard.counters holds now, and from what comes",
        "  publishes  its results from its present position on; those already published stay",
    ]
    compared = [line.replace("hosts", "pools").replace("counters", "pools") for line in plan]
    traced = [line.replace("hosts", "services").replace("counters", "requests") for line in plan]
    joined = [line.replace("hosts", "keys").replace("counters", "anomalies") for line in plan]
    of_hosts = [*plan, *plan, *plan]
    assert [line for line in out.splitlines() if line.startswith(" ")] == [*of_hosts, *compared, *traced, *joined]
    done = "Done: gaussian, cpu, saturation, covariance, requests, incidents learn anew when a worker starts."
    assert out.splitlines()[-1] == done


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "cannot prompt here; expected --yes"),
        (("--json",), "--json cannot prompt; expected --yes with it"),
        (("--yes", "--to", "whenever"), "seconds since 1970, here, earliest or latest"),
        (
            ("--yes", "--operator", "magic"),
            "no operator 'magic' is set; expected one of gaussian, cpu, saturation, covariance, requests, incidents",
        ),
    ],
)
def test_reset_with_a_wrong_command_line(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(Topics().specs())
    code, _, err = Laggard(str(tmp_path / "bus.db"), "laggard.", capsys)("reset", *words)
    assert code == USAGE
    assert said in err


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("here", (6, 0, 0)),
        ("earliest", (0, 6, 0)),
        ("latest", (10, 0, 4)),
        ("1700000003", (3, 3, 0)),
        ("1700000008", (8, 0, 2)),
    ],
)
def test_from_where_on_results_are_published(
    to: str, expected: tuple[int, int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offset, again, passed = expected
    topic = Topics().name(COUNTERS)
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(Topics().specs())
        bus.append([Outgoing(topic, "web-1", b"", 1_700_000_000.0 + at) for at in range(10)])
        (partition,) = bus.partitions(topic)
        member = bus.subscribe("laggard.hosts", [topic])
        member.commit(Commit({partition: 6}, (), [Snapshot(WIRED[0].snapshots, partition, "web-1", 6, 1.0, b"")]))
        member.close()
    done = Laggard(str(tmp_path / "bus.db"), "laggard.", capsys).json("reset", "--yes", "--to", to)["operators"][0]
    assert done["offsets"] == {"0": offset}
    assert (done["records_published_again"], done["records_passed_over"]) == (again, passed)
    assert (done["keys_forgotten"], done["records_learned_from"]) == (1, 10)
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        assert bus.committed("laggard.hosts", partition) == offset
        assert list(bus.snapshots(WIRED[0].snapshots, partition)) == []


@pytest.mark.parametrize(("to", "offset"), [("here", 7), ("earliest", 0), ("latest", 10)])
def test_reset_knows_where_an_older_laggard_was(
    to: str, offset: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It had a group for each operator; no worker of this version has run yet."""
    topic = Topics().name(COUNTERS)
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(Topics().specs())
        bus.append([Outgoing(topic, "web-1", b"", 1_700_000_000.0 + at) for at in range(10)])
        (partition,) = bus.partitions(topic)
        for operator, position in (("gaussian", 7), ("cpu", 5)):
            member = bus.subscribe(f"laggard.{operator}", [topic])
            member.commit(Commit({partition: position}, (), [Snapshot(operator, partition, "web-1", 5, 1.0, b"")]))
            member.close()
    done = Laggard(str(tmp_path / "bus.db"), "laggard.", capsys).json("reset", "--yes", "--to", to)["operators"]
    of_hosts = [each for each in done if each["group"] == "laggard.hosts"]
    assert [each["operator"] for each in of_hosts] == ["gaussian", "cpu", "saturation"]
    assert [each["offsets"] for each in of_hosts] == [{"0": offset}] * 3
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        found = {
            name: bus.committed(f"laggard.{name}", partition) for name in ("hosts", "gaussian", "cpu", "saturation")
        }
        assert found == {"hosts": offset, "gaussian": offset, "cpu": offset, "saturation": 0}
        assert not list(bus.snapshots("gaussian", partition))


def test_operators_that_go_on_together_move_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(Topics().specs())
    laggard = Laggard(str(tmp_path / "bus.db"), "laggard.", capsys)
    code, _, err = laggard("reset", "--yes", "--operator", "cpu", "--to", "latest")
    assert code == USAGE
    assert err == "laggard: cpu, gaussian, saturation move together; expected no --operator, or --to here\n"
    assert [each["operator"] for each in laggard.json("reset", "--yes", "--operator", "cpu")["operators"]] == ["cpu"]


@pytest.mark.slow
def test_reset_asks_first(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(Topics().specs())
    command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "reset", "--bus", str(tmp_path / "bus.db")]
    for answer, code, said in (
        (b"n\n", INTERRUPTED, b"Go on? [y/N]"),
        (b"y\n", 0, b"Done: gaussian, cpu, saturation, covariance, requests, incidents learn anew"),
    ):
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            os.write(ours, answer)
            out, _ = process.communicate(timeout=120)
        os.close(ours)
        os.close(theirs)
        assert (process.returncode, said in out) == (code, True), out


# On Kafka.


@slow
def test_topics_are_created_and_are_then_as_they_should_be(laggard: Laggard, prefix: str, broker: Cluster) -> None:
    snapshots = [f"{prefix}snapshots.{stage.snapshots}" for stage in stages(read_settings(environ={}))]
    names = [prefix + topic.name for topic in TOPICS] + snapshots
    code, out, _ = laggard("topics", "check")
    assert code == FAILED
    assert out == f"{', '.join(names)}: missing\n    {CREATES}\n"
    assert [each["exists"] for each in laggard.json("topics", "list")["topics"]] == [False] * len(names)
    code, out, _ = laggard("topics", "describe", "dead_letters")
    assert (code, out.splitlines()[2:]) == (
        0,
        ["  keyed by    the key received", "  is          missing", f"              {CREATES}"],
    )

    code, out, err = laggard("topics", "create", "--set", "topics.partitions=3")
    assert (code, err) == (0, "")
    lines = [re.split(r"\s{2,}", line) for line in out.splitlines()]
    assert [line[:2] for line in lines] == [["created", name] for name in names]
    assert lines[0][2] == "3 partitions, on 1 broker, for 2 d, 0 records"
    assert lines[4][2] == "3 partitions, on 1 broker, for 30 d, 0 records"
    assert lines[-1][2] == "3 partitions, on 1 broker, the newest of each key, 0 records"
    said = f"All {len(names)} topics are as expected.\n"
    assert laggard("topics", "check", "--set", "topics.partitions=3") == (0, said, "")
    # What the broker's own tool says of them.
    described = broker.tools.run("kafka-topics", "--describe", "--topic", f"{prefix}{SNAPSHOTS}")
    assert "PartitionCount: 3" in described
    for config in ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.2", "segment.ms=3600000"):
        assert config in described

    found = laggard.json("topics", "describe", "counters", f"{prefix}anomalies")
    assert found["location"] == broker.location
    assert [each["name"] for each in found["topics"]] == [f"{prefix}counters", f"{prefix}anomalies"]
    assert found["topics"][0]["configs"]["retention.ms"] == str(48 * 3600 * 1000)
    code, out, _ = laggard("topics", "describe", SNAPSHOTS, "--set", "topics.partitions=3")
    assert code == 0
    assert out.splitlines()[1:4] == [
        "  holds       an operator's state of one key",
        "  keyed by    partition/key",
        "  is          3 partitions, on 1 broker, the newest of each key, 0 records",
    ]
    code, _, err = laggard("topics", "describe", "magic")
    assert code == USAGE
    assert f"laggard has no topic 'magic'; expected one of {prefix}counters, " in err


@slow
def test_what_differs_is_said_and_left_alone(laggard: Laggard, prefix: str, broker: Cluster) -> None:
    laggard("topics", "create", "--set", "topics.partitions=2")
    anomalies, snapshots = f"{prefix}anomalies", f"{prefix}{SNAPSHOTS}"
    with KafkaAdminClient(bootstrap_servers=broker.internal) as admin:
        changes = {
            anomalies: {"retention.ms": "1000", "max.message.bytes": "1000"},
            snapshots: {"cleanup.policy": "delete", "segment.ms": "1000000"},  # smaller segments are as good
        }
        for name, configs in changes.items():
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs)])
        admin.create_partitions({f"{prefix}models": 3})

    def wrong() -> set[tuple[str, str, str, str]]:
        return {
            (each["name"], one["setting"], one["expected"], one["found"])
            for each in laggard.json("topics", "check", "--set", "topics.partitions=2")["topics"]
            for one in each["differences"]
        }

    expected = {
        (anomalies, "retention.ms", "2592000000", "1000"),
        (anomalies, "max.message.bytes", "8389120", "1000"),
        (snapshots, "cleanup.policy", "compact", "delete"),
        (f"{prefix}models", "partitions", "2", "3"),
    }
    deadline = time.monotonic() + 120
    while (found := wrong()) != expected and time.monotonic() < deadline:
        time.sleep(0.1)  # a broker hears of changes a moment after the controller has answered
    assert found == expected
    code, out, _ = laggard("topics", "create", "--set", "topics.partitions=4")
    assert code == 0
    assert f"there already  {anomalies} " in out
    assert (
        f"{anomalies}: retention.ms is 1000, expected 2592000000\n    kafka-configs.sh --bootstrap-server "
        f"{broker.bootstrap} --alter --entity-type topics --entity-name {anomalies} --add-config "
        "retention.ms=2592000000\n"
    ) in out
    assert (
        f"{prefix}models: partitions is 3, expected 4\n    set topics.partitions to 3; or stop agents and workers and "
        f"run kafka-topics.sh --bootstrap-server {broker.bootstrap} --alter --topic {prefix}models --partitions 4: "
        "most keys move to other partitions"
    ) in out
    assert "likewise for the others" in out
    code, out, _ = laggard("topics", "check", "--set", "topics.partitions=2", "--set", "topics.replication=3")
    assert code == FAILED
    assert "replication is 1, expected 3\n    kafka-reassign-partitions.sh changes it while the topic is used" in out
    assert {each["partitions"] for each in laggard.json("topics", "list")["topics"]} == {2, 3}


@pytest.mark.slow
def test_brokers_that_are_away(capsys: pytest.CaptureFixture[str]) -> None:
    laggard = Laggard("kafka://127.0.0.1:1", "laggard.", capsys)
    for words in (("topics", "create"), ("topics", "list"), ("topics", "check"), ("reset", "--yes")):
        code, out, err = laggard(*words, "--set", "kafka.request_timeout=1s")
        assert (code, out) == (UNAVAILABLE, "")
        assert "127.0.0.1:1: cannot be reached (Connection refused); does a broker run there" in err
        assert len(err.splitlines()) == 1


def test_rules_are_printed_without_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    laggard = Laggard("kafka://b1:9093,b2:9093", "here.", capsys)
    code, out, _ = laggard("topics", "acls", "--role", "agent", "--principal", "User:CN=web")
    assert code == 0
    assert out == (
        "# agent (laggard agent: publishes the counters of its host, its pools, and profiles of "
        "processes)\n"
        "# frames\n"
        "kafka-acls.sh --bootstrap-server b1:9093,b2:9093 --add --allow-principal User:CN=web "
        "--operation Write --topic here.counters\n"
        "# members of its pools\n"
        "kafka-acls.sh --bootstrap-server b1:9093,b2:9093 --add --allow-principal User:CN=web "
        "--operation Write --topic here.pools\n"
        "# profiles of processes during high use or pressure\n"
        "kafka-acls.sh --bootstrap-server b1:9093,b2:9093 --add --allow-principal User:CN=web "
        "--operation Write --topic here.diagnoses\n"
    )
    roles = laggard.json("topics", "acls")["roles"]
    assert list(roles) == ["agent", "measurer", "tracer", "worker", "reader", "annotator", "viewer", "page", "admin"]
    assert roles["worker"][-1] == {
        "principal": "User:worker",
        "resource_type": "TRANSACTIONAL_ID",
        "resource_name": "here.incidents-",
        "pattern_type": "PREFIXED",
        "operations": ["WRITE"],
        "permission_type": "ALLOW",
        "why": "results and offsets in one transaction; aborting those of dead workers",
    }


@slow
def test_an_operator_that_was_reset_learns_the_same_again(
    laggard: Laggard, prefix: str, broker: Cluster, tmp_path: Path
) -> None:
    with Scene(tmp_path / "scene", broker, prefix, partitions=2) as scene:
        scene.send(1500)
        first = scene.worker()
        first.start()
        first.await_ready()
        code, _, err = laggard("reset", "--yes")
        assert code == BUSY
        assert re.search(rf"1 worker runs in group {prefix}hosts: {prefix}hosts-\w+; stop it first", err)
        scene.await_all()
        scene.stop_workers()
        results = anomalies(scene)
        assert results

        done = laggard.json("reset", "--yes")["operators"][0]
        assert done["keys_forgotten"] == 20
        assert done["records_learned_from"] > 1500
        assert (done["records_published_again"], done["records_passed_over"]) == (0, 0)
        for partition in scene.inputs:
            assert list(scene.bus.snapshots(WIRED[0].snapshots, partition)) == []
        # It is learning from all that is there, and publishes nothing again: what comes is as if nothing had happened.
        scene.send(500)
        scene.worker().start()
        scene.check()
        assert anomalies(scene) > results

        everything, joined = anomalies(scene), joined_records(scene)
        assert joined
        code, out, _ = laggard("reset", "--yes", "--to", "earliest")
        assert code == 0
        assert re.search(r"publishes  its results on \d+ records again; those already published stay", out)
        scene.worker().start()
        scene.await_all()
        scene.stop_workers()
        assert anomalies(scene) == 2 * everything
        assert joined_records(scene) == sorted(2 * joined), "each once more, by ids, numbers and all"


def joined_records(scene: Scene) -> list[bytes]:
    """The records of incidents, sorted."""
    return sorted(
        record.value
        for partition in scene.bus.partitions(scene.topics.name(ANOMALIES))
        for record in scene.bus.read(partition, 0)
        if json.loads(record.value)["kind"] == "incident"
    )


def anomalies(scene: Scene) -> int:
    """How many records of operators there are."""
    return sum(
        json.loads(record.value)["kind"] != "incident"
        for partition in scene.bus.partitions(scene.topics.name(ANOMALIES))
        for record in scene.bus.read(partition, 0)
    )
