"""Which process a thread is of: known from before, and told on as threads start others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.trace.events import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class Processes:
    """Fills in the process of what starts or is renamed.

    Args:
        known: processes by thread, when the trace began.

    """

    def __init__(self, known: Mapping[int, int]) -> None:
        self._known = dict(known)

    def fill(self, rows: NDArray[np.void]) -> None:
        """Set `b` of `FORK` and `NAMED` where it is 0, in place.

        Args:
            rows: of all CPUs, in the order of time, not older than those before.

        """
        kinds = rows["kind"]
        for row in np.flatnonzero(np.isin(kinds, (Kind.FORK, Kind.NAMED, Kind.EXIT))).tolist():
            thread = int(rows["tid"][row])
            if kinds[row] == Kind.EXIT:
                self._known.pop(thread, None)
                continue
            told = int(rows["a"][row])
            # A thread that starts is of the process of who starts it.
            process = int(rows["b"][row]) or self._known.get(thread if kinds[row] == Kind.FORK else told, 0)
            rows["b"][row] = process
            if process:
                self._known[told] = process
