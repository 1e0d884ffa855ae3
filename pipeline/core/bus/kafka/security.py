"""The security of connections, and the authentication, in the settings of each of the two clients."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.kafka.tokens import tokens_of

if TYPE_CHECKING:
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from laggard.pipeline.core.bus.kafka.tokens import Tokens

_PASSWORDS = {"plain", "scram-sha-256", "scram-sha-512"}


class Secret(str):
    """A text that a printed configuration hides: clients log theirs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


def kafka_python_security(options: KafkaOptions) -> dict[str, Any]:
    """Return the security settings of every kafka-python client. Raises BusError as `check_files` does."""
    check_files(options)
    config: dict[str, Any] = {"security_protocol": _protocol(options)}
    if options.security == "tls":
        # Paths, not a context: files that are renewed on disk are used from the next connection on.
        config |= {
            "ssl_cafile": _text(options.ca_file),
            "ssl_certfile": _text(options.certificate_file),
            "ssl_keyfile": _text(options.key_file),
            "ssl_password": Secret(options.key_password),
        }
    if options.sasl != "none":
        config["sasl_mechanism"] = options.sasl.upper()
    if options.sasl in _PASSWORDS:
        config |= {"sasl_plain_username": options.username, "sasl_plain_password": Secret(options.password)}
    elif options.sasl == "oauthbearer":
        config["sasl_oauth_token_provider"] = _TokenProvider(tokens_of(options))
    return config


def librdkafka_security(options: KafkaOptions) -> dict[str, Any]:
    """Return the security settings of every librdkafka client. Raises BusError as `check_files` does."""
    check_files(options)
    config: dict[str, Any] = {"security.protocol": _protocol(options)}
    if options.security == "tls":
        if options.ca_file is not None:
            config["ssl.ca.location"] = _text(options.ca_file)
        if options.certificate_file is not None:
            config["ssl.certificate.location"] = _text(options.certificate_file)
            config["ssl.key.location"] = _text(options.key_file or options.certificate_file)
        if options.key_password:
            config["ssl.key.password"] = Secret(options.key_password)
    if options.sasl != "none":
        config["sasl.mechanism"] = options.sasl.upper()
    if options.sasl in _PASSWORDS:
        config |= {"sasl.username": options.username, "sasl.password": Secret(options.password)}
    elif options.sasl == "oauthbearer":
        tokens = tokens_of(options)
        config["oauth_cb"] = lambda _: tuple(tokens.token())
    return config


def check_files(options: KafkaOptions) -> None:
    """Read the files of TLS once, before a client does.

    A client reports an unreadable file only as an unreachable broker. Raises BusError with the setting, and what was
    expected.
    """
    if options.security == "tls":
        tls_context(options)


def tls_context(options: KafkaOptions) -> ssl.SSLContext:
    """Return the TLS context of these options. Raises BusError."""
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
    except ssl.SSLError:
        raise BusError(f"kafka.ca_file: {options.ca_file}: expected certificates as PEM") from None
    except OSError as error:
        raise BusError(f"kafka.ca_file: {options.ca_file} cannot be read: {error.strerror}") from None
    if options.certificate_file is None:
        return context
    for name, path in (("certificate", options.certificate_file), ("key", options.key_file)):
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            raise BusError(f"kafka.{name}_file: {path} cannot be read: {error.strerror}") from None
    try:
        # An empty password prevents a prompt at the terminal.
        context.load_cert_chain(options.certificate_file, options.key_file, options.key_password)
    except ssl.SSLError as error:
        raise BusError(_key_trouble(options, error)) from None
    return context


def _key_trouble(options: KafkaOptions, error: ssl.SSLError) -> str:
    certificate, key = options.certificate_file, options.key_file or options.certificate_file
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"kafka.key_file: {key} is not the key of the certificate in {certificate}"
    # OpenSSL's error for a wrong password depends on the random result of its decryption.
    encrypted = key is not None and b"ENCRYPTED" in key.read_bytes()
    if encrypted and not options.key_password:
        return f"kafka.key_file: {key} is encrypted; expected kafka.key_password or kafka.key_password_file with it"
    if encrypted:
        return f"kafka.key_file: {key} cannot be decrypted; check kafka.key_password"
    return f"kafka.certificate_file: {certificate}: expected a certificate, and in {key} its key, both as PEM"


def _protocol(options: KafkaOptions) -> str:
    return ("" if options.sasl == "none" else "SASL_") + ("SSL" if options.security == "tls" else "PLAINTEXT")


def _text(path: object) -> str | None:
    return None if path is None else str(path)


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    """Tokens for kafka-python, which requests one at each connection and before one expires."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.token().value
