"""Security of Kafka's clients: every option reaches both, files are read beforehand, and nothing shows a secret."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.bus.kafka.security import kafka_python_security, librdkafka_security
from tests.brokers.authority import Authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HUSH = "hush-e4b7"

NOT_SECURITY = {
    "bootstrap": "where the brokers are is given to each client with the name of it",
    "client": "decides which of the two is asked",
    "session_timeout_s": "for members of groups alone",
    "transaction_timeout_s": "for transactions alone",
    "request_timeout_s": "how long is waited, whoever answers",
    "instance": "for members of groups alone",
    "prefix": "of topics",
    "replication": "of topics",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def shown(config: dict[str, Any]) -> dict[str, Any]:
    """What a client is told, with tokens for whoever gives them: those differ each time."""
    asked = {
        "sasl_oauth_token_provider": lambda provider: provider.token(),
        "oauth_cb": lambda callback: callback("")[0],
    }
    return {name: asked[name](value) if name in asked else value for name, value in config.items()}


@pytest.mark.parametrize("security", [kafka_python_security, librdkafka_security])
def test_every_option_reaches_the_client(
    security: Callable[[KafkaOptions], dict[str, Any]], authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.client("alice", HUSH)
    same_key = tmp_path / "same.key"
    same_key.write_bytes(key.read_bytes())
    tls = KafkaOptions(
        security="tls", ca_file=authority.ca_file, certificate_file=certificate, key_file=key, key_password=HUSH
    )
    user = KafkaOptions(sasl="plain", username="me", password=HUSH)
    (tmp_path / "token").write_text("some.token")
    (tmp_path / "other").write_text("other.token")
    token = KafkaOptions(sasl="oauthbearer", token_file=tmp_path / "token")
    changes: dict[str, tuple[KafkaOptions, Any]] = {
        "security": (KafkaOptions(), "tls"),
        "ca_file": (tls, None),
        "certificate_file": (replace(tls, certificate_file=None, key_file=None), authority.server_file),
        "key_file": (tls, same_key),
        "key_password": (replace(tls, certificate_file=authority.server_file, key_file=None, key_password=""), HUSH),
        "sasl": (user, "scram-sha-512"),
        "username": (user, "you"),
        "password": (user, "other"),
        "token_file": (token, tmp_path / "other"),
    }
    for name, (options, value) in changes.items():
        before, after = (shown(security(each)) for each in (options, replace(options, **{name: value})))
        assert before != after, name
    reached = {*changes, "token_url", "token_scope"}  # the last two: test_kafka_tokens.py
    assert {each.name for each in fields(KafkaOptions)} == reached | NOT_SECURITY.keys()


def test_both_clients_are_told_the_same(authority: Authority) -> None:
    certificate, key = authority.client("alice")
    options = KafkaOptions(
        security="tls",
        ca_file=authority.ca_file,
        certificate_file=certificate,
        key_file=key,
        sasl="scram-sha-512",
        username="me",
        password=HUSH,
    )
    assert kafka_python_security(options) == {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(authority.ca_file),
        "ssl_certfile": str(certificate),
        "ssl_keyfile": str(key),
        "ssl_password": "",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": HUSH,
    }
    assert librdkafka_security(options) == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.ca_file),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": HUSH,
    }
    assert kafka_python_security(KafkaOptions()) == {"security_protocol": "PLAINTEXT"}
    assert librdkafka_security(KafkaOptions()) == {"security.protocol": "PLAINTEXT"}


def test_a_configuration_that_a_client_logs_shows_no_secret(authority: Authority) -> None:
    certificate, key = authority.client("alice", HUSH)
    options = KafkaOptions(
        security="tls",
        certificate_file=certificate,
        key_file=key,
        key_password=HUSH,
        sasl="plain",
        username="me",
        password=HUSH,
    )
    for security in (kafka_python_security, librdkafka_security):
        config = security(options)
        assert HUSH in config.values()
        assert HUSH not in f"{config} {config!r} {options}"


def test_files_are_read_before_a_client_does(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.client("alice")
    encrypted = authority.client("carol", HUSH)
    no_pem = tmp_path / "no.pem"
    no_pem.write_text("hello")
    tls = KafkaOptions(security="tls", ca_file=authority.ca_file, certificate_file=certificate, key_file=key)
    missing = tmp_path / "missing"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ca_file": missing}, f"kafka.ca_file: {missing} cannot be read: No such file or directory"),
        ({"ca_file": no_pem}, f"kafka.ca_file: {no_pem}: expected certificates as PEM"),
        ({"certificate_file": missing}, f"kafka.certificate_file: {missing} cannot be read: No such file or directory"),
        ({"key_file": missing}, f"kafka.key_file: {missing} cannot be read: No such file or directory"),
        (
            {"certificate_file": no_pem},
            f"kafka.certificate_file: {no_pem}: expected a certificate, and in {key} its key, both as PEM",
        ),
        (
            {"certificate_file": encrypted[0]},
            f"kafka.key_file: {key} is not the key of the certificate in {encrypted[0]}",
        ),
        (
            {"certificate_file": encrypted[0], "key_file": encrypted[1]},
            (
                f"kafka.key_file: {encrypted[1]} is encrypted; expected kafka.key_password or kafka.key_password_file "
                "with it"
            ),
        ),
        (
            {"certificate_file": encrypted[0], "key_file": encrypted[1], "key_password": "wrong"},
            f"kafka.key_file: {encrypted[1]} cannot be decrypted; check kafka.key_password",
        ),
    ]
    for change, said in wrong:
        for security in (kafka_python_security, librdkafka_security):
            with pytest.raises(BusError, match=f"^{re.escape(said)}$"):
                security(replace(tls, **change))
    kafka_python_security(replace(tls, certificate_file=encrypted[0], key_file=encrypted[1], key_password=HUSH))
