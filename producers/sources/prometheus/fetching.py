"""One page over HTTP, within bounds of time and size: only `fetch` touches the network here.

Redirects are not followed, so that no password goes to another server. Proxies of the environment are not used, as in
Prometheus itself.
"""

from __future__ import annotations

import base64
import http.client
import os
import socket
import ssl
import threading
import time
import urllib.parse
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AGENT: Final = "laggard"
_SECRET_BYTES: Final = 64 << 10
_CHUNK: Final = 64 << 10
_QUOTED: Final = 200
_GZIP: Final = 16 + zlib.MAX_WBITS


class FetchError(Exception):
    """A page cannot be fetched: what was found and what was expected, without the address."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A password or a token: the only line of a file, or the value of a variable; read when needed.

    Attributes:
        file: the path of the file, None without one.
        variable: the name of the variable, empty without one.

    """

    file: Path | None = None
    variable: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.variable)

    def read(self) -> str:
        """Return the secret. Raises `FetchError` if it is missing."""
        if self.file is None:
            if found := os.environ.get(self.variable):
                return found
            raise FetchError(f"the environment variable {self.variable} is not set: expected a secret in it")
        try:
            with self.file.open("rb") as file:
                content = file.read(_SECRET_BYTES)
            line = content.decode().strip("\r\n")
        except OSError as error:
            raise FetchError(f"cannot read the secret in {self.file}: {error.strerror}") from None
        except UnicodeDecodeError:
            line = ""
        if not line or not line.isprintable():
            raise FetchError(f"{self.file}: expected one line with the secret")
        return line


@dataclass(frozen=True, slots=True)
class Access:
    """The access to pages.

    Attributes:
        timeout_s: the longest time for a whole page, in seconds.
        max_bytes: the largest size of a page, as received and unpacked.
        username: for basic authentication with `password`; empty for none.
        password: see `username`.
        token: a bearer token.
        ca_file: the trusted certificate authorities, as PEM; None for the usual ones.
        certificate_file: the client certificate, as PEM; None for none.
        key_file: its key; None if it is in the same file.

    """

    timeout_s: float = 5.0
    max_bytes: int = 32 << 20
    username: str = ""
    password: Secret = field(default_factory=Secret)
    token: Secret = field(default_factory=Secret)
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of authentication. Raises `FetchError` if a secret is missing."""
        if self.token:
            return {"Authorization": f"Bearer {self.token.read()}"}
        if self.username:
            credentials = f"{self.username}:{self.password.read()}".encode()
            return {"Authorization": f"Basic {base64.b64encode(credentials).decode()}"}
        return {}

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. It reads certificates again, since they expire. Raises `FetchError` for bad ones."""
        try:
            context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
            if self.certificate_file is not None:
                key = None if self.key_file is None else str(self.key_file)
                context.load_cert_chain(str(self.certificate_file), key, password="")
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            files = ", ".join(str(each) for each in (self.ca_file, self.certificate_file, self.key_file) if each)
            reason = getattr(error, "strerror", None) or str(error)
            raise FetchError(f"expected certificates as PEM in {files}: {reason}") from None
        return context


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page.

    Attributes:
        content: the unpacked content.
        content_type: its type, as the server states it.

    """

    content: bytes
    content_type: str


def fetch(url: str, access: Access, headers: Mapping[str, str], form: Mapping[str, str] | None = None) -> Fetched:
    """Get a page, or post a form and return the answer. Raises `FetchError`."""
    parts = urllib.parse.urlsplit(url)
    request_headers = {"User-Agent": AGENT, "Accept-Encoding": "gzip", **headers, **access.headers()}
    body = None
    if form is not None:
        body = urllib.parse.urlencode(form).encode()
        request_headers["Content-Type"] = "application/x-www-form-urlencoded"
    client: http.client.HTTPConnection
    assert parts.hostname is not None
    if parts.scheme == "https":
        client = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=access.timeout_s, context=access.context()
        )
    else:
        client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=access.timeout_s)
    path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    in_time = f"expected the whole page within {access.timeout_s:g} s"
    late = threading.Event()
    until = time.monotonic() + access.timeout_s
    connected: list[socket.socket] = []

    def end() -> None:
        # The timeout of a socket applies to each part of a page: one byte per second would last forever.
        late.set()
        for connection in (*connected, *filter(None, (client.sock,))):
            with suppress(OSError):  # it is closed already
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    watchdog = threading.Timer(access.timeout_s, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        client.connect()
        connected.append(client.sock)  # the connection forgets the socket once the answer has begun
        client.request("GET" if body is None else "POST", path, body, request_headers)
        answer = client.getresponse()
        content = _content(answer, access.max_bytes)
        if late.is_set() or time.monotonic() > until:
            raise TimeoutError
        return Fetched(content, answer.getheader("Content-Type", ""))
    except FetchError:
        if late.is_set():  # the watchdog cut it off
            raise FetchError(in_time) from None
        raise
    except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise FetchError(in_time) from None
        raise FetchError(_message(error)) from None
    finally:
        watchdog.cancel()
        client.close()


def _content(answer: http.client.HTTPResponse, max_bytes: int) -> bytes:
    """Return the unpacked page. Raises `FetchError` if there is none or it is too large, and errors of the reading."""
    encoding = answer.getheader("Content-Encoding", "identity").strip().lower()
    if encoding not in {"identity", "", "gzip"}:
        raise FetchError(f"expected a page with gzip compression or none, got {encoding[:_QUOTED]!r}")
    unpacking = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    parts: list[bytes] = []
    size = came = 0
    while chunk := answer.read1(_CHUNK):
        came += len(chunk)
        # One byte more than allowed shows that it is too large, however far the rest would unpack.
        part = chunk if unpacking is None else unpacking.decompress(chunk, max_bytes + 1 - size)
        parts.append(part)
        size += len(part)
        if size > max_bytes or came > max_bytes:
            raise FetchError(f"expected a page of at most {max_bytes:,} bytes (max_bytes)")
    if answer.length:
        raise FetchError(f"the page is truncated: {answer.length:,} bytes are missing")
    if unpacking is not None and not unpacking.eof:
        raise FetchError("the page is truncated: its gzip data is incomplete")
    content = b"".join(parts)
    if answer.status != http.HTTPStatus.OK:
        raise FetchError(_refusal(answer, content))
    return content


def _refusal(answer: http.client.HTTPResponse, content: bytes) -> str:
    problem = f"expected 200 OK, got {answer.status} {answer.reason}".rstrip()
    if location := answer.getheader("Location"):
        return f"{problem} to {location[:_QUOTED]!r}; use that address instead"
    if answer.status in {http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN}:
        return f"{problem}; check username and password_file, or token_file"
    first = content[:_QUOTED].decode(errors="replace").partition("\n")[0]
    return f"{problem}: {first}" if first.isprintable() and first.strip() else problem


def _message(error: Exception) -> str:
    message = f"cannot be reached: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
    match error:
        case ssl.SSLCertVerificationError():
            message = f"its certificate is not trusted: {error.verify_message}; check ca_file"
        case ssl.SSLError():
            message = f"TLS failed: {error.reason or error}"
        case http.client.IncompleteRead():
            message = "the page is truncated"
        case http.client.HTTPException() | ValueError():
            message = f"expected an HTTP response: {type(error).__name__} {str(error)[:_QUOTED]!r}"
        case zlib.error():
            message = f"expected gzip data, as the page declares: {error}"
    return message
