"""The causes of slow or odd requests in plain words: one main cause, and up to two lesser ones.

The cause with most lost time comes first. Waits for a CPU come after the request's own work if that is several times
the usual. A cause that is known only by its count, a repeated system call, comes first
if the times only say that a request computes, or waits for an unknown process.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from laggard.operators.requests.work import RUNS, several_times
from laggard.pipeline.explaining.explain import printable, shortened
from laggard.pipeline.explaining.units import readable
from laggard.pipeline.methods.requests.spending import known, more_often, quoted, seconds, shown, times
from laggard.pipeline.methods.requests.troubles import CHANCE, Finding, troubles
from laggard.pipeline.methods.requests.words import SPANS, SYSCALLS

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from laggard.operators.requests.results import Difference, Evidence

LESSER: Final = 0.2
"""The least share of the lost time of a lesser cause that is reported."""

MOST_CAUSES: Final = 3
"""The most causes that are reported."""

LONGER: Final = 1.1
"""Requests of at most this many times the usual duration are odd rather than slow."""

CLEAR: Final = 2.0 * CHANCE
"""A statistic of mean counts, perhaps of few requests, is beyond chance above this."""

_APART: Final = "apart from normal requests"

LONGEST_TITLE: Final = 40
"""The most characters of a title."""


def cause(evidence: Evidence) -> str:
    """Return the difference of requests from normal ones as text.

    Args:
        evidence: the evidence of one request, or of several similar ones.

    Returns:
        A clause with the request as its subject, without a full stop: `waits for a lock held by ...`; or one that says
        that the cause is unknown. It has no control characters, whatever the names of files and processes.

    """
    slow, name = _slow(evidence), _named(evidence)
    findings = _findings(evidence) if slow else _oddities(evidence)
    if not _known(evidence, findings):
        return _unknown(evidence, findings, name) if slow else _not_slow(evidence, name)
    clauses = "; and ".join(each.clause for each in findings)
    takes = "" if slow else f"; it takes {_durations(evidence)}"
    return clauses + takes + (f"; {name}" if name else "")


def _not_slow(evidence: Evidence, name: str) -> str:
    """Return the text on requests that are not slow, without a known difference but perhaps their name."""
    return f"{name}; they take {_durations(evidence)}" if name else f"nothing sets {_these(evidence)} {_APART}"


def _unknown(evidence: Evidence, findings: Sequence[Finding], name: str) -> str:
    """Return the text on slow requests without a known cause but perhaps their name."""
    most = max(findings, key=attrgetter("lost_s"), default=None)
    if math.isnan(evidence.usual_duration_s):
        return "the baseline is not known yet" + (f"; most of its time: {most.clause}" if most else "")
    takers = "it takes" if evidence.requests == 1 else "they take"
    apart = f"{name}; {takers}" if name else f"nothing sets {_these(evidence)} {_APART} but that {takers} longer:"
    text = f"{apart} {_durations(evidence)}"
    if most and most.lost_s >= (evidence.duration_s - evidence.usual_duration_s) / 2.0:
        text += f"; most of that: {most.clause}"
    return text


def _named(evidence: Evidence) -> str:
    """Return the name that distinguishes requests, with its counts, as text; empty without one."""
    if (found := evidence.named) is None:
        return ""
    these = f"all {found.of:,}" if found.requests >= found.of else f"{found.requests:,} of {found.of:,}"
    normal = f"{found.normal:,}" if found.normal else "none"
    are = "are" if found.normal > 1 else "is"
    return f"{these} are `{shown(found.name)}`, as {are} {normal} of {found.of_normal:,} normal ones"


def title(evidence: Evidence) -> str:
    """Return the main cause, `lock x.lock` or `connect refused`, in at most `LONGEST_TITLE` characters."""
    slow = _slow(evidence)
    findings = _findings(evidence) if slow else _oddities(evidence)
    if not _known(evidence, findings):
        what = "slower" if slow else "odd"
        return shortened(printable(f"{what} {evidence.named.name}"), LONGEST_TITLE) if evidence.named else what
    return shortened(printable(findings[0].title), LONGEST_TITLE)


def _slow(evidence: Evidence) -> bool:
    """Return whether they take longer than usual, or the usual duration is unknown."""
    return not evidence.duration_s <= LONGER * evidence.usual_duration_s


def _known(evidence: Evidence, findings: Sequence[Finding]) -> bool:
    """Return whether they differ in more than the duration."""
    return evidence.explained and any(not each.bare for each in findings)


def _durations(evidence: Evidence) -> str:
    return f"{seconds(evidence.duration_s)}, usually {seconds(evidence.usual_duration_s)}"


def _these(evidence: Evidence) -> str:
    return "it" if evidence.requests == 1 else "these"


def _findings(evidence: Evidence) -> Sequence[Finding]:
    """Return the reported causes of slow requests, the main one first."""
    found = _work_first(evidence, troubles(evidence))
    lost_s = evidence.duration_s - known(evidence.usual_duration_s)
    reported = [each for place, each in enumerate(found) if not place or each.lost_s >= LESSER * lost_s][:MOST_CAUSES]
    others = [each for each in found if each.repeated and each not in reported]
    calls = _repeated_calls(evidence, {each.syscall for each in (*reported, *others)})
    if calls and any(each.vague for each in reported):
        others.append(calls)
    reported = [*reported[: MOST_CAUSES - len(others[:1])], *others[:1]]
    return sorted(reported, key=lambda each: not each.repeated) if reported and reported[0].vague else reported


def _work_first(evidence: Evidence, found: Sequence[Finding]) -> Sequence[Finding]:
    """Put waits for a CPU after the work that needs it, where this is several times the usual."""
    lost_s = evidence.duration_s - known(evidence.usual_duration_s)
    repeats_calls = _repeated_calls(evidence) is not None
    if not several_times(evidence.times_s, evidence.usual_s, lost_s, repeats_calls=repeats_calls):
        return found
    work_s = max((each.lost_s for each in found if each.state in RUNS), default=math.inf)
    return sorted(
        found, key=lambda each: (-min(each.lost_s, work_s) if each.state == "BP" else -each.lost_s, each.state == "BP")
    )


def _repeated_calls(evidence: Evidence, reported: Set[str] = frozenset()) -> Finding | None:
    """Return the repeated system call that is most clearly beyond chance, other than these; None without one.

    Single calls with a known purpose come before calls in a row.
    """
    found = [
        each
        for each in evidence.differences
        if each.kind == "ngram"
        and each.statistic > CLEAR
        and more_often(each.count, each.usual_count)
        and not reported & set(each.what)
    ]
    if not found:
        return None
    worst = max(found, key=lambda each: (len(each.what) == 1, each.what[0] in SYSCALLS, each.statistic))
    often = times(evidence, worst.count, worst.usual_count)
    text, name = f"repeats {_calls(worst)} {often}", f"{worst.what[0]} repeated"
    return Finding(0.0, text, name, repeated=True, syscall=worst.what[0])


def _calls(difference: Difference) -> str:
    """Return system calls in a row, or a single one with its purpose."""
    names = dict.fromkeys(difference.what)
    text = ", ".join(map(quoted, names))
    if len(difference.what) > 1:
        return f"{text} in a row"
    does = SYSCALLS.get(difference.what[0])
    return f"{text} ({does})" if does else text


def _oddities(evidence: Evidence) -> Sequence[Finding]:
    """Return the deviations of requests that take no longer than usual, the most unusual first."""
    calls, usual = evidence.syscalls, evidence.usual_syscalls
    found = [each for each in (*troubles(evidence), _repeated_calls(evidence)) if each and each.repeated]
    short = calls < usual / 2.0
    if short:
        what = "operations" if SPANS.keys() & evidence.times_s.keys() else "system calls"
        text = f"makes only {readable('', calls)} {what}, usually {readable('', usual)}"
        found.insert(0, Finding(0.0, text, "ends early"))
    single = (each for each in evidence.differences if each.kind == "ngram" and len(each.what) == 1)
    for each in sorted(single, key=lambda each: -abs(each.statistic)):
        rarely = each.count < min(0.5, each.usual_count / 2.0) and not short
        if abs(each.statistic) > CHANCE and (rarely or each.usual_count < min(0.5, each.count / 2.0)):
            often = times(evidence, each.count, each.usual_count)
            text = f"makes no {_calls(each)}, {often.partition(', ')[2]}" if rarely else f"makes {_calls(each)} {often}"
            found.append(Finding(0.0, text, f"{'no ' if rarely else ''}{each.what[0]}", syscall=each.what[0]))
    first = {each.syscall or each.clause: each for each in reversed(found)}
    return [each for each in found if first[each.syscall or each.clause] is each][:MOST_CAUSES]
