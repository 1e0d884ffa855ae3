"""The consumer of deploy/subscribers and the script for Kafka's own commands, on a real broker."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient

from laggard.pipeline.acls import rules
from laggard.pipeline.core.records.outputs import RankingOutput
from laggard.pipeline.core.topics import Topics
from tests.brokers import Security
from tests.brokers.acls import acls_of, await_acls
from tests.brokers.java import java
from tests.deploy.subscribers import HOSTS, SUBSCRIBERS, Channel, Program, anomaly, incident, notice, ranking, until
from tests.programs import path_of
from tests.test_house import imported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers import Cluster
    from tests.brokers.fixtures import NewCluster

pytestmark = pytest.mark.slow

GROUP = "tried"
README = (SUBSCRIBERS / "README.md").read_text()


@pytest.fixture
def channel(broker: Cluster) -> Iterator[Channel]:
    channel = Channel(broker)
    try:
        yield channel
    finally:
        channel.close()


def follow(tmp_path: Path, channel: Channel, *arguments: str, **variables: str) -> Program:
    return Program(tmp_path, channel, "anomalies.py", "--group", GROUP, *arguments, variables=variables)


def numbers(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines if (found := re.search(r"number (\d+)", line))]


def of_hosts(told: list[int]) -> dict[str, list[int]]:
    """By host, in the order in which they came."""
    return {host: [each for each in told if HOSTS[each % len(HOSTS)] == host] for host in HOSTS}


def junk(channel: Channel) -> list[str]:
    """Write what no worker writes; what is to be said of it."""
    (event,) = channel.events([incident(99)])
    headers = dict(event.headers)
    for value in (b"", None, b"no JSON", b"\xff\xfe", b'{"kind": "incident", "score": NaN}', b"[" * 100_000):
        channel.write(value, event.headers)
    channel.write(b"[1, 2]", event.headers)
    channel.write(event.value)
    channel.write(event.value, (headers | {"ce_dataschema": b"urn:laggard:incident:2"}).items())
    channel.write(event.value, (headers | {"ce_id": b"\xff"}).items())
    channel.write(event.value, (headers | {"ce_id": b""}).items())
    channel.write(event.value.replace(b'"host"', b'"planet"'), event.headers)
    return [
        *["expected JSON in UTF-8"] * 6,
        "expected a JSON object",
        *["expected the header ce_dataschema to be urn:laggard:incident:1"] * 2,
        "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "expected the headers ce_id",
        "expected one of the fields host, application, pool, service",
    ]


def test_it_prints_what_is_live_new_and_committed_and_nothing_else(tmp_path: Path, channel: Channel) -> None:
    channel.publish(*(incident(number) for number in range(4)))
    channel.publish(incident(100), incident(101), abort=True)
    channel.publish(incident(0), incident(3), incident(102, live=False), incident(4))
    mark = RankingOutput.of(time.time(), "web-1", "number 103 hangs", ranking(time.time()))
    channel.publish(mark, anomaly(104), incident(5, sentence="number 5\x1b[2Jand \ud800"))
    said = junk(channel)
    channel.publish(incident(6))
    program = follow(tmp_path, channel)
    told = program.until_lines(7)
    program.stop()
    assert of_hosts(numbers(told)) == of_hosts(list(range(7)))
    assert len(program.lines()) == 7
    assert any(line.endswith("+00:00 db-1: number 5?[2Jand ?") for line in told)
    passed = re.findall(rf"{re.escape(channel.topic)}\[\d\]@\d+: skipped: (.*)", program.said.read_text())
    assert sorted(passed) == sorted(said)

    again = follow(tmp_path, channel)
    channel.publish(incident(7))
    assert numbers(again.until_lines(1)) == [7]
    again.stop(signal.SIGINT)
    assert len(again.lines()) == 1, "what was handled comes again"


def test_it_prints_what_each_operator_finds_where_that_is_asked_for(tmp_path: Path, channel: Channel) -> None:
    channel.publish(incident(0), anomaly(1), anomaly(2, live=False), anomaly(3))
    program = follow(tmp_path, channel, "--follow", "anomalies")
    assert sorted(numbers(program.until_lines(2))) == [1, 3]
    program.stop()
    assert len(program.lines()) == 2


def test_it_prints_what_is_suspicious_where_that_is_asked_for(tmp_path: Path, channel: Channel) -> None:
    channel.publish(incident(0), anomaly(1), notice(2), notice(3, live=False), notice(4))
    program = follow(tmp_path, channel, "--follow", "notices")
    assert sorted(numbers(program.until_lines(2))) == [2, 4]
    program.stop()
    assert len(program.lines()) == 2


def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path: Path, channel: Channel) -> None:
    count = 200
    channel.publish(*map(incident, range(count)))
    seen = ["--seen", str(tmp_path / "seen.db")]
    # What a pipe of one page takes is as far as it gets, however long it lives.
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    first = Program(tmp_path, channel, "anomalies.py", "--group", GROUP, *seen, printed=writing)
    os.close(writing)
    with os.fdopen(reading) as printed:
        lines = [printed.readline() for _ in range(20)]
        first.kill()
        before = numbers(lines + printed.readlines())
    assert 20 <= len(before) < count, first.told()
    channel.publish(*map(incident, before[:10]))  # somebody processes the input again: the same ids
    channel.publish(incident(count))
    second = follow(tmp_path, channel, *seen)
    until(lambda: len({*before, *numbers(second.lines())}) == count + 1, second.told)
    second.stop()
    again = len(before) + len(second.lines()) - (count + 1)
    assert again <= 1, "more came again than what was being handled"


def test_a_new_group_begins_a_while_ago_and_says_so_at_once(tmp_path: Path, channel: Channel) -> None:
    channel.publish(*(incident(number, ago_s=3600) for number in range(3)))
    channel.publish(incident(3), incident(4))
    first = follow(tmp_path, channel, "--since", "30m")
    assert sorted(numbers(first.until_lines(2))) == [3, 4]
    first.stop()
    # One that has read nothing yet is killed, and what comes then is not lost.
    quiet = Program(tmp_path, channel, "anomalies.py", "--group", "quiet", "--since", "0s")
    ends = channel.ends()
    until(lambda: channel.committed("quiet") == ends or quiet.process.poll() is not None, quiet.told)
    quiet.kill()
    assert channel.committed("quiet") == ends, quiet.told()
    assert not quiet.lines()


def test_two_of_a_group_share_what_comes(tmp_path: Path, channel: Channel) -> None:
    members = [follow(tmp_path, channel) for _ in range(2)]
    count = 0
    while not all(member.lines() for member in members):
        assert all(member.process.poll() is None for member in members), [member.told() for member in members]
        channel.publish(*map(incident, range(count, count + 6)))
        count += 6
        time.sleep(0.2)
    until(
        lambda: {number for member in members for number in numbers(member.lines())} == set(range(count)),
        lambda: f"{count} were published; {[member.told() for member in members]}",
    )
    for member in members:
        member.stop()


def test_it_needs_no_more_than_a_readers_rights_by_tls_and_sasl(tmp_path: Path, new_cluster: NewCluster) -> None:
    password = "s3cret"
    security = Security(tls=True, sasl=("scram-sha-512",), users={"tool": password}, acls=True)
    cluster = new_cluster(security=security)
    assert cluster.authority
    (tmp_path / "password").write_text(f"{password}\n")
    with closing(Channel(cluster)) as channel:
        allowed = rules("reader", Topics(prefix=channel.prefix), ("gaussian",), GROUP)
        acls = [acl for rule in allowed for acl in acls_of("tool", rule)]
        with KafkaAdminClient(bootstrap_servers=cluster.internal) as admin:
            admin.create_acls(acls)
            await_acls(admin, acls, there=True)
        channel.publish(incident(1))
        program = follow(
            tmp_path,
            channel,
            LAGGARD_KAFKA_SECURITY="tls",
            LAGGARD_KAFKA_CA_FILE=str(cluster.authority.ca_file),
            LAGGARD_KAFKA_SASL="scram-sha-512",
            LAGGARD_KAFKA_USERNAME="tool",
            LAGGARD_KAFKA_PASSWORD_FILE=str(tmp_path / "password"),
        )
        assert numbers(program.until_lines(1)) == [1]
        program.stop()
        found = re.search(r"```properties\n(.*?)```", README, re.DOTALL)
        assert found
        properties = found[1].replace("/etc/laggard/ca.pem", str(cluster.authority.ca_file))
        (tmp_path / "client.properties").write_text(properties.replace("PASSWORD", password))
        options = ("--group", GROUP, "--max-messages", "1", "--consumer.config", str(tmp_path / "client.properties"))
        script = console(tmp_path, channel, *options)
        channel.publish(incident(2))
        assert script.ended() == 0, script.told()
        assert numbers(script.lines()) == [2]


def console(tmp_path: Path, channel: Channel, *arguments: str, jq: bool = True) -> Program:
    """The script, with Kafka's command as a package of Kafka has it, and no other program than it needs."""
    home = tmp_path / "kafka"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    command = home / "bin/kafka-console-consumer.sh"
    if not command.exists():  # else it may be running
        consumer = shlex.join(java("org.apache.kafka.tools.consumer.ConsoleConsumer", heap_mb=64))
        command.write_text(f'#!/bin/sh\nexec setpriv --pdeathsig KILL {consumer} "$@"\n')
        command.chmod(0o755)
    tools = tmp_path / f"tools-{len(channel.programs)}"
    tools.mkdir()
    for name in ("sh", "grep", "setpriv"):
        (tools / name).symlink_to(str(shutil.which(name)))
    if jq:
        (tools / "jq").write_text(f'#!/bin/sh\nexec {path_of("jq")} "$@"\n')
        (tools / "jq").chmod(0o755)
    return Program(tmp_path, channel, "console.sh", *arguments, variables={"KAFKA_HOME": str(home), "PATH": str(tools)})


