"""A cache of expensive answers, shared by all callers."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

SHARE: Final = 0.05
"""The most time to compute an answer again, as a share of one core, for any number of viewers."""

SOONEST_S: Final = 2.0
"""The least time that an answer is cached, in seconds."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Place(Generic[T]):
    """The place of an answer in the cache.

    Attributes:
        answer: the answer; None until it is computed.
        until_s: the time when it expires, in seconds of the clock.
        lock: held by the thread that computes it.

    """

    answer: T | None = None
    until_s: float = -math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)


class Cache(Generic[T]):
    """The answers to the `most` latest queries. Safe to use from several threads.

    Parameters:
        most: the most cached answers.
        clock: returns seconds on a clock that never steps.

    """

    def __init__(self, most: int = 32, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._kept: OrderedDict[Hashable, _Place[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable, find: Callable[[], T], *, fixed: bool = False) -> T:
        """Return the answer. One thread computes it, and others with the same query wait for it.

        Queries for other answers do not wait.

        Args:
            asked: the query.
            find: computes the answer; its errors are raised, and not cached.
            fixed: whether the answer never changes; otherwise it is computed again so rarely that this costs at most
                `SHARE`.

        """
        with self._lock:
            place = self._kept.setdefault(asked, _Place())
            self._kept.move_to_end(asked)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with place.lock:
            began = self._clock()
            if place.answer is None or place.until_s < began:
                place.answer = find()
                took_s = self._clock() - began
                place.until_s = math.inf if fixed else began + max(took_s / SHARE, SOONEST_S)
            return place.answer
