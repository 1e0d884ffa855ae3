"""Causes outside the programs that slow a host's processors: heat, and lowered limits of their frequency.

Sources: Documentation/admin-guide/thermal/intel_thermal_throttle.rst and Documentation/admin-guide/pm/cpufreq.rst of
Linux. Most virtual machines have neither.
"""

from __future__ import annotations

import re
from pathlib import Path

from laggard.producers.system.open_files import FileBudget

MAX_FILES = 16
"""The most packages, and the most groups of processors of one frequency, that are read: their cooling is shared."""


class CpuLimits:
    """The limits of a host's processors, read in place from files that are searched once.

    Args:
        root: the folder of the processors in sysfs.

    """

    def __init__(self, root: str = "/sys/devices/system/cpu") -> None:
        packages: dict[str, str] = {}
        for cpu in _numbered(Path(root), "cpu"):
            throttled = cpu / "thermal_throttle/package_throttle_total_time_ms"
            if throttled.exists():
                package = cpu / "topology/physical_package_id"
                packages.setdefault(package.read_text() if package.exists() else "", str(throttled))
        self._packages = list(packages.values())[:MAX_FILES]
        self._policies: list[tuple[str, float]] = []
        for policy in _numbered(Path(root, "cpufreq"), "policy")[:MAX_FILES]:
            highest, limit = policy / "cpuinfo_max_freq", policy / "scaling_max_freq"
            if highest.exists() and limit.exists() and (kilohertz := float(highest.read_text())) > 0.0:
                self._policies.append((str(limit), kilohertz))
        paths = len(self._packages) + len(self._policies)
        self._files = FileBudget(paths)
        self._descriptors = [-1] * paths

    def close(self) -> None:
        """Close all files; the next reading opens them again."""
        self._files.release(self._descriptors)

    def throttled_s(self) -> float | None:
        """Return the seconds since boot in which the hottest package was throttled by heat; None if unknown."""
        times_ms = [self._number(number, path) for number, path in enumerate(self._packages)]
        return max(times_ms) / 1e3 if times_ms else None

    def capped_ratio(self) -> float | None:
        """Return the largest share of their highest frequency that processors may not use; None if unknown."""
        first = len(self._packages)
        shares = [
            1.0 - self._number(first + number, path) / highest for number, (path, highest) in enumerate(self._policies)
        ]
        return max(0.0, *shares) if shares else None

    def _number(self, which: int, path: str) -> float:
        text = self._files.read(self._descriptors, which, path)
        try:
            return float(int(text))
        except ValueError:
            raise ValueError(f"{path}: expected an integer, got {text[:60]!r}") from None


def _numbered(folder: Path, name: str) -> list[Path]:
    """Return the entries `name` and a number, by number."""
    if not folder.is_dir():
        return []
    found = {int(each.name[len(name) :]): each for each in folder.iterdir() if re.fullmatch(rf"{name}\d+", each.name)}
    return [found[number] for number in sorted(found)]