def test_the_script_prints_what_is_live_and_committed(tmp_path: Path, channel: Channel) -> None:
    channel.publish(incident(1), incident(2, live=False))
    channel.publish(incident(3), abort=True)
    channel.write(b"no JSON")
    channel.publish(incident(4, sentence="number 4\x1b[2J"))
    channel.write(b'{"kind":"incident","live":true}')
    channel.publish(incident(5))
    limits = ("--from-beginning", "--max-messages", "6", "--timeout-ms", "60000")  # all but the aborted one
    scripts = [console(tmp_path, channel, *limits, jq=jq) for jq in (True, False)]
    wrong = console(tmp_path, channel, "--no-such-option")
    for script in scripts:
        assert script.ended() == 0, script.told()
    in_words, as_json = (script.lines() for script in scripts)
    line = r"\d{4}-\d\d-\d\dT[\d:]{8}Z (web-2|db-1): number \d(\?\[2J)?"
    assert all(re.fullmatch(line, each) for each in in_words), in_words
    assert sorted(numbers(in_words)) == [1, 4, 5]
    sentences = sorted(json.loads(line).get("sentence", "") for line in as_json)
    assert sentences == ["", "number 1", "number 4\x1b[2J", "number 5"]
    assert wrong.ended() == 1, "what Kafka's command ends with is lost"
    astray = Program(tmp_path, channel, "console.sh", variables={"LAGGARD_BUS_LOCATION": "broker-1:9092"})
    assert astray.ended() == 2
    assert astray.said.read_text().startswith("LAGGARD_BUS_LOCATION: expected kafka://HOST:PORT,HOST:PORT")
    lost = Program(tmp_path, channel, "console.sh", variables={"PATH": "/bin"})
    assert lost.ended() == 2
    assert lost.said.read_text() == "kafka-console-consumer.sh: expected it on the path, or in KAFKA_HOME/bin\n"


