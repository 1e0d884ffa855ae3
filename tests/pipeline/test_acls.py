"""Each role at brokers that enforce rules: it works with exactly its own, and without one it says what it lacks."""

from __future__ import annotations

import json
import math
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer

from laggard.pipeline.acls import ROLES, Role, rules
from laggard.pipeline.cli.exits import FAILED, NO_DATA
from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit, Outgoing, Snapshot
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.bus.kafka.security import kafka_python_security
from laggard.pipeline.core.topics import (
    ANNOTATIONS,
    ANOMALIES,
    APPLICATIONS,
    COUNTERS,
    DEAD_LETTERS,
    DIAGNOSES,
    INCIDENTS,
    MODELS,
    POOLING,
    POOLS,
    REQUESTS,
    SERVING,
    TOPICS,
    Topics,
)
from laggard.pipeline.doctor.cluster import lag
from tests.brokers import Cluster, Security
from tests.brokers.acls import acls_of, await_acls, filter_of
from tests.kafka.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from laggard.pipeline.acls import Rule
    from laggard.pipeline.core.bus import Partition, Subscription
    from laggard.pipeline.core.topics import Topic

    Stage = tuple[str, Topic, Topic]

pytestmark = pytest.mark.slow

NAMES = Topics("laggard.")
OPERATOR = "gaussian"
REGRESSION = "regression"
COVARIANCE = "covariance"
TRACED = "requests"
GROUP = "anomaly-readers"
NOBODY = "nobody"
STAGES: tuple[Stage, ...] = (
    (OPERATOR, COUNTERS, ANOMALIES),
    (SERVING, COUNTERS, APPLICATIONS),
    (REGRESSION, APPLICATIONS, MODELS),
    (POOLING, COUNTERS, POOLS),
    (COVARIANCE, POOLS, ANOMALIES),
    (TRACED, REQUESTS, ANOMALIES),
    (INCIDENTS, ANOMALIES, ANOMALIES),
)
"""Of a worker: what it is called, reads and writes."""
PASSWORDS: dict[str, str] = {user: f"hush-{user}" for user in (*ROLES, NOBODY)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    security = Security(sasl=("plain",), users=PASSWORDS, acls=True)
    with Cluster(tmp_path_factory.mktemp("acls") / "cluster", security=security) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def owner(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    """Who may do everything, and has given each role its rules."""
    with KafkaAdminClient(bootstrap_servers=cluster.internal, request_timeout_ms=120_000) as client:
        for role in ROLES:
            client.create_acls([acl for rule in rules_of(role) for acl in acls_of(role, rule)])
        yield client


def rules_of(role: Role) -> tuple[Rule, ...]:
    return rules(role, NAMES, [OPERATOR, REGRESSION, COVARIANCE, TRACED], GROUP)


VIEWED = {(rule.name, operation) for rule in rules_of("viewer") for operation in rule.operations}


def options_of(cluster: Cluster, role: Role) -> KafkaOptions:
    """As patient as a broker is slow on a machine that others load."""
    who: dict[str, Any] = {"client": "kafka-python", "sasl": "plain", "username": role, "password": PASSWORDS[role]}
    patience = {"session_timeout_s": 20.0, "transaction_timeout_s": 60.0, "request_timeout_s": 60.0}
    return KafkaOptions((cluster.bootstrap,), **who | patience)


def work_as(role: Role, cluster: Cluster, stages: Sequence[Stage] = STAGES) -> None:
    """All that the role is for; as a worker these stages."""
    if role == "reader":
        read_anomalies(cluster)
        return
    with KafkaBus(options_of(cluster, role)) as bus:
        if role == "worker":
            work(bus, stages)
            return
        done = {"admin": administrate, "agent": publish_all, "measurer": measure, "tracer": trace}
        (done | {"annotator": follow, "viewer": view, "page": look})[role](bus)


def administrate(bus: KafkaBus) -> None:
    snapshots = map(NAMES.snapshots, (OPERATOR, REGRESSION, COVARIANCE, TRACED, INCIDENTS))
    specs = NAMES.specs((*TOPICS, *snapshots), 1, 48 * 3600.0)
    bus.create(specs)
    for found in bus.topics.describe(spec.name for spec in specs).values():
        assert found is not None
        assert found.configs


def publish(bus: KafkaBus) -> None:
    bus.append([Outgoing(NAMES.name(COUNTERS), "web-1", b"frame", time.time())])


def publish_all(bus: KafkaBus) -> None:
    publish(bus)
    bus.append([Outgoing(NAMES.name(POOLS), "web-1/nginx", b"frame", time.time())])
    bus.append([Outgoing(NAMES.name(DIAGNOSES), "web-1", b"diagnosis", time.time())])


def measure(bus: KafkaBus) -> None:
    bus.append([Outgoing(NAMES.name(APPLICATIONS), "shop", b"frame", time.time())])
    bus.append([Outgoing(NAMES.name(POOLS), "checkout", b"frame", time.time())])


def trace(bus: KafkaBus) -> None:
    publish(bus)
    bus.append([Outgoing(NAMES.name(REQUESTS), "shop", b"request", time.time())])


def needs(stage: str, topic: Topic, results: Topic, rule: Rule, operation: str) -> bool:
    """Whether a worker's stage needs what a rule allows."""
    topics = (topic,) if operation == "Read" else (results, DEAD_LETTERS)
    names = {*map(NAMES.name, (*topics, NAMES.snapshots(stage))), NAMES.group(stage), f"{NAMES.group(stage)}-"}
    return rule.name in names


def work(bus: KafkaBus, stages: Sequence[Stage] = STAGES) -> None:
    """Two members, one after the other: the second makes sure that the first is gone."""
    publish(bus)
    for stage, topic, results in stages:
        remembers = stage not in {SERVING, POOLING}
        (partition,) = bus.partitions(NAMES.name(topic))
        for number in range(2):
            member = bus.subscribe(NAMES.group(stage), [NAMES.name(topic)])
            try:
                joined(member, partition)
                member.commit(
                    Commit(
                        {partition: bus.bounds(partition)[1]},
                        [Outgoing(NAMES.name(each), "web-1", b"{}", time.time()) for each in (results, DEAD_LETTERS)],
                        [Snapshot(stage, partition, "web-1", number, time.time(), b"state")] if remembers else [],
                    )
                )
                if remembers:
                    bus.snapshots(stage, partition)
            finally:
                member.close()


def follow(bus: KafkaBus) -> None:
    """What the worker has found, and how far that was read."""
    (partition,) = bus.partitions(NAMES.name(ANOMALIES))
    member = bus.subscribe(NAMES.group(ANNOTATIONS), [partition.topic])
    try:
        joined(member, partition)
        member.seek(partition, 0)
        deadline = time.monotonic() + 120
        while not (records := member.poll(0.2).records):
            assert time.monotonic() < deadline
        member.commit(Commit({partition: records[-1].offset + 1}))
    finally:
        member.close()


def joined(member: Subscription, partition: Partition) -> None:
    deadline = time.monotonic() + 120
    while partition not in member.poll(0.2).assigned:
        assert time.monotonic() < deadline


def view(bus: KafkaBus) -> None:
    topic = NAMES.name(COUNTERS)
    assert bus.keys(topic) == ["web-1"]
    (partition,) = bus.partitions(topic)
    assert bus.committed(NAMES.group(OPERATOR), partition) > 0
    assert bus.snapshots(OPERATOR, partition)
    for found in (ANOMALIES, DIAGNOSES, MODELS, APPLICATIONS, POOLS, REQUESTS):
        (partition,) = bus.partitions(NAMES.name(found))
        assert list(bus.read(partition, 0))
    for operator, read in ((REGRESSION, APPLICATIONS), (COVARIANCE, POOLS), (TRACED, REQUESTS)):
        (partition,) = bus.partitions(NAMES.name(read))
        assert bus.snapshots(operator, partition)
    publish(bus)
    for written in (APPLICATIONS, POOLS, REQUESTS):
        bus.append([Outgoing(NAMES.name(written), "shop", b"wish", time.time())])


def look(bus: KafkaBus) -> None:
    """What the page does."""
    for topic, stages in (
        (COUNTERS, [OPERATOR, SERVING, POOLING]),
        (APPLICATIONS, [REGRESSION]),
        (POOLS, [COVARIANCE]),
        (REQUESTS, [TRACED]),
        (ANOMALIES, [INCIDENTS]),
    ):
        (partition,) = bus.partitions(NAMES.name(topic))
        assert list(bus.read(partition, 0))
        for stage in stages:
            assert bus.committed(NAMES.group(stage), partition) > 0
            assert stage in {SERVING, POOLING} or bus.snapshots(stage, partition)
    for topic in (DIAGNOSES, MODELS, DEAD_LETTERS):
        (partition,) = bus.partitions(NAMES.name(topic))
        assert list(bus.read(partition, 0))
    for topic in (COUNTERS, APPLICATIONS, POOLS, REQUESTS):
        bus.append([Outgoing(NAMES.name(topic), "web-1", b"replayed", time.time())])


def read_anomalies(cluster: Cluster) -> None:
    security = kafka_python_security(options_of(cluster, "reader"))
    with KafkaConsumer(
        NAMES.name(ANOMALIES),
        bootstrap_servers=cluster.bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=60_000,
        **security,
    ) as consumer:
        assert next(consumer).value == b"{}"
        consumer.commit()


def test_each_role_works_with_exactly_its_rules(cluster: Cluster, owner: KafkaAdminClient) -> None:
    for role in ("admin", "agent", "measurer", "tracer", "worker", "viewer", "page", "reader", "annotator"):
        work_as(role, cluster)


def machine_of(cluster: Cluster, user: str, folder: Path) -> Machine:
    settings = {
        "operators": OPERATOR,
        "bus.location": f"kafka://{cluster.bootstrap}",
        "kafka.sasl": "plain",
        "kafka.username": user,
        "kafka.password": PASSWORDS[user],
        "kafka.request_timeout": "60s",
        "topics.partitions": 1,
    }
    return Machine(folder / user, settings)


def test_who_may_see_nothing_is_told_so(cluster: Cluster, owner: KafkaAdminClient, tmp_path: Path) -> None:
    nobody = machine_of(cluster, NOBODY, tmp_path)
    done = nobody.call(["topics", "create"])
    assert (done.returncode, done.stderr) == (FAILED, "")
    assert re.search("^not known +laggard.counters +not visible to this user$", done.stdout, re.MULTILINE)
    assert "created" not in done.stdout
    assert "there already" not in done.stdout
    assert "it needs Describe there: `laggard topics acls --role admin`" in done.stdout
    done = nobody.call(["doctor", "--json"])
    assert done.returncode == FAILED
    found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["topics"]["found"] == "unknown: this user can see none"
    assert found["rights"] == {
        "check": "rights",
        "level": "problem",
        "found": "user nobody has no role: it can see no topic",
        "advice": "`laggard topics acls` prints what each role needs",
    }


def keep_up(bus: KafkaBus) -> bool:
    """Whether nothing waits for a worker: what the test before left has waited for long, of incidents too."""
    read = {OPERATOR: COUNTERS, INCIDENTS: ANOMALIES}
    return all(lag(bus, NAMES.group(it), NAMES.name(topic), math.inf).level == "ok" for it, topic in read.items())


@pytest.mark.timeout(900)  # many commands
def test_the_commands_of_each_role_work_with_its_rules(
    cluster: Cluster, owner: KafkaAdminClient, tmp_path: Path
) -> None:
    """After `test_each_role_works_with_exactly_its_rules`, on the same topics: what people and services run."""

    machines = {role: machine_of(cluster, role, tmp_path) for role in ROLES}

    def run(role: Role, *words: str, until: Callable[[KafkaBus, Partition], bool] | None = None) -> str:
        if until is None:
            done = machines[role].call(words)
        else:
            with KafkaBus(options_of(cluster, "worker")) as bus:
                (partition,) = bus.partitions(NAMES.name(COUNTERS))
                done = machines[role].run_until(words, lambda _: until(bus, partition))
                assert until(bus, partition), (role, words, done.stdout)
        assert done.returncode == 0, (role, words, done.stdout, done.stderr)
        assert "lacks an ACL" not in done.stdout + done.stderr, (role, words, done.stderr)
        return done.stdout

    run("admin", "topics", "create")
    run("admin", "topics", "check")
    with KafkaBus(options_of(cluster, "viewer")) as bus:
        (partition,) = bus.partitions(NAMES.name(COUNTERS))
        before = bus.bounds(partition)[1]
    run("agent", "agent", "--interval", "0.5s", until=lambda bus, at: bus.bounds(at)[1] >= before + 9)
    run("viewer", "mark", "slow")
    run("worker", "work", until=lambda bus, _: keep_up(bus))
    assert "web-1" in run("viewer", "why")
    for words in (("models",), ("models", "what-if", "shop", "web-1:load_1m=1")):
        done = machines["viewer"].call(words)
        assert done.returncode == NO_DATA, (words, done.stdout, done.stderr)
        assert "there is no model of " in done.stderr
    for role in ("agent", "worker", "viewer", "admin"):
        told = json.loads(machines[role].call(["doctor", "--json"]).stdout)["findings"]
        found = {one["check"]: one for one in told}
        assert [one["check"] for one in told if one["level"] == "problem"] == []
        assert found["brokers"]["advice"].startswith("set kafka.security to tls")  # passwords in plain text
        assert found["topics"]["level"] == "ok"
        assert re.search(rf"^user {role} has the rights of .*\b{role}\b", found["rights"]["found"])
        assert found["lag"]["level"] == "ok"
    deadline = time.monotonic() + 120.0
    while "runs in group" in machines["admin"].call(["reset", "--json"]).stderr:  # one that could not say that it left
        assert time.monotonic() < deadline
    assert '"keys_forgotten": 1' in run("admin", "reset", "--yes", "--json")
    work_as("worker", cluster)  # who looks after this finds snapshots again


def test_who_may_not_read_what_processes_were_doing_is_told_the_rest(
    cluster: Cluster, owner: KafkaAdminClient, tmp_path: Path
) -> None:
    """After the same, on the same topics."""
    acls = [acl for rule in rules_of("viewer") if rule.name == NAMES.name(DIAGNOSES) for acl in acls_of("viewer", rule)]
    assert acls
    owner.delete_acls([filter_of(acl) for acl in acls])
    try:
        await_acls(owner, acls, there=False)
        done = machine_of(cluster, "viewer", tmp_path).call(["why"])
    finally:
        owner.create_acls(acls)
        await_acls(owner, acls, there=True)
    assert done.returncode == 0
    assert "web-1" in done.stdout
    assert "Cannot read diagnoses: " in done.stderr
    assert "user viewer lacks an ACL for " in done.stderr


def test_a_worker_that_may_not_join_one_of_its_groups_is_none(
    cluster: Cluster, owner: KafkaAdminClient, tmp_path: Path
) -> None:
    """After the commands: a group exists once a worker was in it."""
    acls = [acl for rule in rules_of("worker") if rule.name == NAMES.group(POOLING) for acl in acls_of("worker", rule)]
    assert acls
    owner.delete_acls([filter_of(acl) for acl in acls])
    try:
        await_acls(owner, acls, there=False)
        of_pools = ("--set", f"operators={OPERATOR},{COVARIANCE}")
        done = machine_of(cluster, "worker", tmp_path).call(["doctor", "--json", *of_pools])
    finally:
        owner.create_acls(acls)
        await_acls(owner, acls, there=True)
    (rights,) = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "rights"]
    assert re.search(r"\bmeasurer\b", rights["found"]), "the rest of its rights it has"
    assert not re.search(r"of .*\bworker\b", rights["found"])


@pytest.mark.parametrize(
    ("role", "rule", "operation"),
    [
        pytest.param(role, rule, operation, id=f"{role}-{operation}-{rule.resource}-{rule.name}")
        for role in ROLES
        if role not in {"reader", "admin"}
        for rule in rules_of(role)
        for operation in rule.operations
        # What the page and people who ask may both do is tried with one of them.
        if role != "page" or (rule.name, operation) not in VIEWED
    ],
)
def test_without_one_of_its_rules_a_role_says_what_it_lacks(
    cluster: Cluster, owner: KafkaAdminClient, role: Role, rule: Rule, operation: str
) -> None:
    acls = [acl for acl in acls_of(role, rule) if acl.operation.name == operation.upper()]
    owner.delete_acls([filter_of(acl) for acl in acls])
    try:
        await_acls(owner, acls, there=False)
        with pytest.raises(BusError) as raised:
            work_as(role, cluster, [each for each in STAGES if needs(*each, rule, operation)][:1])
        said = str(raised.value)
        assert not isinstance(raised.value, BusUnavailable)  # no caller waits for it to pass
        assert f": user {role} lacks an ACL for " in said
        assert said.endswith("; `laggard topics acls` prints what each role needs")
        stages = [OPERATOR, SERVING, REGRESSION, POOLING, COVARIANCE, TRACED, INCIDENTS]
        stages = [ANNOTATIONS] if role == "annotator" else stages
        assert rule.name in said or any(f"group {NAMES.group(stage)}: " in said for stage in stages)
    finally:
        owner.create_acls(acls)
        await_acls(owner, acls, there=True)
