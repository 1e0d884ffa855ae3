"""Programs that tests need, in one table. What the path does not have is taken out of Debian's packages.

`python -m tests.prepare` gets all of them ahead of a run; else each comes when a test first asks for it. They are kept
in a cache: root's is in /var/cache, because servers that root starts go on as users who may not enter root's home.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests import debian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


LOG: Final = logging.getLogger("laggard.tests")
PREPARE: Final = ".venv/bin/python -m tests.prepare"
TRIED_S: Final = 60.0
_MADE: Final = 2
"""Goes up where parts are made otherwise: those that are kept are then made anew."""


class MissingPartError(Exception):
    """A program cannot be had on this machine. The test is skipped for it; where `CI` is `true`, it fails.

    Attributes:
        part: what is missing.
        brings: the command that brings it.

    """

    def __init__(self, part: str, brings: str, why: str) -> None:
        super().__init__(f"{part}: missing, `{brings}` brings it\n{why.strip()[-1000:]}")
        self.part = part
        self.brings = brings


@dataclass(frozen=True, slots=True)
class Part:
    """Programs that are had together.

    Attributes:
        name: in words.
        programs: name of each, and where packages have it; a `*` stands for a version. The path is searched for either.
        packages: of Debian.
        commands: for a shell, of a program that needs more than its arguments: `{}` is its file, `$root` where all is.
        environment: what its programs need beside their libraries, likewise.
        amend: what else has to be done with the folder.
        tried: the argument with which the first program shows that it runs.

    """

    name: str
    programs: Mapping[str, str]
    packages: tuple[str, ...]
    commands: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    amend: Callable[[Path], None] = lambda _: None
    tried: str = "--version"

    @property
    def brings(self) -> str:
        return f"apt install {' '.join(self.packages)}"


_JAVA: Final = "usr/lib/jvm/java-[0-9][0-9]-openjdk-*"
_NODE: Final = "usr/share/nodejs"
_POSTGRES: Final = "usr/lib/postgresql/*/bin"
_TEMPLATES: Final = b"/usr/share/prometheus/alertmanager"
_SEARCHED: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin", f"/{_POSTGRES}")
"""Beside the path, where programs are that not everybody starts."""

_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


def _amend_java(taken: Path) -> None:
    (home,) = taken.glob(_JAVA)
    (taken / "java").symlink_to(home.relative_to(taken))
    debian.write_java_certificates(home / "lib/security/cacerts")


def _amend_node(taken: Path) -> None:
    """Debian's reads some scripts from absolute paths, which npm does without: they are for `fetch` and its prompt."""
    for library in taken.glob("usr/lib/*/libnode.so.*"):
        _replace(library, rb"(?<=\0)/usr/share/nodejs/[\w./-]+\.js(?=\0)", b"/dev/null")


def _amend_compiler(taken: Path) -> None:
    """What it links runs with the C library of this machine, which the linker's scripts name."""
    for script in taken.glob("usr/lib/*/lib*.so"):
        if script.is_file() and script.stat().st_size < 1000:
            for library in re.findall(r"/lib\S*/\S+\.so\.\d+", script.read_text(errors="replace")):
                inside = taken / library.lstrip("/")
                if not inside.exists():
                    inside.parent.mkdir(parents=True, exist_ok=True)
                    inside.symlink_to(library)


def _amend_chromium(taken: Path) -> None:
    (taken / "fonts.conf").write_text(_FONTS, encoding="utf-8")


def _amend_alertmanager(taken: Path) -> None:
    """Debian's looks for its own templates at an absolute path: it becomes one from the working directory."""
    for name in ("prometheus-alertmanager", "amtool"):
        _replace(taken / "usr/bin" / name, re.escape(_TEMPLATES), _TEMPLATES[1:].replace(b"s/", b"s//"))


def _amend_php(taken: Path) -> None:
    (extensions,) = taken.glob("usr/lib/php/2*")
    (taken / "extensions").symlink_to(extensions.relative_to(taken))


def _replace(path: Path, pattern: bytes, text: bytes) -> None:
    """Put a text, filled up by zeros, in the place of others in a program."""
    path.write_bytes(re.sub(pattern, lambda found: text.ljust(len(found[0]), b"\0"), path.read_bytes()))


