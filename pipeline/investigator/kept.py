"""Answers that are dear, kept for everybody who asks."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

SHARE: Final = 0.05
"""Of one core, that finding answers anew may take, however many look on."""

SOONEST_S: Final = 2.0
"""An answer is kept for so long at least."""

T = TypeVar("T")


class Kept(Generic[T]):
    """Answers by what was asked, the latest `most` of them. Safe to use from several threads.

    Parameters:
        most: how many.
        clock: seconds on a clock that never steps.

    """

    def __init__(self, most: int = 32, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._kept: OrderedDict[Hashable, tuple[T, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable, find: Callable[[], T], *, fixed: bool = False) -> T:
        """The answer: one thread finds it, the others wait for what it finds.

        Args:
            asked: what.
            find: finds the answer; what it raises is raised, and not kept.
            fixed: whether the answer stays what it is; else it is found anew so rarely that this takes `SHARE`.

        """
        with self._lock:
            began = self._clock()
            answer, until = self._kept.get(asked, (None, -math.inf))
            if answer is None or until < began:
                answer = find()
                took_s = self._clock() - began
                until = math.inf if fixed else began + max(took_s / SHARE, SOONEST_S)
                self._kept[asked] = answer, until
            self._kept.move_to_end(asked)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return answer
