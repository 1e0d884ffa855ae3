"""Prolonged high use in plain words: the rows, their use, its duration and its dips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.explain import clause, subject
from laggard.pipeline.explaining.phrases import PROLONGED
from laggard.pipeline.explaining.units import readable, readable_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.ranking import FeatureScore, Phase, Ranking, RowScore

NAMED: Final = 4
"""The most rows with a sentence of their own."""

WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def prolonged_sentence(ranking: Ranking, commands: Mapping[str, str], scope: str) -> str:
    """Return the rows that are in an event, as text.

    Args:
        ranking: a ranking by a threshold, worst first.
        commands: the command lines by row id.
        scope: the kind of the rows, see `Frame.scope`.

    """
    events = [row for row in ranking.rows if row.score > 1.0 and row.phases]
    if not events:
        return _most(ranking.rows[0], commands, scope)
    sentences = [_event(row, ranking.ts, commands, scope) for row in events[:NAMED]]
    left = len(events) - NAMED
    if left > 0:
        sentences.append(f"So {'does' if left == 1 else 'do'} {left} more.")
    return " ".join(sentences)


def dips_of(phases: Sequence[Phase]) -> int:
    """Return the number of dips between stretches of high use, without one that lasts: it may be the end."""
    return sum(each.dips if each.high else place < len(phases) - 1 for place, each in enumerate(phases))


def _event(row: RowScore, ts: float, commands: Mapping[str, str], scope: str) -> str:
    first, *others = row.features
    high = [each for each in row.phases if each.high]
    end_ts = high[-1].end_ts
    sentence = f"{_who(row, commands, scope)} {_did(first, scope)} for {readable_duration(end_ts - high[0].begin_ts)}"
    if dips := dips_of(row.phases):
        sentence += f", with {_number(dips)} dip{'s' if dips > 1 else ''}"
    if row.gone_s > 0.0:
        sentence += ", and has ended"
    elif not row.phases[-1].high:
        sentence += f", until {readable_duration(ts - end_ts)} before"
    also = [each for each in others if each.score > 1.0]
    if also:
        sentence += "; and " + "; and ".join(_did(each, scope) for each in also)
    return f"{sentence}."


def _most(row: RowScore, commands: Mapping[str, str], scope: str) -> str:
    """Return the text without an event, which names the row that is nearest to one."""
    if not row.features:
        return "Nothing is high for long."
    most = row.features[0]
    text = clause(most.feature, most.scored, scope)
    if scope == "host":
        return f"Nothing is high for long: on the host {text}."
    return f"Nothing is high for long. Most of all is {subject(row, commands, scope)}: {text}."


def _who(row: RowScore, commands: Mapping[str, str], scope: str) -> str:
    return "On the host" if scope == "host" else subject(row, commands, scope)


def _did(feature: FeatureScore, scope: str) -> str:
    value, known = feature.scored, PROLONGED.get(feature.feature)
    if known is None:
        return clause(feature.feature, value, scope).removeprefix("it ")
    shown = readable("", 60.0 * value) if "{} a minute" in known else readable(feature.feature, value)
    return known.replace("{}", shown)


def _number(count: int) -> str:
    return WORDS[count] if count < len(WORDS) else f"{count:,}"
