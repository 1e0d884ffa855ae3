"""Boundaries in real programs: where they are in their files, and that the kernel reports them."""

from __future__ import annotations

import inspect
import json
import os
import socket
import struct
import subprocess
import urllib.request
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.boundaries import usdt
from laggard.producers.trace.boundaries.elf import Program, ProgramError
from laggard.producers.trace.boundaries.functions import Function, function_probes
from laggard.producers.trace.boundaries.php import php_probes, running_interpreters
from laggard.producers.trace.boundaries.probes import FAULT, Probe
from laggard.producers.trace.events import Kind
from laggard.producers.trace.ftrace.recorder import Recorder
from laggard.producers.trace.ftrace.recording import Recording
from tests.monitoring.servers import awaited
from tests.producers.trace.ftrace.programs import TRACES, waiting
from tests.programs import file_of, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

X86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program's probe is written for x86-64")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("probed") / "probed"
    subprocess.run([path_of("cc"), "-O2", "-o", made, Path(__file__).with_name("probed.c")], check=True)
    return made


Bound = tuple[str, int, str]


def bounds(folder: Path) -> list[Bound]:
    found = [
        (Kind(row["kind"]).name, int(row["tid"]), batch.texts[row["text"]], int(row["ts"]))
        for batch in Recording(folder)
        for row in batch.events
        if row["kind"] in (Kind.BEGIN, Kind.END)
    ]
    return [bound[:3] for bound in found]


