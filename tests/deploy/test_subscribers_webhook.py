"""The webhook of deploy/subscribers: a real broker, a real receiver that checks with Standard Webhooks' own library."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from email.utils import format_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from jsonschema import Draft202012Validator

from deploy.generate.asyncapi import SCHEMAS
from tests.brokers.ports import free_port
from tests.brokers.processes import start
from tests.deploy.subscribers import OK, OLD_SECRET, SECRET, SUBSCRIBERS, Channel, Program, Receiver, incident, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers import Cluster
    from tests.deploy.subscribers import Answer, Delivery

pytestmark = pytest.mark.slow


@pytest.fixture
def channel(broker: Cluster) -> Iterator[Channel]:
    """One partition: all are in one order."""
    with closing(Channel(broker, partitions=1)) as channel:
        yield channel


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with closing(Receiver()) as receiver:
        yield receiver
    assert receiver.wrong == []


SHORTEST_S = 0.1

HASTY = f"""
import sys
sys.argv[:] = sys.argv[1:]
sys.path[0] = {str(SUBSCRIBERS)!r}
import webhook
webhook.SHORTEST_S = {SHORTEST_S}
sys.exit(webhook.ended(webhook.main))
"""
"""The program, but for its pauses, which are a tenth."""


def post(
    tmp_path: Path, channel: Channel, receiver: Receiver, *arguments: str, hasty: bool = True, **variables: str
) -> Program:
    given = {"WEBHOOK_URL": receiver.url, "WEBHOOK_SECRET": SECRET} | variables
    options = ("--group", "posting", *arguments)
    before = ("-c", HASTY) if hasty else ()
    return Program(tmp_path, channel, "webhook.py", *options, variables=given, before=before)


def test_each_comes_once_signed_and_in_order(tmp_path: Path, channel: Channel, receiver: Receiver) -> None:
    events = channel.publish(*map(incident, range(20)))
    channel.publish(incident(100), abort=True)
    channel.publish(incident(101, live=False), incident(3))
    channel.write(b"no JSON")
    channel.publish(incident(20))
    (tmp_path / "secret").write_text(f"{OLD_SECRET} {SECRET}\n")
    changing = {"WEBHOOK_SECRET": "", "WEBHOOK_SECRET_FILE": str(tmp_path / "secret")}
    program = post(tmp_path, channel, receiver, hasty=False, **changing)
    assert receiver.until_taken(21, program) == list(range(21))
    program.stop()
    assert receiver.taken == list(range(21))
    assert len({each.identity for each in receiver.deliveries}) == 21
    first, sent = receiver.deliveries[0].message, events[0]
    Draft202012Validator(SCHEMAS["incident"]).validate(first["data"])
    headers = dict(sent.headers)
    assert first == {
        "type": headers["ce_type"].decode(),
        "timestamp": headers["ce_time"].decode(),
        "data": json.loads(sent.value),
    }
    assert "s3cret" not in program.said.read_text(), "the address of a webhook is a secret"


def test_a_receiver_that_is_down_and_back_gets_everything(tmp_path: Path, channel: Channel, receiver: Receiver) -> None:
    answers: list[Answer] = [(302, {"location": receiver.url}), OK, (503, {"retry-after": "2"}), OK, (429, {})]
    receiver.answers = lambda count, _: answers[count] if count < len(answers) else OK
    receiver.down()
    channel.publish(*map(incident, range(5)))
    program = post(tmp_path, channel, receiver)
    program.until_said("answered nothing (")
    receiver.up()
    assert receiver.until_taken(5, program) == list(range(5))
    program.stop()
    came = receiver.deliveries
    assert [each.number for each in came] == [0, 0, 1, 1, 2, 2, 3, 4], "a redirection is not followed"
    assert came[2].identity == came[3].identity
    assert came[3].timestamp >= came[2].timestamp + 1, "each try is signed anew"
    assert came[3].at - came[2].at >= 2.0, "Retry-After"
    assert came[5].at - came[4].at >= 2 * SHORTEST_S, "after 429 it is left alone for longer"


def test_killed_in_the_middle_nothing_is_lost(tmp_path: Path, channel: Channel, receiver: Receiver) -> None:
    held, goes_on = threading.Event(), threading.Event()

    def hold(count: int, _: Delivery) -> Answer:
        if count == 7:
            held.set()
            goes_on.wait(60)
        return OK

    receiver.answers = hold
    channel.publish(*map(incident, range(30)))
    first = post(tmp_path, channel, receiver)
    until(lambda: held.is_set() or first.process.poll() is not None, first.told)
    first.kill()
    goes_on.set()
    receiver.down()
    second = post(tmp_path, channel, receiver)
    second.until_said("answered nothing (")
    receiver.up()
    until(lambda: len(set(receiver.taken)) == 30 or second.process.poll() is not None, second.told)
    second.stop()
    assert list(dict.fromkeys(receiver.taken)) == list(range(30)), second.told()
    came_again = [each for each in receiver.deliveries if each.number == 7]
    assert len({each.identity for each in came_again}) == 1, "a receiver must be able to tell that it has had it"
    assert len(receiver.deliveries) == 31, "only what was being posted comes again"


def test_what_is_not_wanted_is_put_aside_and_can_be_posted_later(
    tmp_path: Path, channel: Channel, receiver: Receiver
) -> None:
    receiver.answers = lambda _, delivery: (422, {}) if delivery.number == 1 else OK
    letters = channel.create(f"{channel.prefix}letters")
    events = channel.publish(*map(incident, range(4)))
    program = post(tmp_path, channel, receiver, "--dead-letters", letters)
    assert receiver.until_taken(3, program) == [0, 2, 3]
    program.stop()
    numbers = [each.number for each in receiver.deliveries]
    assert sorted(numbers) == numbers
    assert numbers.count(1) >= 3, "an answer that is lost on its way does not count"
    (letter,) = channel.records(letters, 1)
    assert (letter.key, letter.value) == (events[1].key.encode(), events[1].value)
    *theirs, (name, reason) = letter.headers
    assert tuple(theirs) == events[1].headers
    assert name == "webhook-failure"
    assert re.fullmatch(rf"{channel.topic}\[0\]@\d+: 127\.0\.0\.1:\d+ answered 422, tried \d times", reason.decode())

    receiver.answers = lambda *_: OK
    again = post(tmp_path, channel, receiver, "--topic", letters, "--group", "again")
    assert receiver.until_taken(4, again) == [0, 2, 3, 1]
    again.stop()
    assert receiver.deliveries[-1].identity == receiver.deliveries[1].identity


def test_a_message_that_never_works_ends_it_where_there_is_no_place_for_it(
    tmp_path: Path, channel: Channel, receiver: Receiver
) -> None:
    receiver.answers = lambda *_: (500, {})
    channel.publish(incident(0), incident(1))
    program = post(tmp_path, channel, receiver, "--patience", "1s")
    assert program.ended() == 1, program.told()
    assert re.search(r"answered 500, tried \d times: not delivered\n$", program.said.read_text())
    assert {each.number for each in receiver.deliveries} == {0}
    receiver.answers = lambda *_: OK
    again = post(tmp_path, channel, receiver)
    assert receiver.until_taken(2, again) == [0, 1]
    again.stop()


def test_gone_is_the_end_and_what_was_not_taken_is_kept(tmp_path: Path, channel: Channel, receiver: Receiver) -> None:
    receiver.answers = lambda _, delivery: (410, {}) if delivery.number == 1 else OK
    channel.publish(*map(incident, range(3)))
    program = post(tmp_path, channel, receiver)
    assert program.ended() == 69, program.told()
    assert [each.number for each in receiver.deliveries] == [0, 1]
    receiver.answers = lambda *_: OK
    again = post(tmp_path, channel, receiver)
    assert receiver.until_taken(3, again) == [0, 1, 2]
    again.stop()


def test_one_that_waits_lets_others_join_and_loses_nothing_by_it(tmp_path: Path, broker: Cluster) -> None:
    """A group settles only once each member has said something; and what one has in hand it may have to read again."""
    with closing(Channel(broker, partitions=2)) as channel, closing(Receiver()) as down, closing(Receiver()) as well:
        down.answers = lambda *_: OK if well.taken else (503, {})
        channel.publish(*map(incident, range(12)))
        waiting = post(tmp_path, channel, down, hasty=False)
        waiting.until_said("answered 503, tried ")
        other = post(tmp_path, channel, well, hasty=False)
        until(lambda: well.taken or other.process.poll() is not None, other.told)
        until(lambda: len({*down.taken, *well.taken}) == 12 or waiting.process.poll() is not None, waiting.told)
        for program in (waiting, other):
            program.stop()
        assert sorted({*down.taken, *well.taken}) == list(range(12)), waiting.told()
        assert down.taken
        assert well.wrong == down.wrong == []


def test_certificates_of_receivers_are_checked(tmp_path: Path, channel: Channel) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    channel.publish(incident(1))
    with closing(Receiver(authority=authority)) as receiver:
        stranger = post(tmp_path, channel, receiver)
        stranger.until_said("CERTIFICATE_VERIFY_FAILED")
        stranger.stop()
        assert receiver.deliveries == []
        friend = post(tmp_path, channel, receiver, SSL_CERT_FILE=str(tmp_path / "ca.pem"))
        assert receiver.until_taken(1, friend) == [1]
        friend.stop()


def test_the_receiver_of_the_readme(tmp_path: Path, channel: Channel, receiver: Receiver) -> None:
    found = re.search(r"```python\n(import.*?)```", (SUBSCRIBERS / "README.md").read_text(), re.DOTALL)
    assert found
    port = free_port()
    (tmp_path / "receiver.py").write_text(found[1].replace("8080", str(port)))
    with (tmp_path / "received").open("wb") as log:
        command = [sys.executable, str(tmp_path / "receiver.py")]
        running = start(command, log, {**os.environ, "WEBHOOK_SECRET": SECRET})
    try:
        channel.publish(incident(1))
        wrong = post(
            tmp_path,
            channel,
            receiver,
            WEBHOOK_URL=f"http://127.0.0.1:{port}",
            WEBHOOK_SECRET=OLD_SECRET,
        )
        wrong.until_said("answered 401, tried ")
        wrong.stop()
        right = post(tmp_path, channel, receiver, WEBHOOK_URL=f"http://127.0.0.1:{port}")
        until(lambda: '"sentence":"number 1"' in (tmp_path / "received").read_text(), right.told)
        right.stop()
        assert (tmp_path / "received").read_text().count("is not signed as it has to be") >= 1
    finally:
        running.kill()
        running.wait()


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, as its neighbor is found where it runs."""
    monkeypatch.syspath_prepend(SUBSCRIBERS)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    try:
        yield import_module("webhook")
    finally:
        for name in ("webhook", "anomalies"):
            sys.modules.pop(name, None)


