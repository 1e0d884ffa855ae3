"""Connections that wait in the listen queue of a server until one of its threads accepts them.

A listen queue is in the order of the connections: the first that connected is the first that is accepted. So each
accept(2) is paired with the connect(2) of a client on the same machine, such as that of a web server. Connections from
other machines have no known start. After lost events, and at the start, the connections that wait already are unknown:
waits are then shown too short, until the queue is empty once. Source: listen(2), unix(7).
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.trace.calls import Does, does
from laggard.producers.trace.states import BI, BN, BT, UN
from laggard.producers.trace.steady import steady

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.threads import Call, Thread

MOST_QUEUES: Final = 256
"""The most addresses with a queue. Beyond, that without a connection for the longest time is forgotten."""

MOST_WAITING: Final = 4_096
"""The most connections of a queue, and the most requests that its server served lately."""

KEPT_NS: Final = 1_000_000_000
"""The time for which the data since an accept is kept until the request begins."""

QUEUING: Final = int(Does.CONNECTS | Does.ACCEPTS)
"""The kinds of system calls that `Listening.returned` needs."""

_EINPROGRESS: Final = -115
_EAGAIN: Final = -11
_ARRIVING: Final = frozenset({BN, BT, BI, UN})
"""The states of a wait that a connection or its data may end."""

_WILDCARDS: Final = ("0.0.0.0:", "[::]:", "*:")
_LOCAL: Final = ("127.", "[::1]:", "localhost:")


class Accepted(NamedTuple):
    """A connection that a thread has accepted.

    Attributes:
        queued: the time since which it waited in the queue; `since` if it did not, or if that is unknown.
        since: the time since which the thread could serve it.
        call: the system call that accepted it.
        queue: the queue.

    """

    queued: int
    since: int
    call: Call
    queue: Queue


class Served(NamedTuple):
    """A request that a thread of a server served: start, end, name, process."""

    begin: int
    end: int
    name: str
    pid: int


class Queue:
    """A listen queue, and what the threads that accept from it did."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque(maxlen=MOST_WAITING)  # start and end of connect(2)
        self._early: deque[int] = deque(maxlen=64)  # accepts before the end of their connect(2)
        self._served: deque[Served] = deque(maxlen=MOST_WAITING)

    def connected(self, begin: int, end: int) -> None:
        """Add a connection, by the start and end of its connect(2)."""
        while self._early:
            if self._early.popleft() >= begin:
                return
        self._waiting.append((begin, end))

    def accepted(self, ts: int) -> int | None:
        """Remove the first connection, and return the start of its connect(2); None if that has not returned yet."""
        if self._waiting:
            return self._waiting.popleft()[0]
        self._early.append(ts)
        return None

    def was_empty(self, ts: int) -> None:
        """Remove the connections that were there before a time at which the queue was empty."""
        while self._waiting and self._waiting[0][1] < ts:
            self._waiting.popleft()

    def forget(self) -> None:
        """Forget all connections, since events are missing."""
        self._waiting.clear()
        self._early.clear()

    def served(self, request: Served) -> None:
        """Add a request that has ended; requests are added in the order of their ends."""
        self._served.append(request)

    def busy(self, begin: int, end: int, others: Iterator[Served]) -> dict[str, tuple[int, int]]:
        """Return the time that its threads spent on requests in a period, and a process, by name.

        Args:
            begin: the start of the period.
            end: its end.
            others: the requests that have not ended.

        """
        times: Counter[str] = Counter()
        pids: dict[str, int] = {}
        for each in self._lately(begin, others):
            length = min(each.end, end) - max(each.begin, begin)
            if length > 0:
                times[each.name] += length
                pids[each.name] = each.pid
        return {name: (ns, pids[name]) for name, ns in times.most_common()}

    def _lately(self, begin: int, others: Iterator[Served]) -> Iterator[Served]:
        yield from others
        for each in reversed(self._served):
            if each.end <= begin:
                break
            yield each


