"""Programs that look like Java virtual machines, and would have laggard, as root, do what their user may not."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.producers.diagnosis import helper, jcmd, jvm
from laggard.producers.diagnosis.contract import ProfilerError
from laggard.producers.diagnosis.dumps import DUMP_BYTES
from laggard.producers.diagnosis.helper import thread_time
from laggard.producers.diagnosis.jvm import Jvm
from laggard.producers.diagnosis.symbols import symbolizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes other users")

THEIRS, ANOTHERS = 65534, 65533

LOOKALIKE = """
import mmap, os, signal, socket, sys, time
with open(sys.argv[1], "rb") as file:
    memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
signal.signal(signal.SIGQUIT, lambda *_: None)
pid = os.getpid()
for left in (f"/tmp/.java_pid{pid}", f"/tmp/.attach_pid{pid}"):  # by a machine that was killed, of the same pid
    if os.path.lexists(left):
        os.unlink(left)
def listening(path=f"/tmp/.java_pid{pid}", mode=0o600):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, mode)
    listener.listen()
    return listener
def drop(uid=65534):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
"""
READY = """
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def lookalike(source: str, ready: str = READY) -> Iterator[int]:
    """The pid of a process that has `libjvm.so` mapped and takes the signal QUIT, and does besides what it likes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        library = Path(folder, "libjvm.so")
        library.write_bytes(bytes(4096))
        command = [sys.executable, "-c", LOOKALIKE + source + ready, str(library)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                assert process.stdout.readline() == "ready\n"
                yield process.pid
            finally:
                process.kill()
                for name in (".java_pid", ".attach_pid"):
                    Path(f"/tmp/{name}{process.pid}").unlink(missing_ok=True)


@pytest.fixture
def secret() -> Iterator[Path]:
    """A folder of root's alone; the look-alike knows where it is."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o700)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them ever begins to listen: it makes no difference for how long that is waited for."""
    monkeypatch.setattr(jvm, "WAIT_S", 0.5)


def test_nothing_is_made_where_their_folder_leads_to(secret: Path) -> None:
    """A file of `nobody` was made in a folder of root's alone, and was removed there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        Path(root).chmod(0o755)
        Path(root, "tmp").symlink_to(secret)
        (secret / "kept").touch()
        before = secret.stat().st_mtime_ns
        with lookalike(f"os.chroot({root!r})\ndrop()") as pid:
            assert jcmd.available(pid) == ""
            with pytest.raises(ProfilerError, match=r"cannot use the folder /tmp of process .*"):
                Jvm(pid).ask("threaddump")
        assert secret.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", [".attach_pid", ".java_pid"])
def test_no_link_of_theirs_is_followed(secret: Path, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as victim:
        victim.bind(str(secret / "socket"))
        victim.listen()
        victim.setblocking(False)
        before = secret.stat().st_mtime_ns
        with lookalike(f"drop()\nos.symlink('{secret}/socket', f'/tmp/{name}{{pid}}')") as pid:
            with pytest.raises(ProfilerError, match="did not start to listen"):
                Jvm(pid).ask("threaddump")
            assert Path(f"/tmp/{name}{pid}").is_symlink()
        with pytest.raises(BlockingIOError):
            victim.accept()
        assert secret.stat().st_mtime_ns == before


def test_the_child_is_their_user_where_they_are() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        Path(root).chmod(0o755)
        Path(root, "tmp").mkdir()
        with lookalike(f"os.chroot({root!r})\ndrop()") as pid:
            machine = Jvm(pid)
            assert machine.found("nothing") is None
            assert machine._helper is not None
            place = Path(f"/proc/{machine._helper.pid}")
            status = place.joinpath("status").read_text()
            assert [line.split()[1:] for line in status.splitlines() if line.startswith(("Uid:", "Gid:"))] == [
                [str(THEIRS)] * 4,
                [str(THEIRS)] * 4,
            ]
            assert f"CapEff:\t{0:016x}" in status
            assert os.readlink(place / "root") == root  # noqa: PTH115 - of another's root
            assert os.readlink(place / "cwd") == f"{root}/tmp"  # noqa: PTH115 - likewise


def test_a_child_that_has_ended_is_replaced() -> None:
    with lookalike("drop()") as pid:
        machine = Jvm(pid)
        for _ in range(2):
            assert machine.found("nothing") is None
            assert machine._helper is not None
            os.kill(machine._helper.pid, signal.SIGKILL)
            machine._helper._child.ended.wait()


def test_a_machine_that_is_gone_has_no_child() -> None:
    with lookalike("drop()") as pid:
        machine = Jvm(pid)
    with pytest.raises(ProfilerError, match=rf"process {pid} has ended"):
        machine.found("nothing")


def test_a_pipe_in_the_place_of_the_socket_is_no_hang() -> None:
    with (
        lookalike("drop()\nos.mkfifo(f'/tmp/.java_pid{pid}')") as pid,
        pytest.raises(ProfilerError, match="did not start to listen"),
    ):
        Jvm(pid).ask("threaddump")


OF_CHILD = """
drop()
listener = listening()
if not (child := os.fork()):
    listener.listen()  # whose it is now
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            f"listener = listening()\nos.chown(f'/tmp/.java_pid{{pid}}', {ANOTHERS}, {ANOTHERS})\ndrop()",
            "of user 65533",
        ),
        ("listener = listening()\ndrop()", "of user 0"),
        ("drop()\nlistener = listening(mode=0o666)", "a socket that only user 65534 may use"),
        (OF_CHILD, "another process listens in its place"),
    ],
    ids=["another user's", "root's", "everybody's", "another process's"],
)
def test_an_untrusted_socket_is_not_asked(source: str, why: str) -> None:
    with lookalike(source) as pid, pytest.raises(ProfilerError, match=why):
        Jvm(pid).ask("threaddump")