def recorded(folder: Path, probes: list[Probe], program: Path, lines: str) -> tuple[int, list[Bound]]:
    """The process of a program that reads these lines, and the boundaries that the kernel told."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process, Recorder(folder, probes=probes) as recorder:
        recorder.start()
        process.communicate(lines, timeout=30)
        recorder.stop()
    return process.pid, bounds(folder)


@X86_64
@TRACES
def test_a_probe_with_a_semaphore_and_a_text(program: Path, tmp_path: Path) -> None:
    with Program(program) as opened:
        begin, end = opened.probes()
    assert (begin.provider, begin.name, begin.arguments) == ("shop", "begin", ("8@%rdi", "-4@%esi"))
    assert begin.semaphore
    assert (end.name, end.semaphore, end.arguments) == ("end", 0, ())
    argument = usdt.text_argument("line", begin.arguments[0])
    probes = [
        Probe("shop_begin", usdt.place(program, begin), Kind.BEGIN, "shop", (argument,), ("line",)),
        Probe("shop_end", usdt.place(program, end), Kind.END, "shop"),
    ]
    pid, found = recorded(tmp_path / "folder", probes, program, "GET /cart/12\nGET /\n")
    assert found == [
        ("BEGIN", pid, "shop\tGET /cart/*"),
        ("END", pid, ""),
        ("BEGIN", pid, "shop\tGET /"),
        ("END", pid, ""),
    ]


@TRACES
def test_a_function(program: Path, tmp_path: Path) -> None:
    probes = function_probes(Function("shop", program, "handle"))
    pid, found = recorded(tmp_path / "folder", probes, program, "a\nb\nc\n")
    assert found == [("BEGIN", pid, "shop\thandle"), ("END", pid, "")] * 3


def answers(server: subprocess.Popen[bytes], address: str) -> bool:
    assert server.poll() is None, "PHP has ended"
    try:
        urllib.request.urlopen(f"http://{address}/", timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def php_server(folder: Path) -> Iterator[str]:
    (folder / "index.php").write_text("<?php usleep(1000); echo strlen($_SERVER['REQUEST_URI']);")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with subprocess.Popen([path_of("php"), "-S", address, "-t", folder], stdout=-3, stderr=-3) as process:
        try:
            awaited(lambda: answers(process, address))
            yield f"http://{address}"
        finally:
            process.terminate()


@TRACES
def test_php(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    with php_server(pages) as address:
        interpreters = running_interpreters()
        assert file_of("php") in interpreters
        probes = php_probes(file_of("php"), "blog")
        with Recorder(tmp_path / "folder", probes=probes) as recorder:
            recorder.start()
            # A request ends after its answer: the fourth one waits for the end of the third.
            for number in range(4):
                urllib.request.urlopen(f"{address}/cart/{number}?x=1", timeout=60).close()
            recorder.stop()
    found = bounds(tmp_path / "folder")[:6]
    assert [(kind, text) for kind, _, text in found] == [("BEGIN", "blog\tGET /cart/*"), ("END", "")] * 3
    assert len({thread for _, thread, _ in found}) == 1


def fastcgi(socket_path: Path, **variables: str) -> bytes:
    """The answer to a request of FastCGI."""

    def record(kind: int, body: bytes) -> bytes:
        return struct.pack(">BBHHBx", 1, kind, 1, len(body), 0) + body

    table = b"".join(
        struct.pack(">II", len(key) | 1 << 31, len(value.encode()) | 1 << 31) + key.encode() + value.encode()
        for key, value in variables.items()
    )
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_path))
        client.sendall(record(1, struct.pack(">HB5x", 1, 0)) + record(4, table) + record(4, b"") + record(5, b""))
        return b"".join(iter(lambda: client.recv(4096), b""))


@contextmanager
def php_fpm(folder: Path, page: str, workers: int = 1) -> Iterator[Path]:
    """A pool that serves one script; yields its socket."""
    listens, pool = folder / "fpm.socket", folder / "fpm.conf"
    (folder / "index.php").write_text(page)
    pool.write_text(
        f"[global]\nerror_log = {folder}/log\n[www]\nuser = root\nlisten = {listens}\npm = static\n"
        f"pm.max_children = {workers}\n"
    )
    command = f"{path_of('php-fpm')} --nodaemonize --allow-to-run-as-root --fpm-config {pool}".split()
    with subprocess.Popen(command, stdout=-3, stderr=-3) as server:
        try:
            awaited(listens.exists)
            yield listens
        finally:
            server.terminate()


def variables(folder: Path, uri: str) -> dict[str, str]:
    script = {"SCRIPT_FILENAME": str(folder / "index.php"), "SCRIPT_NAME": "/index.php", "REQUEST_METHOD": "GET"}
    return script | ({"REQUEST_URI": uri} if uri else {}) | {"HTTP_HOST": "shop"}


@X86_64
@TRACES
def test_php_fpm_tells_what_the_client_asked_for_though_one_script_serves_all(tmp_path: Path) -> None:
    uris = ["/shop/cart/17?token=x", "/blog/2024/05/hello", "", "/" + "a" * 3_000, "/\x1b[1m"]
    probes = php_probes(file_of("php-fpm"), "blog")
    with (
        php_fpm(tmp_path, "<?php usleep(1000); echo 'served';") as listens,
        Recorder(tmp_path / "folder", probes=probes) as recorder,
    ):
        recorder.start()
        for uri in [*uris, "/"]:  # a request ends after its answer
            assert b"served" in fastcgi(listens, **variables(tmp_path, uri))
        recorder.stop()
    names = [text.partition("\t")[2] for kind, _, text in bounds(tmp_path / "folder") if kind == "BEGIN"]
    assert names[:3] == ["GET /shop/cart/*", "GET /blog/*/*/hello", "GET /index.php"]
    assert names[3].startswith("GET /a")
    assert names[4] == "GET /\x1b[1m"


VISITORS = """
import json, socket, struct, threading, time
from pathlib import Path

{fastcgi}

socket_path, pages = json.loads(word)
took = []

def visit(page):
    began = time.monotonic()
    fastcgi(socket_path, **page)
    took.append(time.monotonic() - began)

threads = [threading.Thread(target=visit, args=(page,)) for page in pages]
for thread in threads:
    thread.start()
    time.sleep(0.1)
for thread in threads:
    thread.join()
