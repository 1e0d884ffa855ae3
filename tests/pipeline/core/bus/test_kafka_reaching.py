"""Why a broker cannot be reached: each cause on a real broker, told with what was refused and where to look."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.kafka import reaching
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.bus.kafka.reaching import why_unreachable
from tests.brokers import Cluster, Security

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HUSH = "hush-e4b7"
WRONG = "wrong-77c1"

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """TLS, and every mechanism."""
    security = Security(tls=True, sasl=("plain", "scram-sha-256", "scram-sha-512", "oauthbearer"), users={"me": HUSH})
    with Cluster(tmp_path_factory.mktemp("secured") / "cluster", security=security) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """TLS with certificates of clients."""
    security = Security(tls=True, client_certificates=True)
    with Cluster(tmp_path_factory.mktemp("certified") / "cluster", security=security) as cluster:
        yield cluster


def told(options: KafkaOptions) -> tuple[type[BusError] | None, str]:
    """What is said, with the address left out."""
    error = why_unreachable(options)
    if error is None:
        return None, ""
    assert HUSH not in str(error)
    assert WRONG not in str(error)
    return type(error), re.sub(r"^127\.0\.0\.1:\d+: ", "", str(error))


def authority_of(cluster: Cluster) -> Path:
    assert cluster.authority is not None
    return cluster.authority.ca_file


def test_no_broker_answers() -> None:
    assert told(KafkaOptions(("127.0.0.1:1",))) == (
        BusUnavailable,
        "cannot be reached (Connection refused); does a broker run there, and is bus.location right?",
    )
    kind, said = told(KafkaOptions(("no.such.host.invalid:9092",)))
    assert kind is BusUnavailable
    assert said.startswith("no.such.host.invalid:9092: the name is unknown (")


def test_somebody_who_is_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        options = KafkaOptions((f"127.0.0.1:{server.getsockname()[1]}",))
        silent = (
            BusUnavailable,
            "does not answer within 0.3 s; is a firewall between, and is bus.location right?",
        )
        assert told(options) == silent
        assert told(replace(options, security="tls")) == silent

        def answer() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        # Those from before still wait to be accepted; the second was to see whether TLS is spoken.
        for _ in range(3):
            server.accept()[0].close()
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        monkeypatch.setattr(reaching, "ANSWER_S", 30.0)
        assert told(options) == (
            BusError,
            "does not answer as a broker does (InvalidReceiveError); is bus.location right?",
        )
        kind, said = told(replace(options, security="tls"))
        assert (kind, said.partition(";")[0]) == (BusError, "does not speak TLS")
        thread.join()


@pytest.mark.parametrize("error", [ssl.SSLEOFError, ssl.SSLZeroReturnError])
def test_who_hangs_up_on_a_tls_greeting_does_not_speak_tls(
    monkeypatch: pytest.MonkeyPatch, error: type[ssl.SSLError]
) -> None:
    def hangs_up(*_: object, **__: object) -> None:
        failure = error("closed (EOF)")
        failure.reason = ""
        raise failure

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = server.accept()
                with taken:
                    taken.recv(65536)

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", hangs_up)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        options = KafkaOptions((f"127.0.0.1:{server.getsockname()[1]}",))
        found = told(options), told(replace(options, security="tls"))
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert found == (
        (BusUnavailable, "ends the connection without an answer; is it starting or stopping?"),
        (
            BusError,
            "does not speak TLS; set bus.location to its port for TLS, or kafka.security to plaintext",
        ),
    )


@slow
def test_a_broker_that_wants_nothing(broker: Cluster) -> None:
    options = KafkaOptions((broker.bootstrap,))
    assert told(options) == (None, "")
    assert told(replace(options, bootstrap=("127.0.0.1:1", broker.bootstrap))) == (None, "")
    assert told(replace(options, security="tls")) == (
        BusError,
        "does not speak TLS; set bus.location to its port for TLS, or kafka.security to plaintext",
    )
    assert told(replace(options, sasl="plain", username="me", password=HUSH)) == (
        BusError,
        "does not authenticate clients; set kafka.sasl to none, or bus.location to another port",
    )


@slow
def test_users_and_passwords(secured: Cluster) -> None:
    options = KafkaOptions(
        (secured.bootstrap,), security="tls", ca_file=authority_of(secured), username="me", password=HUSH
    )
    for sasl in ("plain", "scram-sha-256", "scram-sha-512"):
        assert told(replace(options, sasl=sasl)) == (None, "")
        kind, said = told(replace(options, sasl=sasl, password=WRONG))
        assert kind is BusError
        assert said.startswith("refuses user me (Authentication failed")
        assert said.endswith("check kafka.username, kafka.password and kafka.sasl")
    # One that refuses says more than one that is away.
    away = replace(options, bootstrap=("127.0.0.1:1", secured.bootstrap), sasl="plain", password=WRONG)
    assert told(away)[1].startswith("refuses user me")
    assert told(replace(options, sasl="none")) == (
        BusError,
        "requires authentication; set kafka.sasl to one of oauthbearer, plain, scram-sha-256, scram-sha-512",
    )
    assert told(replace(options, security="plaintext", sasl="plain")) == (
        BusError,
        "expects TLS; set kafka.security to tls",
    )


@slow
def test_tokens(secured: Cluster, tmp_path: Path) -> None:
    assert secured.authority is not None
    path = tmp_path / "token"
    options = KafkaOptions(
        (secured.bootstrap,), security="tls", ca_file=authority_of(secured), sasl="oauthbearer", token_file=path
    )
    path.write_text(secured.authority.token("alice"))
    assert told(options) == (None, "")
    path.write_text(secured.authority.token("alice", -600))
    kind, said = told(options)
    assert kind is BusError
    assert re.fullmatch(
        r"refuses the token of kafka\.token_file \(it expired 6\d+ s ago\); is it for these brokers, and not expired\?",
        said,
    )
    path.write_text(WRONG)
    assert told(options) == (
        BusError,
        (
            'refuses the token of kafka.token_file ({"status":"invalid_token"}); '
            "is it for these brokers, and not expired?"
        ),
    )
    path.unlink()
    assert told(options) == (
        BusUnavailable,
        f"kafka.token_file: {path} cannot be read: No such file or directory",
    )


@slow
def test_certificates(certified: Cluster, secured: Cluster) -> None:
    assert certified.authority is not None
    assert secured.authority is not None
    certificate, key = certified.authority.client("alice")
    options = KafkaOptions(
        (certified.bootstrap,),
        security="tls",
        ca_file=authority_of(certified),
        certificate_file=certificate,
        key_file=key,
    )
    assert told(options) == (None, "")
    assert told(replace(options, certificate_file=None, key_file=None)) == (
        BusError,
        "requires a client certificate; set kafka.certificate_file and kafka.key_file",
    )
    strange, strange_key = secured.authority.client("alice")
    assert told(replace(options, certificate_file=strange, key_file=strange_key)) == (
        BusError,
        f"refuses the certificate {strange}; check kafka.certificate_file",
    )
    assert told(replace(options, ca_file=authority_of(secured))) == (
        BusError,
        (
            f"{authority_of(secured)} does not vouch for its certificate (unable to get local issuer certificate); "
            "check kafka.ca_file"
        ),
    )
    kind, said = told(replace(options, ca_file=None))
    assert (kind, said[:30]) == (BusError, "the system's authorities do no")


@slow
def test_a_certificate_for_another_name(certified: Cluster) -> None:
    # All of 127.0.0.0/8 is this machine; the brokers' certificate is for 127.0.0.1 and localhost.
    port = certified.nodes[0].port
    with socket.create_server(("127.0.0.2", 0)) as server:
        thread = threading.Thread(target=_forward, args=(server, port), daemon=True)
        thread.start()
        options = KafkaOptions(
            (f"127.0.0.2:{server.getsockname()[1]}",), security="tls", ca_file=authority_of(certified)
        )
        kind, said = told(options)
        thread.join()
    assert kind is BusError
    assert said.endswith(": its certificate is not for 127.0.0.2; set bus.location to a name that is in it")


def _forward(server: socket.socket, port: int) -> None:
    """One connection, until it ends."""
    client, _ = server.accept()
    with client, socket.create_connection(("127.0.0.1", port)) as broker:
        back = threading.Thread(target=_copy, args=(broker, client), daemon=True)
        back.start()
        _copy(client, broker)
        back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while received := source.recv(65536):
            sink.sendall(received)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@slow
def test_brokers_with_unreachable_advertised_listeners(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster")
    settings = tmp_path / "cluster/broker-1/server.properties"
    advertised = f"advertised.listeners=CLIENT://127.0.0.1:{cluster.nodes[0].port}"
    content = settings.read_text()
    assert advertised in content
    settings.write_text(content.replace(advertised, "advertised.listeners=CLIENT://127.0.0.1:1"))
    with cluster:
        kind, said = told(KafkaOptions((cluster.bootstrap,)))
    assert kind is BusUnavailable
    assert said == (
        "answers, but its advertised listeners are 127.0.0.1:1, which cannot be reached from here "
        "(127.0.0.1:1: Connection refused); correct advertised.listeners of the brokers"
    )
