"""How the brokers are reached, who laggard says it is there, and what a member of a group is allowed to wait for."""

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
    """What a Kafka bus is opened with. Its text never shows a secret.

    Attributes:
        bootstrap: brokers to ask first, `host:port` each.
        client: what group members and readers use; `auto` takes librdkafka where it is installed.
        session_timeout_s: a member that was not heard of for so long loses its partitions.
        transaction_timeout_s: the broker aborts a transaction that is open for longer.
        request_timeout_s: a call that the brokers have not answered for so long fails.
        instance: the member's name that outlives its process (static membership); empty for none.
        prefix: what the names of all topics begin with.
        replication: on how many brokers a new topic is; None for three, or all where there are fewer.
        security: whether connections are encrypted.
        ca_file: authorities that vouch for the brokers and for `token_url`; None for those that the system trusts.
        certificate_file: what is shown to the brokers, None for nothing.
        key_file: its private key, None where that is in the same file.
        key_password: what the key is encrypted with; empty for nothing.
        sasl: how the brokers are told who this is.
        username: for `plain` and `scram-sha-...`; with `token_url` the client's id.
        password: of the user, or the client's secret.
        token_file: holds a token for `oauthbearer`; read for each connection.
        token_url: where a token is fetched with the client's id and secret.
        token_scope: asked for there; empty for nothing.

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
    """Whether a bus's location names brokers rather than a file."""
    return location.startswith(SCHEME)


def servers_of(location: str) -> tuple[str, ...]:
    """The brokers that `kafka://b1:9092,b2:9092` names, with port 9092 where there is none.

    Raises ValueError saying what was expected, without the location: it may hold a password.
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
    """Refuse an address that a secret must not be sent to. Raises ValueError saying what was expected."""
    if not url:
        return
    expected = "an https address such as https://login.example/oauth2/token"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(expected) from None
    if parts.username or parts.password:
        raise ValueError("an https address without a user and a password; those are kafka.username and kafka.password")
    # On the machine itself nobody listens in.
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)):
        raise ValueError(expected)
