"""Tokens for OAUTHBEARER: from a file that another program renews, or for client credentials from a token endpoint."""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from laggard.pipeline.core.bus import BusError, BusUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

ANSWER_S = 5.0
"""The time without an answer after which a token endpoint has failed, in seconds."""

UNKNOWN_LIFETIME_S = 300.0
"""The assumed lifetime of a token that does not state its own, in seconds."""

_RENEW_AT = 0.8
_MAX_BYTES = 1 << 20
_QUOTED = 200


class Token(NamedTuple):
    """A token; `expires` is in seconds since the Unix epoch. Its `repr` hides the value."""

    value: str
    expires: float

    def __repr__(self) -> str:
        return f"Token(..., expires={self.expires:.0f})"


class Tokens(ABC):
    """A source of tokens. Safe to use from several threads."""

    @abstractmethod
    def token(self) -> Token:
        """Return a valid token. Raises BusError that names the setting to check; BusUnavailable if a retry may help."""


class FileTokens(Tokens):
    """A file that another program renews; it is read each time.

    Parameters:
        path: the file, which contains only the token.

    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def token(self) -> Token:
        """Return the present token in the file."""
        try:
            value = self._path.read_text("ascii").strip()
        except OSError as error:
            raise BusUnavailable(f"kafka.token_file: {self._path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            value = ""
        if not value or len(value.split()) > 1:
            raise BusError(f"kafka.token_file: {self._path}: expected nothing but a token")
        return Token(value, expiry(value) or time.time() + UNKNOWN_LIFETIME_S)


class FetchedTokens(Tokens):
    """Tokens for client credentials (RFC 6749, section 4.4); a token is used for most of its lifetime.

    Parameters:
        url: the token endpoint.
        client: the client's id.
        secret: the client's secret.
        scope: the requested scope; empty for none.
        ca_file: certificate authorities for the endpoint, in addition to those that the system trusts.

    """

    def __init__(self, url: str, client: str, secret: str, scope: str = "", ca_file: Path | None = None) -> None:
        self._url = url
        pair = f"{urllib.parse.quote_plus(client)}:{urllib.parse.quote_plus(secret)}"
        fields = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        self._request = urllib.request.Request(  # noqa: S310 - the settings allow https, and http on this machine
            url,
            urllib.parse.urlencode(fields).encode(),
            {
                "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
                "Content-Type": "application/x-www-form-urlencoded",
                "Accept": "application/json",
            },
        )
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._token = Token("", 0.0)
        self._renew_at = 0.0

    def token(self) -> Token:
        """Return the present token, or a new one."""
        with self._lock:
            if time.time() >= self._renew_at:
                self._token = self._fetch()
                self._renew_at = time.time() + _RENEW_AT * (self._token.expires - time.time())
            return self._token

    def _fetch(self) -> Token:
        context = ssl.create_default_context()
        if self._ca_file is not None:
            context.load_verify_locations(self._ca_file)
        opener = urllib.request.build_opener(_Stay(), urllib.request.HTTPSHandler(context=context))
        try:
            with opener.open(self._request, timeout=ANSWER_S) as response:
                answer = json.loads(response.read(_MAX_BYTES))
            value, lifetime_s = str(answer["access_token"]), float(answer.get("expires_in") or UNKNOWN_LIFETIME_S)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error)
        except urllib.error.URLError as error:
            raise BusUnavailable(f"kafka.token_url: {self._url} cannot be reached: {error.reason}") from None
        except OSError as error:
            raise BusUnavailable(f"kafka.token_url: {self._url} cannot be reached: {error}") from None
        except (ValueError, KeyError, TypeError):
            raise BusError(f"kafka.token_url: {self._url}: expected an answer of JSON with an access_token") from None
        return Token(value, time.time() + lifetime_s)

    def _refused(self, error: urllib.error.HTTPError) -> NoReturn:
        """Raise an error with the endpoint's reason, if it gives one (RFC 6749, section 5.2)."""
        try:
            answer = json.loads(error.read(_MAX_BYTES))
            detail = f": {answer['error']} {answer.get('error_description', '')}"[:_QUOTED].rstrip()
        except (ValueError, KeyError, TypeError, OSError):
            detail = ""
        if error.code >= 500 or error.code == 429:
            raise BusUnavailable(f"kafka.token_url: {self._url} answers {error.code}{detail}") from None
        raise BusError(
            f"kafka.token_url: {self._url} gives no token, {error.code}{detail}; "
            "check kafka.username, kafka.password and kafka.token_scope"
        ) from None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: a secret is sent only to the address in the settings."""

    def redirect_request(self, *_: object) -> None:
        """Follow no redirect."""


def tokens_of(options: KafkaOptions) -> Tokens:
    """Return the source of tokens in these options."""
    if options.token_file is not None:
        return FileTokens(options.token_file)
    return FetchedTokens(options.token_url, options.username, options.password, options.token_scope, options.ca_file)


def expiry(token: str) -> float | None:
    """Return the expiry time in a JSON web token; None without one, or for another kind of token."""
    try:
        _, claims, _ = token.split(".")
        payload = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(payload["exp"])
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None
