"""A critical path in its published form, with at most as many pieces as can be drawn."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import Segment
from laggard.pipeline.core.records.limits import MAX_SEGMENTS
from laggard.producers.trace.states import BP, NAMES, RU, UN
from laggard.producers.trace.steady import steady

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from laggard.producers.trace.critical_path import Piece
    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.threads import Thread

_Part = tuple["Piece", int, int]
"""A piece that stands for itself and its neighbors; the start and end of all of them."""

_PLAIN: Final = frozenset({RU, UN, BP})

LONGEST_DETAIL: Final = 80
_LONGEST_PIECES: Final = (99, 90, 80, 70, 60, 49)
"""The numbers of longest pieces to try: all pieces between two of them become one."""


def condensed(pieces: Sequence[Piece], texts: Texts, *, here: str) -> tuple[tuple[str, ...], tuple[Segment, ...]]:
    """Return the threads of a critical path, and its pieces: at most `MAX_SEGMENTS`, consecutive short ones merged.

    Args:
        pieces: the pieces in the order of time, without gaps; at least one.
        texts: the texts of the trace.
        here: the machine whose threads are named without it.

    """
    start = pieces[0][1]
    places: dict[Thread, int] = {pieces[0][0]: 0}
    segments = []
    for piece, begin, end in _merged(pieces):
        thread = places.get(piece[0])
        if thread is None:
            thread = places[piece[0]] = len(places)
        segments.append(
            Segment(thread, (begin - start) / 1e9, (end - start) / 1e9, NAMES[piece[3]], _detail(piece, texts))
        )
    return tuple(_name(thread, here) for thread in places), tuple(segments)


def _merged(pieces: Sequence[Piece]) -> Iterable[_Part]:
    """Merge pieces into at most `MAX_SEGMENTS` parts."""
    if len(pieces) <= MAX_SEGMENTS:
        return [(piece, piece[1], piece[2]) for piece in pieces]
    lengths = np.array([piece[2] - piece[1] for piece in pieces])
    ranked = np.sort(lengths)[::-1]
    for count in _LONGEST_PIECES:
        stands = lengths >= ranked[count - 1]
        if _parts(stands) <= MAX_SEGMENTS:
            break
    else:
        stands = lengths > ranked[_LONGEST_PIECES[-1] - 1]
    return _joined(pieces, stands.tolist())


def _parts(stands: NDArray[np.bool_]) -> int:
    """Return the number of parts if only these pieces stand for themselves."""
    return int(np.count_nonzero(stands)) + int(np.count_nonzero(~stands[1:] & stands[:-1])) + int(not stands[0])


def _joined(pieces: Sequence[Piece], stands: Sequence[bool]) -> list[_Part]:
    """Return pieces that stand for themselves, and between them one part for all others.

    This part shows the longest piece of the thread and state with most of its time.
    """
    parts: list[_Part] = []
    sums: dict[tuple[int, int], int] = {}
    longest: dict[tuple[int, int], Piece] = {}
    begin = pieces[0][1]
    for piece, alone in zip((*pieces, None), (*stands, True), strict=True):
        if piece is not None and not alone:
            ns = piece[2] - piece[1]
            of = (piece[0].tid, piece[3])
            sums[of] = sums.get(of, 0) + ns
            if of not in longest or longest[of][2] - longest[of][1] < ns:
                longest[of] = piece
            continue
        if sums:
            end = pieces[-1][2] if piece is None else piece[1]
            parts.append((longest[max(sums, key=sums.__getitem__)], begin, end))
            sums, longest = {}, {}
        if piece is not None:
            parts.append((piece, piece[1], piece[2]))
            begin = piece[2]
    return parts


def _detail(piece: Piece, texts: Texts) -> str:
    _, _, _, state, call, _, _, what = piece
    if state in _PLAIN:
        return ""
    if call is None:
        return what[:LONGEST_DETAIL]
    return _words(texts[call[2]], call[4], what)


@lru_cache(maxsize=8_192)
def _words(name: str, on: str, what: str) -> str:
    return f"{name} {steady(on) if on else what}".rstrip()[:LONGEST_DETAIL]


def _name(thread: Thread, here: str) -> str:
    """Return `php-fpm[812]`, or both numbers if the thread is not the first of its process: `mariadbd[99:105]`."""
    pid, tid = thread.process.pid, thread.tid
    name = f"{thread.name or '?'}[{tid if pid == tid else f'{pid}:{tid}'}]"
    return name if thread.machine == here else f"{thread.machine}/{name}"
