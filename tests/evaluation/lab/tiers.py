"""The shop's three tiers: nginx before an application in Python before PostgreSQL, each on a host of its own."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from tests.evaluation.lab.hosts import MIB
from tests.programs import path_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.evaluation.lab.hosts import Disk, Host

PRODUCTS: Final = 10_000
REVIEWS: Final = 200_000
"""About 170 MiB with their indexes."""
APPLICATION_PROCESSES: Final = 3
APPLICATION_PORT: Final = 8000
WEB_PORT: Final = 8080
START_S: Final = 60.0

POSTGRES: Final = {
    "shared_buffers": "16MB",  # the rest is left to the page cache, which neighbors can take away
    "max_connections": "40",
    "work_mem": "1MB",
    "maintenance_work_mem": "16MB",
    "track_io_timing": "on",
    "track_functions": "all",
    "dynamic_shared_memory_type": "mmap",  # in its folder: nothing of it is left on the machine
    "autovacuum": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "max_wal_size": "256MB",
    "logging_collector": "off",
}
NGINX: Final = """
daemon off; master_process on; worker_processes 2; pid {folder}/nginx.pid; error_log stderr warn; user nobody nogroup;
events {{ worker_connections 2048; }}
http {{
    access_log off; gzip on; gzip_types text/html; gzip_comp_level 9; gzip_min_length 256; keepalive_requests 1000000;
    client_body_temp_path {folder}/nginx-body; proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi; uwsgi_temp_path {folder}/nginx-uwsgi; scgi_temp_path {folder}/nginx-scgi;
    upstream shop {{ server {application}; keepalive 64; }}
    server {{
        listen {web} backlog=4096;
        location / {{
            proxy_pass http://shop; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_read_timeout 60s;
            proxy_buffers 16 8k;
        }}
    }}
    server {{ listen unix:{folder}/nginx.socket; location / {{ stub_status; }} }}
}}
"""


class Shop:
    """The three tiers at work.

    Attributes:
        folder: for its files.
        database: of the database as the recorder asks it, beside the network of the hosts.
        status: the socket at which nginx says how it is.
        counted: where the application's processes keep their counters.

    """

    def __init__(self, folder: Path, web: Host, application: Host, database: Host, disk: Disk) -> None:
        self.folder = folder
        self.database = f"host={folder} dbname=postgres user=postgres"
        self.status = folder / "nginx.socket"
        self.counted = folder / "counted"
        self._start_database(database, disk)
        self._start_application(application, database)
        self._start_web(web, application)

    def _start_database(self, host: Host, disk: Disk) -> None:
        host.add("postgres", weight=2048)
        data = disk.folder / "postgres"
        data.mkdir()
        shutil.chown(data, "nobody", "nogroup")
        self.folder.chmod(0o777)  # for the socket
        user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "--chdir=/"]
        host.run(
            "postgres",
            [*user, path_of("initdb"), "--pgdata", str(data), "--username=postgres", "--auth=trust", "--no-sync"],
        )
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all samenet trust\n")
        options = POSTGRES | {"listen_addresses": host.address, "unix_socket_directories": str(self.folder)}
        settings = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        # An own IPC namespace ends with it, and the shared memory in that, however it ends.
        command = ["unshare", "--ipc", *user, path_of("postgres"), "-D", str(data), *settings]
        started = host.start("postgres", command)
        _wait(started, "the database", self._database_answers)
        script = Path(__file__).with_name("shop.sql")
        with psycopg.connect(self.database, autocommit=True) as connection:
            text = script.read_text().replace(":products", str(PRODUCTS)).replace(":reviews", str(REVIEWS))
            text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
            for statement in text.split(";\n"):
                if statement.strip():
                    connection.execute(statement.encode())

    def _database_answers(self) -> None:
        psycopg.connect(self.database).close()

    def _start_application(self, host: Host, database: Host) -> None:
        host.add("shop")
        self.counted.mkdir()
        environment = os.environ | {
            "SHOP_DATABASE": f"host={database.address} dbname=postgres user=postgres",
            "PROMETHEUS_MULTIPROC_DIR": str(self.counted),
        }
        server = [sys.executable, "-m", "uvicorn", "tests.evaluation.lab.application:application", "--no-access-log"]
        listen = ["--host", host.address, "--port", str(APPLICATION_PORT), "--workers", str(APPLICATION_PROCESSES)]
        host.start("shop", [*server, *listen, "--backlog", "4096", "--log-level", "warning"], environment=environment)

    def _start_web(self, host: Host, application: Host) -> None:
        host.add("nginx", weight=2048)
        configuration = self.folder / "nginx.conf"
        configuration.write_text(
            NGINX.format(
                folder=self.folder,
                application=f"{application.address}:{APPLICATION_PORT}",
                web=f"{host.address}:{WEB_PORT}",
            )
        )
        command = [path_of("nginx"), "-c", str(configuration), "-p", str(self.folder)]
        started = host.start("nginx", command)
        _wait(started, "the web server", self._web_answers)

    def _web_answers(self) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.status))


def _wait(process: subprocess.Popen[str], what: str, ask: Callable[[], None]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            return ask()
        except (OSError, psycopg.OperationalError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise OSError(f"{what} did not start: {error}") from None
            time.sleep(0.1)


IMAGE_BYTES: Final = 1024 * MIB
"""Of the disk: the data, indexes and logs of the database, and what the neighbor reads."""
