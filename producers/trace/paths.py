"""A critical path as it is told: as many pieces as can be drawn."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from laggard.pipeline.records import Segment
from laggard.pipeline.records.limits import MAX_SEGMENTS
from laggard.producers.trace.states import BP, NAMES, RU, UN
from laggard.producers.trace.steady import steady

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.producers.trace.critical_path import Piece
    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.threads import Thread

_Part = tuple["Piece", int, int, int]
"""A piece that stands for itself and its neighbours; nanoseconds of what is like it; begin and end of all of them."""

LONGEST_DETAIL: Final = 80
_KEPT: Final = (99, 90, 80, 70, 60, 49)
"""How many of the longest pieces are tried to be kept: what lies between two of them becomes one piece."""


def told(pieces: Sequence[Piece], texts: Texts, *, here: str) -> tuple[tuple[str, ...], tuple[Segment, ...]]:
    """The threads of a critical path, and its pieces: at most `MAX_SEGMENTS`, the shortest in a row merged.

    Args:
        pieces: in the order of time, without gaps; of one piece or more.
        texts: of the trace.
        here: the machine whose threads are named without it.

    """
    start = pieces[0][1]
    places: dict[Thread, int] = {pieces[0][0]: 0}
    segments = []
    for piece, _, begin, end in _merged(pieces):
        thread = places.setdefault(piece[0], len(places))
        segments.append(
            Segment(thread, (begin - start) / 1e9, (end - start) / 1e9, NAMES[piece[3]], _detail(piece, texts))
        )
    return tuple(_name(thread, here) for thread in places), tuple(segments)


def _merged(pieces: Sequence[Piece]) -> Sequence[_Part]:
    """As few parts as are wanted."""
    parts = [(piece, piece[2] - piece[1], piece[1], piece[2]) for piece in pieces]
    if len(parts) <= MAX_SEGMENTS:
        return parts
    lengths = sorted((part[1] for part in parts), reverse=True)
    for kept in _KEPT:
        merged = _between(parts, lengths[kept - 1])
        if len(merged) <= MAX_SEGMENTS:
            return merged
    return _between(parts, lengths[_KEPT[-1] - 1] + 1)


def _between(parts: Sequence[_Part], shortest: int) -> list[_Part]:
    """What is shorter than this is one part with its neighbours that are, which stands for what most of it is."""
    merged: list[_Part] = []
    run: list[_Part] = []
    for part in parts:
        if part[1] < shortest:
            run.append(part)
            continue
        if run:
            merged.append(_joined(run))
            run = []
        merged.append(part)
    if run:
        merged.append(_joined(run))
    return merged


def _joined(run: Sequence[_Part]) -> _Part:
    """One part for several in a row: the longest piece of the thread and state that take most of it."""
    if len(run) == 1:
        return run[0]
    sums: dict[tuple[int, int], int] = {}
    for piece, ns, _, _ in run:
        of = (piece[0].tid, piece[3])
        sums[of] = sums.get(of, 0) + ns
    most = max(sums, key=sums.__getitem__)
    longest = max((part for part in run if (part[0][0].tid, part[0][3]) == most), key=lambda part: part[1])
    return longest[0], sums[most], run[0][2], run[-1][3]


def _detail(piece: Piece, texts: Texts) -> str:
    _, _, _, state, call, _, _, what = piece
    if state in {RU, UN, BP}:
        return ""
    if call is None:
        return what[:LONGEST_DETAIL]
    return _words(texts[call[2]], call[4], what)


@lru_cache(maxsize=8_192)
def _words(name: str, on: str, what: str) -> str:
    return f"{name} {steady(on) if on else what}".rstrip()[:LONGEST_DETAIL]


def _name(thread: Thread, here: str) -> str:
    """`php-fpm[812]`; a thread that is not its process's first has both numbers: `mariadbd[99:105]`."""
    pid, tid = thread.process.pid, thread.tid
    name = f"{thread.name or '?'}[{tid if pid == tid else f'{pid}:{tid}'}]"
    return name if thread.machine == here else f"{thread.machine}/{name}"
