#!/usr/bin/env python3
"""Post laggard's incidents to a webhook, signed as Standard Webhooks (https://www.standardwebhooks.com) has it.

Copy it together with anomalies.py, which says what to install.

    export LAGGARD_BUS_LOCATION=kafka://broker-1:9092,broker-2:9092
    export WEBHOOK_URL=https://receiver.example/laggard WEBHOOK_SECRET_FILE=/run/secrets/webhook
    python webhook.py --group webhook --dead-letters laggard.webhook_dead_letters

One event after the other, in order: the next one is posted once this one was accepted, or not delivered. Each is posted
at least once; `webhook-id` is the same when it is posted again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import os
import random
import sys
import time
from contextlib import ExitStack, closing, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kafka import KafkaProducer

from anomalies import FAILED, Event, Mistake, connection, duration_s, ended, options, place, say, secret, subscribed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TIMEOUT_S = 20.0
SHORTEST_S, LONGEST_S = 1.0, 300.0
"""Between two tries: doubled with each that fails."""

MOST_RETRY_AFTER_S = 86400
GONE = 410
THROTTLED = frozenset({429, 502, 504})
"""Answers of a receiver that has too much to do: each counts for three, so that it is left alone for longer."""

FUTILE = frozenset({400, 413, 422})
MOST_FUTILE = 3
"""The number of times that it may refuse one message. Meanwhile no later message is sent."""

STOPPED_FOR_GOOD = 69
"""The exit code after 410: who starts this again by itself should not."""


class Gone(Exception):  # noqa: N818 - the name of the answer
    """The receiver wants nothing more, ever."""


class GivenUp(Exception):  # noqa: N818 - what was done, no error of the program
    """A message was tried for as long as it may be."""


def secrets_of(text: str) -> tuple[bytes, ...]:
    """The keys in a text: `whsec_` and base64, several with spaces between them while one replaces another.

    Raises:
        Mistake: one is none.

    """
    keys = []
    for word in text.split():
        try:
            key = base64.b64decode(word.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            key = b""
        if not word.startswith("whsec_") or not 24 <= len(key) <= 64:
            raise Mistake("WEBHOOK_SECRET: expected whsec_ and then 24 to 64 random bytes as base64")
        keys.append(key)
    if not keys:
        raise Mistake("WEBHOOK_SECRET_FILE, or WEBHOOK_SECRET: expected the secret that the receiver checks")
    return tuple(keys)


def message_id(event: Event) -> str:
    """The same for the same event, and with no full stop in it, which what is signed is put together with."""
    return "msg_" + hashlib.sha256(f"{event.source} {event.id}".encode()).hexdigest()[:32]


def body_of(event: Event) -> bytes:
    """Return the body of a request: JSON in ASCII."""
    return json.dumps(
        {"type": f"laggard.{event.value['kind']}", "timestamp": event.time, "data": event.value}, separators=(",", ":")
    ).encode()


def signature(keys: Sequence[bytes], identity: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one for each key."""
    signed = f"{identity}.{timestamp}.".encode() + body
    digests = [hmac.digest(key, signed, "sha256") for key in keys]
    return " ".join("v1," + base64.b64encode(digest).decode() for digest in digests)


def retry_after_s(text: str | None) -> float:
    """Return the time for which a receiver wants no events, from seconds or a date; 0 without one."""
    seconds = 0.0
    with suppress(ValueError):
        if text is not None and text.isdecimal():
            seconds = float(min(int(text), MOST_RETRY_AFTER_S))
        elif text is not None:
            at = parsedate_to_datetime(text)
            seconds = at.replace(tzinfo=at.tzinfo or UTC).timestamp() - time.time()
    return min(max(0.0, seconds), MOST_RETRY_AFTER_S)


class _Stay(HTTPRedirectHandler):
    """Nothing signed is sent to where a redirection points: it is a failure, as the specification has it."""

    def redirect_request(self, *_: object) -> None:
        return None


