"""The use of a request's time: by what, and by whom."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records import Spent
from laggard.pipeline.core.records.limits import MAX_SPENT
from laggard.pipeline.core.records.requests import REST
from laggard.producers.trace.calls import Does, does, failure
from laggard.producers.trace.states import BD, BF, BI, BP, BT, NAMES, RS, RU, UN
from laggard.producers.trace.steady import steady, steady_thread
from laggard.producers.trace.threads import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.producers.trace.critical_path import Piece
    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.threads import Call, Thread

Key = tuple[int, str, str, str, str]
"""State, system call, on, by, result."""

MOST_FAILED: Final = 12
"""The most failed system calls that are listed however short they were."""


MOST_BUSY: Final = 8
"""The most requests that are named of those that kept the threads of a server busy."""

_UNEXPLAINED: Final = frozenset({BI, UN})
_EINPROGRESS: Final = -115
_PREPARES: Final = frozenset({"epoll_ctl", "fcntl", "getpeername", "getsockname", "getsockopt", "ioctl", "setsockopt"})
"""The calls on the descriptor of a connect(2) in progress that do not show whether it has ended."""

_SOON: Final = 8
"""The number of system calls after a non-blocking connect(2) in which its result is expected."""


class _Sum:
    __slots__ = ("ns", "pids", "times")

    def __init__(self) -> None:
        self.times = 0
        self.ns = 0
        self.pids: dict[int, int] = {}


def spent(
    pieces: Iterable[Piece], texts: Texts, queued: Mapping[str, tuple[int, int]] | None = None
) -> tuple[Spent, ...]:
    """Return the uses of the pieces of a thread's time, the longest first; their sum is that of the pieces.

    A wait for a CPU is divided among the threads that had it. A system call is counted once, however often it was
    interrupted. With more than `MAX_SPENT` entries, the longest ones remain, together with the most frequent failed
    system calls. The last entry is the sum of the rest.

    Args:
        pieces: the pieces.
        texts: the texts of the trace.
        queued: if the first piece is a wait in a listen queue, the nanoseconds that the server's threads spent on
            requests meanwhile, and a process, by name. The wait is divided among these names.

    """
    sums: dict[Key, _Sum] = {}
    keys: dict[tuple[int, str, int], Key] = {}  # by the equal parts of system calls, so that the texts are made once
    counted = -1  # the start of the system call whose time in the kernel has been counted
    running = -1  # the state that an interrupt interrupted
    for piece in pieces:
        thread, begin, end, state, call, _, _, what = piece
        length = end - begin
        if queued is not None and call is not None:
            _queued(sums, length, call, texts, queued)
            queued = None
        elif state == BP:
            _taken(sums, piece)
        elif state == RU:
            _add(sums, (RU, "", "", "", ""), length, times=running != RU)
        elif state == RS:
            if call is None:
                _add(sums, (RS, "", "", "", ""), length, times=running != RS)
            else:
                alike = (call[2], call[4], min(call[3], 0))
                key = keys.get(alike)
                if key is None or call[3] == _EINPROGRESS:
                    key = (RS, texts[call[2]], _on(call), "", _result(thread, call, texts))
                    keys[alike] = key
                _add(sums, key, length, times=counted != call[1])
                counted = call[1]
        elif state in _UNEXPLAINED:
            _add(sums, (state, "" if call is None else texts[call[2]], what, "", ""), length)
        else:
            _waited(sums, piece, texts)
        if state != BI:
            running = state
    return _longest(sums)


def _add(sums: dict[Key, _Sum], key: Key, ns: int, pid: int = 0, *, times: int = 1) -> None:
    entry = sums.get(key)
    if entry is None:
        entry = sums[key] = _Sum()
    entry.times += times
    entry.ns += ns
    if pid:
        entry.pids[pid] = entry.pids.get(pid, 0) + ns


def _waited(sums: dict[Key, _Sum], piece: Piece, texts: Texts) -> None:
    """Add a wait for anything but a CPU."""
    thread, begin, end, state, call, _, waker, what = piece
    name = on = result = ""
    if call is not None:
        name, on = texts[call[2]], _on(call)
        polled = None if on else _polled(thread, call, texts)
        if polled is not None:
            on = _on(polled)
            if texts[polled[2]] == "getsockopt":
                # After the wait, the program asks for the result of connect(2), which was EINPROGRESS.
                name, call = "connect", polled
        pending = None if name == "connect" else _pending(thread, call, polled, texts)
        if pending is not None:
            name, on, call = "connect", _on(pending), pending
        result = _result(thread, call, texts)
    by = _blamed(call, waker, thread)
    if by is not None and state == BF and result == "ETIMEDOUT":
        result = ""  # A part of a wait that was then repeated.
    if state == BD and not on:
        on = what
    key = (state, name, on, "" if by is None else called(by, thread), result)
    _add(sums, key, end - begin, 0 if by is None else by.process.pid)


def _taken(sums: dict[Key, _Sum], piece: Piece) -> None:
    """Add a wait for a CPU, by the threads that had it."""
    thread, begin, end, _, _, cpu, _, _ = piece
    if cpu is None:
        _add(sums, (BP, "", "", "", ""), end - begin)
        return
    counted = set()
    for who, ns in cpu.had(begin, end):
        by, pid = ("", 0) if who is None or who is thread else (called(who, thread), who.process.pid)
        _add(sums, (BP, "", "", by, ""), ns, pid, times=by not in counted)
        counted.add(by)


def _queued(sums: dict[Key, _Sum], ns: int, call: Call, texts: Texts, busy: Mapping[str, tuple[int, int]]) -> None:
    """Add a wait in a listen queue, by the requests that kept the server's threads busy."""
    left, unnamed = ns, sum(each for each, _ in busy.values())
    for name, (each, pid) in list(busy.items())[:MOST_BUSY]:
        share = round(left * (each / unnamed))  # the last one gets the rest
        left, unnamed = left - share, unnamed - each
        _add(sums, (BT, texts[call[2]], _on(call), name, ""), share, pid)
    if left:
        _add(sums, (BT, texts[call[2]], _on(call), "", ""), left)