@pytest.mark.parametrize("path", sorted(SUBSCRIBERS.glob("*.py")), ids=lambda path: path.name)
def test_a_copy_needs_nothing_of_laggard(path: Path) -> None:
    here = {each.stem for each in SUBSCRIBERS.glob("*.py")} | {"kafka"} | sys.stdlib_module_names
    assert {name.partition(".")[0] for _, name in imported(ast.parse(path.read_text()))} <= here


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"LAGGARD_BUS_LOCATION": "broker-1:9092"}, "LAGGARD_BUS_LOCATION: expected kafka://HOST:PORT,HOST:PORT"),
        ({"LAGGARD_KAFKA_SASL": "gssapi"}, "LAGGARD_KAFKA_SASL: expected one of none, plain, scram-sha-256"),
        ({"LAGGARD_KAFKA_SASL": "plain"}, "expected LAGGARD_KAFKA_USERNAME and LAGGARD_KAFKA_PASSWORD_FILE"),
        (
            {"LAGGARD_KAFKA_SECURITY": "tls", "LAGGARD_KAFKA_CA_FILE": "/no/such"},
            "LAGGARD_KAFKA_CA_FILE: /no/such: No such file or directory; expected a file that can be read",
        ),
        ({"LAGGARD_TOPICS_PREFIX": "nobody."}, "nobody.anomalies: there is no such topic, or this user may not see it"),
    ],
)
def test_what_was_set_wrongly_is_said(tmp_path: Path, channel: Channel, changed: dict[str, str], expected: str) -> None:
    program = follow(tmp_path, channel, **changed)
    assert program.ended() == 2, program.told()
    assert expected in program.said.read_text().splitlines()[-1]