_PHP: Final = (
    '{} -n -d extension_dir="$root/extensions" -d zend_extension=opcache -d extension=mysqlnd -d extension=mysqli "$@"'
)
_MARIADB: Final = '{} "$@" --basedir="$root/usr" --lc-messages-dir="$root/usr/share/mysql"'  # --no-defaults is first

PARTS: Final = (
    Part(
        "Java and Maven",
        {"java": f"{_JAVA}/bin/java", "javac": f"{_JAVA}/bin/javac", "mvn": "usr/share/maven/bin/mvn"},
        ("default-jdk-headless", "maven"),
        environment={"JAVA_HOME": "$root/java"},
        amend=_amend_java,
    ),
    Part(
        "npm",
        {"npm": f"{_NODE}/npm/bin/npm-cli.js"},
        ("npm", "libatomic1"),  # the latter is what Playwright's Node.js needs, see tests/npm.py
        commands={"npm": '"$root/usr/bin/node" {} "$@"'},
        environment={"NODE_PATH": f"${{NODE_PATH:+$NODE_PATH:}}$root/{_NODE}:$root/usr/lib/nodejs"},
        amend=_amend_node,
    ),
    Part(
        "a compiler of C",
        {"cc": "usr/bin/gcc", **{name: f"usr/bin/{name}" for name in ("make", "nm", "readelf", "strip")}},
        ("gcc", "libc6-dev", "make"),
        commands={"cc": '{} --sysroot="$root" -B"$root/usr/bin/" "$@"'},
        amend=_amend_compiler,
    ),
    Part(
        "Chromium",
        {"chromium": "usr/lib/chromium/chromium"},
        # Fonts, so that text is drawn; the last one is what Playwright's own program needs.
        ("chromium", "fontconfig-config", "fonts-dejavu-core", "libatomic1"),
        environment={"FONTCONFIG_FILE": "$root/fonts.conf"},
        amend=_amend_chromium,
    ),
    Part("Prometheus", {name: f"usr/bin/{name}" for name in ("prometheus", "promtool")}, ("prometheus",)),
    Part(
        "Alertmanager",
        # Debian calls the server otherwise than Prometheus's own releases.
        {"alertmanager": "usr/bin/prometheus-alertmanager", "amtool": "usr/bin/amtool"},
        ("prometheus-alertmanager",),
        commands=dict.fromkeys(("alertmanager", "amtool"), 'env --chdir="$root" {} "$@"'),
        amend=_amend_alertmanager,
    ),
    Part("nginx", {"nginx": "usr/sbin/nginx"}, ("nginx",), tried="-v"),
    Part("eu-stack", {"eu-stack": "usr/bin/eu-stack"}, ("elfutils",)),
    Part(
        "PHP",
        {"php": "usr/bin/php[0-9]*", "php-fpm": "usr/sbin/php-fpm[0-9]*"},
        ("php-cli", "php-fpm", "php-mysql"),
        commands=dict.fromkeys(("php", "php-fpm"), _PHP),
        amend=_amend_php,
    ),
    Part(
        "MariaDB",
        {"mariadbd": "usr/sbin/mariadbd", **{name: f"usr/bin/{name}" for name in ("mariadb-install-db", "mariadb")}},
        ("mariadb-server",),
        commands={"mariadbd": f'{_MARIADB} --plugin-dir="$root/usr/lib/mysql/plugin"', "mariadb-install-db": _MARIADB},
    ),
    Part("redis", {"redis-server": "usr/bin/redis-server"}, ("redis-server",)),
    Part("PostgreSQL", {name: f"{_POSTGRES}/{name}" for name in ("postgres", "initdb", "psql")}, ("postgresql",)),
    Part("jq", {"jq": "usr/bin/jq"}, ("jq",)),
    Part(
        "systemd-analyze",
        {"systemd-analyze": "usr/bin/systemd-analyze"},
        ("systemd",),
        environment={"SYSTEMD_UNIT_PATH": "$root/lib/systemd/system:"},
    ),
    Part("ip", {"ip": "bin/ip"}, ("iproute2",), tried="-V"),
)


def path_of(name: str) -> str:
    """What starts a program of `PARTS`. Raises `MissingPartError` where it cannot be had."""
    return str(_found(name)[0])


def file_of(name: str) -> Path:
    """The file itself that a process of the program executes. Raises likewise."""
    return _found(name)[1].resolve()


