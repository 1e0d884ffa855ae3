"""Values for people. A feature's name ends with its base unit, which decides the format.

Prefixes are decimal: 1 kB is 1000 bytes, 1 MB a million. Values have three significant digits. Percentages, minutes,
hours and days have at most one decimal.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple


class Step(NamedTuple):
    """The format of values from `least` base units on: multiples of `size`, with `symbol`."""

    least: float
    size: float
    symbol: str
    decimals: int = 3


BYTES = tuple(Step(1e3**power, 1e3**power, f" {prefix}B") for power, prefix in enumerate(("", "k", "M", "G", "T", "P")))
COUNTS = (
    Step(1.0, 1.0, ""),
    Step(1e5, 1e3, " k"),
    Step(1e6, 1e6, " M"),
    Step(1e9, 1e9, " G"),
    Step(1e12, 1e12, " T"),
)
RATIOS = (Step(1.0, 0.01, " %", decimals=1),)
SECONDS = (
    Step(1e-9, 1e-9, " ns"),
    Step(1e-6, 1e-6, " us"),
    Step(1e-3, 1e-3, " ms"),
    Step(1.0, 1.0, " s"),
    Step(120.0, 60.0, " min", decimals=1),
    Step(7200.0, 3600.0, " h", decimals=1),
    Step(172800.0, 86400.0, " d", decimals=1),
)

SUFFIXES = (("_bytes", BYTES), ("_characters", BYTES), ("_ratio", RATIOS), ("_seconds", SECONDS), ("_s", SECONDS))
"""The steps by the end of a feature's name; other features are counts. `_per_s` is removed first, and shown as `/s`."""

TIMESTAMP = "_timestamp_seconds"
"""The end of the name of a time since the Unix epoch."""

LATEST_S = 253402300800.0
"""The year 10000. Times from then on are not formatted as times."""

ROUNDING = 5e-4
"""Half of the last digit shown: 999.6 kB is shown as 1 MB, not as 1,000 kB."""

NOT_THERE = "-"
"""The text for a missing value (NaN)."""

INFINITE = "infinite"


def readable(feature: str, value: float) -> str:
    """Return the value of a feature with its unit: `212 MB/s`, `97 %`, `1.5 h`, `512`; a timestamp in local time."""
    if math.isnan(value):
        return NOT_THERE
    if math.isinf(value):
        return INFINITE if value > 0 else f"-{INFINITE}"
    if feature.endswith(TIMESTAMP) and 0.0 <= value < LATEST_S:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    steps, rate = _unit(feature)
    step = _step(steps, value)
    return f"{_digits(value / step.size, step.decimals)}{step.symbol}{rate}"


def readable_usual(feature: str, mean: float, standard_deviation: float) -> str:
    """Return a feature's baseline, mean and standard deviation in one unit: `0.1 ± 0.3 MB/s`.

    A standard deviation that is 0, or rounds to 0, is left out.
    """
    if not math.isfinite(mean) or not 0.0 < standard_deviation < math.inf:
        return readable(feature, mean)
    steps, rate = _unit(feature)
    step = _step(steps, max(abs(mean), standard_deviation))
    spread = _digits(standard_deviation / step.size, step.decimals)
    if spread == "0":
        return readable(feature, mean)
    return f"{_digits(mean / step.size, step.decimals)} ± {spread}{step.symbol}{rate}"


def readable_duration(seconds: float) -> str:
    """Return a duration in whole seconds or larger units: `45 s`, `2 min`, `1.5 h`, `3 d`."""
    return readable("duration_seconds", round(seconds, 0 if abs(seconds) < 120.0 else -1))


def cores(used: float) -> str:
    """Return CPU time over time, in cores: `0 cores`, `0.25 cores`, `1 core`, `12 cores`."""
    shown = f"{used:.2f}" if used < 10.0 else f"{used:.0f}"
    return {"0.00": "0 cores", "1.00": "1 core"}.get(shown, f"{shown} cores")


def counted(count: int, what: str) -> str:
    """Return a count with its noun: `1 tick`, `1,200 ticks`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _unit(feature: str) -> tuple[tuple[Step, ...], str]:
    base = feature.removesuffix("_per_s")
    steps = next((steps for suffix, steps in SUFFIXES if base.endswith(suffix)), COUNTS)
    return steps, "/s" if base != feature else ""


def _step(steps: tuple[Step, ...], value: float) -> Step:
    magnitude = abs(value) * (1 + ROUNDING)
    if magnitude == 0.0:
        return next((step for step in steps if step.size == 1.0), steps[0])
    return next((step for step in reversed(steps) if magnitude >= step.least), steps[0])


def _digits(value: float, most: int) -> str:
    if abs(value) >= 1e15:
        return f"{value:.2e}"
    decimals = next((shown for least, shown in ((100.0, 0), (10.0, 1), (1.0, 2)) if abs(value) >= least), 3)
    decimals = min(decimals, most)
    text = f"{value:,.{decimals}f}"
    if decimals:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
