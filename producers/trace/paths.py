"""A critical path as it is told: as many pieces as can be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.records import Segment
from laggard.pipeline.records.limits import MAX_SEGMENTS
from laggard.producers.trace.states import BI, BP, NAMES, RU, UN
from laggard.producers.trace.steady import steady

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.producers.trace.critical_path import Piece
    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.threads import Thread

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
    start = pieces[0].begin
    parts = _merged(pieces)
    places: dict[Thread, int] = {pieces[0].thread: 0}
    segments = []
    for first, _, begin, end in parts:
        thread = places.setdefault(first.thread, len(places))
        state = NAMES[first.state]
        segments.append(Segment(thread, (begin - start) / 1e9, (end - start) / 1e9, state, _detail(first, texts)))
    return tuple(_name(thread, here) for thread in places), tuple(segments)


def _merged(pieces: Sequence[Piece]) -> list[tuple[Piece, int, int, int]]:
    """Pieces that stand for what they cover, with nanoseconds of the piece itself, begin and end."""
    joined: list[tuple[Piece, int, int, int]] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        alike = last is not None and last[0].thread is piece.thread and last[0].state == piece.state
        if last is not None and alike and last[0].call is piece.call:
            joined[-1] = (last[0], piece.end - last[2], last[2], piece.end)
        else:
            joined.append((piece, piece.end - piece.begin, piece.begin, piece.end))
    if len(joined) <= MAX_SEGMENTS:
        return joined
    lengths = sorted((each[1] for each in joined), reverse=True)
    for kept in _KEPT:
        merged = _between(joined, lengths[kept - 1])
        if len(merged) <= MAX_SEGMENTS:
            return merged
    return _between(joined, lengths[_KEPT[-1] - 1] + 1)


def _between(joined: list[tuple[Piece, int, int, int]], shortest: int) -> list[tuple[Piece, int, int, int]]:
    """What is shorter than this becomes one piece with its neighbours that are, as that which takes most of it."""
    merged: list[tuple[Piece, int, int, int]] = []
    sums: dict[tuple[Thread, int], list[int]] = {}
    run: list[tuple[Piece, int, int, int]] = []

    def close() -> None:
        if run:
            most = max(sums, key=lambda each: sums[each][0])
            stands = run[sums[most][1]][0]
            merged.append((stands, sums[most][0], run[0][2], run[-1][3]))
            run.clear()
            sums.clear()

    for each in joined:
        if each[1] >= shortest:
            close()
            merged.append(each)
            continue
        entry = sums.setdefault((each[0].thread, each[0].state), [0, len(run)])
        entry[0] += each[1]
        if each[1] > run[entry[1]][1] if entry[1] < len(run) else False:
            entry[1] = len(run)
        run.append(each)
    close()
    return merged


def _detail(piece: Piece, texts: Texts) -> str:
    if piece.state in {RU, UN, BP}:
        return ""
    if piece.state == BI:
        return piece.what[:LONGEST_DETAIL]
    if piece.call is None:
        return piece.what[:LONGEST_DETAIL]
    name, on = texts[piece.call[2]], piece.call[4]
    return f"{name} {steady(on) if on else piece.what}".rstrip()[:LONGEST_DETAIL]


def _name(thread: Thread, here: str) -> str:
    """`php-fpm[812]`; a thread that is not its process's first has both numbers: `mariadbd[99:105]`."""
    pid, tid = thread.process.pid, thread.tid
    name = f"{thread.name or '?'}[{tid if pid == tid else f'{pid}:{tid}'}]"
    return name if thread.machine == here else f"{thread.machine}/{name}"
