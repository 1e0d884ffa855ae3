#!/usr/bin/env python3
"""Follow laggard's incidents, or its anomalies: a program to copy, which needs nothing of laggard's.

    pip install 'kafka-python>=3.0.12,<4' crc32c lz4
    export LAGGARD_BUS_LOCATION=kafka://broker-1:9092,broker-2:9092
    python anomalies.py --group my-tool

It prints a line when a live incident opens, grows or closes; put your own action into `handle`. With
`--follow anomalies` it prints the opening of each operator's anomalies, not their progress or end; one fault may
cause several. With `--follow notices` it prints deviations that are suspicious, but too small for an incident, as for a
chat. An event comes at least once: if the program is killed before it commits an event, that one comes again. TLS and
SASL are set by laggard's own variables: see README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sqlite3
import sys
import time
from collections import deque
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from kafka.net.sasl.oauth import AbstractTokenProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FOLLOWED = {"incidents": "incident", "anomalies": "anomaly", "notices": "notice"}
"""The names that can be followed, and the kinds of their records."""

SCHEMA = "urn:laggard:{kind}:1"
"""The schema with its major version. Records with another version are skipped, and reported."""

SUBJECTS = ("host", "application", "pool", "service")
POLL_S = 0.5
SESSION_S = 6.0
"""The time until others get the partitions of a killed member. Brokers accept no less by default."""

MOST_RECORDS = 10
"""Taken at once. Handling all of them must take less than five minutes, or the group passes them to another member."""

KEPT_IDS = 100_000
FAILED, MISUSED = 1, 2
"""Exit codes."""


class Mistake(Exception):  # noqa: N818 - whose it is, is its name
    """A setting cannot be used; the text says what was expected."""


@dataclass(frozen=True)
class Event:
    """A record of an incident, an anomaly or a notice, about the present.

    Attributes:
        source: `ce_source`: what found it, as a path.
        id: `ce_id`: with the source, the same whenever this event comes again.
        time: `ce_time`: what it is about, in ISO 8601.
        subject: the host, application, pool or service that it is about.
        value: the record's JSON object: see deploy/docs/reference/anomalies.md.
        record: as kafka-python brought it.

    """

    source: str
    id: str
    time: str
    subject: str
    value: dict[str, Any]
    record: Any


def handle(event: Event) -> None:
    """Handle an event: put your code here. The field `change` of an incident says how it has changed."""
    young = " (still learning: think twice)" if event.value.get("young") else ""
    line = f"{event.time} {event.subject}: {event.value.get('sentence')}{young}"
    # Names of processes are whatever their owners chose: nothing of them may steer a terminal.
    print("".join(character if character.isprintable() else "?" for character in line), flush=True)


def read(record: Any, kind: str) -> Event | None:
    """Return the event in a record; None for one of another kind, and for one that is not about now.

    Raises:
        ValueError: the record does not fit the topic; the text says what was expected.

    """
    try:
        value = json.loads((record.value or b"").decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise ValueError("expected JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - of the record, not of the program
    if value.get("kind") != kind or value.get("live") is not True:
        return None
    headers = {name: (text or b"").decode() for name, text in record.headers}
    if headers.get("ce_dataschema") != (schema := SCHEMA.format(kind=kind)):
        raise ValueError(f"expected the header ce_dataschema to be {schema}")
    if missing := [name for name in ("ce_source", "ce_id", "ce_time") if not headers.get(name)]:
        raise ValueError(f"expected the headers {', '.join(missing)}")
    subjects = [value[name] for name in SUBJECTS if name in value]
    if len(subjects) != 1:
        raise ValueError(f"expected one of the fields {', '.join(SUBJECTS)}")
    return Event(headers["ce_source"], headers["ce_id"], headers["ce_time"], str(subjects[0]), value, record)


def _no_number(name: str) -> None:
    raise ValueError(name)


def place(record: Any) -> str:
    """The place of a record: `laggard.anomalies[3]@1042`."""
    return f"{record.topic}[{record.partition}]@{record.offset}"


def say(text: str) -> None:
    """Tell the person who runs this."""
    print(text, file=sys.stderr, flush=True)


class Seen:
    """The ids of the newest events that were handled, in a SQLite file.

    Parameters:
        path: of the file; `:memory:` forgets them when the program ends.

    """

    def __init__(self, path: str) -> None:
        try:
            self._database = sqlite3.connect(path)
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS seen"
                " (number INTEGER PRIMARY KEY, source TEXT NOT NULL, id TEXT NOT NULL, UNIQUE (source, id))"
            )
        except sqlite3.Error as error:
            raise Mistake(f"--seen {path}: {error}; expected a file that may be written") from None

    def __contains__(self, event: Event) -> bool:
        query = "SELECT 1 FROM seen WHERE source = ? AND id = ?"
        return self._database.execute(query, (event.source, event.id)).fetchone() is not None

    def add(self, event: Event) -> None:
        """Remember it, on the disk once this returns, and forget the oldest."""
        with self._database:
            added = self._database.execute(
                "INSERT OR IGNORE INTO seen (source, id) VALUES (?, ?)", (event.source, event.id)
            )
            self._database.execute("DELETE FROM seen WHERE number <= ?", ((added.lastrowid or 0) - KEPT_IDS,))

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class Subscription:
    """The events of a topic that are about now and new, in the order of each subject; for one thread.

        for event in subscription:
            ...  # whatever is to be done with it
            subscription.commit()

    An event that was not committed comes again, to this member of the group or to another one.

    Parameters:
        connection: see `connection`.
        topic: where they are.
        kind: of their records.
        group: members of one group share the events.
        since_s: so far back a group begins that is new.
        seen: what has been handled.

    Raises:
        Mistake: there is no such topic.
        KafkaError: the brokers do not answer, or refuse.

    """

    def __init__(  # noqa: PLR0917 - each has another type, or is a name
        self, connection: Mapping[str, Any], topic: str, kind: str, group: str, since_s: float, seen: Seen
    ) -> None:
        self._kind = kind
        self._seen = seen
        self._batch: deque[Any] = deque()
        self._current: Event | None = None
        self._done: dict[TopicPartition, OffsetAndMetadata] = {}  # to be committed
        self._generation: int | None = None  # of the group, as far as is known here
        self._stopping = False
        self._consumer = KafkaConsumer(
            **connection,
            group_id=group,
            enable_auto_commit=False,
            # For added partitions, and for unread records that the topic no longer has.
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            allow_auto_create_topics=False,
            max_poll_records=MOST_RECORDS,
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=int(SESSION_S * 1000 / 3),
            metrics_enabled=False,
        )
        try:
            self._begin(topic, since_s)
            self._consumer.subscribe([topic])
        except BaseException:
            self.close()
            raise

    def _begin(self, topic: str, since_s: float) -> None:
        """Commit the begin of a new group: otherwise one that is killed before its first commit begins again later."""
        self.check(topic)
        partitions = [TopicPartition(topic, number) for number in self._consumer.partitions_for_topic(topic)]
        if any(self._consumer.committed(partition) is not None for partition in partitions):
            return
        since_ms = int((time.time() - since_s) * 1000)
        found = self._consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
        ends = self._consumer.end_offsets(partitions)
        offsets = {at: OffsetAndMetadata(found[at].offset if found.get(at) else ends[at], "", -1) for at in partitions}
        with suppress(CommitFailedError):  # another member has joined and begun the group meanwhile
            self._consumer.commit(offsets)

    def check(self, topic: str) -> None:
        """Raise `Mistake` if there is no such topic."""
        if not self._consumer.partitions_for_topic(topic):
            raise Mistake(f"{topic}: there is no such topic, or this user may not see it")

    def __iter__(self) -> Iterator[Event]:
        while not self._stopping:
            if not self._batch:
                self._commit()
                self._poll(POLL_S)
                continue
            record = self._batch.popleft()
            event = self._read(record)
            if event is None:
                self._note(record)
            else:
                self._current = event
                yield event

    def _read(self, record: Any) -> Event | None:
        try:
            event = read(record, self._kind)
        except ValueError as error:
            say(f"{place(record)}: skipped: {error}")
            return None
        return None if event is None or event in self._seen else event

    def _poll(self, seconds: float) -> None:
        """Take the next records. After a rebalance, begin with those that were not committed."""
        records = self._consumer.poll(timeout_ms=int(seconds * 1000) + 1)
        generation = self._consumer.group_metadata().generation_id
        if generation == self._generation:
            for each in records.values():
                self._batch.extend(each)
            return
        self._generation = generation
        self._batch.clear()
        self._done, self._current = {}, None
        # For a partition that stays, kafka-python keeps the position, behind the records that have just been dropped.
        for partition in self._consumer.assignment():
            offset = self._consumer.committed(partition)
            if offset is None:
                self._consumer.seek_to_beginning(partition)
            else:
                self._consumer.seek(partition, offset)

    def commit(self) -> None:
        """Say that the event that came last has been handled."""
        if self._current is not None:
            self._seen.add(self._current)
            self._note(self._current.record)
            self._current = None
            self._commit()

    def _note(self, record: Any) -> None:
        self._done[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(record.offset + 1, "", -1)

    def _commit(self) -> None:
        try:
            if self._done:
                self._consumer.commit(self._done)
        except (CommitFailedError, RebalanceInProgressError) as error:
            say(f"the group has changed, what was not committed comes again: {error}")
            self._batch.clear()
            self._generation = None
        self._done = {}

    def wait(self, seconds: float) -> bool:
        """Wait, as a member of the group, before the event that came last is tried again.

        Gives false where it must not be tried: it comes again, here or at another member, or the program is to stop.
        """
        until = time.monotonic() + seconds
        while not self._stopping and self._current is not None and (left_s := until - time.monotonic()) > 0:
            self._consumer.pause(*self._consumer.assignment())
            self._poll(min(left_s, POLL_S))
        self._consumer.resume(*self._consumer.paused())
        return self._current is not None and not self._stopping

    def stop(self) -> None:
        """End the iteration after the event that is being handled."""
        self._stopping = True

    def close(self) -> None:
        """Leave the group, which hands the partitions on at once."""
        self._consumer.close(autocommit=False, timeout_ms=5000)


class _TokenFile(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    """A token in a file that another program renews."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def token(self) -> str:
        return self._path.read_text().strip()


