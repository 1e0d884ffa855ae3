"""The troubles of slow requests: the rules applied to uses of more time than usual."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from laggard.operators.requests.tries import are_tries
from laggard.operators.requests.work import WAITS
from laggard.pipeline.methods.requests.rules import RULES, SLEEP_RULE, is_queue
from laggard.pipeline.methods.requests.spending import Alike, Spending, known, quoted, seconds
from laggard.pipeline.methods.requests.words import SPANS, STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.operators.requests.results import Evidence
    from laggard.pipeline.methods.requests.rules import Rule

CHANCE: Final = 3.0
"""A difference with a statistic up to this may be chance."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation of requests.

    Attributes:
        lost_s: the lost time, in seconds a request; 0 if only its count is known.
        clause: a clause with figures, about the request.
        title: the same in a few words.
        vague: whether it only says in which state the time was spent.
        bare: whether it has no further words at all: neither the reason for a wait nor that it computes.
        repeated: whether it happens much more often than usual, whatever time it takes.
        syscall: its system call; empty without one.
        state: the state whose whole time it reports; empty for none.
        waits: whether it is a wait for the work of another thread.

    """

    lost_s: float
    clause: str
    title: str
    vague: bool = False
    bare: bool = False
    repeated: bool = False
    syscall: str = ""
    state: str = ""
    waits: bool = False


def troubles(evidence: Evidence) -> list[Finding]:
    """Return all uses of more time than usual, and repeated failures: by rules, and the remaining time by states.

    Returns:
        The findings, that with most lost time first.

    """
    left = {state: (time_s, known(evidence.usual_s.get(state, 0.0))) for state, time_s in evidence.times_s.items()}
    found, state_parts = [], {}
    for rule, parts, sleeps in _grouped(evidence):
        if rule.state in left:
            state_parts[rule.state] = parts
            continue
        all_parts = [*parts, *sleeps]
        time_s, usual_s = sum(each.found.time_s for each in all_parts), sum(each.usual_s for each in all_parts)
        found.append(_finding(rule, Alike(evidence, parts, time_s, usual_s, sleeps)))
        for each in all_parts:
            if each.state in left:
                time_s, usual_s = left[each.state]
                left[each.state] = time_s - each.found.time_s, max(usual_s - each.usual_s, 0.0)
    for state, (time_s, usual_s) in left.items():
        of_all = next((each for each in RULES if each.state == state), None)
        alike = Alike(evidence, state_parts.get(state, ()), time_s, usual_s, whole=True)
        found.append(_of_state(state, alike) if of_all is None else _finding(of_all, alike))
    found = [each for each in found if each.lost_s > 0.0 or each.repeated]
    found.sort(key=attrgetter("lost_s"), reverse=True)
    return _looked_through(found, evidence)


def _looked_through(found: list[Finding], evidence: Evidence) -> list[Finding]:
    """Add to the longest wait for another thread what most of it was on the critical path, if that is known."""
    did: dict[tuple[str, ...], float] = {}
    for each in evidence.differences:
        if each.kind == "beyond" and each.statistic > CHANCE:
            did[each.what] = each.time_s - known(each.usual_time_s)
    wait = next((place for place, each in enumerate(found) if each.waits), None)
    if did and wait is not None:
        longest = max(did, key=lambda what: (did[what], what))
        state, syscall, who = longest
        if did[longest] >= found[wait].lost_s / 2.0:
            call = f" ({quoted(syscall)})" if syscall else ""
            text = f", in which {quoted(who)} {STATES[state].does}{call}, for {seconds(did[longest])}"
            found[wait] = replace(found[wait], clause=found[wait].clause + text)
    return found


def _grouped(evidence: Evidence) -> Iterator[tuple[Rule, Sequence[Spending], Sequence[Spending]]]:
    """Yield rules with their groups, the parts with most lost time first, and the sleeps between failing tries."""
    groups: dict[tuple[int, str], list[Spending]] = {}
    for each in evidence.differences:
        if each.kind != "spent":
            continue
        state, syscall, on, by, result = each.what
        spending = Spending(state, syscall, on, by, result, each)
        # All waits for a CPU are reported together, so that each who had it has its true share; likewise for a worker.
        if each.statistic > CHANCE or state == "BP" or is_queue(spending):
            found = ((place, rule.key(spending)) for place, rule in enumerate(RULES))
            which = next(((place, key) for place, key in found if key is not None), None)
            if which is not None:
                groups.setdefault(which, []).append(spending)
    sleeps = groups.get((SLEEP_RULE, ""), [])
    tries = max(
        (
            which
            for which, parts in groups.items()
            if RULES[which[0]].vain and are_tries(parts[0].on, _more(parts), _more(sleeps))
        ),
        key=lambda which: _more(groups[which]),
        default=None,
    )
    for which, parts in groups.items():
        between: Sequence[Spending] = sleeps if which == tries else ()
        if tries is None or which != (SLEEP_RULE, ""):
            yield RULES[which[0]], sorted(parts, key=attrgetter("lost_s"), reverse=True), between


def _more(parts: Sequence[Spending]) -> float:
    """Return the difference of the count from the usual one."""
    return sum(each.found.count - known(each.found.usual_count) for each in parts)


def _finding(rule: Rule, alike: Alike) -> Finding:
    text, title = rule.describe(alike)
    vague = bool(rule.state) and rule.state != "BP"
    repeated = rule.vain and alike.repeated
    first = next(iter(alike.parts), None)
    waits = not rule.state and first is not None and first.state in WAITS and not is_queue(first)
    return Finding(
        alike.lost_s, text, title, vague=vague, repeated=repeated, syscall=alike.syscall, state=rule.state, waits=waits
    )


def _of_state(state: str, alike: Alike) -> Finding:
    words = STATES.get(state) or SPANS.get(state)
    text, title = (f"is in the state {quoted(state)}", state) if words is None else (words.does, words.title)
    return Finding(alike.lost_s, f"{text}: {alike.figures}", title, vague=True, bare=True)
