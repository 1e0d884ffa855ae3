"""From settings to Kafka's options: what contradicts itself is said, and secrets come from files and stay unseen."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.kafka import kafka_options

HUSH = "hush-e4b7"
KAFKA = {"bus.location": "kafka://b1:9092"}


def options(tmp_path: Path, **given: str) -> KafkaOptions | None:
    """Of these settings, written `kafka__sasl`."""
    names = {name.replace("__", "."): value for name, value in given.items()}
    variables = {"LAGGARD_" + name.upper().replace(".", "_"): value for name, value in (KAFKA | names).items()}
    return kafka_options(read_settings(environ={"HOME": str(tmp_path), **variables}))


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("location", "servers"),
    [
        ("kafka://b1:9092,b2:9093", ("b1:9092", "b2:9093")),
        ("kafka://b1", ("b1:9092",)),
        ("kafka://b1, b2/", ("b1:9092", "b2:9092")),
        ("kafka://b1,b1:9092", ("b1:9092",)),
        ("kafka://[::1]:9094,10.0.0.1", ("[::1]:9094", "10.0.0.1:9092")),
        ("kafka://my_broker.name.", ("my_broker.name.:9092",)),
    ],
)
def test_brokers_of_a_location(location: str, servers: tuple[str, ...]) -> None:
    assert servers_of(location) == servers


@pytest.mark.parametrize(
    "location",
    ["kafka://", "kafka:///", "kafka://a,,b", "kafka://a:0", "kafka://a:65536", "kafka://a b", "kafka://a/b"],
)
def test_locations_that_name_no_brokers(location: str) -> None:
    with pytest.raises(ValueError, match=r"^kafka://HOST:PORT,HOST:PORT$"):
        servers_of(location)


def test_every_setting_reaches_its_option(tmp_path: Path) -> None:
    assert options(tmp_path, bus__location="/some/file") is None
    password = tmp_path / "password"
    password.write_text(f"{HUSH}\n")
    given = options(
        tmp_path,
        bus__location="kafka://b1,b2:9093",
        kafka__client="librdkafka",
        kafka__security="tls",
        kafka__ca_file="/ca",
        kafka__certificate_file="/certificate",
        kafka__key_file="/key",
        kafka__key_password_file=str(password),
        kafka__sasl="oauthbearer",
        kafka__username="me",
        kafka__password_file=str(password),
        kafka__token_url="https://login.example/token",
        kafka__token_scope="kafka",
        kafka__session_timeout="10s",
        kafka__request_timeout="3s",
        topics__prefix="here.",
        topics__replication="2",
        worker__instance="laggard-0",
    )
    expected = KafkaOptions(
        bootstrap=("b1:9092", "b2:9093"),
        client="librdkafka",
        session_timeout_s=10.0,
        request_timeout_s=3.0,
        instance="laggard-0",
        prefix="here.",
        replication=2,
        security="tls",
        ca_file=Path("/ca"),
        certificate_file=Path("/certificate"),
        key_file=Path("/key"),
        key_password=HUSH,
        sasl="oauthbearer",
        username="me",
        password=HUSH,
        token_url="https://login.example/token",
        token_scope="kafka",
    )
    assert given == expected
    assert HUSH not in repr(given)
    assert HUSH not in str(given)
    # What no setting decides.
    default = KafkaOptions()
    same = {each.name for each in fields(default) if getattr(default, each.name) == getattr(expected, each.name)}
    assert same == {"transaction_timeout_s", "token_file"}
    with_file = options(tmp_path, kafka__sasl="oauthbearer", kafka__token_file="/token")
    assert with_file is not None
    assert with_file.token_file == Path("/token")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"kafka__ca_file": "/ca"},
            "LAGGARD_KAFKA_CA_FILE: kafka.ca_file is given, but kafka.security is plaintext; expected tls",
        ),
        (
            {"kafka__key_file": "/key", "kafka__security": "tls"},
            (
                "LAGGARD_KAFKA_KEY_FILE: kafka.key_file is given, but not its certificate; "
                "expected kafka.certificate_file too"
            ),
        ),
        (
            {"kafka__sasl": "plain", "kafka__password": HUSH},
            "LAGGARD_KAFKA_SASL: kafka.sasl is plain; expected kafka.username with it",
        ),
        (
            {"kafka__sasl": "scram-sha-512", "kafka__username": "me"},
            "LAGGARD_KAFKA_SASL: kafka.sasl is scram-sha-512; expected kafka.password or kafka.password_file with it",
        ),
        (
            {"kafka__password": HUSH},
            (
                "LAGGARD_KAFKA_PASSWORD: kafka.password is given, but kafka.sasl is none; "
                "expected the mechanism to use it with"
            ),
        ),
        (
            {"kafka__sasl": "oauthbearer"},
            "LAGGARD_KAFKA_SASL: kafka.sasl is oauthbearer; expected kafka.token_file or kafka.token_url too",
        ),
        (
            {"kafka__sasl": "oauthbearer", "kafka__token_file": "/t", "kafka__username": "me"},
            (
                "LAGGARD_KAFKA_USERNAME: kafka.username is given, but kafka.sasl is oauthbearer; "
                "expected the mechanism to use it with"
            ),
        ),
        (
            {"kafka__token_file": "/t"},
            "LAGGARD_KAFKA_TOKEN_FILE: kafka.token_file is given, but kafka.sasl is none; expected oauthbearer",
        ),
        (
            {"kafka__sasl": "plain", "kafka__username": "me", "kafka__password_file": "/no/where"},
            "LAGGARD_KAFKA_PASSWORD_FILE: kafka.password_file: /no/where cannot be read: No such file or directory",
        ),
    ],
)
def test_what_contradicts_itself_is_said(tmp_path: Path, given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingError) as raised:
        options(tmp_path, **given)
    assert raised.value.problems == (problem,)
    assert HUSH not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"\n", f"{HUSH}\n{HUSH}\n".encode(), b"\xff\n", HUSH.encode() * 10_000])
def test_files_that_hold_no_secret(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    with pytest.raises(SettingError) as raised:
        options(tmp_path, kafka__sasl="plain", kafka__username="me", kafka__password_file=str(path))
    expected = f"LAGGARD_KAFKA_PASSWORD_FILE: kafka.password_file: {path}: expected one line with the secret"
    assert raised.value.problems == (expected,)
