"""Secrets in command lines and names: which are hidden, what stays readable, and what that takes of hostile texts."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.diagnosis.target import find
from laggard.producers.sources.access_log.requests import shown
from laggard.producers.system.proc import parse_command, parse_name
from laggard.producers.system.redaction import LONGEST, NAMES, PROGRAMS, Redactor, configure, redact
from laggard.producers.trace.steady import asked_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def configured() -> Iterator[None]:
    """Says what is hidden as it was before, afterward."""
    yield
    configure()


# In each `|` is the NUL between two arguments, and hunter2 the secret.
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("serve|--password=hunter2 x|--port=1", "serve --password=*** --port=1"),
        ("serve|--db-password|hunter2 x|-v", "serve --db-password *** -v"),
        ("serve|--Pass|hunter2", "serve --Pass ***"),
        ("java|-Dspring.datasource.password=hunter2|-jar|x.jar", "java -Dspring.datasource.password=*** -jar x.jar"),
        ("env|AWS_SECRET_ACCESS_KEY=hunter2|x", "env AWS_SECRET_ACCESS_KEY=*** x"),
        ("env|PGPASSWORD=hunter2|MYSQL_PWD=hunter2|x", "env PGPASSWORD=*** MYSQL_PWD=*** x"),
        ("x|dbPass=hunter2|password2=hunter2", "x dbPass=*** password2=***"),
        ("x|--api-key=hunter2|--apikey|hunter2|--API_KEY|hunter2", "x --api-key=*** --apikey *** --API_KEY ***"),
        ("keytool|-storepass|hunter2|-keypass|hunter2", "keytool -storepass *** -keypass ***"),
        ("redis-server|--requirepass|hunter2|--masterauth|hunter2", "redis-server --requirepass *** --masterauth ***"),
        ("beam.smp|-setcookie|hunter2|-x", "beam.smp -setcookie *** -x"),
        ("openssl|rsa|-passin|pass:hunter2", "openssl rsa -passin pass:***"),
        ('sh|-c|x --password="a hunter2" -v > f', "sh -c x --password=*** -v > f"),
        ("sh|-c|x --password 'a hunter2' -v", "sh -c x --password *** -v"),
        ("sh|-c|x --password=a\\ hunter2 -v", "sh -c x --password=*** -v"),
        ("sh|-c|mysql -uroot -phunter2 db; curl -u me:hunter2 x", "sh -c mysql -uroot -p*** db; curl -u *** x"),
        ("/usr/bin/mysqladmin|-uroot|-phunter2|ping", "/usr/bin/mysqladmin -uroot -p*** ping"),
        ("sshpass|-p|hunter2|ssh|host", "sshpass -p *** ssh host"),
        ("sudo|sshpass|-phunter2|ssh", "sudo sshpass -p*** ssh"),
        ("curl|-sSu|me:hunter2|https://x/y", "curl -sSu *** https://x/y"),
        ("curl|--user|me:hunter2|--proxy-user=me:hunter2|x", "curl --user *** --proxy-user=*** x"),
        ("curl|--user-agent|me|x", "curl --user-agent me x"),
        ("plink|-pw|hunter2|host", "plink -pw *** host"),
        ("redis-cli|-h|x|-a|hunter2|ping", "redis-cli -h x -a *** ping"),
        ("ldapsearch|-x|-w|hunter2|-b|dc=x", "ldapsearch -x -w *** -b dc=x"),
        ("curl|-H|Authorization: Basic hunter2|x", "curl -H Authorization: *** x"),
        ('sh|-c|curl -H "Cookie: a=hunter2; b=hunter2" x', 'sh -c curl -H "Cookie: ***" x'),
        ("x|--header|X-Auth: Bearer hunter2hunter2", "x --header X-Auth: ***"),
        ("x|bearer hunter2hunter2", "x bearer ***"),
        ("wget|https://x/y?a=b&access_token=hunter2&c=d", "wget https://x/y?a=b&access_token=***&c=d"),
        ("wget|https://x/y?key=hunter2&sig=hunter2#z", "wget https://x/y?key=***&sig=***#z"),
        ("x|postgres://shop:hunter2@db:5432/shop", "x postgres://shop:***@db:5432/shop"),
        ("x|redis://:hun/t@hunter2@r:6379/0", "x redis://:***@r:6379/0"),
        ("x|host=db password=hunter2 dbname=x", "x host=db password=*** dbname=x"),
        ('curl|-d|{"user":"a","password":"hunt\\"hunter2","x":1}', 'curl -d {"user":"a","password":***,"x":1}'),
        (
            'sh|-c|curl -d "{\\"token\\": \\"hunter2\\", \\"x\\": 1}"',
            'sh -c curl -d "{\\"token\\": ***\\", \\"x\\": 1}"',
        ),
        ("psql|-c|ALTER USER a PASSWORD 'hunter2'", "psql -c ALTER USER a PASSWORD ***"),
        ("mysql|-e|SET x IDENTIFIED BY 'hunter2';", "mysql -e SET x IDENTIFIED BY ***;"),
        ("worker: password=hunter2", "worker: password=***"),
        ("x|пароль|--token=hunter2", "x пароль --token=***"),
        ("İ|--token=hunter2", "İ --token=***"),
    ],
)
def test_secrets_are_hidden(arguments: str, shown: str) -> None:
    assert parse_command(arguments.replace("|", "\0").encode() + b"\0") == shown


@pytest.mark.parametrize(
    "key",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "Sy0-_" * 7,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2_" * 12,
        "glpat-" + "a1B2-" * 4,
        "xoxb-1234567890-abcdef",
        "sk-ant-api03-" + "a1B2-" * 10,
        "sk_live_" + "a1B2" * 6,
        "hvs." + "a1B2" * 6,
        "npm_" + "a1B2" * 9,
        "pypi-" + "a1B2-" * 20,
        "SG." + "a1B2-" * 4 + "." + "a1B2-" * 8,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
    ],
)
def test_keys_are_known_by_their_shape(key: str) -> None:
    assert parse_command(f"run\0{key}\0last".encode()) == "run *** last"
    assert parse_command(f"run\0--to={key}".encode()) == "run --to=***"


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve --max-tokens=4096 --tokenizer=mistral --tokenizer-mode auto",
        "x --password-file=/run/secrets/x --secret-name=a --passwords-from f",
        "x --bypass=a --compass north --design=a --keyboard us --key /etc/x.pem",
        "x --password --verbose",
        "postgres: shop shop 10.0.0.1(4444) idle in transaction",
        "sshd: alice [priv]",
        "containerd-shim -id 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "x http://host:4873/@scope/pkg ssh://git@host/x http://[::1]:9464 http://127.0.0.1:80",
        "mkdir -p /tmp/x; tar -p x; curl -O https://x/y; redis-cli ping",
        "/usr/lib/systemd/systemd --switched-root --system --deserialize 31",
        "python3 -m gunicorn shop:app -w 4 --bind unix:/run/x.sock",
    ],
)
def test_the_rest_stays_readable(line: str) -> None:
    assert parse_command(line.replace(" ", "\0").encode()) == line
    assert redact(line) == line


def test_what_is_cut_lets_no_secret_through() -> None:
    """The line is cut before it is searched, and what is hidden makes it shorter."""
    for place in range(150, 820):
        line = b"x\0" + b"--token=" + b"a" * 80 + b"\0" + b"b" * (place - 92)
        for secret in (b"\0--password=" + b"hunter2" * 200, b"\0http://me:" + b"hunter2" * 30 + b"@x"):
            assert "hunter2" not in parse_command(line + secret), place


def test_real_processes_do_not_tell(tmp_path: Path) -> None:
    """As the kernel has a command line: the agent's reader, and what profiles a process."""
    program = subprocess.Popen([sys.executable, "-c", "input()", "--password=hunter2"], stdin=subprocess.PIPE)
    try:
        place = Path(f"/proc/{program.pid}/cmdline")
        while b"hunter2" not in place.read_bytes():  # until it has called exec
            assert program.poll() is None
        assert parse_command(place.read_bytes()).endswith("input() --password=***")
        assert find(program.pid).command.endswith("input() --password=***")
    finally:
        program.kill()
        program.communicate()


