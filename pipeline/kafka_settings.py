"""From the settings to what a Kafka bus is opened with; secrets are read from their files here."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from laggard.pipeline.bus.kafka.options import KafkaOptions, is_kafka, servers_of
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.secrets import secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.bus.kafka.options import Client, Sasl, Security
    from laggard.pipeline.settings import Settings

_TLS_ONLY = ("kafka.certificate_file", "kafka.key_file", "kafka.key_password", "kafka.key_password_file")
_USER = ("kafka.username", "kafka.password")
_PASSWORDS = ("plain", "scram-sha-256", "scram-sha-512")


def kafka_options(settings: Settings) -> KafkaOptions | None:
    """What the settings say of Kafka; None where the bus is not there.

    Raises:
        SettingError: with everything that does not fit together, and each file of a secret that cannot be read.

    """
    location = settings.text("bus.location")
    if not is_kafka(location):
        return None
    problems = [*_contradictions(settings)]
    key_password = secret(settings, "kafka.key_password", problems)
    password = secret(settings, "kafka.password", problems)
    if problems:
        raise SettingError(problems)
    return KafkaOptions(
        bootstrap=servers_of(location),
        client=cast("Client", settings.choice("kafka.client")),
        session_timeout_s=settings.seconds("kafka.session_timeout"),
        request_timeout_s=settings.seconds("kafka.request_timeout"),
        instance=settings.text("worker.instance"),
        prefix=settings.text("topics.prefix"),
        replication=settings.count("topics.replication") or None,
        security=cast("Security", settings.choice("kafka.security")),
        ca_file=settings.file("kafka.ca_file"),
        certificate_file=settings.file("kafka.certificate_file"),
        key_file=settings.file("kafka.key_file"),
        key_password=key_password,
        sasl=cast("Sasl", settings.choice("kafka.sasl")),
        username=settings.text("kafka.username"),
        password=password,
        token_file=settings.file("kafka.token_file"),
        token_url=settings.text("kafka.token_url"),
        token_scope=settings.text("kafka.token_scope"),
    )


def _contradictions(settings: Settings) -> Iterator[str]:
    """Settings that would have no effect, or that lack another: a person believes them to be at work."""

    def is_set(name: str) -> bool:
        return settings.file(name) is not None if name.endswith("_file") else bool(settings.text(name))

    def wrong(name: str, but: str, expected: str) -> str:
        return f"{settings.place(name)}: {name} is given, but {but}; expected {expected}"

    sasl, fetched = settings.choice("kafka.sasl"), is_set("kafka.token_url")
    tls_only = (*_TLS_ONLY, *(() if fetched else ("kafka.ca_file",)))
    if settings.choice("kafka.security") != "tls":
        for name in filter(is_set, tls_only):
            yield wrong(name, "kafka.security is plaintext", "tls")
    if is_set("kafka.key_file") and not is_set("kafka.certificate_file"):
        yield wrong("kafka.key_file", "not its certificate", "kafka.certificate_file too")
    needs = {*_USER} if sasl in _PASSWORDS or fetched else set()
    for name in filter(is_set, () if needs else (*_USER, "kafka.password_file")):
        yield wrong(name, f"kafka.sasl is {sasl}", "the mechanism to use it with")
    if is_set("kafka.password_file"):
        needs.discard("kafka.password")
    for name in sorted(name for name in needs if not is_set(name)):
        also = " or kafka.password_file" if name == "kafka.password" else ""
        yield f"{settings.place('kafka.sasl')}: kafka.sasl is {sasl}; expected {name}{also} with it"
    tokens = [name for name in ("kafka.token_file", "kafka.token_url") if is_set(name)]
    if sasl == "oauthbearer" and not tokens:
        yield f"{settings.place('kafka.sasl')}: kafka.sasl is {sasl}; expected kafka.token_file or kafka.token_url too"
    for name in tokens if sasl != "oauthbearer" else ():
        yield wrong(name, f"kafka.sasl is {sasl}", "oauthbearer")
