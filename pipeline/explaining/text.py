"""A ranking in plain words: culprits and their deviations, victims, and the part of the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.causes import causes
from laggard.pipeline.explaining.explain import beside_usual, clause, finding, pid_of, printable, subject
from laggard.pipeline.explaining.prolonged import prolonged_sentence
from laggard.pipeline.explaining.units import cores, readable, readable_duration
from laggard.pipeline.explaining.verdict import verdict_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.ranking import Ranking, RowScore
    from laggard.pipeline.explaining.verdict import Verdict, Victim

FAINT: Final = 2.0
"""A row within the false-alarm budget is normal if all its features have scores below this one."""

JUST_S: Final = 10.0
"""A row of less than this age, in seconds, has just started."""

NAMED: Final = 4
"""The most kinds of culprits, and of victims, in a sentence."""

MOST_PIDS: Final = 8

_CORES: Final[Mapping[str, str]] = {
    "cpu_user_ratio": "uses {} in user mode",
    "cpu_system_ratio": "uses {} inside the kernel",
}

_NOTHING_YET: Final = "Still learning: no row has been seen for long enough."


def sentence(ranking: Ranking, commands: Mapping[str, str], scope: str = "process", *, scored: bool = False) -> str:
    """Return the findings of a ranking as text that needs no knowledge of laggard's terms.

    Args:
        ranking: the ranking, worst row first, each with its features, worst first.
        commands: the command lines by row id; rows without one are named without.
        scope: the kind of the rows, see `Frame.scope`.
        scored: whether the score is shown next to the text, which then need not say that it is not enough for an alert.

    Returns:
        A few sentences without control characters, whatever the names of the rows.

    """
    if scope == "host":
        return host_sentence(ranking, scored=scored)
    return verdict_sentence(verdict_of(ranking), ranking, commands, scope, scored=scored)


def story(
    verdict: Verdict,
    ranking: Ranking,
    commands: Mapping[str, str],
    scope: str = "process",
    *,
    scored: bool = False,
    since: str = "",
) -> list[str]:
    """Return all findings as text, the most important one first; see `verdict_sentence` and `host_lines`."""
    of_host = host_lines(verdict, since)
    leads = bool(verdict.causes) and not verdict.culprits
    text = verdict_sentence(verdict, ranking, commands, scope, scored=scored, since="" if leads else since)
    return [of_host[0], text, *of_host[1:]] if leads else [text, *of_host]


def verdict_sentence(
    verdict: Verdict,
    ranking: Ranking,
    commands: Mapping[str, str],
    scope: str = "process",
    *,
    scored: bool = False,
    since: str = "",
) -> str:
    """Return the findings among processes as text; see `sentence`.

    `ranking` is the judged one, or the part of it that is shown; `since` is a text on the time since the onset.
    """
    if not ranking.rows or ranking.rows[0].basis == "threshold":
        return prolonged_sentence(ranking, commands, scope) if ranking.rows else _NOTHING_YET
    if verdict.culprits:
        text = _culprits(verdict.culprits, commands, scope, since) + _own(verdict, commands, scope)
        if verdict.culprits[0].score <= 1.0 and not scored:
            text += " Below the alert level."
        suffer = [each for each in verdict.victims if each.resources & verdict.resources]
        others = [each for each in verdict.victims if each not in suffer and _far(each)]
        text += _victims(suffer, f"Slowed down by {'it' if len(verdict.culprits) == 1 else 'them'}")
        return text + _victims(others, "Also waiting, for something else")
    taker = verdict.taker
    if verdict.causes or any(map(_far, verdict.victims)):
        whose = "No process" if not verdict.own else "No process but laggard's own"
        text = f"{whose} takes far more than usual.{_own(verdict, commands, scope)}"
        if taker is not None and taker not in verdict.own and notable(taker):
            text += f" {_capital(_begun(taker, commands, scope, 'The most unusual consumer is '))}"
        return text + _victims(verdict.victims, "Waiting longer than usual")
    shown = taker or ranking.rows[0]
    if shown.score <= 1.0 and not notable(shown):
        return "Nothing is unusual so far." if ranking.young else "Nothing is unusual."
    text = _capital(_begun(shown, commands, scope, "The most unusual is "))
    if scored:
        return text
    return f"{'Nothing is certain yet' if ranking.young else 'Nothing reaches the alert level'}. {text}"


def lasting_sentence(
    ranking: Ranking, commands: Mapping[str, str], scope: str, lasted_s: float, *, rows: int = 1
) -> str:
    """Return an ongoing anomaly as text, from its ranking.

    Args:
        ranking: its row first, then rows that wait.
        commands: the command lines by row id.
        scope: the kind of the rows, see `Frame.scope`.
        lasted_s: the time since its onset, in seconds.
        rows: the number of its rows, all of this name.

    """
    row = ranking.rows[0]
    if not row.features:  # after a gap
        return f"{subject(row, commands, scope)} deviates from its baseline, for {readable_duration(lasted_s)} so far."
    first = row.features[0]
    many = rows > 1
    who = f"`{printable(row.name)}` ({rows:,} processes together)" if many else subject(row, commands, scope)
    doing = clause(first.feature, first.scored, scope).removeprefix("it ")
    usual = readable(first.feature, first.mean)
    if first.feature in _CORES:
        doing, usual = _CORES[first.feature].format(cores(first.scored)), cores(first.mean)
    does = f": {doing}. It has been so" if doing.startswith("its ") else f" {doing}. It has done so"
    text = f"{who}{does} for {readable_duration(lasted_s)}; its baseline is {usual}."
    return text + _victims(verdict_of(ranking).victims, "These wait longer than usual")


def suspicion_sentence(ranking: Ranking, commands: Mapping[str, str], scope: str, lasted_s: float) -> str:
    """Return the first row of a ranking, which is suspicious, as text; `lasted_s` is NaN if it deviates suddenly."""
    if math.isnan(lasted_s):
        return sentence(ranking, commands, scope, scored=True)
    return lasting_sentence(ranking, commands, scope, lasted_s)


def host_sentence(ranking: Ranking, *, scored: bool = False) -> str:
    """Return the deviations of a host as a whole as text; see `sentence`."""
    if not ranking.rows:
        return _NOTHING_YET
    row = ranking.rows[0]
    if row.basis == "threshold":
        return prolonged_sentence(ranking, {}, "host")
    if found := causes(row):
        return "On the host " + "; and ".join(each.clause for each in found[:NAMED]) + "."
    if row.score <= 1.0 and not notable(row):
        return "Nothing is unusual so far." if ranking.young else "Nothing is unusual."
    text = f"The host is behaving unusually: {finding(row, 'host')}."
    return text if row.score > 1.0 or scored else f"{text} Below the alert level."


def host_lines(verdict: Verdict, since: str = "") -> list[str]:
    """Return the part of the host as text: its causes, its pressures from a culprit, and its boot."""
    lines = []
    if verdict.causes and not verdict.culprits:
        first, *others = [each.clause for each in verdict.causes]
        lines.append(f"It is the host, no single process: {'; and '.join([first + since, *others])}.")
    elif verdict.causes:
        lines.append("Beside that, on the host: " + "; and ".join(each.clause for each in verdict.causes) + ".")
    if verdict.culprits and verdict.pressures:
        pressures = "; ".join(beside_usual(each, "host") for each in verdict.pressures)
        lines.append(f"The machine feels it: {pressures}.")
    if not math.isnan(verdict.booted_s):
        lines.append(f"The machine booted {readable_duration(verdict.booted_s)} before.")
    return lines


def compared(row: RowScore) -> str:
    """Return the baseline of a row without enough history of its own, as text; empty for other rows."""
    name = printable(row.name)
    match row.basis:
        case "name":
            return f"compared with how other `{name}` looked before"
        case "starts":
            return "compared with how other processes begin"
        case "all":
            return "compared with all other processes"
        case _:
            return ""


def _begun(  # noqa: PLR0917 - the parts of a sentence, in their order
    row: RowScore, commands: Mapping[str, str], scope: str, begin: str = "", end: str = "", since: str = ""
) -> str:
    """Return a sentence on a row: its name, the kind of its baseline, and its deviations."""
    who, deviations = subject(row, commands, scope), finding(row, scope)
    if row.basis == "itself":
        return f"{begin}{who}{end}: {deviations}{since}."
    age = "has just started" if row.age_s < JUST_S else f"has run for {readable_duration(row.age_s)}"
    if row.basis != "name":
        age += " and was never seen before"
    return f"{who} {age}; {compared(row)}, {deviations}{since}."


def _culprits(culprits: Sequence[RowScore], commands: Mapping[str, str], scope: str, since: str) -> str:
    """Return culprits as text, grouped by name and worst feature: the first in full, the others by their pids."""
    alike: dict[tuple[str, str], list[RowScore]] = {}
    for row in culprits:
        alike.setdefault((row.name, row.features[0].feature if row.features else row.row), []).append(row)
    sentences: list[str] = []
    for first, *others in list(alike.values())[:NAMED]:
        begin, end = ("So is ", "") if sentences else ("", " is behaving unusually")
        sentences.append(_capital(_begun(first, commands, scope, begin, end, "" if sentences else since)))
        if others:
            sentences.append(_others(others))
    left = sum(map(len, list(alike.values())[NAMED:]))
    return " ".join([*sentences, f"So are {left} more processes."] if left else sentences)


def _own(verdict: Verdict, commands: Mapping[str, str], scope: str) -> str:
    """Return the deviating processes of laggard itself as text; empty without any."""
    begin, end = ("So is ", "") if verdict.culprits else ("", " is behaving unusually")
    return "".join(f" {_capital(_begun(row, commands, scope, begin, end))}" for row in verdict.own)


def _others(rows: Sequence[RowScore]) -> str:
    name, feature = printable(rows[0].name), rows[0].features[0].feature
    pids = [str(pid) for row in rows if (pid := pid_of(row.row)) is not None]
    if len(pids) > MOST_PIDS:
        pids = [*pids[:MOST_PIDS], "..."]
    values = sorted(row.features[0].scored for row in rows)
    least, most = readable(feature, values[0]), readable(feature, values[-1])
    span = most if least == most else f"{least} to {most}"
    so = "So is 1" if len(rows) == 1 else f"So are {len(rows)}"
    which = f" (pid{'s' if len(rows) > 1 else ''} {', '.join(pids)})" if pids else ""
    return f"{so} more `{name}`{which}, with {span}."


def _victims(victims: Sequence[Victim], begin: str) -> str:
    """Return victims as text, grouped by name and feature, with the one that waits longest; empty without any."""
    if not victims:
        return ""
    alike: dict[tuple[str, str], list[Victim]] = {}
    for each in victims:
        alike.setdefault((each.row.name, each.feature.feature), []).append(each)
    parts = []
    for longest, *others in list(alike.values())[:NAMED]:
        waits = beside_usual(longest.feature, "process").removeprefix("it ")
        which = f"{len(others) + 1} `{printable(longest.row.name)}`" if others else f"`{printable(longest.row.name)}`"
        pid = pid_of(longest.row.row)
        who = "one " if others else "" if pid is None else f"pid {pid}, "
        parts.append(f"{which} ({who}{waits})")
    left = sum(map(len, list(alike.values())[NAMED:]))
    if left:
        parts.append(f"{left} more")
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f" {begin}: {listed}."


def _far(victim: Victim) -> bool:
    return victim.row.score > 1.0 or victim.feature.score >= FAINT


def notable(row: RowScore) -> bool:
    """Return whether a row is named even below the alert level: one of its counters is far from its baseline."""
    return any(each.score >= FAINT for each in row.features)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
