"""Namesakes: the other rows of a name, whose baselines a new row is compared with until starts of it are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.gaussian.moments import Moments

if TYPE_CHECKING:
    from laggard.operators.gaussian.bank import Bank

OWN_VALUES = 30.0
"""The number of its own values from which on a row is compared with itself alone."""

NAMESAKES = 10.0
"""The number of values that the baselines of other rows of the name count for, if no start of that name was seen. Each
start that was seen subtracts a fifth of it."""

MAX_NAMESAKES = 32


class Namesakes:
    """The baselines of the rows of each name that have enough values of their own."""

    def __init__(self, bank: Bank, features: int) -> None:
        self._usual = bank.usual
        self._features = features
        self._columns: dict[str, list[int]] = {}
        sure = bank.usual.weight[:features].max(axis=0, initial=0.0) >= OWN_VALUES
        for column in np.flatnonzero(sure):
            self._columns.setdefault(bank.names[column], []).append(int(column))

    def of(self, name: str, most: float) -> Moments | None:
        """Merge those of a name, with a weight of at most `most`; None if there are none."""
        columns = self._columns.get(name, ())[:MAX_NAMESAKES]
        if not columns or most <= 0.0:
            return None
        weight, mean, squares = (
            part[: self._features, columns] for part in (self._usual.weight, self._usual.mean, self._usual.squares)
        )
        total = weight.sum(axis=1)
        sure = np.maximum(total, 1.0)
        middle = (weight * mean).sum(axis=1) / sure
        deviation = mean - middle[:, None]
        share = np.minimum(most / sure, 1.0)
        return Moments(total * share, middle, (squares + weight * deviation * deviation).sum(axis=1) * share)
