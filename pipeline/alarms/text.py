"""Incidents, and ends of anomalies, in plain words: findings, places, onsets, scores, and commands to investigate."""

from __future__ import annotations

import math
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.explain import pid_of, printable
from laggard.pipeline.explaining.phrases import LACKED
from laggard.pipeline.explaining.units import readable, readable_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.records.feedback import Feedback
    from laggard.pipeline.core.records.outputs import Blame, Evidence, Excuse, Incident


MOST_OTHERS: Final = 3
"""The most other causes in the text of an incident that go on, and that have ended."""

_EXCUSED: Final[Mapping[str, str]] = {
    "usual": "By feedback it is usual, and is no longer reported.",
    "expected": "By feedback it is expected, and is not reported until its time.",
}


def blames_host(blame: Blame | None, scope: str) -> bool:
    """Return whether an anomaly of a host blames the host itself or nothing, rather than one of its programs."""
    return scope == "host" and (blame is None or pid_of(blame.row) is None)


def ended_sentence(
    blame: Blame | None,
    scope: str,
    lasted_s: float,
    silent_since_ts: float,
    *,
    accepted: bool = False,
    feedback: Excuse = "",
) -> str:
    """Return sentences on the end of an anomaly.

    Args:
        blame: its last culprit; None without one.
        scope: the scope of the rows.
        lasted_s: the seconds from its onset until it was last observed.
        silent_since_ts: the time of its last record if its end was not observed; otherwise NaN.
        accepted: whether it persists as the new baseline.
        feedback: the feedback by which it has ended; empty without.

    """
    if feedback:
        lasted = _EXCUSED[feedback]
    elif accepted:
        lasted = _accepted(lasted_s)
    elif not math.isnan(silent_since_ts):
        lasted = _unseen(silent_since_ts, lasted_s)
    else:
        lasted = f"Resolved {_after(lasted_s)}."
    if blame is None:
        return lasted
    return f"{lasted} {_blamed(blame, scope)}"


def feedback_sentence(said: Feedback) -> str:
    """Return feedback in words."""
    about = ", ".join(dict.fromkeys(f"`{printable(each.name)}`" for each in said.cases if each.name))
    what = about or "Everything"
    match said.says:
        case "withdrawn":
            sentence = f"The feedback {printable(said.id)} was withdrawn."
        case "expected":
            sentence = f"{what} is expected until {_moment(said.until_ts)} UTC."
        case _:
            sentence = f"{what} is usual."
    return f"{sentence} {printable(said.note)}" if said.note else sentence


def incident_sentence(incident: Incident, leading: Evidence) -> str:
    """Return the text of an incident.

    Args:
        incident: its next record, whose own sentence is ignored.
        leading: its leading evidence; see `evidence.leading_of`.

    Returns:
        A few sentences, without control characters whatever the names of hosts and rows.

    """
    where = printable(incident.key) if incident.keyed_by == "host" else f"{incident.keyed_by} {printable(incident.key)}"
    began = f"{_moment(incident.opened_ts)} UTC"
    if incident.merged_into:
        return f"On {where}, the incident that began at {began} was merged into another one."
    if incident.change == "closed":
        lasted_s = incident.until_ts - incident.opened_ts
        blamed = "" if leading.blame is None else f" {_blamed(leading.blame, leading.scope)}"
        if incident.feedback:
            return f"On {where} since {began}: {_EXCUSED[incident.feedback]}{blamed} {_seen(incident)}"
        if incident.accepted:
            return f"On {where} since {began}: {_accepted(lasted_s)}{blamed} {_seen(incident)}"
        if not math.isnan(incident.silent_since_ts):
            unseen = _unseen(incident.silent_since_ts, lasted_s)
            return f"On {where} something began at {began}. {unseen}{blamed} {_seen(incident)}"
        times = f"{_moment(incident.opened_ts)} to {_end(incident.opened_ts, incident.until_ts)} UTC"
        return f"Resolved on {where} {_after(lasted_s)} ({times}).{blamed} {_seen(incident)}"
    sentences = [
        f"On {where} since {began}: {leading.sentence}",
        _felt(incident, leading),
        _others(incident, leading),
        _seen(incident),
    ]
    if closer := _closer(incident, leading):
        sentences.append(f"Look closer: {closer}.")
    return " ".join(filter(None, sentences))


def headline(incident: Incident) -> str:
    """Return the finding of an incident without its place and onset: the worst evidence that blames its culprit.

    The sentence is the newest one, also of an incident that has closed.
    """
    about = [each for each in incident.evidence if each.blame == incident.blame] or list(incident.evidence)
    leading = max(about, key=lambda each: each.score)
    return " ".join(filter(None, [leading.sentence, _felt(incident, leading)]))


