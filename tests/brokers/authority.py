"""Who vouches for whom: certificates and tokens."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import RSAAlgorithm

from tests.brokers.security import AUDIENCE, ISSUER

if TYPE_CHECKING:
    from pathlib import Path

_KEY = "1"


class Authority:
    """Who vouches: a certificate authority and an issuer of tokens, with their files in a folder.

    Attributes:
        ca_file: the authority's certificate; clients trust it.
        server_file: the brokers' key and certificate, for 127.0.0.1 and localhost.
        keys_file: the public key of the tokens, as a JWK set.

    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.ca_file))
        self.server_file = folder / "server.pem"
        server = self._ca.issue_cert("127.0.0.1", "localhost")
        self._write(self.server_file, _pkcs8(server.private_key_pem.bytes()), *_chain(server))
        self._signs = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.keys_file = folder / "keys.json"
        key = {**RSAAlgorithm.to_jwk(self._signs.public_key(), as_dict=True), "kid": _KEY, "alg": "RS256", "use": "sig"}
        self.keys_file.write_text(json.dumps({"keys": [key]}))

    def client(self, name: str, password: str | None = None) -> tuple[Path, Path]:
        """The files of a certificate for this common name and of its key, encrypted where a password is given."""
        issued = self._ca.issue_cert("client.example", common_name=name)  # Java takes no empty list of names
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        self._write(certificate, *_chain(issued))
        self._write(key, _pkcs8(issued.private_key_pem.bytes(), password))
        return certificate, key

    def token(self, user: str, lifetime_s: float = 3600.0) -> str:
        """A signed token that says who somebody is. One with a lifetime below 0 has expired."""
        now = time.time()
        issued = min(now, now + lifetime_s) - 60
        claims = {"sub": user, "aud": AUDIENCE, "iss": ISSUER, "iat": int(issued), "exp": int(now + lifetime_s)}
        return jwt.encode(claims, self._signs, algorithm="RS256", headers={"kid": _KEY})

    @staticmethod
    def _write(path: Path, *parts: bytes) -> None:
        path.write_bytes(b"".join(parts))
        path.chmod(0o600)


def _chain(issued: trustme.LeafCert) -> list[bytes]:
    return [blob.bytes() for blob in issued.cert_chain_pems]


def _pkcs8(pem: bytes, password: str | None = None) -> bytes:
    """The key in the only form that Java reads."""
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return load_pem_private_key(pem, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
