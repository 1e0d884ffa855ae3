"""Which process and which of its features a method blames at each mark, and how often it is right (S0, section 5)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.settings import parse_assignment, read_settings
from laggard.pipeline.wiring import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from laggard.operators.gaussian.likelihood import Likelihood
    from laggard.pipeline.records import Frame
    from tests.evaluation.recording import Case

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


class Method(Protocol):
    """What ranks processes."""

    def see(self, frame: Frame) -> None:
        """Take the next frame of processes."""

    def rank(self) -> Ranking:
        """The rows of the last frame, worst first."""


class Operator:
    """laggard's own, wired as it is when laggard runs, with its settings as they are by default."""

    def __init__(self, likelihood: Likelihood) -> None:
        settings = read_settings(flags=[parse_assignment(f"gaussian.likelihood={likelihood}")])
        self._operator = wire(settings)[0].make()

    def see(self, frame: Frame) -> None:
        self._layout = frame.layout
        self._scores = self._operator.score(frame.ts, frame.layout, frame.values)
        self._operator.learn(frame.ts, frame.layout, frame.values)

    def rank(self) -> Ranking:
        return self._scores.ranking(rows=len(self._layout.rows), features=len(self._layout.features))


class Top:
    """What `top` and the Task Manager show first: who uses most CPU now, whatever is usual."""

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


METHODS: dict[str, Callable[[], Method]] = {
    "laggard": lambda: Operator("scale_free"),
    "as published": lambda: Operator("paper"),
    "top": Top,
}
"""Who is compared: the operator as it is by default, its likelihood as in S0, and the order by CPU."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a method said at the mark of a case.

    Attributes:
        case: what had happened.
        place: of the culprit in the ranking, from 1; 0 where it is not ranked.
        feature: the culprit's first; empty where it is not ranked.
        first: names of the first rows, each with its first feature.

    """

    case: Case
    place: int
    feature: str
    first: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, case: Case, ranking: Ranking) -> Outcome:
        """Find the culprit."""
        first = tuple((row.name, _feature(row)) for row in ranking.rows[:3])
        for place, row in enumerate(ranking.rows, 1):
            if case.blames(row.row):
                return cls(case, place, _feature(row), first)
        return cls(case, 0, "", first)

    @property
    def is_first(self) -> bool:
        return self.place == 1

    @property
    def is_first_or_second(self) -> bool:
        return self.place in {1, 2}

    @property
    def feature_is_right(self) -> bool:
        return self.feature in RIGHT[self.case.kind]

    @property
    def feature_is_plausible(self) -> bool:
        return self.feature in PLAUSIBLE[self.case.kind]


def _feature(row: RowScore) -> str:
    return row.features[0].feature if row.features else ""


def evaluate(
    frames: Iterable[Frame], cases: Iterable[Case], methods: Mapping[str, Callable[[], Method]] = METHODS
) -> dict[str, list[Outcome]]:
    """Show each method all frames of processes once, and ask it at each mark: it knows nothing later than that."""
    waiting = deque(sorted(cases, key=lambda case: case.mark))
    ranking = {name: method() for name, method in methods.items()}
    outcomes: dict[str, list[Outcome]] = {name: [] for name in methods}
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
