"""Which process and which of its features a method blames at each mark, and how often it is right (S0, section 5)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import parse_assignment
from laggard.pipeline.wiring import wire
from tests.evaluation.planning import is_of_evaluation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.settings import Given
    from tests.evaluation.recording import Case, Culprit

CPU = ("cpu_user_ratio", "cpu_system_ratio")

RIGHT: dict[str, frozenset[str]] = {
    "cpu": frozenset(CPU),
    "memory": frozenset({"memory_rss_bytes", "memory_virtual_bytes", "memory_swap_bytes"}),
    "io": frozenset(
        {
            "io_read_bytes_per_s",
            "io_write_bytes_per_s",
            "io_cancelled_write_bytes_per_s",
            "io_read_operations_per_s",
            "io_write_operations_per_s",
            "io_read_characters_per_s",
            "io_write_characters_per_s",
            "io_delay_ratio",
        }
    ),
    "descriptors": frozenset({"descriptors", "sockets"}),
    "page_faults": frozenset({"page_faults_minor_per_s", "page_faults_major_per_s"}),
    "threads": frozenset({"threads"}),
}
"""Features that name the resource of a fault: what counts strictly."""

PLAUSIBLE: dict[str, frozenset[str]] = {
    "cpu": RIGHT["cpu"] | {"cpu_wait_ratio", "timeslices_per_s", "switches_involuntary_per_s"},
    "memory": RIGHT["memory"] | RIGHT["page_faults"],
    "io": RIGHT["io"],
    "descriptors": RIGHT["descriptors"],
    "page_faults": RIGHT["page_faults"] | {"memory_rss_bytes", "memory_virtual_bytes", "cpu_system_ratio"},
    "threads": RIGHT["threads"] | {"memory_rss_bytes", "memory_virtual_bytes"},
}
"""And those of what the fault cannot but use as well: S0 counts what is plausible.

A busy process waits for the CPU and is interrupted. New memory faults when it is touched. Memory that is mapped and
given back is there for a moment, and the kernel clears it. A thread has a stack.
"""

STORM_RIGHT = RIGHT["cpu"] | {"cpu_children_ratio", "children"}
STORM_PLAUSIBLE = STORM_RIGHT | PLAUSIBLE["cpu"] | PLAUSIBLE["page_faults"] | {"switches_voluntary_per_s"}
"""The same for a storm of children, in the parent's row or theirs. They use the CPU, and it waits for them. Starting a
program means mapping it and faulting it in."""

ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "evidence": {"evidence_s": 0.0},
    "exclusion": {"exclude_s": 0.0},
    "weights": {"weights": {}},
    "likelihood": {"likelihood": "paper"},
    "cohorts": {"cohorts": False},
    "episodes": {"episodes": False},
    "share": {"share": 0.0},
    "resolution": {"resolution": {}},
    "rises": {"stocks": ()},
}
"""The parts of the operator beyond the paper, and the parameters that switch them off.