SERVING = """
drop()
listener = listening()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    try:
        connection.recv(4096)
        {answer}
    except OSError:
        pass
    connection.close()
"""


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "WAIT_S", 60.0)
    endless = "connection.sendall(b'0\\n')\n        while True: connection.sendall(bytes(65536))"
    with lookalike(SERVING.format(answer=endless), "") as pid:
        answer = Jvm(pid).ask("threaddump")
    assert answer.cut
    assert DUMP_BYTES - 2 <= len(answer.text) <= DUMP_BYTES


def test_an_answer_that_drips_ends_in_time() -> None:
    """Each piece was waited for anew."""
    drips = "connection.sendall(b'0\\n')\n        while True: connection.sendall(b'x'); time.sleep(0.001)"
    with (
        lookalike(SERVING.format(answer=drips), "") as pid,
        pytest.raises(ProfilerError, match=r"did not answer to 'threaddump': the answer did not end|timed out"),
    ):
        Jvm(pid).ask("threaddump")


def test_a_silent_machine_is_a_clear_error() -> None:
    with (
        lookalike(SERVING.format(answer="time.sleep(600)"), "") as pid,
        pytest.raises(ProfilerError, match=r"process \d+ did not answer to 'threaddump'"),
    ):
        Jvm(pid).ask("threaddump")


def test_what_it_says_forges_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "WAIT_S", 60.0)
    forged = "connection.sendall(b'7\\n\\x1b[31m' + b'x' * 100000)"
    with lookalike(SERVING.format(answer=forged), "") as pid, pytest.raises(ProfilerError) as caught:
        Jvm(pid).ask("threaddump")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


SIZE = 100_000
HOSTILE: dict[str, Callable[[int], str]] = {
    "quotes": lambda size: '"' + '" ' * (size // 2),
    "ids": lambda size: '"' + " nid=" * (size // 5),
    "quotes and ids": lambda size: '"' + '" nid=' * (size // 6) + "x",
    "blanks": lambda size: '"a" nid=1\n' + " " * size,
    "folders": lambda size: '"a" nid=1\n at a(' + "/" * size,
    "digits": lambda size: '"a" nid=1\n at a(b:' + "1" * size + ")",
    "an id of digits": lambda size: '"a" nid=' + "1" * size,
    "addresses": lambda size: '"a" nid=1\n at ' + "/0x" * (size // 3) + "(A.java:1)",
    "frames": lambda size: '"a" nid=1\n' + "at a(\n" * (size // 6),
    "threads": lambda size: '"a" nid=1\n' * (size // 10),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_line_of_a_dump_takes_no_time(kind: str) -> None:
    """One line of 100 kB took 44 s, in which the interpreter did nothing else."""
    symbolizer().helper()
    begun = thread_time()
    symbolizer().stacks(HOSTILE[kind](SIZE).encode())
    assert thread_time() - begun < 0.5 * helper.ANSWER_CPU_S
