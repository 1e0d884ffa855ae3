"""The web servers: a blog (nginx, PHP, MariaDB, and a service that it asks), and a shop (threads of Python, redis).

Each runs on ports and in a folder of its own, and ends with its context. Needs root: servers take users of their own.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.middleware import VARIABLE
from tests.programs import file_of, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[3]
START_S: Final = 60.0
END_S: Final = 10.0
AHEAD: Final = 10
"""Priority among real-time processes: other work of the machine must not disturb the lab."""
WORKERS: Final = 6
"""Of php-fpm."""
THREADS: Final = 8
"""Of the shop."""
LIBRARIES: Final = 40
FUNCTIONS: Final = 60
"""In each library: as much source as a usual content management system loads."""
INDEX_BYTES: Final = 32 << 20
POSTS: Final = 500
NAME: Final = "prices.shop.test"
"""Which only the lab's own name server knows."""

NGINX: Final = """
daemon off; master_process on; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;
user www-data;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    types {{ text/html html; }}
    server {{
        listen 127.0.0.1:{port} backlog=512;
        root {folder}/static;
        location ~ \\.php$ {{
            root {pages};
            fastcgi_pass unix:{folder}/fpm.socket;
            fastcgi_buffers 32 16k;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param QUERY_STRING $query_string;
        }}
    }}
}}
"""
FPM: Final = """
[global]
error_log = {folder}/fpm.log
daemonize = no
[blog]
user = www-data
group = www-data
listen = {folder}/fpm.socket
listen.owner = www-data
listen.backlog = 512
pm = static
pm.max_children = {workers}
catch_workers_output = yes
clear_env = no
php_admin_value[opcache.enable] = 1
php_admin_value[opcache.lockfile_path] = {folder}
php_admin_value[opcache.memory_consumption] = 64
php_admin_value[opcache.force_restart_timeout] = 5
"""
TABLES: Final = """
CREATE DATABASE blog; USE blog;
CREATE TABLE options (name VARCHAR(40) PRIMARY KEY, value TEXT);
INSERT INTO options SELECT CONCAT('option_', seq), REPEAT('v', 40) FROM seq_1_to_150;
INSERT INTO options VALUES ('title', 'A blog');
CREATE TABLE people (person INT PRIMARY KEY, name VARCHAR(60));
INSERT INTO people SELECT seq, CONCAT('person ', seq) FROM seq_1_to_50;
CREATE TABLE posts (post INT PRIMARY KEY, category INT, person INT, written INT, title VARCHAR(80), body TEXT,
    KEY (category, written));
INSERT INTO posts SELECT seq, seq % 20, 1 + seq % 50, seq * 7919 % 100000, CONCAT('Post ', seq),
    REPEAT(CONCAT('something remarkable about ', seq, ' that somebody wrote at length\\n'), 12) FROM seq_1_to_{posts};
CREATE TABLE comments (comment INT PRIMARY KEY, post INT, body TEXT, KEY (post));
INSERT INTO comments SELECT seq, 1 + seq % {posts}, REPEAT(CONCAT('I think ', seq, ' '), 12) FROM seq_1_to_5000;
CREATE TABLE hits (page INT PRIMARY KEY, hits INT) ENGINE=InnoDB;
INSERT INTO hits VALUES (1, 0);
CREATE USER blog@'127.0.0.1' IDENTIFIED BY 'blog'; GRANT ALL ON blog.* TO blog@'127.0.0.1';
"""


@dataclass(slots=True)
class Server:
    """A server at work.

    Attributes:
        name: of the service.
        port: where visitors come in.
        folder: its files.
        paths: pages and how often each is asked for, as `visitors` take them.
        php: the program whose probes tell where requests begin and end; None where the application itself tells.
        ports: of what stands behind it, by name.
        processes: by name.

    """

    name: str
    port: int
    folder: Path
    paths: Mapping[str, float]
    php: Path | None = None
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def marker(self) -> Path:
        """The path at which an application that reports its requests looks for the tracer's file."""
        return self.folder / "marker"


