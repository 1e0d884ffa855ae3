"""Measure how soon the operator finds faults in recorded real pools, and its false findings (S3)."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from laggard.operators.calibration import QUIET_S
from laggard.operators.covariance import Covariance
from laggard.pipeline.explaining.counters import RESOLUTION
from tests.evaluation.pools.lab.recording import INTERVAL_S, read, recordings
from tests.evaluation.pools.workers import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from laggard.operators.contract import Layout, Matrix
    from laggard.operators.covariance.results import Deviation, Kind
    from laggard.pipeline.core.records import Frame
    from tests.evaluation.pools.lab.recording import Fault, Truth

KINDS: Final[Mapping[Fault, frozenset[Kind]]] = {
    "leak": frozenset({"leak"}),
    "descriptors": frozenset({"leak"}),
    "spin": frozenset({"busy"}),
    "stuck": frozenset({"stuck"}),
    "slow": frozenset({"slower"}),
    "spike": frozenset({"spike"}),
    "left": frozenset({"left"}),
}
"""The right kinds for each fault. `replaced` is not here, since it should not be reported."""

OF_THREADS: Final[Mapping[Fault, frozenset[Kind]]] = {"leak": frozenset({"leak", "busy", "different"})}
"""For threads, whose memory is unknown, also the kinds that page faults alone show."""


class Judge(Protocol):
    """The part of the operator that is used here."""

    def score(self, ts: float, layout: Layout, values: Matrix) -> Told:
        """Return the members that deviate now."""

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a tick."""


class Told(Protocol):
    """The result for a tick."""

    @property
    def deviations(self) -> Sequence[Deviation]:
        """Worst first; a score above 1 is anomalous."""


@dataclass(frozen=True)
class Verdict:
    """The operator's result for one recording.

    Attributes:
        truth: what happened.
        ticks: the length of the recording.
        found: ticks from the onset until the member is among those that deviate; NaN if it never was.
        named: the same until it stood first with the right kind.
        first: its kind when it was found; empty if it never was.
        before: how often a member was reported as deviating before the onset, or at any time if nothing goes wrong.
            Reports of a member without a quiet time between them count once.
        after: the same for other members than the right one, from the onset on.

    """

    truth: Truth
    ticks: int
    found: float
    named: float
    first: str
    before: int
    after: int

    @property
    def is_case(self) -> bool:
        """Whether something should have been found."""
        return self.truth.fault in KINDS


def watch(truth: Truth, frames: Sequence[Frame], operator: Judge) -> Verdict:
    """Follow a recording from its first tick to its last, as the pipeline does: first judge, then learn."""
    right = KINDS.get(truth.fault, frozenset())
    if truth.pool in ("java", "python"):
        right = OF_THREADS.get(truth.fault, right)
    found = named = math.nan
    first = ""
    false = {False: 0, True: 0}
    last: dict[str, float] = {}  # when others were called deviating
    onset = next((at for at, frame in enumerate(frames) if frame.ts >= truth.begin_ts), len(frames))
    for at, frame in enumerate(frames):
        late = at >= onset
        told = [each for each in operator.score(frame.ts, frame.layout, frame.values).deviations if each.score > 1.0]
        hit = [each for each in told if late and right and truth.row in each.rows]
        if hit and math.isnan(found):
            found, first = at - onset, hit[0].kind
        if hit and math.isnan(named) and hit[0] is told[0] and hit[0].kind in right:
            named = at - onset
        for row in {row for each in told if each not in hit for row in each.rows}:
            false[late] += frame.ts - last.get(row, -math.inf) > QUIET_S
            last[row] = frame.ts
        operator.learn(frame.ts, frame.layout, frame.values)
    return Verdict(truth, len(frames), found, named, first, false[False], false[True])


def run(folder: Path, workers: int) -> str:
    """Judge all recordings of a folder. Return a table in Markdown.

    Raises:
        FileNotFoundError: there are no recordings.

    """
    files = recordings(folder)
    if not files:
        raise FileNotFoundError(f"{folder}: expected recordings, NAME.jsonl beside NAME.truth.json")
    return table(spread(judge, [(file,) for file in files], workers))


def judge(file: Path) -> Verdict:
    """Return the operator's verdict on one recording."""
    return watch(*read(file), Covariance(resolution=RESOLUTION))


def table(verdicts: Sequence[Verdict]) -> str:
    """Return a table in Markdown by pool and fault."""
    heads = (
        "pool",
        "fault",
        "runs",
        "found",
        "after ticks",
        "right, and first",
        "after ticks",
        "first called",
        "false",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    groups: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for each in verdicts:
        groups[each.truth.pool, each.truth.fault].append(each)
    for (pool, fault), mine in groups.items():
        found = [each.found for each in mine]
        named = [each.named for each in mine]
        case = mine[0].is_case
        cells = (
            pool,
            fault,
            str(len(mine)),
            _count(found) if case else "-",
            _ticks(found) if case else "-",
            _count(named) if case else "-",
            _ticks(named) if case else "-",
            ", ".join(sorted({each.first for each in mine if each.first})) or "-",
            f"{sum(each.before for each in mine)} + {sum(each.after for each in mine)}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    cases = [each for each in verdicts if each.is_case]
    days = sum(each.ticks for each in verdicts) * INTERVAL_S / 86400
    false = sum(each.before + each.after for each in verdicts)
    told = f"Found {_count([each.found for each in cases])}, named {_count([each.named for each in cases])}"
    lines += ["", f"{told}; {false} false findings in {days:.3f} pool-days."]
    return "\n".join(lines)


def _count(ticks: Sequence[float]) -> str:
    return f"{sum(not math.isnan(each) for each in ticks)}/{len(ticks)}"


def _ticks(ticks: Sequence[float]) -> str:
    return ", ".join("never" if math.isnan(each) else f"{each:.0f}" for each in ticks)
