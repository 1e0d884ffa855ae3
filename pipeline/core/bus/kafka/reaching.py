"""Finds why no broker can be reached, step by step over a connection of its own, since no client reports it.

When a broker rejects a password, kafka-python loses its reason, since the answer comes together with the end of the
connection. The client librdkafka logs it. Both retry until a timeout. So when a client has failed, this checks each
step. Is the name known, does the port answer, and does it speak TLS? Are the certificates trusted, and is the user
accepted? Can the brokers be reached under the addresses that they advertise?
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any

from kafka.errors import NoError, UnsupportedSaslMechanismError, for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.kafka.security import kafka_python_security, tls_context
from laggard.pipeline.core.bus.kafka.tokens import expiry, tokens_of

if TYPE_CHECKING:
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

ANSWER_S = 3.0
"""The time limit of each step, in seconds."""

_LOOKED_AT = 8
_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The errors of a server that closes the connection instead of greeting. Which of them comes depends on OpenSSL."""

_BAD_CERTIFICATE = ("BAD_CERTIFICATE", "CERTIFICATE_REQUIRED", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "HANDSHAKE_FAILURE")


class Closed(Exception):  # noqa: N818 - named for what it says
    """The broker closed the connection instead of answering."""


def why_unreachable(options: KafkaOptions) -> BusError | None:
    """Return why none of the bootstrap brokers can be used; None if one can.

    BusUnavailable is for temporary causes, BusError for those that need a fix: a password, a certificate, a setting.
    The message says what was rejected, by which broker, and which setting to check.
    """
    found: list[BusError] = []
    for server in options.bootstrap:
        try:
            _try(options, server)
        except BusError as error:
            found.append(error)
        else:
            return None
    # The answer of a broker that rejects says more than an unreachable broker.
    return next((error for error in found if not isinstance(error, BusUnavailable)), found[0])


class Conversation:
    """One connection to a broker: a request, then its answer.

    Parameters:
        server: `host:port`.
        context: the TLS context; None without TLS.

    Raises the errors of opening it: OSError, ssl.SSLError.
    """

    def __init__(self, server: str, context: ssl.SSLContext | None) -> None:
        host, port = split(server)
        self._protocol = KafkaProtocol(client_id="laggard")
        self._socket = socket.create_connection((host, port), ANSWER_S)
        if context is not None:
            try:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            except BaseException:
                self._socket.close()
                raise

    def ask(self, request: Any) -> Any:
        """Send a request, and return the answer. Raises Closed, OSError or ssl.SSLError."""
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            received = self._socket.recv(65536)
            if not received:
                raise Closed
            for _, answer in self._protocol.receive_bytes(received):
                return answer

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def split(server: str) -> tuple[str, int]:
    """Return host and port of `host:port`; an IPv6 address is in brackets."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _try(options: KafkaOptions, server: str) -> None:
    """Connect, authenticate and request the list of brokers. Raises BusError."""
    context = tls_context(options) if options.security == "tls" else None
    try:
        with contextlib.closing(Conversation(server, context)) as talk:
            _greet(options, server, talk)
            if options.sasl != "none":
                _authenticate(options, server, talk)
            _discover(options, server, talk)
    except BusError:
        raise
    except ssl.SSLError as error:
        raise _tls_trouble(options, server, error) from None
    except (Closed, ConnectionResetError, BrokenPipeError):
        if options.sasl == "oauthbearer" and (ago_s := _expired_s(options)) > 0:
            # A broker does not report an expired token.
            raise _refusal(options, server, f"it expired {ago_s:.0f} s ago") from None
        raise BusUnavailable(f"{server}: ends the connection without an answer; is it starting or stopping?") from None
    except socket.gaierror as error:
        raise BusUnavailable(f"{server}: the name is unknown ({error.strerror}); check bus.location") from None
    except TimeoutError:
        raise BusUnavailable(
            f"{server}: does not answer within {ANSWER_S:g} s; is a firewall between, and is bus.location right?"
        ) from None
    except OSError as error:
        raise BusUnavailable(
            f"{server}: cannot be reached ({error.strerror or error}); does a broker run there, and is bus.location "
            "right?"
        ) from None
    except Exception as error:
        raise BusError(
            f"{server}: does not answer as a broker does ({type(error).__name__}); is bus.location right?"
        ) from error


def _greet(options: KafkaOptions, server: str, talk: Conversation) -> None:
    """Send the first request, which needs no permission: its failure is one of the connection."""
    try:
        # Every broker supports version 0.
        talk.ask(ApiVersionsRequest(version=0))
    except Exception:
        if options.security == "plaintext" and _speaks_tls(server):
            raise BusError(f"{server}: expects TLS; set kafka.security to tls") from None
        raise


def _speaks_tls(server: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        Conversation(server, context).close()
    except _ENDED:
        return False
    except ssl.SSLError as error:
        return error.reason != "WRONG_VERSION_NUMBER"
    except OSError:
        return False
    return True


def _tls_trouble(options: KafkaOptions, server: str, error: ssl.SSLError) -> BusError:
    """Return the error of TLS, with the setting to check."""
    if isinstance(error, ssl.SSLCertVerificationError):
        name, message = split(server)[0], error.verify_message
        if "mismatch" in message or "not valid for" in message:
            return BusError(f"{server}: its certificate is not for {name}; set bus.location to a name that is in it")
        trusted = f"{options.ca_file} does" if options.ca_file else "the system's authorities do"
        return BusError(f"{server}: {trusted} not vouch for its certificate ({message}); check kafka.ca_file")
    reason = error.reason or ""
    if any(word in reason for word in _BAD_CERTIFICATE):
        if options.certificate_file is None:
            return BusError(f"{server}: requires a client certificate; set kafka.certificate_file and kafka.key_file")
        return BusError(f"{server}: refuses the certificate {options.certificate_file}; check kafka.certificate_file")
    if isinstance(error, _ENDED) or reason in {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING"}:
        return BusError(
            f"{server}: does not speak TLS; set bus.location to its port for TLS, or kafka.security to plaintext"
        )
    return BusError(f"{server}: TLS fails ({reason or error}); check kafka.security")


def _authenticate(options: KafkaOptions, server: str, talk: Conversation) -> None:
    """Authenticate. Raises BusError with the broker's answer."""
    mechanism = options.sasl.upper()
    answer = talk.ask(SaslHandshakeRequest(mechanism=mechanism, version=1))
    problem = for_code(answer.error_code)
    if problem is UnsupportedSaslMechanismError:
        offered = ", ".join(sorted(name.lower() for name in answer.mechanisms))
        raise BusError(f"{server}: does not offer {options.sasl}, but {offered}; check kafka.sasl")
    if problem is not NoError:
        raise BusError(
            f"{server}: does not authenticate clients; set kafka.sasl to none, or bus.location to another port"
        )
    exchange = get_sasl_mechanism(mechanism)(
        host=split(server)[0], **{"sasl_mechanism": mechanism, **kafka_python_security(options)}
    )
    while not exchange.is_done():
        answer = talk.ask(SaslAuthenticateRequest(exchange.auth_bytes(), version=1))
        if for_code(answer.error_code) is not NoError:
            raise _refusal(options, server, str(answer.error_message or ""))
        try:
            exchange.receive(answer.auth_bytes)
        except (ValueError, KeyError):  # SCRAM: the broker cannot prove that it knows the password
            raise BusError(f"{server}: does not prove that it knows {options.username}; check bus.location") from None
        if options.sasl == "oauthbearer" and not exchange.is_done():
            # A broker rejects a token in an answer of its own; the next one only ends the exchange.
            raise _refusal(options, server, answer.auth_bytes.decode(errors="replace"))


