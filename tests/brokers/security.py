"""What a secured broker demands of its clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.brokers.authority import Authority

Sasl = Literal["plain", "scram-sha-256", "scram-sha-512", "oauthbearer"]

AUDIENCE, ISSUER = "laggard-tests", "https://issuer.example"
_LOGIN = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "scram-sha-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "scram-sha-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "oauthbearer": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True)
class Security:
    """What a cluster demands of its clients.

    Attributes:
        tls: whether they have to speak TLS.
        client_certificates: whether they have to show a certificate; the user is its common name.
        sasl: how they may say who they are; nothing: they need not.
        users: names and passwords, for `plain` and `scram-*`.
        acls: whether rules decide what a user may do; without a rule nothing, except for those in `super_users`.

    """

    tls: bool = False
    client_certificates: bool = False
    sasl: tuple[Sasl, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict)
    acls: bool = False
    super_users: tuple[str, ...] = ("admin",)

    @property
    def protocol(self) -> str:
        """What Kafka calls it: `SASL_SSL`."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")

    def properties(self, authority: Authority, listener: str) -> dict[str, str]:
        """The broker's settings for the listener of clients."""
        name = f"listener.name.{listener.lower()}."
        wanted: dict[str, str] = {}
        if self.tls:
            wanted |= {
                name + "ssl.keystore.type": "PEM",
                name + "ssl.keystore.location": str(authority.server_file),
                name + "ssl.truststore.type": "PEM",
                name + "ssl.truststore.location": str(authority.ca_file),
                name + "ssl.client.auth": "required" if self.client_certificates else "none",
                name + "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
            }
        if self.sasl:
            wanted["sasl.enabled.mechanisms"] = ",".join(self.sasl).upper()
        for mechanism in self.sasl:
            passwords = "".join(f' user_{user}="{word}"' for user, word in self.users.items())
            more = {"plain": passwords, "oauthbearer": ' unsecuredLoginStringClaim_sub="broker"'}.get(mechanism, "")
            wanted[f"{name}{mechanism}.sasl.jaas.config"] = f"{_LOGIN[mechanism]} required{more};"
        if "oauthbearer" in self.sasl:
            wanted |= {
                f"{name}oauthbearer.sasl.server.callback.handler.class": _OAUTH,
                "sasl.oauthbearer.jwks.endpoint.url": authority.keys_file.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
            }
        if self.acls:
            # Brokers and the harness's own commands come through a listener without security.
            users = ";".join(f"User:{user}" for user in ("ANONYMOUS", *self.super_users))
            wanted |= {"authorizer.class.name": _AUTHORIZER, "super.users": users}
        return wanted

    def scram(self) -> list[str]:
        """The users, as the command that formats a broker's folder takes them."""
        scram = [mechanism.upper() for mechanism in self.sasl if mechanism.startswith("scram")]
        users = [f"{one}=[name={user},password={word}]" for one in scram for user, word in self.users.items()]
        return [part for user in users for part in ("--add-scram", user)]
