"""eu-stack: that of the path, or else taken out of Debian's packages, which are not installed."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from tests.programs import kept, take_debian_packages

PACKAGES = ("elfutils", "libasm1", "libdw1", "libelf1")


class NoElfutilsError(Exception):
    """eu-stack cannot be had on this machine; the message says what is missing. Tests fail with it, never skip."""


@cache
def folder_of_eu_stack() -> Path:
    """A folder for the path in which it can be started."""
    if found := shutil.which("eu-stack"):
        return Path(found).parent
    return kept("debian-elfutils", _take_packages) / "bin"


def _take_packages(folder: Path) -> Path:
    if shutil.which("apt-get") is None:
        raise NoElfutilsError("eu-stack is not there; the package elfutils of most distributions has it")
    try:
        packages = take_debian_packages(folder, PACKAGES)
    except AssertionError as error:
        raise NoElfutilsError(f"eu-stack could not be fetched; on Debian: apt install elfutils\n{error}") from None
    (packages / "bin").mkdir()
    program = packages / "bin/eu-stack"
    # Its libraries are beside it, wherever this folder is moved to.
    program.write_text(
        '#!/bin/sh\nroot=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")\n'
        'LD_LIBRARY_PATH=$(dirname -- "$(find "$root/usr/lib" -name libdw.so.1)") exec "$root/usr/bin/eu-stack" "$@"\n'
    )
    program.chmod(0o755)
    return packages
