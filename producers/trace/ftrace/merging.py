"""Merge rows of `Events` from several sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.trace.events import EVENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def merged(parts: Iterable[NDArray[np.void]]) -> NDArray[np.void]:
    """Return rows in the order of time; at the same instant, those of an earlier part first."""
    rows = [part for part in parts if len(part)]
    if not rows:
        return np.zeros(0, EVENT)
    if len(rows) == 1:
        return rows[0]
    together = np.concatenate(rows)
    ordered: NDArray[np.void] = together[np.argsort(together["ts"], kind="stable")]
    return ordered
