"""What subscribers are tried with: a topic of anomalies, what is in `deploy/subscribers`, a receiver of webhooks."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from laggard.operators.ranking import Ranking
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.records.outputs import Anomaly, Incident, Notice, RankingOutput, anomaly_id
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.methods.incidents.joiner import Joiner
from tests.brokers.processes import start
from tests.deploy.files import DEPLOY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import trustme

    from laggard.pipeline.core.bus import Outgoing
    from tests.brokers import Cluster

SUBSCRIBERS = DEPLOY / "subscribers"
WITHIN_S = 120.0
SECRET = "whsec_" + "bGFnZ2FyZCdzIHRlc3RzIHNpZ24gd2l0aCB0aGlz"
OLD_SECRET = "whsec_" + "d2hhdCB3YXMgc2lnbmVkIHdpdGggYmVmb3JlIHRoYXQ="
HOSTS = ("web-1", "web-2", "db-1")


def until(condition: Callable[[], Any], what: Callable[[], str], within_s: float = WITHIN_S) -> None:
    """Wait until something is so; `what` tells what it is instead where it never is."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def ranking(ts: float) -> Ranking:
    return Ranking(ts, 1.5, (), 3600.0, young=False)


def anomaly(number: int, *, live: bool = True, sentence: str | None = None, ago_s: float = 0.0) -> Anomaly:
    """One whose sentence tells its number, about one of three hosts."""
    host, ts = HOSTS[number % len(HOSTS)], time.time() - ago_s
    told = f"number {number}" if sentence is None else sentence
    place = anomaly_id("gaussian", host, f"counters[0]@{number}")
    return Anomaly(
        ts=ts,
        id=place,
        operator="gaussian",
        parameters={},
        keyed_by="host",
        key=host,
        score=1.5,
        ranking=ranking(ts),
        sentence=told,
        model_age_s=3600.0,
        young=False,
        live=live,
        scope="process",
    )


def notice(number: int, *, live: bool = True) -> Notice:
    """One of the number's host that has just opened."""
    like = anomaly(number, live=live)
    given = {each.name: getattr(like, each.name) for each in fields(like)}
    return Notice(**given, change="opened", opened_ts=like.ts, until_ts=like.ts)


def incident(number: int, *, live: bool = True, sentence: str | None = None, ago_s: float = 0.0) -> Incident:
    """The one that this anomaly opens, with the same sentence."""
    (opened,) = Joiner().take(anomaly(number, live=live, ago_s=ago_s))
    return replace(opened, sentence=f"number {number}" if sentence is None else sentence)


class Channel:
    """A topic of anomalies of its own, written to as a worker does: in transactions, with lz4.

    Attributes:
        topic: its name.
        prefix: its beginning, as the setting `topics.prefix`.
        programs: what follows it; ends with the channel.

    """

    def __init__(self, cluster: Cluster, partitions: int = 2) -> None:
        self.cluster = cluster
        self.prefix = f"subscribers-{uuid.uuid4().hex[:8]}."
        self._topics = Topics(prefix=self.prefix)
        self.topic = f"{self.prefix}anomalies"
        self.create(self.topic, partitions)
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.internal,
            transactional_id=self.prefix,
            compression_type="lz4",
            retry_backoff_ms=10,
            metrics_enabled=False,
        )
        self._producer.init_transactions()
        self.programs: list[Program] = []

    def create(self, topic: str, partitions: int = 1) -> str:
        with KafkaAdminClient(bootstrap_servers=self.cluster.internal) as admin:
            admin.create_topics({topic: {"num_partitions": partitions}})
        return topic

    def events(self, outputs: Iterable[Anomaly | Notice | Incident | RankingOutput]) -> list[Outgoing]:
        return [outgoing(each, self._topics) for each in outputs]

    def publish(self, *outputs: Anomaly | Notice | Incident | RankingOutput, abort: bool = False) -> list[Outgoing]:
        """In one transaction."""
        events = self.events(outputs)
        self._producer.begin_transaction()
        for event in events:
            self._send(event.key.encode(), event.value, event.headers, event.ts)
        self._end(abort=abort)
        return events

    def write(self, value: bytes | None, headers: Iterable[tuple[str, bytes]] = ()) -> None:
        """A record that no worker writes."""
        self._producer.begin_transaction()
        self._send(b"web-1", value, tuple(headers), time.time())
        self._end(abort=False)

    def _send(self, key: bytes, value: bytes | None, headers: tuple[tuple[str, bytes], ...], ts: float) -> None:
        self._producer.send(self.topic, value, key, list(headers), timestamp_ms=int(ts * 1000))

    def _end(self, *, abort: bool) -> None:
        self._producer.flush()
        (self._producer.abort_transaction if abort else self._producer.commit_transaction)()

    def committed(self, group: str) -> int:
        """How many offsets, markers of transactions among them, a group has committed in all partitions."""
        with KafkaAdminClient(bootstrap_servers=self.cluster.internal) as admin:
            offsets = admin.list_group_offsets({group: None})[group]
        return sum(each.offset for at, each in offsets.items() if at.topic == self.topic)

    def ends(self) -> int:
        """The same, if all were committed."""
        consumer = KafkaConsumer(bootstrap_servers=self.cluster.internal)
        try:
            partitions = [TopicPartition(self.topic, number) for number in consumer.partitions_for_topic(self.topic)]
            return sum(consumer.end_offsets(partitions).values())
        finally:
            consumer.close()

    def records(self, topic: str, count: int) -> list[Any]:
        """The first records of a topic with one partition."""
        at = TopicPartition(topic, 0)
        found: list[Any] = []
        consumer = KafkaConsumer(bootstrap_servers=self.cluster.internal, auto_offset_reset="earliest")
        try:
            consumer.assign([at])
            deadline = time.monotonic() + WITHIN_S
            while len(found) < count and time.monotonic() < deadline:
                found += consumer.poll(timeout_ms=200).get(at, [])
        finally:
            consumer.close()
        return found

    def close(self) -> None:
        for program in self.programs:
            program.kill()
        self._producer.close()


