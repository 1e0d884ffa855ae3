"""The child that reads what others control: what it may do, what it costs, and its lies."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.own import is_own
from laggard.producers.diagnosis import helper, symbols
from laggard.producers.diagnosis.confinement import STRANGERS
from laggard.producers.diagnosis.elf import TABLE_BYTES
from laggard.producers.diagnosis.helper import Helper, HelperError, HelperGoneError, thread_time
from laggard.producers.diagnosis.symbols import SymbolFiles, Symbolizer, symbolizer
from tests.producers.diagnosis.profiled import held
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

SYMBOLIZER = "laggard.producers.diagnosis.symbolizer"

# Types of functions, each with two parameters of the type before: as text each is twice as long as the one before.
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SEEN = ["S_", *(f"S{digit}_" for digit in DIGITS)]
EXPLODING = "_Z1f1a" + "".join(f"Fv{before}{before}E" for before in SEEN[:30])


def status_of(pid: int) -> dict[str, str]:
    rows = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.strip() for name, _, value in rows}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with two functions, one of a name that explodes when it is written as in the source."""
    folder = tmp_path_factory.mktemp("hostile")
    source = f'void good(void) {{}}\nvoid bad(void) __asm__("{EXPLODING}");\nvoid bad(void) {{}}\n'
    (folder / "hostile.c").write_text(source)
    library = folder / "hostile.so"
    subprocess.run([path_of("cc"), "-shared", "-fPIC", "-o", library, folder / "hostile.c"], check=True)
    return library


def offset_in(path: Path, function: str) -> int:
    """Its address: in the first segments of a library that is the offset, too."""
    text = subprocess.run([path_of("nm"), path], capture_output=True, text=True, check=True).stdout
    (value,) = [int(line.split()[0], 16) for line in text.splitlines() if line.endswith(f" {function}")]
    return value


def test_an_exploding_symbol_costs_only_its_own_file_its_names(hostile: Path) -> None:
    """256 bytes of one took 35 s and 10.5 GB in the agent."""
    assert len(EXPLODING) < 300
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    with SymbolFiles() as files:
        theirs = files.add(os.open(hostile, os.O_RDONLY))
        assert files.name(theirs, offset_in(hostile, "good")) == "good"
        child = symbolizer().helper().pid
        before = thread_time()
        name = files.name(theirs, offset_in(hostile, EXPLODING))
        spent_s = thread_time() - before
        assert name in ("", EXPLODING)  # it died of it, or the memory for it ended before
        assert spent_s < helper.ANSWER_CPU_S + 1.0
        assert spent_s > 0.1, "what it took is counted, also where it died of it"
        if files.notes:
            (note,) = files.notes
            assert note.startswith("functions of 1 files have no names: reading them failed (the helper ")
            assert not Path(f"/proc/{child}").exists()
            before = thread_time()
            assert files.name(theirs, offset_in(hostile, "good")) == ""  # not asked again
            assert thread_time() - before < 0.1
        ours = files.add(os.open(libc, os.O_RDONLY))
        assert files.name(ours, offset_of_getpid()) != ""
        assert int(status_of(symbolizer().helper().pid)["VmHWM"].split()[0]) < 140_000  # kB


def offset_of_getpid() -> int:
    address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert address
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return address - begin + int(line.split()[2], 16)
    raise AssertionError(hex(address))


