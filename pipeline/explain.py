"""A ranking in plain words: which row is most unlike itself, in what, and how far that is from its usual."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from laggard.pipeline.phrases import DEVICES, PHRASES
from laggard.pipeline.units import readable, readable_usual

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.ranking import FeatureScore, Ranking, RowScore

ALIKE = 0.5
"""A second feature is told as well when it has this share of the first one's score."""

FAINT = 2.0
"""A row that is within the budget and whose worst feature has less than this score is as usual as anything."""

FIRM = 15.0
"""A feature with this score is far from its usual (eight standard deviations), whatever the budget for alerts says."""

LONGEST_COMMAND = 60
LARGEST_FACTOR = 1e6


def sentence(ranking: Ranking, commands: Mapping[str, str], scope: str = "process", *, scored: bool = False) -> str:
    """Say what the ranking found, for a person who has never seen laggard's words.

    Args:
        ranking: worst row first, each with its features, worst first.
        commands: by row id, the command line; a row without one is named without.
        scope: what the rows are, see `Frame.scope`.
        scored: whether the score stands beside it, so that it need not be said that it is not enough for an alert.

    Returns:
        One to three sentences, free of control characters whatever the rows are called.

    """
    if not ranking.rows:
        return "Nothing can be judged yet: no row has been seen for long enough."
    worst = ranking.rows[0]
    who = subject(worst, commands, scope)
    if worst.score <= 1.0:
        if not any(each.score >= FAINT for each in worst.features):
            return "Nothing is unusual so far." if ranking.young else "Nothing is unusual."
        if scored:
            return f"Most unlike itself is {who}: {_finding(worst, scope)}."
        if any(each.score >= FIRM for each in worst.features):
            return f"{_capital(who)} is most unlike itself: {_finding(worst, scope)}. It is not enough for an alert."
        begin = "Nothing is certain yet" if ranking.young else "Nothing is unusual enough for an alert"
        return f"{begin}. Most unlike itself is {who}: {_finding(worst, scope)}."
    told = f"{_capital(who)} is most unlike itself: {_finding(worst, scope)}."
    second = ranking.rows[1] if len(ranking.rows) > 1 else None
    if second is not None and second.score > max(1.0, ALIKE * worst.score):
        told += f" Then comes {subject(second, commands, scope)}: {_finding(second, scope)}."
    return told


def subject(row: RowScore, commands: Mapping[str, str], scope: str = "process") -> str:
    """Name a row so that a person finds it again: `` `hog` (pid 4711, `python3 hog.py`) ``."""
    if scope == "host":
        return "the host"
    name = printable(row.name)
    details = []
    if (pid := pid_of(row.row)) is not None:
        details.append(f"pid {pid}")
    command = shortened(printable(commands.get(row.row, "")), LONGEST_COMMAND)
    if command and command != name:
        details.append(f"`{command}`")
    return f"`{name}`" + (f" ({', '.join(details)})" if details else "")


def clause(feature: str, value: float, scope: str = "process") -> str:
    """Say what a feature's value is: `it writes 212 MB/s to disk`."""
    shown = readable(feature, value)
    known = PHRASES.get(scope, {}).get(feature) or _device_clause(feature)
    if known is None:
        return f"its {printable(feature)} is {shown}"
    return known.replace("{}", shown.removesuffix("/s") if known.endswith("a second") else shown)


def comparison(feature: FeatureScore) -> str:
    """Say how far a value is from its usual: `12 times the usual 0.1 ± 0.3 MB/s`."""
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
        return f"{_distance(distance)} standard deviations {'above' if value > mean else 'below'} the usual {usual}"
    return f"usually {usual}"


def pid_of(row: str) -> int | None:
    """The process id in a row's id (`nginx[4711@99]`); None where there is none."""
    found = re.search(r"\[(\d{1,10})(?:@\d+)?\]$", row)
    return int(found[1]) if found else None


def printable(text: str) -> str:
    """The same text with everything that is no visible character escaped: names are data, whoever chose them."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def shortened(text: str, width: int) -> str:
    """At most `width` characters, an ellipsis in the place of what is left out at the end."""
    return text if len(text) <= width else text[: max(width - 3, 0)].rstrip() + "..."


def _finding(row: RowScore, scope: str) -> str:
    """What is unusual about a row: its worst feature, and the next one if that is about another resource."""
    if not row.features:
        return "all of it together, no feature alone"
    worst = row.features[0]
    told = _told(worst, scope)
    other = next((each for each in row.features[1:] if _resource(each) != _resource(worst)), None)
    if other is not None and other.score >= ALIKE * worst.score:
        told += f"; and {_told(other, scope)}"
    return told


def _told(feature: FeatureScore, scope: str) -> str:
    """What a feature is beside its usual. What is over at this tick, but not yet for the score, is told as that."""
    recent, mean = feature.recent, feature.mean
    if recent is not None and not feature.value > mean and recent > mean:
        past = replace(feature, value=recent)
        now = readable(feature.feature, feature.value)
        return f"over the last seconds {clause(feature.feature, recent, scope)}, {comparison(past)}, and now {now}"
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
    """Two digits are enough to say how many times."""
    if number < 10.0:
        return f"{number:.1f}".removesuffix(".0")
    digits = math.floor(math.log10(number)) - 1
    return f"{round(number / 10**digits) * 10**digits:,}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