WRONG: tuple[tuple[dict[str, str], tuple[str, ...], str], ...] = (
    ({"WEBHOOK_SECRET": ""}, (), "WEBHOOK_SECRET_FILE, or WEBHOOK_SECRET: expected the secret"),
    ({"WEBHOOK_SECRET": "whsec_c2hvcnQ="}, (), "WEBHOOK_SECRET: expected whsec_ and then 24 to 64 random bytes"),
    ({"WEBHOOK_URL": "ftp://receiver.example/"}, (), "WEBHOOK_URL: expected https://HOST/PATH, without a user"),
    ({"WEBHOOK_URL": "https://a:b@receiver.example/"}, (), "WEBHOOK_URL: expected https://HOST/PATH, without"),
    ({"WEBHOOK_URL": "https://receiver.example:port/"}, (), "WEBHOOK_URL: expected https://HOST/PATH, without"),
    ({}, ("--dead-letters", "no.such"), "no.such: there is no such topic, or this user may not see"),
    ({}, ("--topic", "same", "--dead-letters", "same"), "--dead-letters same: expected another topic than that"),
)


def test_what_was_set_wrongly_is_said(
    webhook: Any,
    channel: Channel,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # those of this process are left alone
    given = {"LAGGARD_BUS_LOCATION": channel.cluster.location, "LAGGARD_TOPICS_PREFIX": channel.prefix}
    given |= {"WEBHOOK_URL": receiver.url, "WEBHOOK_SECRET": SECRET}
    for changed, arguments, expected in WRONG:
        for name, value in (given | changed).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["webhook.py", "--group", "posting", *arguments])
        assert webhook.ended(webhook.main) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith(expected)
    assert receiver.deliveries == []


def test_pauses_double_and_are_never_the_same(webhook: Any) -> None:
    endpoint = webhook.Endpoint("https://receiver.example", (b"",), 1.0)
    for failures, longest in [(1, 1.0), (2, 2.0), (5, 16.0), (9, 256.0), (10, 300.0), (10_000, 300.0)]:
        endpoint._failures = failures
        pauses = [endpoint._backoff_s() for _ in range(200)]
        assert longest / 2 <= min(pauses) < 0.55 * longest
        assert 0.95 * longest < max(pauses) <= longest


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0.0),
        ("120", 120.0),
        ("0", 0.0),
        ("9" * 400, 86400.0),
        ("-5", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400.0),
    ],
)
def test_retry_after(webhook: Any, text: str | None, seconds: float) -> None:
    assert webhook.retry_after_s(text) == seconds


def test_retry_after_a_date_of_today(webhook: Any) -> None:
    at = format_datetime(datetime.fromtimestamp(time.time() + 60, UTC), usegmt=True)
    assert 0.0 < webhook.retry_after_s(at) <= 60.0