def test_after_some_files_that_it_died_of_no_more_of_a_process_are_read(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Helper.ask.__kwdefaults__
    assert asked is not None
    with SymbolFiles() as files:
        keys = []
        for number in range(5):
            shutil.copy(hostile, tmp_path / str(number))
            keys.append(files.add(os.open(tmp_path / str(number), os.O_RDONLY)))
        stopped = set()
        for key in keys:
            child = symbolizer().helper()
            os.kill(child.pid, signal.SIGSTOP)  # as if it hung
            stopped.add(child.pid)
            with monkeypatch.context() as context:
                context.setitem(asked, "patience_s", 0.1)
                assert files.name(key, offset_in(hostile, "good")) == ""
            if child.alive:
                os.kill(child.pid, signal.SIGCONT)
        assert len(stopped) == symbols.LOSSES + 1  # that many were lost, and the last one was not asked any more
        assert files.notes[0] == (
            "functions of 3 files have no names: reading them failed (the helper did not answer in time);"
            " no more are read"
        )


def program_of(functions: int) -> bytes:
    """A file of machine code (ELF) that says that it has a number of functions."""
    names = b"\0name\0"
    table = b"".join(struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1000 + 16 * each, 16) for each in range(functions))
    table_at, names_at = 64 + 56, 64 + 56 + len(table)
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, names_at + len(names), 0, 64, 56, 1, 64, 3, 0)
    )
    loaded = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 40, 1 << 40, 4096)
    sections = bytes(64) + b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, size, 2, 0, 8, 24)
        for kind, at, size in ((2, table_at, len(table)), (3, names_at, len(names)))
    )
    return header + loaded + table + names + sections


