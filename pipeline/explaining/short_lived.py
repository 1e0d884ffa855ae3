"""Names of short-lived processes, which begin and end between two ticks.

Their CPU time is in their parent's `cpu_children_ratio`, and their number in the host's `forks_per_s`, both without
names. Ticks catch some of them: a fork storm appears as many samples of few names. The samples do not give its size.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.causes import FORKS_PER_S, HostCounters
from laggard.pipeline.explaining.explain import ALIKE, printable
from laggard.pipeline.explaining.text import FAINT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.operators.ranking import Ranking, RowScore
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.explaining.verdict import Verdict

CHILDREN: Final = "cpu_children_ratio"

SEEN_S: Final = 30.0
SEEN_TICKS: Final = 6
"""The window of the search, the longer one."""

LIVED_TICKS: Final = 2
"""The most ticks of a short-lived process."""

NAMED: Final = 4
"""The most names in the text."""

Counts = tuple[tuple[str, int], ...]
"""Names with their numbers of processes, most first."""


def seen_s(tick_s: float) -> float:
    """Return the window of the search in seconds, for this tick."""
    return max(SEEN_S, SEEN_TICKS * tick_s)


def came_and_went(frames: Sequence[Frame]) -> Counts:
    """Count the processes that are in one or two of these frames, and neither in the first nor in the last.

    Args:
        frames: the frames of the processes of one host, oldest first.

    """
    lives: dict[str, tuple[int, int, str]] = {}
    for tick, frame in enumerate(frames):
        for row, name in zip(frame.layout.rows, frame.layout.names, strict=True):
            process = _process(row)
            first, _, _ = lives.get(process, (tick, tick, name))
            lives[process] = first, tick, name
    newest = len(frames) - 1
    return _counted(
        name for first, last, name in lives.values() if first > 0 and last < newest and last - first < LIVED_TICKS
    )


def just_begun(before: Frame, frame: Frame) -> Counts:
    """Count the processes that began since the frame before; none if that is more than `SEEN_S` ago."""
    if frame.ts - before.ts > SEEN_S:
        return ()
    known = set(map(_process, before.layout.rows))
    rows = zip(frame.layout.rows, frame.layout.names, strict=True)
    return _counted(name for row, name in rows if _process(row) not in known)


def spawns(row: RowScore) -> bool:
    """Return whether the CPU time of ended children is among the reported features of a row."""
    worst = max((each.score for each in row.features), default=0.0)
    return any(each.feature == CHILDREN and each.score >= max(ALIKE * worst, FAINT) for each in row.features)


def matter(verdict: Verdict, host: Ranking | None) -> bool:
    """Return whether short-lived processes matter: a blamed process spawns them, or the host forks more than usual.

    Args:
        verdict: the verdict on the processes.
        host: the host's own row with all its features; None if unknown.

    """
    blamed = verdict.culprits or (() if verdict.taker is None else (verdict.taker,))
    if any(map(spawns, blamed)):
        return True
    rows = () if host is None else host.rows
    return any(HostCounters(row).risen("forks_per_s", FORKS_PER_S) for row in rows)


def listed(counts: Counts) -> str:
    """Return names and counts as text: `` `cc1` (12), `as` (9) and 3 others``."""
    parts = [f"`{printable(name)}` ({count})" for name, count in counts[:NAMED]]
    if left := sum(count for _, count in counts[NAMED:]):
        parts.append(f"{left} {'other' if left == 1 else 'others'}")
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _process(row: str) -> str:
    """Return the pid and start in a row's id, which stay the same when a shell executes another program."""
    return row.rpartition("[")[2]


def _counted(names: Iterable[str]) -> Counts:
    return tuple(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))