class Program:
    """A program of `deploy/subscribers` that runs; what it says is in files. Python gets `before` before its name."""

    def __init__(
        self,
        folder: Path,
        channel: Channel,
        name: str,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        printed: int | None = None,
        before: Sequence[str] = (),
    ) -> None:
        own = {variable: value for variable, value in os.environ.items() if not variable.startswith("LAGGARD_")}
        given = {"LAGGARD_BUS_LOCATION": channel.cluster.location, "LAGGARD_TOPICS_PREFIX": channel.prefix}
        python = [sys.executable, "-B", *before] if name.endswith(".py") else []
        self.printed, self.said = folder / f"{uuid.uuid4().hex[:8]}.out", folder / f"{uuid.uuid4().hex[:8]}.err"
        self.said.touch()
        apart = ["sh", "-c", 'exec 2>"$0" "$@"', str(self.said)]
        with self.printed.open("wb") as out:
            self.process = start(
                [*apart, *python, str(SUBSCRIBERS / name), *arguments],
                out if printed is None else printed,
                own | given | dict(variables or {}),
            )
        channel.programs.append(self)

    def lines(self) -> list[str]:
        return self.printed.read_text().splitlines()

    def told(self) -> str:
        return f"printed:\n{self.printed.read_text()[-2000:]}\nsaid:\n{self.said.read_text()[-4000:]}"

    def until_lines(self, count: int) -> list[str]:
        """What it has printed, once it has a number of lines."""
        until(lambda: len(self.lines()) >= count or self.process.poll() is not None, self.told)
        assert len(self.lines()) >= count, self.told()
        return self.lines()

    def until_said(self, text: str) -> None:
        until(lambda: text in self.said.read_text(), self.told)

    def ended(self) -> int:
        """The code that it ends with by itself."""
        try:
            return self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.told()) from None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """It ends as if all were done, when it is told to."""
        self.process.send_signal(number)
        assert self.ended() == 0, self.told()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Delivery:
    """A request that came, whose signature was right.

    Attributes:
        at: when, by a clock that never steps back.
        identity: `webhook-id`.
        timestamp: `webhook-timestamp`.
        message: the body.

    """

    at: float
    identity: str
    timestamp: int
    message: dict[str, Any]

    @property
    def number(self) -> int:
        return int(self.message["data"]["sentence"].split()[1])


Answer = tuple[int, dict[str, str]]
OK: Answer = (204, {})
REFUSED: Answer = (401, {})


class Receiver:
    """A receiver of webhooks that checks signatures with Standard Webhooks' own library.

    Parameters:
        authority: who vouches for it; with one it speaks TLS.

    Attributes:
        answers: what it answers: the `n`th request, from 0, gets `answers(n, delivery)`.
        deliveries: what came.
        wrong: what came and was not signed as it has to be.

    """

    def __init__(self, authority: trustme.CA | None = None) -> None:
        self.answers: Callable[[int, Delivery], Answer] = lambda *_: OK
        self.deliveries: list[Delivery] = []
        self.wrong: list[str] = []
        self._taken: list[Delivery] = []
        self._checked = Webhook(SECRET)
        self._certificate = authority and authority.issue_cert("127.0.0.1")
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self._lock = threading.Lock()
        self.up()

    @property
    def url(self) -> str:
        return f"http{'s' if self._certificate else ''}://127.0.0.1:{self._port}/hooks/laggard?token=s3cret"

    @property
    def taken(self) -> list[int]:
        """The numbers of the anomalies that were taken, in their order."""
        return [each.number for each in self._taken]

    def up(self) -> None:
        """Listen, on the same port as before."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._answer(self)

            def do_GET(self) -> None:
                receiver.wrong.append("a redirection was followed")
                self.send_error(405)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        if self._certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._certificate.configure_cert(context)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections."""
        assert self._server
        self._server.shutdown()
        self._server.server_close()
        self._server = None

    def close(self) -> None:
        """Refuse connections, if it does not yet."""
        if self._server:
            self.down()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        at, body = time.monotonic(), handler.rfile.read(int(handler.headers["content-length"]))
        headers: Mapping[str, str] = {name.lower(): value for name, value in handler.headers.items()}
        try:
            message = self._checked.verify(body, dict(headers))
        except WebhookVerificationError as error:
            self.wrong.append(f"{error}: {headers}")
            message = None
        status, more = REFUSED
        if message is not None:
            delivery = Delivery(at, headers["webhook-id"], int(headers["webhook-timestamp"]), message)
            with self._lock:
                count = len(self.deliveries)
                self.deliveries.append(delivery)
            status, more = self.answers(count, delivery)
            if 200 <= status < 300:
                self._taken.append(delivery)
        try:
            handler.send_response(status)
            for name, value in {"content-length": "0", **more}.items():
                handler.send_header(name, value)
            handler.end_headers()
        except OSError:
            pass  # who asked was killed

    def until_taken(self, count: int, program: Program) -> list[int]:
        until(lambda: len(self._taken) >= count or program.process.poll() is not None, program.told)
        assert len(self._taken) >= count, program.told()
        return self.taken
