"""What a person is told when Grafana refuses or cannot be reached, what is tried again, and what is never sent."""

from __future__ import annotations

import itertools
import json
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from laggard.pipeline.cli import run
from laggard.pipeline.cli.exits import FAILED, UNAVAILABLE, USAGE
from laggard.pipeline.grafana.client import Grafana, grafana_of
from laggard.pipeline.grafana.connection import ATTEMPTS, LONGEST_PAUSE_S
from laggard.pipeline.grafana.errors import GrafanaError, GrafanaUnavailable
from laggard.pipeline.grafana.version import Version
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import SettingError
from tests.grafana.stand_in import TOKEN, StandIn, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with running("12.1") as found:
        yield found


def connected(stand_in: StandIn, pauses: list[float] | None = None, **more: Any) -> Grafana:
    return Grafana(stand_in.url, more.pop("token", TOKEN), sleep=([] if pauses is None else pauses).append, **more)


REFUSALS = [
    (400, {"message": "bad"}, "it takes the request for wrong (400). It says: bad"),
    (401, {"message": "Invalid API key"}, "it does not know the token; expected one of a service account in grafana.t"),
    (403, {"message": "no"}, "the token may not; expected the right folders:read (403). It says: no"),
    (409, {"message": "taken"}, "something else stands in its place (409). It says: taken"),
    (412, {"message": "stale", "status": "version-mismatch"}, "somebody has changed it meanwhile; try again (412)"),
    (418, {"error": "teapot"}, "it takes the request for wrong (418). It says: teapot"),
    (422, {"message": "Quota reached"}, "it takes it for invalid, or a quota is used up (422). It says: Quota"),
    # Errors that the library itself stumbles over.
    (403, ["message"], "expected the right folders:read (403). It says: ['message']"),
    (403, "a message", "expected the right folders:read (403). It says: a message"),
    (403, None, "expected the right folders:read (403)."),
    (403, 7, "expected the right folders:read (403). It says: 7"),
]


@pytest.mark.parametrize(("status", "body", "said"), REFUSALS, ids=lambda value: str(value)[:20])
def test_each_refusal_is_said(stand_in: StandIn, status: int, body: Any, said: str) -> None:
    stand_in.fail("/folders/laggard", status, body)
    if body is None:
        stand_in.failures[-1].body = None
    with connected(stand_in) as grafana, pytest.raises(GrafanaError) as raised:
        grafana.folder("laggard")
    assert str(raised.value).startswith(f"Grafana at {stand_in.url} was to read folder laggard: ")
    assert said in str(raised.value)
    assert raised.value.status == status
    assert not isinstance(raised.value, GrafanaUnavailable)
    assert len(stand_in.calls) == 1


def test_a_page_of_a_proxy_is_not_repeated(stand_in: StandIn) -> None:
    stand_in.fail("/folders/laggard", 403, "<html>" + "x" * 5000, headers={"Content-Type": "text/html"})
    stand_in.fail("/folders/laggard", 403, "x " * 5000, headers={"Content-Type": "text/plain"})
    with connected(stand_in) as grafana:
        for at_most in (150, 500):
            with pytest.raises(GrafanaError) as raised:
                grafana.folder("laggard")
            assert len(str(raised.value)) < at_most


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_go_away_is_tried_again(stand_in: StandIn, status: int) -> None:
    pauses: list[float] = []
    stand_in.fail("/folders/laggard", status, times=ATTEMPTS - 1)
    with connected(stand_in, pauses) as grafana:
        assert grafana.folder("laggard") is None
        assert len(pauses) == ATTEMPTS - 1
        assert all(later > before for before, later in itertools.pairwise(pauses))
        stand_in.fail("/folders/laggard", status, times=ATTEMPTS)
        with pytest.raises(GrafanaUnavailable) as raised:
            grafana.folder("laggard")
    assert raised.value.status == status


