"""The options of a Kafka bus: the brokers, security and authentication, and time limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

Client = Literal["auto", "kafka-python", "librdkafka"]
Security = Literal["plaintext", "tls"]
Sasl = Literal["none", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"]

SCHEME = "kafka://"
DEFAULT_PORT = 9092

_SERVER = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?)(?::(?P<port>\d{1,5}))?", re.ASCII
)
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The options of a Kafka bus. Its `repr` hides secrets.

    Attributes:
        bootstrap: the brokers for the first connection, `host:port` each.
        client: the client of group members and readers; `auto` is librdkafka if it is installed.
        session_timeout_s: a member without a heartbeat for this time loses its partitions.
        transaction_timeout_s: the brokers abort a transaction that is open for longer.
        request_timeout_s: a call without an answer from the brokers for this time fails.
        instance: the member's name that outlives its process (static membership); empty for none.
        prefix: the prefix of the names of all topics.
        replication: the number of replicas of a new topic; None for three, or fewer if there are fewer brokers.
        security: whether connections are encrypted.
        ca_file: certificate authorities for the brokers and for `token_url`; None for those that the system trusts.
        certificate_file: the client certificate; None for none.
        key_file: its private key; None if that is in the same file.
        key_password: the password of the encrypted key; empty for none.
        sasl: the mechanism of authentication.
        username: for `plain` and `scram-sha-...`; with `token_url` the client's id.
        password: the user's password, or the client's secret.
        token_file: the file with a token for `oauthbearer`; read for each connection.
        token_url: the endpoint that issues a token for the client's id and secret.
        token_scope: the scope to request there; empty for none.

    """

    bootstrap: tuple[str, ...] = field(default=("127.0.0.1:9092",))
    client: Client = "auto"
    session_timeout_s: float = 6.0
    transaction_timeout_s: float = 10.0
    request_timeout_s: float = 5.0
    instance: str = ""
    prefix: str = "laggard."
    replication: int | None = None
    security: Security = "plaintext"
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    key_password: str = field(default="", repr=False)
    sasl: Sasl = "none"
    username: str = ""
    password: str = field(default="", repr=False)
    token_file: Path | None = None
    token_url: str = ""
    token_scope: str = ""


def is_kafka(location: str) -> bool:
    """Return whether a bus's location names brokers rather than a file."""
    return location.startswith(SCHEME)


def servers_of(location: str) -> tuple[str, ...]:
    """Return the brokers in `kafka://b1:9092,b2:9092`, with port 9092 if there is none.

    Raises ValueError with the expected form, without the location: it may contain a password.
    """
    expected = "kafka://HOST:PORT,HOST:PORT"
    rest = location.removeprefix(SCHEME).removesuffix("/")
    if "@" in rest:
        raise ValueError(f"{expected} without a user and a password; those are kafka.username and kafka.password")
    servers = []
    for server in rest.split(","):
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 0 < int(match["port"] or DEFAULT_PORT) <= 65535:
            raise ValueError(expected)
        servers.append(f"{match['host']}:{match['port'] or DEFAULT_PORT}")
    return tuple(dict.fromkeys(servers))


def check_token_url(url: str) -> None:
    """Reject an address to which a secret must not be sent. Raises ValueError with the expected form."""
    if not url:
        return
    expected = "an https address such as https://login.example/oauth2/token"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(expected) from None
    if parts.username or parts.password:
        raise ValueError("an https address without a user and a password; those are kafka.username and kafka.password")
    # Loopback connections do not leave the machine.
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)):
        raise ValueError(expected)
