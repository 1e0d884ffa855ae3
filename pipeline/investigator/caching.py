"""Answers that are dear, kept for everybody who asks."""

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
"""Of one core, that finding answers anew may take, however many look on."""

SOONEST_S: Final = 2.0
"""An answer is kept for so long at least."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Place(Generic[T]):
    """Where an answer is, once it is found.

    Attributes:
        answer: None before.
        until_s: when it is found anew.
        lock: held by the thread that finds it.

    """

    answer: T | None = None
    until_s: float = -math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)


class Kept(Generic[T]):
    """Answers by what was asked, the latest `most` of them. Safe to use from several threads.

    Parameters:
        most: how many.
        clock: seconds on a clock that never steps.

    """

    def __init__(self, most: int = 32, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._kept: OrderedDict[Hashable, _Place[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable, find: Callable[[], T], *, fixed: bool = False) -> T:
        """The answer: one thread finds it; others that ask the same wait for it, those that ask another do not.

        Args:
            asked: what.
            find: finds the answer; what it raises is raised, and not kept.
            fixed: whether the answer stays what it is; else it is found anew so rarely that this takes `SHARE`.

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