class Listening:
    """The listen queues of a machine, by address.

    Args:
        texts: the texts of its events.

    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._queues: dict[str, Queue] = {}
        self._recent: dict[Thread, int] = {}  # by thread with a connection, but no request yet: the start of it

    def returned(self, thread: Thread, call: Call) -> None:
        """Follow the return from connect(2) or accept(2); the call is the newest one of the thread."""
        end, begin, _, result, _, _, descriptor = call
        address = place(thread.process.files.get(descriptor, ""))
        if not address:
            return
        queue = self._queues.pop(address, None) or Queue()
        self._queues[address] = queue  # the newest is the last one
        if len(self._queues) > MOST_QUEUES:
            del self._queues[next(iter(self._queues))]
        if thread.kinds & Does.CONNECTS:
            if result >= 0 or result == _EINPROGRESS:
                queue.connected(begin, end)
        elif result >= 0:
            self._accepted(thread, call, queue)
        elif result == _EAGAIN:
            queue.was_empty(begin)

    def _accepted(self, thread: Thread, call: Call, queue: Queue) -> None:
        end, begin = call[:2]
        before = thread.calls[-2] if len(thread.calls) > 1 else None
        polled = before is not None and bool(does(self._texts[before[2]]) & Does.POLLS)
        waited = arrival(thread, before[1] if before is not None and polled else begin)
        if waited is not None:
            queue.was_empty(waited[0])
        connected = queue.accepted(end)
        since = begin if waited is None else waited[1]
        queued = since if waited is not None or connected is None else min(connected, since)
        thread.accepted, thread.queue = Accepted(queued, since, call, queue), queue
        if thread.process.serves:
            self._recent[thread] = since

    def begun(self, thread: Thread, ts: int) -> Accepted | None:
        """Return the connection of a request that begins on a thread, if it is new; None for a further request of one.

        If the thread waited for the client's data after the accept, the request counts from then.
        """
        thread.process.serves = True
        self._recent.pop(thread, None)
        accepted, thread.accepted = thread.accepted, None
        if accepted is None:
            return None
        waited = arrival(thread, accepted.since)
        since = max(accepted.since if waited is None else waited[1], thread.first)
        queued = accepted.queued if waited is None and accepted.queued < accepted.since else since
        return accepted._replace(queued=min(queued, ts), since=min(since, ts))

    def oldest(self, now: int) -> int:
        """Return the start of the oldest connection whose request has not begun yet; `now` without any."""
        recent = self._recent
        for thread in [thread for thread, since in recent.items() if since < now - KEPT_NS]:
            del recent[thread]
        return min(recent.values(), default=now)

    def forget(self) -> None:
        """Forget all connections that wait, since events are missing."""
        for thread in self._recent:
            thread.accepted = None
        self._recent.clear()
        for queue in self._queues.values():
            queue.forget()


def arrival(thread: Thread, since: int) -> tuple[int, int] | None:
    """Return the start and the end of the newest wait of a thread that a connection or its data may have ended.

    Args:
        thread: the thread.
        since: the time before which a wait does not count.

    """
    segments = thread.segments
    for at in range(len(segments) - 1, -1, -1):
        end, state = segments[at][:2]
        if end <= since:
            return None
        if state in _ARRIVING:
            return segments[at - 1][0] if at else thread.first, end
    return None


def place(address: str) -> str:
    """Return an address in the form that is the same for a server and for its clients on the same machine.

    >>> place("unix:/var/run/php/php-fpm.sock"), place("0.0.0.0:9000"), place("127.0.0.1:9000"), place("/etc/hosts")
    ('unix:/run/php/php-fpm.sock', 'local:9000', 'local:9000', '')
    """
    if address.startswith("unix:"):
        return steady(address.replace("unix:/var/run/", "unix:/run/", 1))
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return ""
    return f"local:{port}" if address.startswith((*_WILDCARDS, *_LOCAL)) else f"{host}:{port}"
