"""Pools of the machine that the tests run on: real servers, real threads."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.producers.host.pools.pools import Members, Pools
from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

PREFORK = """
import os, signal, sys, time
for number in range(4):
    if os.fork() == 0:
        while True:
            sum(range(10_000)) if number == 2 else time.sleep(0.01)
print(flush=True)
sys.stdin.readline()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
"""

THREADS = """
import itertools, os, sys, threading, time
def named(name):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as comm:
        comm.write(name)
def work(number):
    named(f"exec /{number}")
    sink = open(f"{sys.argv[1]}/{number}", "wb", buffering=0)
    while True:
        if number == 1:
            sum(range(10_000))
        elif number == 2:
            sink.write(bytes(1 << 16))
            time.sleep(0.01)
        else:
            time.sleep(0.01)
def short(number):
    named(f"once-{number}")
    time.sleep(0.2)
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
print(flush=True)
for number in itertools.count():
    thread = threading.Thread(target=short, args=(number,))
    thread.start()
    thread.join()
"""


class Looks:
    """Ticks on this machine; a pool is one as soon as it is there."""

    def __init__(self, **told: object) -> None:
        clock = Clock()
        self.pools = Pools(clock, "here", **{"settled_s": 0.0, **told})  # type: ignore[arg-type]
        self.table = ProcessTable(clock, 0.5, watches_threads=self.pools.watches_threads)

    def look(self) -> dict[str, Members]:
        layout, values = self.table.read()
        return {each.key: each for each in self.pools.read(self.table, layout, values)}

    def of(self, pid: int) -> dict[str, Members]:
        """Pools with members of this process: others may run on the machine."""
        return {key: each for key, each in self.look().items() if any(f"[{pid}@" in row for row in each.layout.rows)}

    def rows(self, key: str, pid: int) -> dict[str, dict[str, float]]:
        """The rows of this process's members, by what follows it."""
        found = self.of(pid)[key]
        return {
            row.split("/")[1]: dict(zip(found.layout.features, values, strict=True))
            for row, values in zip(found.layout.rows, found.values.tolist(), strict=True)
            if f"[{pid}@" in row.split("/")[0]
        }


@pytest.fixture
def looks() -> Iterator[Callable[..., Looks]]:
    made: list[Looks] = []

    def new(**told: object) -> Looks:
        made.append(Looks(**told))
        return made[-1]

    yield new
    for each in made:
        each.table.close()