- `evidence`: it is over some seconds, not one tick.
- `exclusion`: the last seconds are left out of the baseline.
- `weights`: features weigh by what they say of a cause.
- `likelihood`: likelihoods have no unit. All the others are part of this.
- `cohorts`: new processes are compared with how others of their name began.
- `episodes`: values that are far off are learned as an episode first.
- `share`: the ranking is by the share of what rises.
- `resolution`: a least change is large enough to notice.
- `rises`: growth for hours is compared with the time before it.
"""


class Method(Protocol):
    """A method that ranks processes."""

    def see(self, frame: Frame) -> None:
        """Take the next frame of processes."""

    def rank(self) -> Ranking:
        """The rows of the last frame, worst first."""


class Operator:
    """laggard's own, wired as it is when laggard runs.

    Args:
        settings: those that are not as by default.
        without: names of `ABLATIONS` to switch off.

    """

    def __init__(self, settings: Iterable[Given] = (), without: Iterable[str] = ()) -> None:
        wired = wire(read_settings(environ={}, flags=list(settings)))[0]
        parameters: dict[str, Any] = {}
        for name in without:
            parameters |= ABLATIONS[name]
        self._operator = wired.make(**parameters)

    def see(self, frame: Frame) -> None:
        self._layout = frame.layout
        self._scores = self._operator.score(frame.ts, frame.layout, frame.values)
        self._operator.learn(frame.ts, frame.layout, frame.values)

    def rank(self) -> Ranking:
        return self._scores.ranking(rows=len(self._layout.rows), features=len(self._layout.features))


class Top:
    """The order of `top` and the Task Manager: by CPU now, without a baseline."""

    def see(self, frame: Frame) -> None:
        self._frame = frame

    def rank(self) -> Ranking:
        layout, values = self._frame.layout, self._frame.values
        used = np.nan_to_num(values[:, [layout.features.index(feature) for feature in CPU]])
        rows = []
        for row in map(int, np.argsort(-used.sum(axis=1), kind="stable")):
            of_row = sorted(zip(used[row].tolist(), CPU, strict=True), reverse=True)
            features = tuple(FeatureScore(feature, value, 0.0, 0.0, value) for value, feature in of_row)
            rows.append(RowScore(layout.rows[row], layout.names[row], float(used[row].sum()), features, 0.0))
        return Ranking(self._frame.ts, math.nan, tuple(rows), 0.0, young=False)


Methods = Mapping[str, Callable[[], Method]]


def methods(settings: Iterable[Given] = (), without: Iterable[str] = ()) -> Methods:
    """Return the compared methods: the operator with these changes, its likelihood as in S0, and the order by CPU."""
    changed, off = tuple(settings), tuple(without)
    return {
        "laggard": lambda: Operator(changed, off),
        "as published": lambda: Operator([parse_assignment("gaussian.likelihood=paper")]),
        "top": Top,
    }


def ablated(settings: Iterable[Given] = ()) -> Methods:
    """Return the operator, and the operator without each of its improvements."""
    changed = tuple(settings)
    return {"laggard": partial(Operator, changed)} | {
        f"without {name}": partial(Operator, changed, (name,)) for name in ABLATIONS
    }


@dataclass(frozen=True, slots=True)
class Found:
    """The place of a culprit in a method's ranking.

    Attributes:
        culprit: the cause of the trouble.
        place: its place in the ranking, from 1; 0 if it is not ranked.
        own_place: the same without processes that are not of the evaluation.
        feature: the first of its row; empty if it is not ranked.

    """

    culprit: Culprit
    place: int
    own_place: int
    feature: str

    @classmethod
    def of(cls, culprit: Culprit, ranking: Ranking) -> Found:
        """Look for it, from the top."""
        strangers = 0
        for place, row in enumerate(ranking.rows, 1):
            if culprit.is_row(row.row, row.name):
                return cls(culprit, place, place - strangers, _feature(row))
            strangers += not is_of_evaluation(row.name)
        return cls(culprit, 0, 0, "")

    @property
    def is_first(self) -> bool:
        return self.place == 1

    @property
    def is_first_or_second(self) -> bool:
        return self.place in {1, 2}

    @property
    def feature_is_right(self) -> bool:
        return self.feature in (STORM_RIGHT if self.culprit.program else RIGHT[self.culprit.kind])

    @property
    def feature_is_plausible(self) -> bool:
        return self.feature in (STORM_PLAUSIBLE if self.culprit.program else PLAUSIBLE[self.culprit.kind])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a method at the mark of a case.

    Attributes:
        case: the case.
        found: the place of each culprit.
        first: names of the first rows, each with its first feature.

    """

    case: Case
    found: tuple[Found, ...]
    first: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, case: Case, ranking: Ranking) -> Outcome:
        """Find the culprits."""
        first = tuple((row.name, _feature(row)) for row in ranking.rows[:3])
        return cls(case, tuple(Found.of(culprit, ranking) for culprit in case.culprits), first)

    @property
    def best(self) -> Found:
        """The culprit with the highest place."""
        return min(self.found, key=lambda found: found.place or math.inf)

    @property
    def is_first(self) -> bool:
        """Whether the first row is a culprit."""
        return self.best.is_first

    @property
    def is_first_of_own(self) -> bool:
        """Whether no innocent process of the evaluation is before the culprit."""
        return self.best.own_place == 1

    @property
    def is_first_or_second(self) -> bool:
        """Whether all culprits are among the first two rows."""
        return all(found.is_first_or_second for found in self.found)

    @property
    def feature_is_right(self) -> bool:
        return self.best.feature_is_right

    @property
    def feature_is_plausible(self) -> bool:
        return self.best.feature_is_plausible


def _feature(row: RowScore) -> str:
    return row.features[0].feature if row.features else ""


def evaluate(frames: Iterable[Frame], cases: Iterable[Case], compared: Methods) -> dict[str, list[Outcome]]:
    """Show each method all frames of processes once, and ask it at each mark: it knows nothing later than that."""
    waiting = deque(sorted(cases, key=lambda case: case.mark))
    ranking = {name: method() for name, method in compared.items()}
    outcomes: dict[str, list[Outcome]] = {name: [] for name in compared}
    last = -math.inf

    def ask_until(ts: float) -> None:
        while waiting and waiting[0].mark < ts:
            case = waiting.popleft()
            if last < case.onset:
                raise ValueError(f"case {case.case}: expected a frame between its onset and its mark at {case.mark}")
            for name, method in ranking.items():
                outcomes[name].append(Outcome.of(case, method.rank()))

    for frame in frames:
        ask_until(frame.ts)
        for method in ranking.values():
            method.see(frame)
        last = frame.ts
    ask_until(math.inf)
    return outcomes