@pytest.mark.parametrize(("asked", "paused"), [("7", 7.0), ("86400", LONGEST_PAUSE_S), ("0", 0.0)])
def test_it_waits_as_long_as_it_is_asked_to(stand_in: StandIn, asked: str, paused: float) -> None:
    pauses: list[float] = []
    stand_in.fail("/folders/laggard", 429, headers={"Retry-After": asked})
    with connected(stand_in, pauses) as grafana:
        grafana.folder("laggard")
    assert pauses == [paused]


def test_a_change_that_may_have_been_made_is_not_made_again(stand_in: StandIn) -> None:
    """A proxy that times out does not say what Grafana did."""
    note = {"time": 1000, "tags": ["laggard"], "text": "slow"}
    stand_in.fail("/annotations", 502, after=True)
    with connected(stand_in) as grafana:
        with pytest.raises(GrafanaUnavailable):
            grafana.annotations.create(note)
        assert len(stand_in.annotations) == 1
        stand_in.fail("/annotations", 503)
        grafana.annotations.create(note)
    assert len(stand_in.annotations) == 2


def test_an_answer_without_a_body_is_no_error(stand_in: StandIn) -> None:
    with connected(stand_in) as grafana:
        grafana.alerting.delete_rule("not-there")


def test_something_else_at_that_address(stand_in: StandIn) -> None:
    with connected(stand_in) as grafana:
        stand_in.fail("/health", 200, "<html>Log in</html>", headers={"Content-Type": "text/html"})
        with pytest.raises(GrafanaError, match=r"is no Grafana's API: .* is there a proxy with a page to log in"):
            grafana.version()
        stand_in.fail("/health", 200, {"status": "green"})
        with pytest.raises(GrafanaError, match=r"is no Grafana; expected its address in grafana.url"):
            grafana.version()
        stand_in.fail("/health", 404, "nothing here")
        with pytest.raises(GrafanaError, match=r"there is no Grafana at .*with the path that it is served under"):
            grafana.version()
        stand_in.fail("/folders/laggard", 200, [])
        with pytest.raises(GrafanaError, match="was to read folder laggard and answered no object"):
            grafana.folder("laggard")
        stand_in.fail("/v1/provisioning/alert-rules", 200, {})
        with pytest.raises(GrafanaError, match="was to list the alert rules and answered no list"):
            grafana.alerting.rules()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_another_address_is_named_and_gets_no_token(stand_in: StandIn, status: int) -> None:
    with running("12.1") as other:
        stand_in.fail("/health", status, headers={"Location": f"{other.url}/api/health"})
        with connected(stand_in) as grafana, pytest.raises(GrafanaError, match=f"sends on to {other.url}/api/health"):
            grafana.version()
        assert not other.calls


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("12.1.0-247386", (12, 1)),
        ("10.4.19+security-01", (10, 4)),
        ("v11.2.3", (11, 2)),
        ("", (0, 0)),
        ("main", (0, 0)),
    ],
)
def test_versions(text: str, parsed: tuple[int, int]) -> None:
    version = Version.parse(text)
    assert (version.major, version.minor) == parsed
    assert version.keeps_firing == (parsed[0] in {0, 12})


