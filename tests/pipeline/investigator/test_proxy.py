"""The page behind a real nginx, with the configuration that its document gives."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.brokers.ports import free_port
from tests.brokers.processes import start
from tests.pipeline.investigator.serving import served
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).parents[3] / "deploy/docs/operations/access.md"

CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; user root;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location = /oauth2/auth {{ internal; proxy_pass http://127.0.0.1:{people}; }}
        {documented}
    }}
}}
"""


class _People(BaseHTTPRequestHandler):
    """Knows people by their cookie, as oauth2-proxy does."""

    def do_GET(self) -> None:
        _, _, who = (self.headers["Cookie"] or "").partition("person=")
        self.send_response(202 if who else 401)
        if who:
            self.send_header("X-Auth-Request-Email", who)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def people() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _People) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def await_port(port: int, log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        else:
            return


@pytest.mark.slow
def test_a_proxy_set_up_as_the_document_says(tmp_path: Path) -> None:
    (documented,) = re.findall(r"```nginx\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    given = {"serve_proxies": "127.0.0.1", "serve_editors": "*@ops.example", "serve_hosts": "laggard.example.com"}
    port = free_port()
    with served(tmp_path / "bus.db", **given) as page, people() as knows:
        written = CONFIGURATION.format(
            folder=tmp_path,
            port=port,
            people=knows,
            documented=documented.replace("http://127.0.0.1:9463", page.url),
        )
        (tmp_path / "nginx.conf").write_text(written)
        url = f"http://127.0.0.1:{port}"
        log = tmp_path / "error.log"
        process = start(
            [path_of("nginx"), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", str(log)],
            subprocess.DEVNULL,
        )
        try:
            await_port(port, log)
            name = {"Host": "laggard.example.com", "Origin": "http://laggard.example.com"}
            with httpx.Client(base_url=url, headers=name, timeout=120) as stranger:
                assert (
                    stranger.get("/api/v1/cluster", headers={"X-Forwarded-User": "ada@ops.example"}).status_code == 401
                )
            with httpx.Client(base_url=url, headers=name, cookies={"person": "ada@ops.example"}, timeout=120) as ada:
                told = ada.get("/api/v1/cluster", headers={"X-Forwarded-User": "grace@ops.example"}).json()
                assert (told["who"], told["writes"]) == ("ada@ops.example", True), "the proxy replaces what is said"
                assert ada.post("/api/v1/marks", json={"host": "web-1", "note": "slow"}).status_code == 201
                evil = {"Origin": "http://evil.example"}
                assert ada.post("/api/v1/marks", json={"host": "web-1"}, headers=evil).status_code == 403
                with ada.stream("GET", "/api/v1/live") as news:
                    assert next(news.iter_lines()) == "retry: 2000", "at once: nothing keeps it back"
            with httpx.Client(base_url=url, headers=name, cookies={"person": "eve@example.com"}, timeout=120) as eve:
                told = eve.get("/api/v1/cluster").json()
                assert (told["who"], told["writes"]) == ("eve@example.com", False)
                assert eve.post("/api/v1/marks", json={"host": "web-1"}).status_code == 403
        finally:
            process.terminate()
            process.wait(timeout=120)