def test_an_unreadable_log_line_is_shown_redacted_and_cut() -> None:
    line = b'10.0.0.1 - - "GET /reset?token=' + b"hunter2" * 100 + b'&page=2 HTTP/1.1" 200'
    assert shown(line) == """'10.0.0.1 - - "GET /reset?token=***&page=2 HTTP/1.1" 200'"""
    assert shown(line, 40) == """'10.0.0.1 - - "GET /reset?token=***&page='..."""


def test_names_of_threads_and_of_what_was_asked() -> None:
    assert parse_name(b"token=hunter2", kernel_thread=False) == "token=***"
    assert asked_for("GET /x/password=hunter2?token=hunter2") == "GET /x/password=***"
    assert asked_for("SELECT 1 /* token='hunter2' */") == "SELECT 1 /* token=*** */"


@pytest.mark.usefixtures("configured")
def test_names_may_be_added_and_hiding_be_turned_off() -> None:
    line = b"x\0--shop-pin=hunter2\0--kennwort\0hunter2\0--password=hunter2"
    assert parse_command(line) == "x --shop-pin=hunter2 --kennwort hunter2 --password=***"
    configure(more=["Shop_PIN", "kennwort", "."])
    assert parse_command(line) == "x --shop-pin=*** --kennwort *** --password=***"
    configure(enabled=False)
    assert parse_command(line) == "x --shop-pin=hunter2 --kennwort hunter2 --password=hunter2"


