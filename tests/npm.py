"""Packages of npm that tests need, as their lock file says: fetched once, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import playwright

from tests.programs import fetched, kept, libraries, path_of


def node() -> list[str]:
    """The command of Node.js: Playwright's, since Debian's may be too old for a library. Raises `MissingPartError`."""
    needed = ":".join(map(str, libraries("npm")))
    driver = str(Path(playwright.__file__).parent / "driver/node")
    return ["env", f"LD_LIBRARY_PATH={needed}", driver] if needed else [driver]


def modules(folder: Path) -> Path:
    """The `node_modules` of a folder with `package.json` and `package-lock.json`.

    Raises `MissingPartError` where npm is missing, or cannot fetch them.
    """
    files = [folder / "package.json", folder / "package-lock.json"]
    name = f"npm-{folder.name}-{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:12]}"

    def install(making: Path) -> Path:
        made = making / folder.name
        made.mkdir()
        for file in files:
            shutil.copy(file, made)
        command = [path_of("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        fetched(f"packages of npm, {folder.name}", command, folder=made)
        return made

    return kept(name, install, f"packages of npm, {folder.name}: fetched") / "node_modules"
