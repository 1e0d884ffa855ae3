"""The processes of threads: known from the start, and followed as threads start others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.trace.events import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class Processes:
    """Fills in the processes of threads that start or are renamed.

    Args:
        known: the processes by thread, when the trace began.

    """

    def __init__(self, known: Mapping[int, int]) -> None:
        self._known = dict(known)

    def fill(self, rows: NDArray[np.void]) -> None:
        """Set `b` of `FORK` and `NAMED` where it is 0, in place.

        Args:
            rows: the events of all CPUs, in the order of time, not older than those before.

        """
        kinds = rows["kind"]
        chosen = np.flatnonzero((kinds == Kind.FORK) | (kinds == Kind.NAMED) | (kinds == Kind.EXIT))
        if not len(chosen):
            return
        some, known = rows[chosen], self._known
        columns = (some[name].tolist() for name in ("kind", "tid", "a", "b"))
        processes = []
        for kind, thread, subject, process in zip(*columns, strict=True):
            if kind == _EXIT:
                known.pop(thread, None)
            else:
                # A new thread belongs to the process of its creator.
                process = process or known.get(thread if kind == _FORK else subject, 0)  # noqa: PLW2901 - where it is 0
                if process:
                    known[subject] = process
            processes.append(process)
        rows["b"][chosen] = processes


_EXIT, _FORK = int(Kind.EXIT), int(Kind.FORK)  # looked up once
