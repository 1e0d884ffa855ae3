"""Packages of npm that tests need, as their lock file says: fetched once, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from tests.programs import kept, run

if TYPE_CHECKING:
    from pathlib import Path


def modules(folder: Path) -> Path:
    """The `node_modules` of a folder with `package.json` and `package-lock.json`.

    Raises `AssertionError` where Node.js is missing, or with what npm said.
    """
    for program in ("node", "npm"):
        assert shutil.which(program), f"{program} is needed for packages of npm; on Debian: apt install nodejs npm"
    files = [folder / "package.json", folder / "package-lock.json"]
    name = f"npm-{folder.name}-{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:12]}"

    def install(making: Path) -> Path:
        made = making / folder.name
        made.mkdir()
        for file in files:
            shutil.copy(file, made)
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder=made)
        return made

    return kept(name, install) / "node_modules"
