"""The commands that look after what laggard is made of: the audit of the locks, and the digest of the base image."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.brokers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "deploy/locks"
VULNERABLE: dict[str, Any] = {
    "id": "GHSA-0000-0000-0000",
    "summary": "made for a test",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "click"}, "ranges": [], "versions": []}],
}


class _Osv(BaseHTTPRequestHandler):
    """Answers as osv.dev does: one package is vulnerable, if any."""

    vulnerable = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["package"]["name"]
        body = json.dumps({"vulns": [VULNERABLE]} if name == self.vulnerable else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def osv() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Osv) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        server.shutdown()
        _Osv.vulnerable = ""


def audited(url: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """By a checkout of its own: its environment is this one."""
    locks = tmp_path / "deploy/locks"
    locks.mkdir(parents=True)
    for path in (LOCKS / "audit", *LOCKS.glob("*.txt")):
        shutil.copy(path, locks)
    command: list[str | Path] = [locks / "audit", "--vulnerability-service", "osv", "--osv-url", url]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_PROXY": "127.0.0.1"}
    command += ["--cache-dir", tmp_path / "cache"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_no_known_vulnerability(osv: str, tmp_path: Path) -> None:
    done = audited(osv, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_known_vulnerability_is_named(osv: str, tmp_path: Path) -> None:
    _Osv.vulnerable = "click"
    done = audited(osv, tmp_path)
    assert done.returncode == 1
    assert "audit: laggard.txt has packages with known vulnerabilities" in done.stderr
    assert VULNERABLE["id"] in done.stdout


def test_a_service_that_cannot_be_reached_is_no_clean_bill(tmp_path: Path) -> None:
    done = audited(f"http://127.0.0.1:{free_port()}/v1/query", tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "audit: laggard.txt was not audited: the vulnerability service cannot"
    )


DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def pinned(tmp_path: Path, answer: str, *arguments: str) -> tuple[int, str, str]:
    """What becomes of the Dockerfile, where `docker` only answers."""
    (tmp_path / "deploy/locks").mkdir(parents=True)
    shutil.copy(LOCKS / "pin-image", tmp_path / "deploy/locks")
    shutil.copy(ROOT / "deploy/Dockerfile", tmp_path / "deploy")
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\necho "{answer}"\n')
    (tmp_path / "docker").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command: list[str | Path] = [tmp_path / "deploy/locks/pin-image", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    lines = (tmp_path / "deploy/Dockerfile").read_text().splitlines()
    (base,) = [line for line in lines if line.startswith("ARG PYTHON=")]
    return done.returncode, base, done.stderr


def test_the_base_image_is_pinned(tmp_path: Path) -> None:
    code, base, _ = pinned(tmp_path, DIGEST)
    tag = (tmp_path / "asked").read_text().split()[3]
    assert (code, base) == (0, f"ARG PYTHON={tag}@{DIGEST}")
    assert tag.startswith("docker.io/library/python:3.11.")


def test_another_tag_is_pinned(tmp_path: Path) -> None:
    image = "docker.io/library/python:3.13.1-slim-bookworm"
    assert pinned(tmp_path, DIGEST, image)[:2] == (0, f"ARG PYTHON={image}@{DIGEST}")


def test_no_digest_changes_nothing(tmp_path: Path) -> None:
    code, base, said = pinned(tmp_path, "no such image")
    assert code == 1
    assert base in (ROOT / "deploy/Dockerfile").read_text().splitlines()
    assert "expected a digest of docker.io/library/python:3.11." in said
