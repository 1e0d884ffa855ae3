"""Sites in PHP: a blog, and WordPress. Each has nginx, PHP-FPM, MariaDB, and a service that its pages ask.

Each runs on ports and in a folder of its own, and ends with its context.
"""

from __future__ import annotations

import http.client
import random
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.evaluation.requests.lab.servers import Server, Starter, free_port, open_to_all
from tests.programs import MissingPartError, file_of, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
WORKERS: Final = 6
"""Of php-fpm."""
LIBRARIES: Final = 40
FUNCTIONS: Final = 60
"""In each library: as much source as a usual content management system loads."""
INDEX_BYTES: Final = 32 << 20
POSTS: Final = 500
ARTICLES: Final = 60
"""Of WordPress; it takes a tenth of a second to write one."""

WORDPRESS: Final = Path("/usr/share/wordpress")
THEME: Final = "twentytwentyone"
WORDPRESS_PACKAGES: Final = ("wordpress", f"wordpress-theme-{THEME}", "php-fpm", "php-mysql")

FRONT: Final = """index index.php;
        location / { try_files $uri $uri/ /index.php?$args; }"""
"""What WordPress asks of nginx: all that is no file is made by one script."""

THINK_S: Final = 2.0
"""Of WordPress: eight visitors ask for up to four pages a second, which take half a core each on slow machines."""

CALM_S: Final = 30.0
"""Of WordPress: the first hundred requests of a service are only learned."""

INSTALL_S: Final = 120.0

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
        root {folder}/{root};
        {locations}
        location ~ \\.php$ {{
            root {folder}/pages;
            fastcgi_pass unix:{folder}/fpm.socket;
            fastcgi_buffers 32 16k;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param SERVER_NAME $server_name;
            fastcgi_param HTTP_HOST $http_host;
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
CREATE USER blog@'localhost' IDENTIFIED BY 'blog'; GRANT ALL ON blog.* TO blog@'localhost';
"""


@contextmanager
def blog(folder: Path, priority: int = 0) -> Iterator[Server]:
    """Pages in PHP, as a content management system makes them; `priority` as `process` takes it."""
    open_to_all(folder)
    (folder / "libraries").mkdir()
    (folder / "static").mkdir()
    _write_libraries(folder / "libraries")
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
    shutil.copytree(HERE / "blog", folder / "pages")  # the checkout may be where only its user may enter
    with ExitStack() as closing:
        _start(server, closing, priority, root="static")
        yield server


@contextmanager
def wordpress(folder: Path, priority: int = 0) -> Iterator[Server]:
    """Debian's WordPress, installed anew with articles; likewise. A plugin does what the blog's pages do beside it."""
    open_to_all(folder)
    server = Server(
        "wordpress",
        free_port(),
        folder,
        {"/": 0.3, "/article-{}/": 0.5, "/?s=word{}": 0.2},
        php=file_of("php-fpm"),
        ports={"mariadb": free_port(), "recommender": free_port()},
        think_s=THINK_S,
        calm_s=CALM_S,
        numbers=ARTICLES,
    )
    pages = folder / "pages"
    shutil.copytree(WORDPRESS, pages, ignore=shutil.ignore_patterns("wp-config*.php", ".htaccess"))
    shutil.copy(HERE / "wordpress/wp-config.php", pages)
    for script in (HERE / "blog/flush.php", HERE / "wordpress/install.php"):
        shutil.copy(script, pages)
    with ExitStack() as closing:
        _start(server, closing, priority, root="pages", locations=FRONT)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=INSTALL_S)
        connection.request("GET", "/install.php")
        said = connection.getresponse().read().decode(errors="replace")
        connection.close()
        if said != "installed":
            raise OSError(f"WordPress: expected that it is installed, it says {said[-500:]}")
        # From here on: its installation has no pages.
        shutil.copytree(HERE / "wordpress/mu-plugins", pages / "wp-content/mu-plugins")
        yield server


def need_wordpress() -> None:
    """Raises MissingPartError where WordPress or its theme is not installed."""
    if not (WORDPRESS / "wp-content/themes" / THEME).is_dir():
        raise MissingPartError("WordPress", f"apt install {' '.join(WORDPRESS_PACKAGES)}", f"{WORDPRESS}: no {THEME}")


def _start(server: Server, closing: ExitStack, priority: int, *, root: str, locations: str = "") -> None:
    """Start all of a site. Its scripts are in the folder `pages`, and its files in the folder `root`."""
    folder = server.folder
    for name in ("cache", "index", "database"):
        (folder / name).mkdir()
    (folder / "cache/sidebar").write_text("<ul>" + "<li>something else to read</li>" * 40 + "</ul>")
    (folder / "index/words").write_bytes(random.Random(1).randbytes(INDEX_BYTES))
    environment = {
        "BLOG_FOLDER": str(folder),
        "BLOG_DATABASE_PORT": str(server.ports["mariadb"]),
        "BLOG_RECOMMENDER_PORT": str(server.ports["recommender"]),
        "BLOG_ARTICLES": str(ARTICLES),
    }
    configuration, pools = folder / "nginx.conf", folder / "fpm.conf"
    configuration.write_text(NGINX.format(folder=folder, port=server.port, root=root, locations=locations))
    pools.write_text(FPM.format(folder=folder, workers=WORKERS))
    start = Starter(server, closing, environment, priority)
    _make_database(folder)
    start("mariadb", _mariadb(folder, server.ports["mariadb"]), server.ports["mariadb"])
    _ask_database(folder, TABLES.format(posts=POSTS))
    module = "tests.evaluation.requests.lab.recommender"
    port = server.ports["recommender"]
    start("recommender", [sys.executable, "-m", module, str(port)], port, said=True)
    start("fpm", [path_of("php-fpm"), "--nodaemonize", "--fpm-config", pools], folder / "fpm.socket")
    start("nginx", [path_of("nginx"), "-c", configuration, "-p", folder, "-e", folder / "nginx.log"], server.port)


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
