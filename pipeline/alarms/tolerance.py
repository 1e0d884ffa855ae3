"""Feedback from people on anomalies, and the anomalies that it excuses: these are not published.

Feedback `usual` excuses later anomalies of the same names, up to `MARGIN` times as large, of the same counter. Without
feedback on that counter it also excuses those of another one of the same resource and unit. Feedback `expected` excuses
all anomalies of its names until its time, whatever they use. Both hold for at most `LONGEST_S`, and until a withdrawal.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from laggard.pipeline.core.records.feedback import Case, Feedback, checked_feedback, plain_feedback
from laggard.pipeline.core.records.ids import derived_id
from laggard.pipeline.core.records.limits import MAX_CASES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from laggard.pipeline.alarms.anomalies import OpenAnomaly
    from laggard.pipeline.alarms.courses import Course, Update
    from laggard.pipeline.core.records.feedback import Says
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.core.records.outputs import Blame, Evidence, Excuse, Incident

LONGEST_S: Final = 30 * 86_400.0
"""The longest time that feedback holds, in seconds: the retention of its topic. By then a recurrence is in the record
of the operator."""

MOST: Final = 64
"""The most feedback that is remembered of a key; the oldest is dropped first."""

MARGIN: Final = 1.5

_UNITS: Final = ("_bytes_per_s", "_characters_per_s", "_per_s", "_bytes", "_ratio")
_SAME_UNIT: Final = {"_characters_per_s": "_bytes_per_s"}


class Tolerance(NamedTuple):
    """The feedback on one key.

    Attributes:
        feedback: the feedback that holds or has held, the oldest first.

    """

    feedback: tuple[Feedback, ...] = ()

    def after(self, feedback: Feedback, now_ts: float = math.inf) -> Tolerance:
        """Return it after further feedback; the same object if that changes nothing.

        `now_ts` is the time of the key's newest frame, seconds since the Unix epoch: the latest time of feedback.
        """
        known = next((each for each in self.feedback if each.id == feedback.id), None)
        if feedback.says == "withdrawn":
            return self if known is None else Tolerance(tuple(each for each in self.feedback if each is not known))
        if known is not None:
            return self
        feedback = replace(feedback, ts=min(feedback.ts, now_ts))
        current = (each for each in self.feedback if holds(each, feedback.ts))
        return Tolerance((*current, feedback)[-MOST:])

    def grown(self, anomalies: Sequence[OpenAnomaly]) -> Tolerance:
        """Return it with the excess of these open anomalies in the newest feedback: their records may have less."""
        if not self.feedback:
            return self
        *others, newest = self.feedback
        worst: dict[tuple[str, str], float] = {}
        for each in anomalies:
            excess = abs(each.value - each.usual)
            if excess > worst.get((each.name, each.feature), 0.0):
                worst[each.name, each.feature] = excess
        cases = tuple(
            each._replace(excess=max(each.excess, worst.get((each.name, each.feature), 0.0))) for each in newest.cases
        )
        return Tolerance((*others, replace(newest, cases=cases)))

    def at(self, ts: float, names: Collection[str]) -> Tolerance:
        """Return the feedback that holds at a time for rows with these names."""
        name_set = frozenset(names)
        return Tolerance(tuple(each for each in self.feedback if holds(each, ts) and _concerns(each, name_set)))

    def excused(self, blame: Blame | None, ts: float) -> Excuse:
        """Return the kind of feedback that excuses an anomaly with this culprit at a time; empty without any."""
        found = {each.says for each in self.feedback if holds(each, ts) and excuses(each, blame)}
        return "usual" if "usual" in found else "expected" if found else ""

    def snapshot(self) -> dict[str, Any]:
        """Return it as plain data, under a name of its own; nothing without feedback."""
        return {"said": [plain_feedback(each) for each in self.feedback]} if self.feedback else {}


class Tolerant(Protocol):
    """The state of a key on which people give feedback."""

    tolerance: Tolerance

    @property
    def ts(self) -> float:
        """The time of its newest frame, seconds since the Unix epoch; not above 0 without one."""


def changed(key: Tolerant | None, feedback: Feedback) -> Tolerance | None:
    """Return the tolerance of a key, None if it has no state yet, after feedback; None if that changes nothing."""
    before = Tolerance() if key is None else key.tolerance
    after = before.after(feedback, key.ts if key is not None and key.ts > 0.0 else math.inf)
    return None if after is before else after


def restored(state: dict[str, Any]) -> Tolerance:
    """Read a `snapshot` in the state of a key. Raises `ValueError` that names the part that does not fit."""
    return Tolerance(tuple(checked_feedback(each, "said") for each in state.get("said", ())))


def holds(feedback: Feedback, ts: float) -> bool:
    """Return whether feedback holds at a time, seconds since the Unix epoch."""
    return ts < holds_until(feedback)


def holds_until(feedback: Feedback) -> float:
    """Return the time until which feedback holds, seconds since the Unix epoch."""
    until_ts = feedback.ts + LONGEST_S
    return until_ts if math.isnan(feedback.until_ts) else min(feedback.until_ts, until_ts)


def excuses(feedback: Feedback, blame: Blame | None) -> bool:
    """Return whether feedback excuses an anomaly with this culprit while it holds."""
    if not feedback.cases:
        return True
    if blame is None:
        return False
    cases = [each for each in feedback.cases if not each.name or each.name == blame.name]
    if feedback.says == "expected":
        return bool(cases)
    # Feedback on this counter takes precedence.
    same = [each for each in cases if each.feature and each.feature == blame.feature]
    return any(_covers(each, blame) for each in same or cases)


def _covers(case: Case, blame: Blame) -> bool:
    if case.resources and not set(blame.resources) <= set(case.resources):
        return False
    if case.feature and case.feature != blame.feature:
        # A deviation of unknown size, as a saturation is, cannot be compared with that of another counter.
        sized = bool(case.resources) and not math.isnan(case.excess) and not math.isnan(blame.usual)
        return sized and _unit(case.feature) == _unit(blame.feature) and _fits(case, blame)
    return _fits(case, blame)


def _fits(case: Case, blame: Blame) -> bool:
    return not abs(blame.value - blame.usual) > MARGIN * case.excess


def _unit(feature: str) -> str:
    unit = next((each for each in _UNITS if feature.endswith(each)), feature)
    return _SAME_UNIT.get(unit, unit)


def _concerns(feedback: Feedback, names: frozenset[str]) -> bool:
    return not feedback.cases or any(not each.name or each.name in names for each in feedback.cases)


def cases_of(evidence: Sequence[Evidence]) -> tuple[Case, ...]:
    """Return the culprits of evidence, each name, resources and counter once, with the largest excess."""
    found: dict[tuple[str, tuple[str, ...], str], Case] = {}
    for each in evidence:
        if (blame := each.blame) is None:
            continue
        which = blame.name, blame.resources, blame.feature
        excess = abs(blame.value - blame.usual)
        known = found.get(which)
        if known is None or math.isnan(known.excess) or excess > known.excess:
            found[which] = Case(*which, excess)
    return tuple(found.values())


def of_incident(incident: Incident, says: Says, ts: float, *, until_ts: float = math.nan, note: str = "") -> Feedback:
    """Return feedback on an incident: on all culprits of its evidence."""
    identity = derived_id("feedback", incident.id, says, ts)
    cases = cases_of(incident.evidence)[:MAX_CASES]
    return Feedback(incident.keyed_by, incident.key, ts, identity, says, cases, until_ts, incident.id, note)


def of_names(
    keyed_by: KeyedBy, key: str, names: Sequence[str], ts: float, *, until_ts: float, note: str = ""
) -> Feedback:
    """Return the feedback that anomalies of these rows, or of all rows without names, are expected until a time."""
    identity = derived_id("feedback", keyed_by, key, *names, ts)
    return Feedback(keyed_by, key, ts, identity, "expected", tuple(map(Case, names)), until_ts, "", note)


def withdrawal(said: Feedback, ts: float, note: str = "") -> Feedback:
    """Return the withdrawal of feedback."""
    return Feedback(said.keyed_by, said.key, ts, said.id, "withdrawn", note=note)


def end_excused(courses: Sequence[Course], tolerance: Tolerance, ts: float) -> tuple[tuple[Course, ...], list[Update]]:
    """Return the anomalies that are not excused at a time, and the records that end the others."""
    excuses_of = [(each, tolerance.excused(each.blame, ts)) for each in courses]
    left = tuple(each for each, excuse in excuses_of if not excuse)
    return left, [each.ended(feedback=excuse) for each, excuse in excuses_of if excuse]
