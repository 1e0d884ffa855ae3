"""nginx: that of the path, or else taken out of Debian's package, which is not installed."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from tests.programs import kept, take_debian_packages


@cache
def nginx() -> Path:
    """The program. Raises AssertionError where it cannot be had; tests fail with it, never skip."""
    if found := shutil.which("nginx"):
        return Path(found)
    return kept("debian-nginx", lambda folder: take_debian_packages(folder, ("nginx",))) / "usr/sbin/nginx"
