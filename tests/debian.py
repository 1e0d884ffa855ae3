"""Programs out of Debian's packages: taken with all that they depend on, without root, and without installing them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import ssl
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LISTS_LAST_S: Final = 6 * 3600.0
APT_S: Final = 900.0
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
STARTERS: Final = "start"
"""The folder of the scripts that start what was taken."""

# The programs run with the C library of this machine, of the same release: its loader takes no other.
_LEFT_OUT: Final = ("libc6_", "libc-bin_")

_not_updated: dict[Path, subprocess.SubprocessError] = {}
"""Without a network it is tried once, not for each part."""


def take(folder: Path, lists: Path, packages: Sequence[str]) -> Path:
    """What packages hold and all that they depend on, in one folder; it may be moved.

    Installed packages make no difference: the taken files serve as well when those are gone.

    Args:
        folder: an empty one, for the work.
        lists: folder of the lists of packages, which are fetched if they are old; all that take packages share it.
        packages: their names.

    Raises:
        subprocess.SubprocessError: they cannot be had.
        FileNotFoundError: this is no Debian.

    """
    archives, taken = folder / "archives", folder / "taken"
    for each in (archives / "partial", taken):
        each.mkdir(parents=True)
    # With lists of its own: those of the machine may be missing, and are root's.
    own = {
        "Dir::State::Lists": lists,
        "Dir::State::Status": os.devnull,
        "Dir::Cache": folder,
        "Debug::NoLocking": 1,
        "APT::Sandbox::User": "",
    }
    apt = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in own.items())]
    fetch = [*apt, "--yes", "--download-only", "--no-install-recommends", "install", *packages]
    _update(lists, apt, LISTS_LAST_S)
    try:
        _run(fetch)
    except subprocess.CalledProcessError:
        _update(lists, apt, 0.0)  # what the lists name may have been replaced since
        _run(fetch)
    unpacked = [path for path in archives.glob("*.deb") if not path.name.startswith(_LEFT_OUT)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda path: _run(["dpkg-deb", "--extract", str(path), str(taken)]), unpacked))
    for name in ("doc", "info", "man"):
        shutil.rmtree(taken / "usr/share" / name, ignore_errors=True)
    _turn_links(taken)
    return taken


def libraries(taken: Path) -> list[Path]:
    """The folders with libraries of what was taken."""
    tops = [top for each in ("lib", "usr/lib") for top in taken.glob(f"{each}/*-linux-gnu*")]
    places = [place for top in tops for place in (top, *top.iterdir())]
    return sorted(place for place in places if place.is_dir() and any(place.glob("lib*.so*")))


def write_starter(taken: Path, name: str, command: str, environment: Mapping[str, str]) -> Path:
    """The script that starts a program.

    Args:
        taken: what `take` gave.
        name: of the program.
        command: of a shell that has the folder as `$root`, such as `"$root/usr/bin/make" "$@"`.
        environment: what the program needs beside its libraries, likewise.

    """
    found = ":".join(f"$root/{folder.relative_to(taken)}" for folder in libraries(taken))
    variables = {"LD_LIBRARY_PATH": found, **environment}
    exported = "".join(f'export {variable}="{value}"\n' for variable, value in variables.items())
    script = taken / STARTERS / name
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\nroot=${{0%/*/*}}\n{exported}exec {command}\n")
    script.chmod(0o755)
    return script


def write_java_certificates(path: Path) -> None:
    """Java's file of the authorities that this machine trusts; the package that makes it does so when it is installed.

    Raises OSError where the machine has none.
    """
    trusted = ssl.create_default_context(cafile=CERTIFICATES).get_ca_certs(binary_form=True)
    now_ms = int(time.time() * 1000)

    def text(said: str) -> bytes:
        return struct.pack(">H", len(said)) + said.encode()

    store = struct.pack(">3I", 0xFEEDFEED, 2, len(trusted))
    for number, certificate in enumerate(trusted):
        entry = text(f"authority-{number}") + struct.pack(">Q", now_ms) + text("X.509")
        store += struct.pack(">I", 2) + entry + struct.pack(">I", len(certificate)) + certificate
    # What the format wants; Java's own tools know this password.
    digest = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store, usedforsecurity=False)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(store + digest.digest())


def _update(lists: Path, apt: Sequence[str], last_s: float) -> None:
    lists.mkdir(parents=True, exist_ok=True)
    stamp = lists.with_name(f"{lists.name}.stamp")
    with lists.with_name(f"{lists.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and time.time() - stamp.stat().st_mtime < last_s:
            return
        if lists in _not_updated:
            raise _not_updated[lists].with_traceback(None)
        (lists / "partial").mkdir(exist_ok=True)
        try:
            _run([*apt, "--option=APT::Update::Error-Mode=any", "update"])
        except subprocess.SubprocessError as error:
            _not_updated[lists] = error
            raise
        stamp.touch()


def _turn_links(taken: Path) -> None:
    """Links to absolute paths lead to what was taken, where it has that."""
    for folder, folders, files in os.walk(taken):
        for name in (*folders, *files):
            path = taken.joinpath(folder, name)
            if path.is_symlink() and (target := str(path.readlink())).startswith("/"):
                inside = taken / target.lstrip("/")
                if inside.is_symlink() or inside.exists():
                    path.unlink()
                    path.symlink_to(os.path.relpath(inside, folder))


def _run(command: Sequence[str]) -> None:
    subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=APT_S, errors="replace"
    )