print(json.dumps(took))
"""


@X86_64
@TRACES
def test_a_request_of_php_fpm_counts_from_its_connection_though_all_workers_are_busy(tmp_path: Path) -> None:
    page = "<?php usleep(str_contains($_SERVER['REQUEST_URI'], 'report') ? 1000000 : 1000); echo 'served';"
    pages = [variables(tmp_path, uri) for uri in ("/warm", "/report", "/report", "/cart/17", "/cart/18", "/last")]
    code = VISITORS.format(fastcgi=inspect.getsource(fastcgi))
    with (
        php_fpm(tmp_path, page, workers=2) as listens,
        waiting(code) as visitors,
        Recorder(tmp_path / "folder", probes=php_probes(file_of("php-fpm"), "blog")) as recorder,
    ):
        recorder.start()
        took = json.loads(visitors.go(json.dumps([str(listens), pages])))
        recorder.stop()
    analysis = Analysis()
    requests = [each for batch in Recording(tmp_path / "folder") for each in analysis.feed(batch)] + analysis.finish()
    carts = [each for each in requests if each.name == "GET /cart/*"]
    assert len(carts) == 2
    for cart in carts:
        queued = [each for each in cart.spent if (each.state, each.syscall) == ("BT", "accept")]
        assert (cart.spent[0], queued[0].by) == (queued[0], "GET /report")
        assert queued[0].on.endswith("/fpm.socket")
        assert 0.2 < sum(each.time_s for each in queued) <= cart.duration_s < max(took)
    reports = [each for each in requests if each.name == "GET /report"]
    assert all(each.spent[0].state == "BS" for each in reports)


def test_no_php(program: Path) -> None:
    with pytest.raises(ProgramError, match=r"has no probes request__startup and request__shutdown \(USDT\)"):
        php_probes(program)


def test_a_function_that_is_not_there(program: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"has no function hande; similar names: handle"):
        function_probes(Function("shop", program, "hande"))
    stripped = tmp_path / "stripped"
    subprocess.run([path_of("strip"), "-o", stripped, program], check=True)
    with pytest.raises(ProgramError, match=r"has no symbol table: it was stripped"):
        function_probes(Function("shop", stripped, "handle"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"", "expected a program or a library"),
        (b"#!/bin/sh\n" * 9, "expected a program"),
    ],
)
def test_no_program(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProgramError, match=message):
        Program(path)


def test_a_program_that_is_cut_off(program: Path, tmp_path: Path) -> None:
    raw = program.read_bytes()
    for size in (10, 64, 1000, len(raw) // 2, len(raw) - 2000):
        (tmp_path / "cut").write_bytes(raw[:size])
        with pytest.raises(ProgramError):
            function_probes(Function("shop", tmp_path / "cut", "handle"))


@pytest.mark.parametrize(
    ("argument", "fetched"),
    [
        ("8@%rax", "%ax"),
        ("-4@%esi", "%si"),
        ("8@%r12", "%r12"),
        ("4@%r8d", "%r8"),
        ("2@%bp", "%bp"),
        ("8@-16(%rbp)", "-16(%bp)"),
        ("8@(%rsp)", "+0(%sp)"),
        ("8@x19", "%x19"),
        ("-4@w3", "%x3"),
        ("8@[sp, 16]", "+16(%sp)"),
        ("8@[x29]", "+0(%x29)"),
    ],
)
def test_where_arguments_are(argument: str, fetched: str) -> None:
    assert usdt.text_argument("uri", argument) == f"uri=+0({fetched}):ustring"


@pytest.mark.parametrize("argument", ["8@$5", "8@%rax:%rdx", "8@symbol(%rip)", "8@(%rax,%rbx,8)"])
def test_where_they_cannot_be(argument: str) -> None:
    with pytest.raises(ProgramError, match="expected a register, or memory that one points to"):
        usdt.text_argument("uri", argument)


def test_plain_data_and_back() -> None:
    probe = Probe("a", "/x:0x1", Kind.BEGIN, "shop", ("uri=+0(%ax):ustring",), ("uri",), "none")
    assert Probe.from_json(probe.to_json()) == probe
    assert probe.definition("g") == "p:g/a /x:0x1 uri=+0(%ax):ustring"
    assert (probe.text(["/a/5"]), probe.text([""])) == ("shop\t/a/*", "shop\tnone")
    older = {key: value for key, value in probe.to_json().items() if key not in ("variable", "entries")}
    assert Probe.from_json(older) == probe


def test_a_variable_replaces_the_last_part_of_a_name_where_its_table_has_it() -> None:
    names, entries = ("method", "uri"), (("key0", "value0"), ("key1", "value1"))
    probe = Probe("a", "/x:0x1", Kind.BEGIN, "shop", (), names, variable="REQUEST_URI", entries=entries)
    assert Probe.from_json(probe.to_json()) == probe
    assert probe.texts == ("method", "uri", "key0", "value0", "key1", "value1")
    there = ("GET", "/index.php")
    assert probe.text([*there, "REQUEST_URI", "/cart", FAULT, FAULT]) == "shop\tGET /cart"
    assert probe.text([*there, "OTHER", "/no", "REQUEST_URI", "/cart"]) == "shop\tGET /cart"
    for table in (("OTHER", "/no", FAULT, FAULT), (FAULT,) * 4, ("", "", "", ""), ("REQUEST_URI", FAULT, "", "")):
        assert probe.text([*there, *table]) == "shop\tGET /index.php"