def need() -> None:
    """Raises MissingPartError where a server cannot be had."""
    for program in ("nginx", "php-fpm", "mariadbd", "redis-server"):
        path_of(program)


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def process(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    priority: int = 0,
) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, which ends with all that it started; it is told by lines, and says lines.

    With a priority it has a CPU before all that have none, or a lower one.
    """
    if priority:
        command = ["chrt", "--rr", str(priority), *command]
    with ExitStack() as closing:
        output = closing.enter_context(log.open("a")) if log else subprocess.PIPE
        started = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT if log else None,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield started
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(started.pid, number)
            with suppress(subprocess.TimeoutExpired):
                started.wait(END_S)
        started.wait()
        for stream in (started.stdin, started.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def tell(started: subprocess.Popen[str], line: str) -> None:
    """Say a line to a process."""
    assert started.stdin is not None
    started.stdin.write(line + "\n")
    started.stdin.flush()


def wait_for(port: int, started: subprocess.Popen[str], name: str) -> None:
    """Until it takes connections. Raises OSError where it ends, TimeoutError where that takes too long."""
    deadline = time.monotonic() + START_S
    while True:
        if started.poll() is not None:
            raise OSError(f"{name} ended with {started.returncode} before it took a connection")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name}: expected it to take connections within {START_S:g} s") from None
            time.sleep(0.05)
        else:
            return


@contextmanager
def blog(folder: Path, priority: int = 0) -> Iterator[Server]:
    """Pages in PHP, as a content management system makes them; `priority` as `process` takes it."""
    _open(folder)
    for name in ("libraries", "cache", "index", "static", "database"):
        (folder / name).mkdir()
    _write_libraries(folder / "libraries")
    (folder / "cache/sidebar").write_text("<ul>" + "<li>something else to read</li>" * 40 + "</ul>")
    (folder / "index/words").write_bytes(random.Random(1).randbytes(INDEX_BYTES))
    (folder / "static/index.html").write_text("<p>nothing that is made</p>" * 20)
    server = Server(
        "blog",
        free_port(),
        folder,
        {
            "/index.php?page=home&number={}": 0.3,
            "/index.php?page=post&number={}": 0.4,
            "/index.php?page=archive&number={}": 0.15,
            "/index.php?page=search&number={}": 0.15,
        },
        php=file_of("php-fpm"),
        ports={"mariadb": free_port(), "recommender": free_port()},
    )
    environment = {
        "BLOG_FOLDER": str(folder),
        "BLOG_DATABASE_PORT": str(server.ports["mariadb"]),
        "BLOG_RECOMMENDER_PORT": str(server.ports["recommender"]),
    }
    configuration, pools = folder / "nginx.conf", folder / "fpm.conf"
    pages = shutil.copytree(HERE / "blog", folder / "pages")  # the checkout may be where only its user may enter
    configuration.write_text(NGINX.format(folder=folder, port=server.port, pages=pages))
    pools.write_text(FPM.format(folder=folder, workers=WORKERS))
    with ExitStack() as closing:

        def start(name: str, command: Sequence[str | Path], port: int = 0, *, said: bool = False) -> None:
            log = None if said else folder / f"{name}.out"
            started = closing.enter_context(process(command, environment=environment, log=log, priority=priority))
            server.processes[name] = started
            if port:
                wait_for(port, started, name)

        _make_database(folder)
        start("mariadb", _mariadb(folder, server.ports["mariadb"]), server.ports["mariadb"])
        _ask_database(folder, TABLES.format(posts=POSTS))
        module = "tests.evaluation.requests.lab.recommender"
        port = server.ports["recommender"]
        start("recommender", [sys.executable, "-m", module, str(port)], port, said=True)
        start("fpm", [path_of("php-fpm"), "--nodaemonize", "--fpm-config", pools])
        start("nginx", [path_of("nginx"), "-c", configuration, "-p", folder, "-e", folder / "nginx.log"], server.port)
        yield server


@contextmanager
def shop(folder: Path, priority: int = 0) -> Iterator[Server]:
    """Pages in Python, made by threads; likewise."""
    _open(folder)
    paths = {"/list?number={}": 0.5, "/buy?number={}": 0.3, "/price?number={}": 0.2}
    server = Server("shop", free_port(), folder, paths, ports={"redis": free_port()})
    os.mkfifo(folder / "chores")
    (folder / "chores.log").touch()
    # The resolver asks the name server of this file, which a mount of its own puts in the place of the machine's.
    (folder / "resolv.conf").write_text("nameserver 127.0.0.79\noptions timeout:5 attempts:1\n")
    environment = {
        VARIABLE: str(server.marker),
        "SHOP_REDIS_PORT": str(server.ports["redis"]),
        "SHOP_CHORES": str(folder / "chores"),
        "SHOP_CHORES_LOG": str(folder / "chores.log"),
    }
    with ExitStack() as closing:

        def start(name: str, command: Sequence[str | Path], port: int = 0, *, said: bool = False) -> None:
            log = None if said else folder / f"{name}.out"
            started = closing.enter_context(process(command, environment=environment, log=log, priority=priority))
            server.processes[name] = started
            if port:
                wait_for(port, started, name)

        port = server.ports["redis"]
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder), "--hz", "100"]
        start("redis", [path_of("redis-server"), "--port", str(port), *options], port)
        module = "tests.evaluation.requests.lab"
        filling = f"from {module}.shop import fill; fill()"
        subprocess.run([sys.executable, "-c", filling], cwd=ROOT, env={**os.environ, **environment}, check=True)
        start("names", [sys.executable, "-m", f"{module}.names", "127.0.0.79", NAME], said=True)
        gunicorn = [
            str(Path(sys.executable).with_name("gunicorn")),
            "--worker-class=gthread",
            f"--threads={THREADS}",
            "--keep-alive=0",
            "--timeout=0",
            f"--bind=127.0.0.1:{server.port}",
            f"{module}.shop:application",
        ]
        mount = f"mount --bind {folder}/resolv.conf /etc/resolv.conf"
        start(
            "gunicorn",
            ["unshare", "--mount", "sh", "-c", f"{mount} && exec {' '.join(gunicorn)}"],
            server.port,
        )
        yield server


def _open(folder: Path) -> None:
    """Servers that have given up root have to get in. Raises PermissionError where they cannot."""
    folder.chmod(0o755)
    for parent in folder.parents:
        if not parent.stat().st_mode & 0o001:
            raise PermissionError(f"{parent}: expected a folder that all users may enter, for {folder}")


def _write_libraries(folder: Path) -> None:
    """Functions that pages load and of which they call few."""
    chance = random.Random(1)
    for library in range(LIBRARIES):
        functions = []
        for number in range(FUNCTIONS):
            name = "blog_call" if (library, number) == (0, 0) else f"blog_{library}_{number}"
            lines = "\n".join(
                f"    if ($value % {chance.randrange(2, 99)} == {each}) {{ $text .= '{chance.randrange(1 << 40):x}'; }}"
                for each in range(12)
            )
            functions.append(
                f"function {name}($value) {{\n    $text = 'item ';\n{lines}\n    return $text . $value;\n}}\n"
            )
        if not library:  # the one through which texts pass on their way into a page
            functions.append(
                "function blog_filter($text, $number) {\n    return trim(strrev(strrev($text . $number)), '0..9');\n}\n"
            )
        (folder / f"library{library:02}.php").write_text("<?php\n" + "\n".join(functions))


def _make_database(folder: Path) -> None:
    shutil.chown(folder / "database", "nobody", "nogroup")
    subprocess.run(
        [
            path_of("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={folder}/database",
            "--user=nobody",
            "--skip-test-db",
        ],
        check=True,
        capture_output=True,
    )


def _mariadb(folder: Path, port: int) -> list[str]:
    return [
        path_of("mariadbd"),
        "--no-defaults",
        "--user=nobody",
        f"--datadir={folder}/database",
        f"--socket={folder}/database/mariadb.socket",
        f"--pid-file={folder}/database/mariadb.pid",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
        "--performance-schema=OFF",
        "--skip-log-bin",
        "--skip-name-resolve",
    ]


def database_client(folder: Path) -> list[str]:
    """The command that asks the blog's database what it is told."""
    return [
        path_of("mariadb"),
        "--no-defaults",
        f"--socket={folder}/database/mariadb.socket",
        "--unbuffered",
        "--batch",
    ]


def _ask_database(folder: Path, questions: str) -> None:
    done = subprocess.run(database_client(folder), input=questions, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"the blog's database: {done.stderr}")
