"""Rows and features in plain words: values, and their deviations from their baselines."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from laggard.pipeline.core.own import is_own
from laggard.pipeline.explaining.phrases import DEVICES, PHRASES
from laggard.pipeline.explaining.units import readable, readable_usual

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.ranking import FeatureScore, RowScore

ALIKE = 0.5
"""A second feature is reported, too, if its score is at least this share of the first one's."""

LONGEST_COMMAND = 60
LARGEST_FACTOR = 1e6


def subject(row: RowScore, commands: Mapping[str, str], scope: str = "process") -> str:
    """Return a row's name, pid and command: `` `hog` (pid 4711, `python3 hog.py`) ``."""
    if scope == "host":
        return "the host"
    name = printable(row.name)
    details = ["laggard itself"] if is_own(row.name) else []
    if (pid := pid_of(row.row)) is not None:
        details.append(f"pid {pid}")
    command = shortened(printable(commands.get(row.row, "")), LONGEST_COMMAND)
    if command and command != name:
        details.append(f"`{command}`")
    return f"`{name}`" + (f" ({', '.join(details)})" if details else "")


def finding(row: RowScore, scope: str) -> str:
    """Return the deviations of a row as text: its worst feature, and the next one of another resource if it matters."""
    if not row.features:
        return "all of it together, no feature alone"
    worst = row.features[0]
    text = _value_text(worst, scope)
    other = next((each for each in row.features[1:] if _resource(each) != _resource(worst)), None)
    if other is not None and other.score >= ALIKE * worst.score:
        text += f"; and {_value_text(other, scope)}"
    return text


def clause(feature: str, value: float, scope: str = "process") -> str:
    """Return a feature's value as a clause: `it writes 212 MB/s to disk`."""
    shown = readable(feature, value)
    known = PHRASES.get(scope, {}).get(feature) or _device_clause(feature)
    if known is None:
        return f"its {printable(feature)} is {shown}"
    return known.replace("{}", shown.removesuffix("/s") if known.endswith("a second") else shown)


def comparison(feature: FeatureScore) -> str:
    """Return the deviation of a value from its baseline as text: `12 times the usual 0.1 ± 0.3 MB/s`."""
    value, mean, deviation = feature.value, feature.mean, feature.standard_deviation
    if not math.isfinite(mean):
        return "which it never had before"
    usual = readable_usual(feature.feature, mean, deviation)
    if value == mean:
        return f"as usual ({usual})"
    if math.isnan(value):
        return f"usually {usual}"
    factor = value / mean if mean > 0.0 and value >= 0.0 else math.nan
    if factor >= 2.0 or factor <= 0.5:
        return f"{_share(factor)} the usual {usual}"
    distance = abs(value - mean) / deviation if deviation > 0.0 else math.nan
    if not math.isnan(distance):
        unit = "standard deviation" if (shown := _distance(distance)) == "1" else "standard deviations"
        return f"{shown} {unit} {'above' if value > mean else 'below'} the usual {usual}"
    return f"usually {usual}"


def over(feature: FeatureScore) -> bool:
    """Return whether the scored value is above its baseline, but the newest value is not."""
    return not feature.value > feature.mean and feature.scored > feature.mean


def beside_usual(feature: FeatureScore, scope: str) -> str:
    """Return the scored value and its baseline: `it waits for the disk 62 % of the time, usually 2 ± 1 %`."""
    usual = readable_usual(feature.feature, feature.mean, feature.standard_deviation)
    text = clause(feature.feature, feature.scored, scope)
    return f"{text}, usually {usual}" if math.isfinite(feature.mean) else text


def pid_of(row: str) -> int | None:
    """Return the process id in a row's id (`nginx[4711@99]`); None without one."""
    found = re.search(r"\[(\d{1,10})(?:@\d+)?\]$", row)
    return int(found[1]) if found else None


def printable(text: str) -> str:
    """Return the text with all unprintable characters escaped, since names are untrusted data."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def shortened(text: str, width: int) -> str:
    """Return at most `width` characters of the text, with an ellipsis if its end is cut off."""
    return text if len(text) <= width else text[: max(width - 3, 0)].rstrip() + "..."


def _value_text(feature: FeatureScore, scope: str) -> str:
    """Return the value of a feature and its deviation as text, which says so if it is over, but still scored."""
    if over(feature):
        recent, now = feature.scored, readable(feature.feature, feature.value)
        past = comparison(replace(feature, value=recent))
        again = "as usual again" if now == readable(feature.feature, feature.mean) else now
        return f"over the last seconds {clause(feature.feature, recent, scope)}, {past}, and now {again}"
    return f"{clause(feature.feature, feature.value, scope)}, {comparison(feature)}"


def _device_clause(feature: str) -> str | None:
    kind, _, rest = feature.partition("_")
    for end, known in DEVICES.get(kind, {}).items():
        device = rest.removesuffix(f"_{end}")
        if device != rest:
            return known.replace("{device}", printable(device).replace("{}", ""))
    return None


def _resource(feature: FeatureScore) -> str:
    return feature.feature.partition("_")[0]


def _share(factor: float) -> str:
    if factor > LARGEST_FACTOR:
        return "more than a million times"
    return f"{_rounded(factor)} times" if factor > 1.0 else f"{readable('_ratio', factor)} of"


def _distance(deviations: float) -> str:
    return "more than a million" if deviations > LARGEST_FACTOR else _rounded(deviations)


def _rounded(number: float) -> str:
    """Return a factor with two significant digits."""
    if number < 10.0:
        return f"{number:.1f}".removesuffix(".0")
    digits = math.floor(math.log10(number)) - 1
    return f"{round(number / 10**digits) * 10**digits:,}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