def test_versions_that_are_too_old_and_too_new(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["grafana", "check", "--set", f"grafana.url={stand_in.url}"]
    stand_in.version = "9.5.21"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAGGARD_GRAFANA_TOKEN", TOKEN)
        assert run(arguments) == FAILED
        assert (
            capsys.readouterr().err == f"laggard: Grafana at {stand_in.url} is 9.5.21, too old; expected 10 or newer\n"
        )
        stand_in.version = "14.0.0"
        run(arguments)
        assert "Hint: Grafana 14.0.0 is newer than those that laggard knows (13)" in capsys.readouterr().out
        stand_in.version = ""
        run(arguments)
        assert "Grafana (version hidden) at" in capsys.readouterr().out


def test_below_a_path(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGGARD_GRAFANA_TOKEN", TOKEN)
    with running("12.1", prefix="/tools/grafana") as stand_in:
        for url in (stand_in.url, f"{stand_in.url}/"):
            assert run(["grafana", "publish", "--set", f"grafana.url={url}"]) == 0
        assert run(["grafana", "check", "--set", f"grafana.url={stand_in.url.removesuffix('/grafana')}"]) == FAILED
        assert "there is no Grafana at" in capsys.readouterr().err


def test_check_fails_where_grafana_is_unreachable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGGARD_GRAFANA_TOKEN", TOKEN)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert run(["grafana", "check", "--set", f"grafana.url={url}"]) == UNAVAILABLE
    said = capsys.readouterr().err
    assert re.fullmatch(rf"laggard: Grafana at {url} cannot be reached: [^()]*\[Errno \d+\] Connection refused\n", said)
    assert run(["grafana", "check", "--set", "grafana.url=http://no-such-host.invalid"]) == UNAVAILABLE
    said = capsys.readouterr().err
    assert "cannot be reached: Failed to resolve 'no-such-host.invalid' (" in said
    assert TOKEN not in said


def test_somebody_answers_too_late(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGGARD_GRAFANA_TOKEN", TOKEN)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        given = ["--set", f"grafana.url={url}", "--set", "grafana.timeout=1s"]
        assert run(["grafana", "check", *given]) == UNAVAILABLE
    assert f"Grafana at {url} has not answered within 1 s (setting grafana.timeout)" in capsys.readouterr().err


def test_a_connection_that_breaks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LAGGARD_GRAFANA_TOKEN", TOKEN)
    with socket.socket() as rude:
        rude.bind(("127.0.0.1", 0))
        rude.listen()

        def hang_up() -> None:
            connection, _ = rude.accept()
            connection.recv(100)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"http://127.0.0.1:{rude.getsockname()[1]}"
        assert run(["grafana", "check", "--set", f"grafana.url={url}"]) == UNAVAILABLE
        thread.join()
    assert "cannot be reached" in capsys.readouterr().err


def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "none.pem").write_text("no certificate")
    monkeypatch.setenv("LAGGARD_GRAFANA_TOKEN", TOKEN)
    with running("12.1", tls=context) as stand_in:
        given = ["grafana", "publish", "--set", f"grafana.url={stand_in.url}"]
        assert run(given) == FAILED
        err = capsys.readouterr().err
        assert f"the TLS connection to Grafana at {stand_in.url} failed: " in err
        assert "certificate verify failed" in err
        assert "expected its authority in grafana.ca_file" in err
        assert not stand_in.calls
        assert run([*given, "--set", f"grafana.ca_file={tmp_path / 'none.pem'}"]) == FAILED
        assert "grafana.ca_file" in capsys.readouterr().err
        assert run([*given, "--set", f"grafana.ca_file={tmp_path / 'nothing.pem'}"]) == USAGE
        assert "nothing.pem: expected a file" in capsys.readouterr().err
        assert run([*given, "--set", f"grafana.ca_file={tmp_path / 'ca.pem'}"]) == 0
        other = [*given[:-1], f"grafana.url={stand_in.url.replace('https', 'http')}"]
        assert run(other) == UNAVAILABLE


def test_the_token(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    given = ["grafana", "check", "--json", "--set", f"grafana.url={stand_in.url}"]
    assert run(given) == USAGE
    assert (
        "grafana.token is not set; expected a service account's token in it or in grafana.tok"
        in capsys.readouterr().err
    )
    assert run([*given, "--set", f"grafana.token={TOKEN}"]) == USAGE
    assert TOKEN not in capsys.readouterr().err
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert run([*given, "--set", f"grafana.token_file={file}"]) == FAILED  # nothing is published
    assert json.loads(capsys.readouterr().out)["version"] == stand_in.version
    monkeypatch.setenv("LAGGARD_GRAFANA_TOKEN", "glsa_another")
    assert run(given) == FAILED
    err = capsys.readouterr().err
    assert "it does not know the token" in err
    assert "glsa_another" not in err
    assert run([*given, "--set", f"grafana.token_file={file}"]) == USAGE


@pytest.mark.parametrize(
    "url",
    [
        "grafana.example.com",
        "ftp://grafana",
        "https://",
        "http://u:p@host",
        "http://host:port",
        "http://h/?a=1",
        "http://[",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(SettingError, match=r"grafana.url is .*; expected where Grafana is"):
        read_settings(environ={"LAGGARD_GRAFANA_URL": url})


def test_what_does_not_fit_together(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    environ = {
        "LAGGARD_GRAFANA_URL": "http://host",
        "LAGGARD_GRAFANA_TOKEN": "two words",
        "LAGGARD_GRAFANA_CA_FILE": str(tmp_path / "ca.pem"),
        "HOME": str(tmp_path),
    }
    with pytest.raises(SettingError) as raised:
        grafana_of(read_settings(environ=environ))
    assert raised.value.problems == (
        "LAGGARD_GRAFANA_TOKEN: grafana.token: expected nothing but a token",
        "LAGGARD_GRAFANA_CA_FILE: grafana.ca_file is given, but grafana.url is not https; expected it",
    )
    with pytest.raises(SettingError, match=r"grafana.url is not set; expected where Grafana is"):
        grafana_of(read_settings(environ={"HOME": str(tmp_path)}))


def test_an_ipv6_address() -> None:
    with Grafana("https://[2001:db8::1]:3000/x/", "token") as grafana:
        assert grafana.face.api.url == "https://[2001:db8::1]:3000/x/api"
        assert grafana.url == "https://[2001:db8::1]:3000/x"


def test_names_are_quoted(stand_in: StandIn) -> None:
    """Uids and tags have what others put into them."""
    with connected(stand_in) as grafana:
        assert grafana.dashboard("a/b?c#d") is None
        assert stand_in.calls[-1] == ("GET", "/dashboards/uid/a%2Fb%3Fc%23d")
        assert grafana.alerting.group("laggard", "a/b c") is None
        stand_in.annotations[1] = {"id": 1, "time": 5000, "timeEnd": 5000, "tags": ["host:a&b=c d", "x"], "text": ""}
        assert [found["id"] for found in grafana.annotations.find(["host:a&b=c d", "x"])] == [1]
        assert grafana.annotations.find(["host:a"]) == []


def test_a_query_that_fails(stand_in: StandIn) -> None:
    now_ms = round(1000 * time.time())
    with connected(stand_in) as grafana:
        bodies: tuple[Any, ...] = ({}, {"results": []}, {"results": {"A": {"frames": [{"data": {}}]}}})
        for body in bodies:
            stand_in.fail("/ds/query", 200, body)
            with pytest.raises(GrafanaError, match="answered no series when it was to ask data source prom-1"):
                grafana.query("prom-1", "up", start_ms=0, end_ms=now_ms)
        stand_in.fail("/ds/query", 200, {"results": {"A": {"error": "parse error", "status": 400}}})
        with pytest.raises(GrafanaError, match="could not ask data source prom-1: parse error"):
            grafana.query("prom-1", "up", start_ms=0, end_ms=now_ms)
        stand_in.answer = lambda *_: [({"a": "b"}, [(1.0, 2.0)]), ({}, [])]
        found = grafana.query("prom-1", "up", start_ms=0, end_ms=now_ms)
    assert [(dict(series.labels), series.points) for series in found] == [({"a": "b"}, ((1.0, 2.0),)), ({}, ())]


def test_without_the_library_it_is_said_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['grafana_api'] = None; from laggard.pipeline.cli import run\n"
        "sys.exit(run(['grafana', 'check', '--set', 'grafana.url=http://host']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == FAILED
    assert "`laggard grafana` needs grafana-api, which is not installed; pip " in ended.stderr
    assert "laggard[grafana]" in ended.stderr
