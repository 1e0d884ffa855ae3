"""A server of pages that are good, bad, slow, cut off, packed or protected, as a test says."""

from __future__ import annotations

import base64
import gzip
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server

from tests.brokers.ports import free_port

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from contextlib import ExitStack

    from laggard.pipeline.core.records import Frame


@dataclass
class Served:
    """What is answered to every request, and what was asked.

    Attributes:
        content: the page.
        kind: its content type.
        status: of the answer.
        headers: further ones.
        packed: whether it is packed where the client takes that.
        cut_to: this number of bytes is sent of those that were promised; all where None.
        drip_s: seconds before each byte.
        user: who may read it, `NAME:PASSWORD`.
        token: what may read it.
        asked: headers of each request.

    """

    content: bytes
    kind: str = "text/plain; version=0.0.4"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    packed: bool = False
    cut_to: int | None = None
    drip_s: float = 0.0
    user: str = ""
    token: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def served(what: Served, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve it on a free port of the loopback; gives the base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            what.asked.append(dict(self.headers.items()))
            # A connection closed on unread bytes is reset, which can discard the answer on its way.
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            allowed = f"Basic {base64.b64encode(what.user.encode()).decode()}" if what.user else f"Bearer {what.token}"
            if (what.user or what.token) and self.headers.get("Authorization") != allowed:
                self.answer(401, b"who are you?\n", {})
                return
            content, headers = what.content, dict(what.headers)
            if what.packed and "gzip" in self.headers.get("Accept-Encoding", ""):
                content = gzip.compress(content)
                headers["Content-Encoding"] = "gzip"
            self.answer(what.status, content, headers)

        do_POST = do_GET  # noqa: N815 - as the library calls it

        def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": what.kind, "Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            sent = content[: what.cut_to]
            try:
                if what.drip_s:
                    for byte in sent:
                        time.sleep(what.drip_s)
                        self.wfile.write(bytes([byte]))
                else:
                    self.wfile.write(sent)
            except OSError:
                pass  # whoever asked has gone
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # what clients do wrong is what tests are about
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def exposed(stack: ExitStack, registry: CollectorRegistry) -> str:
    """The host and port at which prometheus_client serves what is in a registry."""
    port = free_port()
    server, thread = start_http_server(port, "127.0.0.1", registry)
    stack.callback(thread.join)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    return f"127.0.0.1:{port}"


def features(frame: Frame) -> dict[str, float]:
    """Of its first row."""
    return dict(zip(frame.layout.features, frame.values[0].tolist(), strict=True))