@contextmanager
def running(*command: object, user: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, all of which ends with it."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        user=user,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def until(true: Callable[[], object], within_s: float = 150.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def titles(pid: int) -> list[str]:
    """What its children call themselves."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # it has ended
            found.append(Path(f"/proc/{child}/cmdline").read_text().strip("\0 "))
    return found


def python(program: str, *words: object) -> tuple[object, ...]:
    return (sys.executable, "-S", "-E", "-c", program, *words)


def test_workers_that_a_program_forked_and_the_one_that_spins(looks: Callable[..., Looks]) -> None:
    one = looks(threads=())
    with running(*python(PREFORK)) as process:
        assert process.stdout
        process.stdout.readline()
        [key] = one.of(process.pid)
        assert key.startswith("here/python")
        until(lambda: len(one.rows(key, process.pid)) == 4)
        time.sleep(1)
        rows = one.rows(key, process.pid)
        by_cpu = sorted(rows, key=lambda row: rows[row]["cpu_user_ratio"])
        assert rows[by_cpu[-1]]["cpu_user_ratio"] > 4 * rows[by_cpu[-2]]["cpu_user_ratio"]
        assert not {row for row in rows if f"[{process.pid}@" in row}, "the parent is no member"
        process.communicate(b"\n", timeout=30)
    assert one.of(process.pid) == {}


def test_threads_that_work_spin_and_write_while_others_come_and_go(looks: Callable[..., Looks], disk: Path) -> None:
    one = looks(threads=("pyth*",))
    with running(*python(THREADS, disk)) as process:
        assert process.stdout
        process.stdout.readline()
        key = f"here/{Path(f'/proc/{process.pid}/comm').read_text().strip()}/exec"
        until(lambda: key in one.of(process.pid))
        seen: set[str] = set()
        for _ in range(6):
            time.sleep(0.3)
            rows = one.rows(key, process.pid)
            seen |= set(rows)
        assert {row.split("[")[0] for row in seen} == {f"exec :{number}" for number in range(4)}
        assert len(seen) == 4, "the same threads at each tick"
        time.sleep(1)
        rows = {row.split("[")[0][-1]: values for row, values in one.rows(key, process.pid).items()}
        assert max(rows, key=lambda number: rows[number]["cpu_user_ratio"]) == "1"
        assert max(rows, key=lambda number: rows[number]["io_write_characters_per_s"]) == "2"
        assert rows["2"]["io_write_bytes_per_s"] > 0
        assert rows["3"]["switches_voluntary_per_s"] > 2  # 100 where nothing else runs
        assert rows["0"]["io_write_bytes_per_s"] == 0
        held = one.table.held_files

    def fewer() -> bool:
        one.look()
        return one.table.held_files < held

    until(fewer)  # they went with the process; those of others come and go


def test_many_that_fork_while_they_are_read(looks: Callable[..., Looks]) -> None:
    """Nothing raises, nothing of what has ended stays, and what lives for a moment is no pool."""
    program = (
        "import os, sys, time\nprint(flush=True)\nend = time.monotonic() + 60\n"
        "while time.monotonic() < end:\n    if os.fork() == 0: os._exit(0)\n    os.wait()\n"
    )
    one = looks()
    one.pools = Pools(Clock(), "here")
    files = len(list(Path("/proc/self/fd").iterdir()))
    with running(*python(program)) as process:
        assert process.stdout
        process.stdout.readline()
        for _ in range(40):
            assert one.of(process.pid) == {}
    one.table.close()
    assert len(os.listdir("/proc/self/fd")) <= files  # noqa: PTH208 - names


def test_nginx_has_a_pool_of_its_workers_without_its_cache_manager(looks: Callable[..., Looks], tmp_path: Path) -> None:
    configuration = tmp_path / "nginx.conf"
    paths = "".join(
        f"{name}_temp_path {tmp_path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration.write_text(
        f"daemon off; pid {tmp_path}/nginx.pid; error_log stderr; worker_processes 3;\n"
        f"{'user root;' if os.geteuid() == 0 else ''} events {{}}\n"
        f"http {{ access_log off; {paths} proxy_cache_path {tmp_path}/cache keys_zone=a:1m;\n"
        f"server {{ listen unix:{tmp_path}/socket; }} }}\n"
    )
    with running(path_of("nginx"), "-c", configuration, "-e", "stderr") as process:
        # A pool that takes members as soon as they are there would have some that have no title yet.
        until(lambda: titles(process.pid).count("nginx: worker process") == 3)
        until(lambda: all(each.startswith(("nginx: worker", "nginx: cache")) for each in titles(process.pid)))
        one = looks()
        until(lambda: [len(each.values) for each in one.of(process.pid).values()] == [3])
        assert list(one.of(process.pid)) == ["here/nginx/worker process"]


def test_postgres_has_a_pool_of_the_backends_of_one_user_and_database(
    looks: Callable[..., Looks], tmp_path: Path
) -> None:
    initdb, postgres, psql = map(path_of, ("initdb", "postgres", "psql"))
    folder = tmp_path / "data"
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None  # it does not run as root
    if user is not None:
        for each in (tmp_path, *tmp_path.parents[: len(tmp_path.relative_to(tempfile.gettempdir()).parts) - 1]):
            each.chmod(0o755)
        folder.mkdir()
        os.chown(folder, user, -1)
    command = [str(initdb), "-D", str(folder), "-A", "trust", "-U", "shop", "--no-sync"]
    made = subprocess.run(command, check=False, capture_output=True, text=True, user=user)
    assert made.returncode == 0, made.stderr
    with running(postgres, "-D", folder, "-k", folder, "-c", "listen_addresses=", user=user) as process:
        until((folder / ".s.PGSQL.5432").exists)
        until(lambda: len(titles(process.pid)) >= 4 and all(": " in each for each in titles(process.pid)))
        one = looks()
        for _ in range(3):
            assert one.of(process.pid) == {}, "checkpointer, writers and launchers have different work"
        asks = [psql, "-h", str(folder), "-U", "shop", "postgres", "-c", "select pg_sleep(60)"]
        clients = [subprocess.Popen(asks, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(3)]
        try:
            until(lambda: sum("shop postgres [local] SELECT" in each for each in titles(process.pid)) == 3)
            assert [(key, len(each.values)) for key, each in one.of(process.pid).items()] == [
                ("here/postgres/shop postgres", 3)
            ]
        finally:
            for client in clients:
                client.kill()
                client.wait()
            process.send_signal(signal.SIGINT)  # SIGTERM waits for what clients have asked for
            process.wait(60)


def test_a_build_makes_no_pool(looks: Callable[..., Looks], tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "all: a b c d sub\na b c d:\n\tsleep 99; true\nsub:\n\t$(MAKE) e f g h\ne f g h:\n\t$(MAKE) i\ni:\n\tsleep 99\n"
    )
    one = looks()
    with running(path_of("make"), "-j8", "-C", tmp_path) as process:
        pids = {process.pid}
        deadline, looked = time.monotonic() + 150.0, 0
        while looked < 3:  # with all of it there
            assert process.poll() is None
            assert time.monotonic() < deadline
            for key, each in one.look().items():
                parents = {int(row.split("/")[0].rsplit("[", 1)[1].split("@")[0]) for row in each.layout.rows}
                assert not parents & pids, key
            children = {each.pid for each in one.table.processes if each.stat.parent in pids}
            pids |= children
            looked += len(pids) > 8
            time.sleep(0.2)
