"""Programs that tests need: made or fetched once, and kept in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def kept(name: str, make: Callable[[Path], Path]) -> Path:
    """A file or folder from the cache, or else what is made in a folder that is given. Several processes may ask."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "laggard-tests"
    found = base / name
    base.mkdir(parents=True, exist_ok=True)
    with (base / "programs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            folder = base / "making"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder).rename(found)
            shutil.rmtree(folder)
    return found


def run(command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None) -> None:
    """Run a command to its end. Raises `AssertionError` with what it said where it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert not done.returncode, f"{' '.join(command)}:\n{done.stderr[-3000:]}"


def take_debian_packages(folder: Path, packages: Sequence[str], *, dependencies: bool = False) -> Path:
    """What Debian's packages hold, without installing them; folders may be missing that only their dependencies have.

    With `dependencies` those come too, as far as they are not installed here.

    Raises AssertionError where they cannot be had.
    """
    # With lists of its own: those of the machine may be missing, and are root's.
    (folder / "lists/partial").mkdir(parents=True)
    own = {"Dir::State::Lists": folder / "lists", "Dir::Cache": folder, "Debug::NoLocking": 1, "APT::Sandbox::User": ""}
    apt = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in own.items())]
    run([*apt, "update"])
    taken = folder
    if dependencies:
        taken = folder / "archives"
        (taken / "partial").mkdir(parents=True)
        run([*apt, "--yes", "--download-only", "--no-install-recommends", "install", *packages])
    else:
        run([*apt, "download", *packages], folder=folder)
    for package in taken.glob("*.deb"):
        run(["dpkg-deb", "--extract", str(package), str(folder / "packages")])
    return folder / "packages"
