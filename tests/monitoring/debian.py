"""Prometheus and Alertmanager: those of the path, or else taken out of Debian's packages, which are not installed."""

from __future__ import annotations

import shutil
from functools import cache
from typing import TYPE_CHECKING

from tests.programs import kept, take_debian_packages

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ("prometheus", "prometheus-alertmanager")

# Debian builds these so that they look for Alertmanager's own templates at one absolute path, where only an installed
# package has them. That path is made one from the working directory, of as many bytes.
USE_TEMPLATES = ("prometheus-alertmanager", "amtool")
TEMPLATES, OWN_TEMPLATES = b"/usr/share/prometheus/alertmanager", b"usr/share/prometheus//alertmanager"


class NoMonitoringError(Exception):
    """A program cannot be had on this machine; the message says what is missing. Tests fail with it, never skip."""


def prometheus() -> list[str]:
    """The command of the server."""
    return _command("prometheus")


def promtool() -> list[str]:
    """The command that checks rules, their tests, configurations and pages of metrics."""
    return _command("promtool")


def alertmanager() -> list[str]:
    """The command of the server; give it absolute paths. Debian calls it otherwise than Prometheus's own releases."""
    found = shutil.which("alertmanager")
    return [found] if found else _command("prometheus-alertmanager")


def amtool() -> list[str]:
    """The command that checks Alertmanager's configuration and templates; give it absolute paths."""
    return _command("amtool")


@cache
def _command(name: str) -> list[str]:
    if found := shutil.which(name):
        return [found]
    packages = kept("debian-monitoring", _take_packages)
    program = packages / "usr/bin" / name
    if not program.is_file():
        raise NoMonitoringError(f"{name} is not in Debian's packages {' and '.join(PACKAGES)}")
    return ["env", f"--chdir={packages}", str(program)] if name in USE_TEMPLATES else [str(program)]


def _take_packages(folder: Path) -> Path:
    if shutil.which("apt-get") is None:
        raise NoMonitoringError("Prometheus and Alertmanager are not there: prometheus, promtool, alertmanager, amtool")
    try:
        packages = take_debian_packages(folder, PACKAGES)
    except AssertionError as error:
        raise NoMonitoringError(
            f"Prometheus and Alertmanager could not be fetched; on Debian: apt install {' '.join(PACKAGES)}\n{error}"
        ) from None
    for name in USE_TEMPLATES:
        program = packages / "usr/bin" / name
        program.write_bytes(program.read_bytes().replace(TEMPLATES, OWN_TEMPLATES))
    return packages
