"""Short-lived processes: who they were that came and went between two ticks.

Their CPU time is in their parent's `cpu_children_ratio` and they are in the host's `forks_per_s`, both without a name.
Of some a tick has caught a glimpse: a storm of them is many glimpses of few names. How many there were it does not say.
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
    from laggard.pipeline.explaining.verdict import Verdict
    from laggard.pipeline.records import Frame

CHILDREN: Final = "cpu_children_ratio"

SEEN_S: Final = 30.0
SEEN_TICKS: Final = 6
"""So far back it is looked for them, whichever is longer."""

LIVED_TICKS: Final = 2
"""Who is seen at more ticks than this is not short-lived."""

NAMED: Final = 4
"""So many names are told."""

Counts = tuple[tuple[str, int], ...]
"""Names, each with how many processes of that name were seen, most first."""


def seen_s(tick_s: float) -> float:
    """How far back it is looked for them, in seconds, where ticks are so far apart."""
    return max(SEEN_S, SEEN_TICKS * tick_s)


def came_and_went(frames: Sequence[Frame]) -> Counts:
    """The processes that are in one or two of these frames, and neither in the first nor in the last of them.

    Args:
        frames: of the processes of one host, oldest first.

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
    """The processes of a frame that were not there at the tick before; none where that is long ago."""
    if frame.ts - before.ts > SEEN_S:
        return ()
    known = set(map(_process, before.layout.rows))
    rows = zip(frame.layout.rows, frame.layout.names, strict=True)
    return _counted(name for row, name in rows if _process(row) not in known)


def spawns(row: RowScore) -> bool:
    """Whether what is told of a row is the time of its ended children."""
    worst = max((each.score for each in row.features), default=0.0)
    return any(each.feature == CHILDREN and each.score >= max(ALIKE * worst, FAINT) for each in row.features)


def matter(verdict: Verdict, host: Ranking | None) -> bool:
    """Whether short-lived processes have a part in what was found: who is blamed spawns them, or the host forks more.

    Args:
        verdict: what was found.
        host: the host's own row with all its features, None where that is not known.

    """
    blamed = verdict.culprits or (() if verdict.taker is None else (verdict.taker,))
    if any(map(spawns, blamed)):
        return True
    rows = () if host is None else host.rows
    return any(HostCounters(row).risen("forks_per_s", FORKS_PER_S) for row in rows)


def listed(counts: Counts) -> str:
    """Names and counts in words: `` `cc1` (12), `as` (9) and 3 others``."""
    told = [f"`{printable(name)}` ({count})" for name, count in counts[:NAMED]]
    if left := sum(count for _, count in counts[NAMED:]):
        told.append(f"{left} {'other' if left == 1 else 'others'}")
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _process(row: str) -> str:
    """What of a row's id stays when a shell becomes the program that it was told to run: pid and start."""
    return row.rpartition("[")[2]


def _counted(names: Iterable[str]) -> Counts:
    return tuple(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))