def _on(call: Call) -> str:
    on = call[4]
    if not on:
        return ""
    on = steady(on)
    return "" if on == "anon_inode" else on


def _polled(thread: Thread, call: Call, texts: Texts) -> Call | None:
    """Return the call that shows the descriptor of a poll: the next one that uses a descriptor."""
    if call[0] == FOREVER or not does(texts[call[2]]) & Does.POLLS:
        return None
    place = bisect_right(thread.calls, (call[0], FOREVER))
    if place < len(thread.calls) and does(texts[thread.calls[place][2]]) & Does.TAKES_DESCRIPTOR:
        return thread.calls[place]
    return None


def _pending(thread: Thread, call: Call, polled: Call | None, texts: Texts) -> Call | None:
    """Return the connect(2) in progress that a poll waits for: an earlier one, of a descriptor not used since then.

    A poll that times out is followed by no getsockopt(2), but by a close(2), or by another poll.
    """
    if not does(texts[call[2]]) & Does.POLLS:
        return None
    place = bisect_left(thread.calls, (call[0],))
    used = set()
    for earlier in reversed(thread.calls[max(place - _SOON, 0) : place]):
        name = texts[earlier[2]]
        if earlier[3] == _EINPROGRESS and does(name) & Does.CONNECTS:
            fits = earlier[6] not in used and (polled is None or polled[6] == earlier[6])
            return earlier if fits else None
        if name not in _PREPARES and does(name) & Does.TAKES_DESCRIPTOR:
            used.add(earlier[6])
    return None


def _result(thread: Thread, call: Call, texts: Texts) -> str:
    """Return the error of a system call; for a connect(2) in progress, the one that getsockopt(2) returned later."""
    if call[3] == _EINPROGRESS and call[0] != FOREVER:
        place = bisect_right(thread.calls, (call[0], FOREVER))
        for later in thread.calls[place : place + _SOON]:
            if later[6] == call[6] and later[3] < 0 and texts[later[2]] == "getsockopt":
                return failure(later[3])
    return failure(call[3])


def _blamed(call: Call | None, waker: Thread | None, thread: Thread) -> Thread | None:
    """Return the thread that caused a wait: the holder of the lock, otherwise the waker."""
    if call is not None and call[5] is not None and call[5] is not thread:
        return call[5]
    return waker


def called(who: Thread, seen_from: Thread) -> str:
    """Return the name of a thread for another one: its own name in the same process, otherwise that of its process."""
    if who.process is seen_from.process:
        return steady_thread(who.name)
    name = steady_thread(who.process.name or who.name)
    return name if who.machine == seen_from.machine else f"{who.machine}/{name}"


def _longest(sums: dict[Key, _Sum]) -> tuple[Spent, ...]:
    ranked = sorted(sums.items(), key=lambda each: (-each[1].ns, each[0]))
    rest: list[_Sum] = []
    if len(ranked) > MAX_SPENT:
        failed = sorted((each for each in ranked if each[0][4]), key=lambda each: (-each[1].times, each[0]))
        shown = {key for key, _ in failed[:MOST_FAILED]}
        for key, _ in ranked:
            if len(shown) == MAX_SPENT - 1:
                break
            shown.add(key)
        rest = [entry for key, entry in ranked if key not in shown]
        ranked = [each for each in ranked if each[0] in shown]
    entries = [
        Spent(
            NAMES[key[0]],
            *key[1:4],
            max(entry.pids, key=lambda pid: (entry.pids[pid], -pid)) if entry.pids else 0,
            key[4],
            entry.times,
            entry.ns / 1e9,
        )
        for key, entry in ranked
    ]
    if rest:
        ns = sum(each.ns for each in rest)
        entries.append(Spent(REST, "", "", "", 0, "", sum(each.times for each in rest), ns / 1e9))
    return tuple(entries)