class Endpoint:
    """An endpoint that events are posted to.

    Parameters:
        url: an address of HTTP; paths of webhooks are often secrets, so it is shown nowhere.
        keys: what is signed with.
        patience_s: how long a message is tried.

    """

    def __init__(self, url: str, keys: Sequence[bytes], patience_s: float) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or "@" in parts.netloc or " " in url or not (url.isascii() and url.isprintable()):
            raise Mistake("WEBHOOK_URL: expected https://HOST/PATH, without a user")
        self.name = parts.netloc
        self._url = url
        self._keys = keys
        self._patience_s = patience_s
        self._opener = build_opener(_Stay)
        self._failures = 0
        self._quiet_until = 0.0

    def deliver(self, event: Event, wait: Callable[[float], bool]) -> bool:
        """Post an event until it is taken; whether it was, false where `wait` gave false.

        Raises:
            GivenUp: it was tried for long enough.
            Gone: the receiver has answered that it wants nothing more.

        """
        began, tries, futile = time.monotonic(), 0, 0
        while True:
            # Also before the first try: what made the one before fail may be so still.
            left_s = self._quiet_until - time.monotonic()
            if left_s > 0 and not wait(left_s):
                return False
            status, answer, asked_s = self._post(event)
            tries += 1
            if 200 <= status < 300:
                self._failures = 0
                return True
            if status == GONE:
                raise Gone(f"{self.name} answered 410: it wants nothing more; {place(event.record)} was not delivered")
            self._failures += 3 if status in THROTTLED else 1
            futile += status in FUTILE
            pause_s = max(self._backoff_s(), asked_s)
            self._quiet_until = time.monotonic() + pause_s
            tried = f"{place(event.record)}: {self.name} answered {answer}, tried {tries} times"
            if futile >= MOST_FUTILE or time.monotonic() - began >= self._patience_s:
                raise GivenUp(tried)
            say(f"{tried}, again in {pause_s:.1f} s")

    def _backoff_s(self) -> float:
        """Longer with each failure, and never the same: many that fail together must not come back together."""
        longest = min(LONGEST_S, SHORTEST_S * 2.0 ** min(self._failures - 1, 20))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - a pause is no secret

    def _post(self, event: Event) -> tuple[int, str, float]:
        """Return the status, 0 without an answer; what happened, in words; the time until the next try, in seconds."""
        identity, timestamp, body = message_id(event), int(time.time()), body_of(event)
        headers = {
            "content-type": "application/json",
            "user-agent": "laggard-webhook/1",
            "webhook-id": identity,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._keys, identity, timestamp, body),
        }
        request = Request(self._url, body, headers, method="POST")  # noqa: S310 - its scheme was looked at
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return answer.status, str(answer.status), 0.0
        except HTTPError as error:
            with error:
                return error.code, str(error.code), retry_after_s(error.headers.get("retry-after"))
        except (OSError, http.client.HTTPException) as error:
            return 0, f"nothing ({getattr(error, 'reason', None) or type(error).__name__})", 0.0


class DeadLetters:
    """The topic of undelivered records, each as it was received, with the reason in its headers.

    Raises:
        KafkaError: the brokers do not answer, or refuse.

    """

    def __init__(self, connection: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._producer = KafkaProducer(
            **connection, acks="all", enable_idempotence=True, allow_auto_create_topics=False, metrics_enabled=False
        )

    def add(self, event: Event, reason: str) -> None:
        """Write it; it is at the brokers once this returns. Raises KafkaError."""
        record = event.record
        headers = [*record.headers, ("webhook-failure", reason.encode())]
        self._producer.send(self._topic, key=record.key, value=record.value, headers=headers).get(30)

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)


def main() -> int:
    """Post each event."""
    parser = options(
        "Post laggard's incidents to WEBHOOK_URL, signed with WEBHOOK_SECRET. Either may be in a file instead: "
        "WEBHOOK_URL_FILE, WEBHOOK_SECRET_FILE."
    )
    patience = "so long each is tried (default: %(default)s)"
    parser.add_argument("--patience", type=duration_s, default="1h", metavar="DURATION", help=patience)
    without = "where it goes then; without this the program ends, and begins with it when it is started again"
    parser.add_argument("--dead-letters", metavar="TOPIC", help=without)
    arguments = parser.parse_args()
    if arguments.dead_letters == arguments.topic:
        raise Mistake(f"--dead-letters {arguments.topic}: expected another topic than that of --topic")
    keys = secrets_of(secret(os.environ, "WEBHOOK_SECRET"))
    endpoint = Endpoint(secret(os.environ, "WEBHOOK_URL"), keys, arguments.patience)
    given = connection(os.environ)
    with subscribed(arguments, given) as subscription, ExitStack() as stack:
        dead_letters = None
        if arguments.dead_letters:
            subscription.check(arguments.dead_letters)
            dead_letters = stack.enter_context(closing(DeadLetters(given, arguments.dead_letters)))
        for event in subscription:
            try:
                if endpoint.deliver(event, subscription.wait):
                    subscription.commit()
            except GivenUp as given_up:
                say(f"{given_up}: not delivered")
                if dead_letters is None:
                    return FAILED
                dead_letters.add(event, str(given_up))
                subscription.commit()
            except Gone as gone:
                say(str(gone))
                return STOPPED_FOR_GOOD
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