def test_every_name_and_program_that_is_listed_works() -> None:
    for name in NAMES:
        for form in {name, name.replace("_", "-"), name.replace("_", ""), name.upper(), f"my-{name}"} - {
            "identified_by"
        }:
            assert redact(f"x\0--{form}=hunter2") == f"x\0--{form}=***"
    for programs, letters, apart in PROGRAMS:
        for program in programs.split("|"):
            for letter in letters:
                assert redact(f"/bin/{program}\0-{letter}hunter2\0x") == f"/bin/{program}\0-{letter}***\0x"
                separate = redact(f"/bin/{program}\0-{letter}\0hunter2")
                assert ("hunter2" not in separate) == bool(apart), program


HOSTILE = (
    *("password=", "--password ", 'password="', 'password \\"', "token 'token \"", "password '", "pass", "api-", "%3d"),
    *("a" * 200 + "-token ", "://a:", "://", "-eyJ", "eyJ.", "sk-", "pk-a", "xoxb-", "SG.", "hvs.", "github_pat_"),
    *("-----BEGIN ", "-----BEGIN A", "bearer ", "bearer%20", "?key=", "&sig=", "authorization: ", "cookie:'"),
    *("\\", "'", '"', "a", "-", "é", "\0", " ", "-p", " -u\0", "curl -u", "curl\0-u", "curl -fgikLN", "mysql -p"),
    *("zip -P ", "a.b-c_", "api key "),
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_grows_at_most_linearly(piece: str) -> None:
    """Of a text that is not cut; a pattern that goes back over what it has passed takes 100 times as long for 10."""
    redactor = Redactor(("kennwort",))

    def took_s(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length]
        best = float("inf")
        for _ in range(4):
            begin = time.thread_time()
            redactor.redact(text)
            best = min(best, time.thread_time() - begin)
        return best

    assert took_s(100_000) < 40.0 * max(took_s(10_000), 50e-6)


def test_a_text_is_cut_before_it_is_searched() -> None:
    assert redact("a" * 100_000) == "a" * LONGEST
    assert len(parse_command(b"a" * 100_000)) == 200


@given(*[st.text(alphabet=st.sampled_from("pas=: -'\"\\\0?&/@.tokenéİ\ud800"), max_size=60)] * 2)
def test_whatever_stands_around_an_option_its_value_is_hidden(before: str, behind: str) -> None:
    assert "hunter2" not in redact(f"{before}\0--password=hunter2\0{behind}")
    assert "hunter2" not in redact(f"{before}\0--password\0hunter2\0{behind}")