def _felt(incident: Incident, leading: Evidence) -> str:
    """Return the worst open finding on the host itself if another scope leads; empty without one."""
    if leading.scope == "host":
        return ""
    on_host = [each for each in incident.evidence if each.scope == "host" and math.isnan(each.until_ts)]
    return max(on_host, key=lambda each: each.score).sentence if on_host else ""


def _others(incident: Incident, leading: Evidence) -> str:
    """Return the other causes of a service's slow requests: the worst that go on, and the last that have ended."""
    if incident.keyed_by != "service":
        return ""
    known = "" if leading.blame is None else leading.blame.name
    named = [(each.blame.name, each) for each in incident.evidence if each.blame and each.blame.name != known]
    going_on = {name: each for name, each in named if math.isnan(each.until_ts)}
    ended = {name: each for name, each in named if name not in going_on}
    worst = sorted(going_on.items(), key=lambda each: -each[1].score)
    last = sorted(ended.items(), key=lambda each: -each[1].until_ts)
    also = _listed("Also", [f"`{printable(name)}` since {_clock(each.opened_ts)}" for name, each in worst])
    over = _listed("Resolved", [f"`{printable(name)}` at {_clock(each.until_ts)}" for name, each in last])
    return f"{also} {over}".strip()


def _listed(begin: str, causes: list[str]) -> str:
    if (left := len(causes) - MOST_OTHERS) > 0:
        causes = [*causes[:MOST_OTHERS], f"{left:,} more"]
    return f"{begin}: {', '.join(causes)}." if causes else ""


def _after(lasted_s: float) -> str:
    return f"after {readable_duration(lasted_s)}" if lasted_s >= 1.0 else "within a second"


def _end(begin_ts: float, ts: float) -> str:
    """Return the time of an end, without its date if that is the date of the begin."""
    same_day = _moment(begin_ts)[:10] == _moment(ts)[:10]
    return _clock(ts) if same_day else _moment(ts)


def _accepted(lasted_s: float) -> str:
    """Return the sentence that an anomaly persists as the new baseline."""
    return f"It persists after {readable_duration(lasted_s)} and is treated as usual from now on."


def _unseen(silent_since_ts: float, lasted_s: float) -> str:
    """Return the sentence that the end of an anomaly was not observed."""
    lasted = f"; it had lasted {readable_duration(lasted_s)}" if lasted_s >= 1.0 else ""
    return f"Its end was not observed: there is no data on it after {_moment(silent_since_ts)} UTC{lasted}."


def _blamed(blame: Blame, scope: str) -> str:
    if blames_host(blame, scope):
        return "It was the host itself."
    if scope == "performance":
        lacked = " and ".join(LACKED.get(each, each) for each in blame.resources)
        host = printable(blame.row.partition("/")[0])
        return f"Most likely {host} was short of {lacked}." if lacked else f"The most likely culprit was {host}."
    if scope == "request":
        return f"The main cause was `{printable(blame.name)}`."
    if scope == "member":
        return f"The member that deviated most was `{printable(blame.name)}`."
    pid = pid_of(blame.row)
    return f"The most likely culprit was `{printable(blame.name)}`" + (f" (pid {pid})." if pid is not None else ".")


def _seen(incident: Incident) -> str:
    """Return the sentence on the operators with evidence, and the worst score."""
    scopes: dict[str, list[str]] = {}
    for each in incident.evidence:
        seen = scopes.setdefault(each.operator, [])
        if each.scope and each.scope not in seen:
            seen.append(each.scope)
    by = [f"{operator} ({', '.join(seen)})" if seen else operator for operator, seen in scopes.items()]
    worst = f"{readable('', incident.score)}" if math.isfinite(incident.score) else "beyond any number"
    young = ", which had learned only briefly" if incident.young else ""
    return f"Seen by {' and '.join(by)}{young}; the worst score is {worst}."


def _closer(incident: Incident, leading: Evidence) -> str:
    """Return commands to investigate further; empty for a replay."""
    if not incident.live:
        return ""
    key = shlex.quote(printable(incident.key))
    at = datetime.fromtimestamp(incident.ts, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if incident.keyed_by == "pool":
        return f"`laggard pools {key} --at {at}`"
    if incident.keyed_by == "service":
        return f"`laggard requests {key} --at {at}`"
    if incident.keyed_by == "application":
        commands = [f"`laggard models {key}`"]
        if leading.blame is not None:  # its name is that of the host
            commands.append(f"`laggard why --host {shlex.quote(printable(leading.blame.name))} --at {at}`")
        return ", ".join(commands)
    commands = [f"`laggard why --host {key} --at {at}`"]
    if leading.blame is not None and (pid := pid_of(leading.blame.row)) is not None:
        commands.append(f"on that machine `laggard diagnose {pid}`")
    return ", ".join(commands)


def _clock(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).strftime("%H:%M:%S")


def _moment(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M:%S")
