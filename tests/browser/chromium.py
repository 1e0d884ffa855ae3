"""Chromium: Debian's that is installed, or else taken out of its packages, which are not."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest import mock

from playwright.sync_api import sync_playwright

from tests.programs import kept, take_debian_packages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

PACKAGES: Final = ("chromium", "fontconfig-config", "fonts-dejavu-core", "libatomic1")
"""Fonts, so that text is drawn; the last one is what Playwright's own program needs."""

_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


@dataclass(frozen=True, slots=True)
class Chromium:
    """How it is started.

    Attributes:
        path: of the program.
        environment: what it and Playwright need beyond that of this process.

    """

    path: Path
    environment: dict[str, str]


@cache
def chromium() -> Chromium:
    """The browser. Raises AssertionError where it cannot be had; tests fail with it, never skip."""
    if found := shutil.which("chromium"):
        return Chromium(Path(found), {})
    packages = kept("debian-chromium", _take_packages)
    libraries = sorted({str(library.parent) for library in packages.rglob("lib*.so*")})
    environment = {"LD_LIBRARY_PATH": ":".join(libraries), "FONTCONFIG_FILE": str(packages / "fonts.conf")}
    return Chromium(packages / "usr/lib/chromium/chromium", environment)


@contextmanager
def started() -> Iterator[Browser]:
    """Chromium, driven by Playwright, whose event loop is this thread's running one until it ends."""
    program = chromium()
    with ExitStack() as stack:
        # Playwright's own program needs the same libraries, and passes on its environment.
        with mock.patch.dict(os.environ, program.environment):
            playwright = stack.enter_context(sync_playwright())
        # Its sandbox does not work for root, nor in most containers; what is opened here is laggard's own page.
        with playwright.chromium.launch(executable_path=program.path, chromium_sandbox=False) as browser:
            yield browser


def _take_packages(folder: Path) -> Path:
    assert shutil.which("apt-get"), "chromium is not there, and without apt-get it cannot be fetched"
    packages = take_debian_packages(folder, PACKAGES, dependencies=True)
    program = packages / "usr/lib/chromium/chromium"
    assert program.is_file(), f"Debian's packages {' '.join(PACKAGES)} have no {program.relative_to(packages)}"
    (packages / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    return packages