@pytest.mark.parametrize(("functions", "name"), [(TABLE_BYTES // 24, "name"), (TABLE_BYTES // 24 + 1, "")])
def test_a_table_of_the_largest_size_is_read_within_the_bound_on_memory(
    tmp_path: Path, functions: int, name: str
) -> None:
    (tmp_path / "program").write_bytes(program_of(functions))
    with SymbolFiles() as files:
        key = files.add(os.open(tmp_path / "program", os.O_RDONLY))
        assert files.name(key, 0x1000 + 16 * (functions - 1)) == name
        assert files.notes == []
    assert int(status_of(symbolizer().helper().pid)["VmHWM"].split()[0]) < 140_000  # kB


def test_it_has_no_rights_no_secrets_and_nothing_to_open() -> None:
    child = Helper(SYMBOLIZER)
    child.wait()
    try:
        place = Path(f"/proc/{child.pid}")
        status = status_of(child.pid)
        assert {status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Threads"]) == ("1", "1")
        assert (place / "oom_score_adj").read_text() == "1000\n"
        limits = {line[:26].strip(): line[26:].split()[:2] for line in (place / "limits").read_text().splitlines()}
        assert limits["Max file size"] == limits["Max processes"] == limits["Max core file size"] == ["0", "0"]
        assert int(limits["Max address space"][1]) < 512 << 20
        assert int(limits["Max cpu time"][1]) <= 300
        if os.geteuid():
            with pytest.raises(PermissionError):
                (place / "environ").read_bytes()  # other programs of its user see nothing of it
        else:
            assert (place / "environ").read_bytes() in (b"", b"OPENBLAS_NUM_THREADS=1\0")
            opened = [os.readlink(entry) for entry in (place / "fd").iterdir()]  # noqa: PTH115 - no path
            assert opened.count("/dev/null") == 2
            assert len([each for each in opened if each.startswith("socket:")]) == 1
            assert len(opened) == 3
            (uid,) = set(status["Uid"].split())
            assert int(uid) >= STRANGERS, "another program of its user could end it"
            assert set(status["Gid"].split()) == {uid}
            assert status["Groups"] == ""
            network = place / "ns/net"
            assert os.readlink(network) != os.readlink("/proc/self/ns/net")  # noqa: PTH115 - no paths
            assert {entry.name for entry in (place / "root").iterdir()} <= {"0", "1", "2", "3"}
    finally:
        child.close()


def test_one_that_is_not_asked_ends() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = "from laggard.producers.diagnosis import confinement; confinement.serve(print, 0.1)"
    with ours, theirs:
        assert subprocess.run([sys.executable, "-c", program], stdin=theirs.fileno(), check=True).returncode == 0
        assert ours.recv(100) == b'."ready"'


def test_it_ends_with_who_started_it() -> None:
    program = f"""
import sys
from laggard.producers.diagnosis.helper import Helper
child = Helper("{SYMBOLIZER}")
child.wait()
print(child.pid, flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        os.kill(pid, signal.SIGSTOP)  # it does not see that there are no more questions
        process.kill()
    until = time.monotonic() + 60.0
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_is_told_as_laggard_itself() -> None:
    child = symbolizer().helper()
    child.wait()
    assert is_own(Path(f"/proc/{child.pid}/comm").read_text().strip())


def test_what_it_takes_counts_as_the_asking_threads_cpu_time(hostile: Path) -> None:
    with SymbolFiles() as files:
        key = files.add(os.open(hostile, os.O_RDONLY))
        files.name(key, offset_in(hostile, "good"))
        child = symbolizer().helper()
        theirs_s, ours_s, all_s = child._cpu_s(), time.thread_time(), thread_time()
        for offset in range(2000):
            files.name(key, offset)
        theirs_s, ours_s, all_s = child._cpu_s() - theirs_s, time.thread_time() - ours_s, thread_time() - all_s
    # What it does before it gets a question, and after it has answered, is not counted.
    assert 0.3 < (all_s - ours_s) / theirs_s < 1.1


def test_one_that_was_killed_is_replaced_and_no_file_is_blamed(hostile: Path) -> None:
    with SymbolFiles() as files:
        key = files.add(os.open(hostile, os.O_RDONLY))
        for _ in range(2):
            assert files.name(key, offset_in(hostile, "good")) == "good"
            child = symbolizer().helper()
            os.kill(child.pid, signal.SIGKILL)
            child._child.ended.wait()
        assert files.name(key, offset_in(hostile, "good")) == "good"
        assert files.notes == []


def test_one_that_has_taken_much_cpu_time_is_replaced(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SymbolFiles() as files:
        key = files.add(os.open(hostile, os.O_RDONLY))
        assert files.name(key, offset_in(hostile, "good")) == "good"
        before = symbolizer().helper()
        assert symbolizer().helper() is before
        with monkeypatch.context() as context:
            context.setattr(symbols, "RENEW_CPU_S", 0.0)
            assert files.name(key, offset_in(hostile, "good")) == "good"
        assert not before.alive
        assert files.notes == []


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the right to give rights")
def test_capabilities_of_an_agent_that_is_not_root_are_not_its_own() -> None:
    program = f"""
from laggard.producers.diagnosis.helper import Helper
child = Helper("{SYMBOLIZER}")
child.wait()
for pid in ("self", child.pid):
    print(next(line for line in open(f"/proc/{{pid}}/status") if line.startswith("CapEff")).split()[1])
"""
    # As a user who has this one: root has no special rights.
    rights = ("--securebits=+noroot", "--inh-caps=-all,+sys_ptrace", "--ambient-caps=-all,+sys_ptrace")
    command = ["setpriv", *rights, sys.executable, "-c", program]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.split()
    assert int(told[0], 16) == 1 << 19  # CAP_SYS_PTRACE
    assert int(told[1], 16) == 0


LIAR = """#!{python}
import json, os, socket, sys, time
connection = socket.socket(fileno=0)
connection.send(b'."ready"')
connection.recv(4096)
{lie}
time.sleep(600)
"""
LIES = {
    "ends": ("sys.exit()", "the helper ended"),
    "too long": ("while True: connection.send(b'+' + b'1' * 60000)", "the helper's answer is too long"),
    "nothing, without end": ("while True: connection.send(b'+')", "the helper's answer is too long"),
    "no JSON": ("connection.send(b'.{')", "the helper's answer is invalid"),
    "deep": ("connection.send(b'.' + b'[' * 10000)", "the helper's answer is invalid"),
    "no UTF-8": ("connection.send(b'.\"\\xff\"')", "the helper's answer is invalid"),
    "a long number": ("connection.send(b'.' + b'9' * 10000)", "the helper's answer is invalid"),
}


@pytest.fixture
def lying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Helper]:
    """A child that was taken over before it was asked."""

    def start(lie: str) -> Helper:
        liar = tmp_path / "liar"
        liar.write_text(LIAR.format(python=sys.executable, lie=lie))
        liar.chmod(0o700)
        with monkeypatch.context() as context:
            context.setattr(sys, "executable", str(liar))
            return Helper(SYMBOLIZER)

    return start


def test_a_fork_leaves_it_alone(hostile: Path) -> None:
    program = f"""
import os, sys
from laggard.producers.diagnosis.symbols import SymbolFiles, symbolizer
child = symbolizer().helper()
if not (fork := os.fork()):
    with SymbolFiles() as files:
        print(files.name(files.add(os.open({str(hostile)!r}, os.O_RDONLY)), {offset_in(hostile, "good")}), flush=True)
    assert symbolizer().helper() is not child
    sys.exit()
os.waitpid(fork, 0)
assert child.alive
print(child.ask("forget", []) == "", flush=True)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "good\nTrue\n"


@pytest.mark.parametrize("lie", LIES)
def test_one_that_does_not_answer_as_it_should_is_ended(lying: Callable[[str], Helper], lie: str) -> None:
    before = held()
    source, cause = LIES[lie]
    child = lying(source)
    with pytest.raises(HelperError, match=cause):
        child.ask("name", [1, 2, 3, 4], 5)
    assert not child.alive
    with pytest.raises(HelperGoneError):
        child.ask("name", [1, 2, 3, 4], 5)
    assert held() <= before


def test_unrequested_descriptors_are_closed(lying: Callable[[str], Helper]) -> None:
    before = held()
    child = lying("for _ in range(9): socket.send_fds(connection, [b'+ '], [1] * 50)\nconnection.send(b'.1')")
    assert child.ask("name") == 1
    child.close()
    assert held() <= before


@pytest.mark.parametrize(
    "lie",
    ["7", "[]", "{}", "[[1]]", '[["1", []]]', '[[1, [["a"]]]]', '[[1, [[1, 2, 3], null, ["a", "b", -1]]]]', "true"],
)
def test_answers_of_other_types_tell_nothing(
    lying: Callable[[str], Helper], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lie: str
) -> None:
    child = lying(f"while True: connection.send(b'.{lie}'); connection.recv(4096)")
    monkeypatch.setattr(Symbolizer, "helper", lambda _: child)
    (tmp_path / "file").touch()
    with SymbolFiles() as files:
        key = files.add(os.open(tmp_path / "file", os.O_RDONLY))
        assert (files.name(key, 1), files.code(key, 1), files.rule(key, 1)) == ("", "", None)
        assert [stack for _, stack in Symbolizer().stacks(b"")] in ([], [()])
    child.close()


def test_names_that_would_forge_a_terminals_output_are_none(
    lying: Callable[[str], Helper], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = lying(
        "while True: connection.send(b'.' + json.dumps('\\x1b[31m' + 'x' * 9000).encode()); connection.recv(9)"
    )
    monkeypatch.setattr(Symbolizer, "helper", lambda _: child)
    (tmp_path / "file").touch()
    with SymbolFiles() as files:
        name = files.name(files.add(os.open(tmp_path / "file", os.O_RDONLY)), 1)
    assert name == "?[31m" + "x" * (symbols.LONGEST_NAME - 5)
    child.close()


def test_one_that_cannot_begin_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    fresh = Symbolizer()
    monkeypatch.setattr(symbols, "symbolizer", lambda: fresh)
    (tmp_path / "file").touch()
    files = SymbolFiles()
    key = files.add(os.open(tmp_path / "file", os.O_RDONLY))
    assert files.name(key, 1) == ""
    why = f"cannot start {tmp_path}/none: No such file or directory"
    assert files.notes == [f"functions have no names: the symbol reader did not start: {why}"]
    files.close()
    fresh.close()