def _expired_s(options: KafkaOptions) -> float:
    """Return the time since the token expired, in seconds; below 0 for a valid one, or without an expiry time."""
    expires = expiry(tokens_of(options).token().value)
    return -1.0 if expires is None else time.time() - expires


def _refusal(options: KafkaOptions, server: str, message: str) -> BusError:
    message = "".join(each for each in message if each.isprintable())[:200]
    why = f" ({message})" if message else ""
    if options.sasl == "oauthbearer":
        setting = "kafka.token_file" if options.token_file else "kafka.token_url"
        return BusError(f"{server}: refuses the token of {setting}{why}; is it for these brokers, and not expired?")
    return BusError(
        f"{server}: refuses user {options.username}{why}; check kafka.username, kafka.password and kafka.sasl"
    )


def _discover(options: KafkaOptions, server: str, talk: Conversation) -> None:
    """Request the brokers' advertised addresses, and check them: all later connections use these."""
    try:
        answer = talk.ask(MetadataRequest(topics=[], version=4, allow_auto_topic_creation=False))
    except (Closed, ConnectionResetError):
        if options.sasl == "none" and (offered := _offered(options, server)):
            raise BusError(f"{server}: requires authentication; set kafka.sasl to one of {offered}") from None
        raise
    advertised = [
        f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}" for each in answer.brokers
    ]
    if not advertised:
        raise BusUnavailable(f"{server}: knows of no broker yet; is the cluster starting?")
    reasons = []
    for other in advertised[:_LOOKED_AT]:
        try:
            socket.create_connection(split(other), ANSWER_S).close()
        except OSError as error:
            reasons.append(f"{other}: {error.strerror or error}")
        else:
            return
    raise BusUnavailable(
        f"{server}: answers, but its advertised listeners are {', '.join(advertised[:_LOOKED_AT])}, which cannot be "
        f"reached from here ({reasons[0]}); correct advertised.listeners of the brokers"
    )


def _offered(options: KafkaOptions, server: str) -> str:
    """Return the mechanisms that the broker offers, as in `kafka.sasl`; empty if it lists none."""
    context = tls_context(options) if options.security == "tls" else None
    with contextlib.suppress(Closed, OSError), contextlib.closing(Conversation(server, context)) as talk:
        answer = talk.ask(SaslHandshakeRequest(mechanism="NONE", version=1))
        return ", ".join(sorted(name.lower() for name in answer.mechanisms or ()))
    return ""
