"""The settings of Kafka, and the options of a Kafka bus from them; secrets are read from their files here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus.kafka.options import KafkaOptions, check_token_url, is_kafka, servers_of
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.declaring import Choice, Duration, File, Section, Text
from laggard.pipeline.settings.general import BusSettings, TopicsSettings, WorkerSettings
from laggard.pipeline.settings.secrets import secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.bus.kafka.options import Client, Sasl, Security
    from laggard.pipeline.settings import Setting, Settings


class KafkaSettings(Section, table="kafka"):
    """The settings of Kafka."""

    client: Setting[Client] = Choice(
        "auto",
        "The Kafka library of workers. `auto` uses librdkafka if it is installed (`pip install '.[librdkafka]'` in a "
        "checkout), which needs a fraction of the CPU time for the same results.",
        choices=("auto", "kafka-python", "librdkafka"),
    )
    security: Setting[Security] = Choice(
        "plaintext", "The protection of connections to the brokers.", choices=("plaintext", "tls")
    )
    ca_file = File(
        "",
        "The certificate authorities of the brokers and of `kafka.token_url`, as PEM. Empty: those of the system.",
    )
    certificate_file = File("", "The client certificate for the brokers, with its intermediate certificates, as PEM.")
    key_file = File("", "The private key of that certificate, as PEM. Empty if the same file has it.")
    key_password = Text("", "The password of the private key. Empty if it is not encrypted.", secret=True)
    key_password_file = File("", "A file whose first line is `kafka.key_password`.", excludes="kafka.key_password")
    sasl: Setting[Sasl] = Choice(
        "none",
        "The SASL mechanism with which laggard authenticates to the brokers.",
        choices=("none", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"),
    )
    username = Text(
        "", "The user for `plain` and `scram-sha-...`, or the client id for `oauthbearer` with `kafka.token_url`."
    )
    password = Text("", "The password of that user, or the client secret.", secret=True)
    password_file = File("", "A file whose first line is `kafka.password`.", excludes="kafka.password")
    token_file = File(
        "",
        "For `oauthbearer`: a file with a token, such as a projected token of Kubernetes. It is read for each "
        "connection.",
        excludes="kafka.token_url",
    )
    token_url = Text(
        "",
        "For `oauthbearer`: the https address that issues tokens for the client credentials `kafka.username` and "
        "`kafka.password`.",
        check=check_token_url,
    )
    token_scope = Text("", "The scope of such a token. Empty for none.")
    session_timeout = Duration(
        "6s",
        "A worker that sends no heartbeat for this time loses its partitions to others. The brokers' "
        "`group.min.session.timeout.ms`, by default 6 s, is the least value.",
        minimum="1s",
        maximum="5m",
    )
    request_timeout = Duration(
        "5s",
        "A request without an answer for this time has failed, and is retried.",
        minimum="1s",
        maximum="2m",
    )


_TLS_ONLY = (
    KafkaSettings.certificate_file,
    KafkaSettings.key_file,
    KafkaSettings.key_password,
    KafkaSettings.key_password_file,
)
_USER = (KafkaSettings.username, KafkaSettings.password)
_PASSWORDS = ("plain", "scram-sha-256", "scram-sha-512")


def kafka_options(settings: Settings) -> KafkaOptions | None:
    """Return the options of the Kafka bus; None if the bus is not on Kafka.

    Raises:
        SettingError: settings contradict each other, or files of secrets cannot be read. It lists all of them.

    """
    location = settings[BusSettings].location
    if not is_kafka(location):
        return None
    problems = [*_contradictions(settings)]
    key_password = secret(settings, KafkaSettings.key_password, KafkaSettings.key_password_file, problems)
    password = secret(settings, KafkaSettings.password, KafkaSettings.password_file, problems)
    if problems:
        raise SettingError(problems)
    kafka = settings[KafkaSettings]
    return KafkaOptions(
        bootstrap=servers_of(location),
        client=kafka.client,
        session_timeout_s=kafka.session_timeout,
        request_timeout_s=kafka.request_timeout,
        instance=settings[WorkerSettings].instance,
        prefix=settings[TopicsSettings].prefix,
        replication=settings[TopicsSettings].replication or None,
        security=kafka.security,
        ca_file=kafka.ca_file,
        certificate_file=kafka.certificate_file,
        key_file=kafka.key_file,
        key_password=key_password,
        sasl=kafka.sasl,
        username=kafka.username,
        password=password,
        token_file=kafka.token_file,
        token_url=kafka.token_url,
        token_scope=kafka.token_scope,
    )


def _contradictions(settings: Settings) -> Iterator[str]:
    """Yield settings that would have no effect, though the user expects one, or that need another setting."""
    kafka = settings[KafkaSettings]

    def wrong(setting: Setting[Any], but: str, expected: str) -> str:
        return f"{settings.place(setting)}: {setting.name} is given, but {but}; expected {expected}"

    def given(*settings: Setting[Any]) -> list[Setting[Any]]:
        return [each for each in settings if kafka.value(each)]

    if kafka.security != "tls":
        for each in given(*_TLS_ONLY, *(() if kafka.token_url else (KafkaSettings.ca_file,))):
            yield wrong(each, "kafka.security is plaintext", "tls")
    if kafka.key_file and not kafka.certificate_file:
        yield wrong(KafkaSettings.key_file, "not its certificate", "kafka.certificate_file too")
    needs_user = kafka.sasl in _PASSWORDS or bool(kafka.token_url)
    for each in () if needs_user else given(*_USER, KafkaSettings.password_file):
        yield wrong(each, f"kafka.sasl is {kafka.sasl}", "the mechanism to use it with")
    place = settings.place(KafkaSettings.sasl)
    if needs_user and not kafka.password and not kafka.password_file:
        yield f"{place}: kafka.sasl is {kafka.sasl}; expected kafka.password or kafka.password_file with it"
    if needs_user and not kafka.username:
        yield f"{place}: kafka.sasl is {kafka.sasl}; expected kafka.username with it"
    tokens = given(KafkaSettings.token_file, KafkaSettings.token_url)
    if kafka.sasl == "oauthbearer" and not tokens:
        yield f"{place}: kafka.sasl is {kafka.sasl}; expected kafka.token_file or kafka.token_url too"
    for each in tokens if kafka.sasl != "oauthbearer" else ():
        yield wrong(each, f"kafka.sasl is {kafka.sasl}", "oauthbearer")