def connection(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of kafka-python's clients, from the variables that laggard itself reads.

    Raises:
        Mistake: with the variable and what was expected.

    """
    location = environment.get("LAGGARD_BUS_LOCATION", "")
    servers = [server for server in location.removeprefix("kafka://").split(",") if server]
    if not location.startswith("kafka://") or not servers:
        raise Mistake("LAGGARD_BUS_LOCATION: expected kafka://HOST:PORT,HOST:PORT, some of the brokers")
    tls = choice(environment, "LAGGARD_KAFKA_SECURITY", "plaintext", "tls") == "tls"
    sasl = choice(environment, "LAGGARD_KAFKA_SASL", "none", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
    protocol = ("" if sasl == "none" else "SASL_") + ("SSL" if tls else "PLAINTEXT")
    given: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": protocol}
    if tls:
        given |= {
            "ssl_cafile": file(environment, "LAGGARD_KAFKA_CA_FILE"),
            "ssl_certfile": file(environment, "LAGGARD_KAFKA_CERTIFICATE_FILE"),
            "ssl_keyfile": file(environment, "LAGGARD_KAFKA_KEY_FILE"),
            # Never none: a password that is not there would be asked for at the terminal.
            "ssl_password": secret(environment, "LAGGARD_KAFKA_KEY_PASSWORD"),
        }
    if sasl == "oauthbearer":
        path = file(environment, "LAGGARD_KAFKA_TOKEN_FILE")
        if path is None:
            raise Mistake("LAGGARD_KAFKA_TOKEN_FILE: expected a file with a token, for LAGGARD_KAFKA_SASL=oauthbearer")
        given |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": _TokenFile(path)}
    elif sasl != "none":
        user, password = environment.get("LAGGARD_KAFKA_USERNAME"), secret(environment, "LAGGARD_KAFKA_PASSWORD")
        if not user or not password:
            raise Mistake(f"LAGGARD_KAFKA_SASL={sasl}: expected LAGGARD_KAFKA_USERNAME and LAGGARD_KAFKA_PASSWORD_FILE")
        given |= {"sasl_mechanism": sasl.upper(), "sasl_plain_username": user, "sasl_plain_password": password}
    return given


def choice(environment: Mapping[str, str], name: str, *choices: str) -> str:
    """A variable that takes one of some values, the first unless it is set. Raises Mistake."""
    value = environment.get(name) or choices[0]
    if value not in choices:
        raise Mistake(f"{name}: expected one of {', '.join(choices)}")
    return value


def file(environment: Mapping[str, str], name: str) -> str | None:
    """The path that a variable has, of a file that can be read. Raises Mistake."""
    path = environment.get(name) or None
    if path is not None:
        try:
            with open(path, "rb"):  # noqa: PTH123 - as kafka-python will
                pass
        except OSError as error:
            raise Mistake(f"{name}: {path}: {error.strerror}; expected a file that can be read") from None
    return path


def secret(environment: Mapping[str, str], name: str) -> str:
    """Return a variable, or the first line of the file in the variable with _FILE. Raises Mistake."""
    path = file(environment, f"{name}_FILE")
    if path is None:
        return environment.get(name, "")
    return (Path(path).read_text().splitlines() or [""])[0]


def duration_s(text: str) -> float:
    """Seconds, of `30s`, `10m`, `1h` or `2d`. Raises ArgumentTypeError."""
    if not (match := re.fullmatch(r"(\d{1,6})([smhd])", text)):
        raise argparse.ArgumentTypeError(f"expected a duration like 30s, 10m, 1h or 2d, got {text!r}")
    return float(int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]])


def options(description: str) -> argparse.ArgumentParser:
    """The options of whatever follows the topic."""
    topic = os.environ.get("LAGGARD_TOPICS_PREFIX", "laggard.") + "anomalies"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--group", required=True, help="the consumer group; what it has read is kept at the brokers")
    parser.add_argument("--topic", default=topic, help="where they are (default: %(default)s)")
    followed = "incidents; the opening of each operator's anomalies; or suspicious deviations (default: %(default)s)"
    parser.add_argument("--follow", choices=[*FOLLOWED], default="incidents", help=followed)
    since = "so far back a new group begins, such as 90s, 10m, 2h or 1d (default: %(default)s)"
    parser.add_argument("--since", type=duration_s, default="10m", metavar="DURATION", help=since)
    seen = "keeps what has been handled over restarts (default: it is forgotten when the program ends)"
    parser.add_argument("--seen", default=":memory:", metavar="FILE", help=seen)
    return parser


@contextmanager
def subscribed(arguments: argparse.Namespace, connected: Mapping[str, Any]) -> Iterator[Subscription]:
    """The subscription that was asked for, until SIGTERM or ^C; a second one of these ends the program at once.

    Raises what `Seen` and `Subscription` do.
    """
    with (
        closing(Seen(arguments.seen)) as seen,
        closing(
            Subscription(connected, arguments.topic, FOLLOWED[arguments.follow], arguments.group, arguments.since, seen)
        ) as subscription,
    ):

        def stop(number: int, _: object) -> None:
            signal.signal(number, signal.SIG_DFL)
            subscription.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        yield subscription


def ended(main: Callable[[], int]) -> int:
    """The exit code of a program, after what went wrong has been said."""
    try:
        return main()
    except Mistake as error:
        say(str(error))
        return MISUSED
    except BrokenPipeError:
        return FAILED
    except (KafkaError, OSError, sqlite3.Error) as error:
        say(str(error) or repr(error))
        return FAILED


def main() -> int:
    """Hand each event to `handle`."""
    arguments = options("Print laggard's incidents as they come.").parse_args()
    with subscribed(arguments, connection(os.environ)) as subscription:
        for event in subscription:
            handle(event)
            subscription.commit()
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