def libraries(name: str) -> list[Path]:
    """Folders with the libraries that came with a program; none where that is the machine's. Raises likewise."""
    script, _ = _found(name)
    return debian.libraries(script.parents[1]) if script.parent.name == debian.STARTERS else []


def cache_folder() -> Path:
    """Where all is kept."""
    default = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or default) / "laggard-tests"


_failed: dict[Path, Exception] = {}
"""What could not be made: it is tried once."""


def kept(name: str, make: Callable[[Path], Path], told: str = "") -> Path:
    """A file or folder from the cache, or else what is made in a folder that is given. Several processes may ask.

    `told` is logged when it was made.
    """
    base = cache_folder()
    found = base / name
    if found.exists():
        return found
    if error := _failed.get(found):
        raise error.with_traceback(None)
    base.mkdir(parents=True, exist_ok=True)
    base.chmod(0o755)
    with _untimed(), (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            begin = time.monotonic()
            folder = base / f"{name}.making"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                made = make(folder)
            except Exception as error:
                _failed[found] = error
                raise
            made.chmod(0o755)
            made.rename(found)
            shutil.rmtree(folder)
            if told:
                LOG.info("%s (%.0f s)", told, time.monotonic() - begin)
    return found


@contextmanager
def _untimed() -> Iterator[None]:
    """What is fetched within a test is not counted as the test's time."""
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)


def fetched(part: str, command: list[str], **how: Any) -> None:
    """Run a command that fetches a part from a registry, as `run`. Raises `MissingPartError` where it cannot."""
    try:
        run(command, **how)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise MissingPartError(part, PREPARE, str(error)) from None


@contextmanager
def started(command: Sequence[str | Path], **how: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a program and wait for its end, but kill it if the test fails."""
    with subprocess.Popen(command, **how) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def run(command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None) -> None:
    """Run a command to its end. Raises `AssertionError` with what it said where it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert not done.returncode, f"{' '.join(command)}:\n{(done.stderr or done.stdout)[-3000:]}"


def _found(name: str) -> tuple[Path, Path]:
    """What starts a program, and its file."""
    (part,) = (part for part in PARTS if name in part.programs)
    here = {each: _on_path(each, Path(place).name) for each, place in part.programs.items()}
    own = here[name]
    if own is not None and all(here.values()):
        return own, own
    try:
        taken = _taken(part)
    except MissingPartError:
        if own is None:
            raise
        return own, own
    (file,) = taken.glob(part.programs[name])
    return taken / debian.STARTERS / name, file


def _on_path(*names: str) -> Path | None:
    own = (folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder.startswith("/"))
    for folder in (*map(glob.escape, own), *_SEARCHED):
        for name in names:
            for path in sorted(Path("/").glob(f"{folder}/{name}".lstrip("/")), reverse=True):
                if path.is_file() and os.access(path, os.X_OK):
                    return path
    return None


def _taken(part: Part) -> Path:
    described = repr((_MADE, part.programs, part.packages, part.commands, part.environment))
    version = hashlib.sha256(described.encode()).hexdigest()[:12]

    def take(folder: Path) -> Path:
        try:
            return _take(part, folder)
        except subprocess.CalledProcessError as error:
            why = str(error.stderr or error)
        except (OSError, subprocess.SubprocessError) as error:
            why = str(error)
        raise MissingPartError(part.name, part.brings, why)

    system = platform.freedesktop_os_release()
    name = re.sub(r"\W+", "-", f"{system['ID']}-{system.get('VERSION_ID', '')}-{part.name.lower()}")
    return kept(f"{name}-{version}", take, f"{part.name}: taken from Debian's packages")


def _take(part: Part, folder: Path) -> Path:
    taken = debian.take(folder, cache_folder() / "debian-lists", part.packages)
    part.amend(taken)
    for name, place in part.programs.items():
        files = list(taken.glob(place))
        if len(files) != 1:
            raise FileNotFoundError(f"expected one {place} in {' '.join(part.packages)}")
        file = f'"$root/{files[0].relative_to(taken)}"'
        command = part.commands.get(name, '{} "$@"').replace("{}", file)
        starter = debian.write_starter(taken, name, command, part.environment)
        if name == next(iter(part.programs)):
            subprocess.run([starter, part.tried], capture_output=True, text=True, check=True, timeout=TRIED_S)
    return taken
