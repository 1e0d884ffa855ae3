"""Deviating members of a pool, in plain words and as records."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records.outputs import Blame
from laggard.pipeline.core.records.pools import MAX_LEVELS, MAX_RANKED, PoolOutput, Ranked, pool_id
from laggard.pipeline.explaining.explain import ALIKE, clause, pid_of, printable
from laggard.pipeline.explaining.units import readable, readable_duration, readable_usual
from laggard.pipeline.explaining.verdict import resources_of
from laggard.pipeline.methods.pools.dendrogram import level_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.covariance.results import Deviation, Kind, Level, Report
    from laggard.operators.ranking import FeatureScore

NAMED: Final = 3
"""The most deviations with a sentence of their own."""

NOBODY: Final = "No member behaves unlike the others."

_SPIKES: Final[Mapping[str, str]] = {"cpu": "a CPU spike", "io": "an I/O spike", "memory": "a memory spike"}
"""The name of a short rise, by the first word of its feature."""

_ONE: Final[Mapping[Kind, str]] = {
    "spike": "{has} {spike}",
    "busy": "is busier than the others",
    "leak": "leaks",
    "stuck": "is stuck: it does nothing while others work",
    "slower": "is slower than the others",
    "left": "has left the pool without a replacement",
    "younger": "began later than the others, and differs by that alone",
    "different": "behaves unlike the others",
}
_MANY: Final[Mapping[Kind, str]] = {
    "spike": "{has} {spike}",
    "busy": "are busier than the others",
    "leak": "leak",
    "stuck": "are stuck: they do nothing while others work",
    "slower": "are slower than the others",
    "left": "have left the pool without a replacement",
    "younger": "began later than the others, and differ by that alone",
    "different": "behave unlike the others",
}
_WITHOUT_VALUES: Final[tuple[Kind, ...]] = ("left", "younger")
"""Kinds that are described without features."""


def deviation_sentence(deviation: Deviation, ts: float) -> str:
    """Describe a deviation: its members, kind, features and onset.

    Args:
        deviation: the deviation of one member or of a group.
        ts: the time of the sentence, seconds since the Unix epoch.

    Returns:
        One sentence, free of control characters from the names of members, with times in UTC.

    """
    one = len(deviation.rows) == 1
    name = f"`{printable(deviation.name)}`"
    who = f"{name}{_identity(deviation)}" if one else f"all {len(deviation.rows):,} members of {name}"
    has = "had" if math.isfinite(deviation.end_ts) else "has" if one else "have"
    text = (_ONE if one else _MANY)[deviation.kind].format(has=has, spike=_spike(deviation))
    when = _when(deviation, ts)
    if deviation.kind in _WITHOUT_VALUES or not deviation.features:
        return f"{_capital(who)} {text}{when}."
    if deviation.kind == "spike":
        return f"{_capital(who)} {text}{when}: {_peak(deviation.features[0])}."
    joint = ";" if ":" in text else ":"
    return f"{_capital(who)} {text}{joint} {_values(deviation.features, one=one)}{',' if when else ''}{when}."


def pool_sentence(deviations: Sequence[Deviation], ts: float, *, young: bool) -> str:
    """Describe the deviations of a pool, worst first; see `deviation_sentence`."""
    sentences = [deviation_sentence(each, ts) for each in deviations[:NAMED]]
    if len(deviations) > NAMED:
        left = len(deviations) - NAMED
        sentences.append(f"So {'does 1 more' if left == 1 else f'do {left:,} more'}.")
    if not sentences:
        sentences.append(NOBODY)
    if young:
        sentences.append("The comparison is young.")
    return " ".join(sentences)


def blamed(deviations: Sequence[Deviation]) -> Blame | None:
    """Return the member that deviates most, with its worst feature; None without deviations."""
    if not deviations:
        return None
    worst = deviations[0]
    if not worst.features:
        return Blame(worst.rows[0], worst.name)
    first = worst.features[0]
    return Blame(
        worst.rows[0],
        worst.name,
        first.feature,
        first.value,
        first.mean,
        first.standard_deviation,
        tuple(sorted(resources_of(first))),
    )


def deviating(deviations: Sequence[Deviation]) -> tuple[Deviation, ...]:
    """Return the deviations beyond the false-alarm budget, in the same order."""
    return tuple(each for each in deviations if each.score > 1.0)


def ranked(deviation: Deviation, ts: float) -> Ranked:
    """Return a deviation as a part of an output at a time."""
    return Ranked(
        deviation.rows,
        deviation.name,
        deviation.kind,
        deviation.score,
        deviation.height,
        deviation.p_value,
        deviation.begin_ts,
        deviation.end_ts,
        deviation.window,
        deviation.level,
        deviation.features,
        deviation_sentence(deviation, ts),
    )


def moment_output(
    deviations: Sequence[Deviation],
    *,
    operator: str,
    pool: str,
    ts: float,
    members: int,
    age_s: float,
    young: bool,
    live: bool,
) -> PoolOutput:
    """Return the output on a pool at a tick."""
    ranking = tuple(ranked(each, ts) for each in deviations[:MAX_RANKED])
    identity = pool_id(operator, pool, repr(ts))
    return PoolOutput(ts, identity, operator, pool, members, age_s, young, False, ranking, (), live)


def whole_output(report: Report, *, operator: str, pool: str, live: bool) -> PoolOutput:
    """Return the output on the whole life of a pool."""
    return PoolOutput(
        id=pool_id(operator, pool, f"{report.ts!r} whole"),
        ts=report.ts,
        operator=operator,
        pool=pool,
        members=report.members,
        age_s=report.age_s,
        young=report.young,
        whole=True,
        # The published method has no budget: its ranked members may have a score of exactly 1.
        ranking=tuple(
            ranked(each, report.ts) for each in report.ranking if each.score >= 1.0 and each.kind != "younger"
        )[:MAX_RANKED],
        levels=tuple(
            level_output(each.path, each.dendrogram, _kinds(each))
            for each in report.levels[:MAX_LEVELS]
            if each.dendrogram is not None
        ),
        live=live,
    )


def _kinds(level: Level) -> dict[str, Kind]:
    """Return the kinds of deviations by the labels in the dendrogram."""
    labels = set(level.dendrogram.labels if level.dendrogram is not None else ())
    return {
        label: each.kind
        for each in reversed(level.deviations)  # of several of a label, the worst counts
        for label in (each.name, *each.rows)
        if label in labels and (each.score >= 1.0 or each.kind == "younger")
    }


def _identity(deviation: Deviation) -> str:
    """Return the id of a member in parentheses, since workers share a name; empty if unknown."""
    pid = pid_of(deviation.rows[0])
    if pid is None:
        return ""
    return f" ({'thread' if '/' in deviation.name else 'pid'} {pid})"


def _spike(deviation: Deviation) -> str:
    word = deviation.features[0].feature.partition("_")[0] if deviation.features else ""
    return _SPIKES.get(word, "a spike")


def _peak(feature: FeatureScore) -> str:
    value = readable(feature.feature, feature.value)
    return f"{printable(feature.feature)} came to {value}{_usual(feature)}"


def _values(features: Sequence[FeatureScore], *, one: bool) -> str:
    """Return the text on the worst feature, and on the next one of another kind if that is about as bad."""
    worst = features[0]
    selected = [worst]
    other = next((each for each in features[1:] if _word(each) != _word(worst)), None)
    if other is not None and other.score >= ALIKE * worst.score:
        selected.append(other)
    return "; and ".join(_value(each, one=one) for each in selected)


def _value(feature: FeatureScore, *, one: bool) -> str:
    if one:
        return f"{clause(feature.feature, feature.value)}{_usual(feature)}"
    return f"{printable(feature.feature)} is {readable(feature.feature, feature.value)}{_usual(feature)}"


def _usual(feature: FeatureScore) -> str:
    if not math.isfinite(feature.mean):
        return ""
    return f", in the pool usually {readable_usual(feature.feature, feature.mean, feature.standard_deviation)}"


def _when(deviation: Deviation, ts: float) -> str:
    begin_ts, end_ts = deviation.begin_ts, deviation.end_ts
    if not math.isfinite(begin_ts):
        return ""
    began = _moment(begin_ts, ts)
    if math.isfinite(end_ts):
        return f" at {began} UTC for {readable_duration(end_ts - begin_ts)}"
    return f" since {began} UTC ({readable_duration(ts - begin_ts)})"


def _moment(ts: float, sentence_ts: float) -> str:
    """Return the time of day, with the date if it is another day."""
    when, reference = (datetime.fromtimestamp(each, UTC) for each in (ts, sentence_ts))
    return when.strftime("%H:%M:%S" if when.date() == reference.date() else "%Y-%m-%d %H:%M:%S")


def _word(feature: FeatureScore) -> str:
    return feature.feature.partition("_")[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
