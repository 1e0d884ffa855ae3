"""Items for a pool: bursts and quiet times, at random but seeded."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET_S, BURST_S = 10.0, 4.0
"""How long they last in the mean."""
QUIET, BURST = 0.6, 2.0
"""How many items come, relative to the mean rate; the quiet and the burst's shares of time make that 1."""
WAIT_MS = 15.0
"""Median time for which an item waits for somebody else."""


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of work.

    Attributes:
        at_s: when it comes, in seconds since the load began.
        rounds: how much there is to compute.
        wait_ms: how long it waits for somebody else.

    """

    at_s: float
    rounds: int
    wait_ms: float


def items(seed: int, rate_per_s: float, rounds: float) -> Iterator[Item]:
    """Items for ever: a number in a second, each with a number of rounds in the median.

    A Poisson process whose rate switches between two levels (Markov-modulated); sizes are log-normal.
    """
    draw = random.Random(seed)
    now_s, level, until_s = 0.0, QUIET, draw.expovariate(1 / QUIET_S)
    while True:
        gap_s = draw.expovariate(rate_per_s * level)
        if now_s + gap_s > until_s:  # the rate changes before the next one comes: memoryless, so begin from there
            now_s = until_s
            level = BURST if level == QUIET else QUIET
            until_s = now_s + draw.expovariate(1 / (BURST_S if level == BURST else QUIET_S))
            continue
        now_s += gap_s
        yield Item(now_s, math.ceil(rounds * draw.lognormvariate(0, 0.5)), WAIT_MS * draw.lognormvariate(0, 0.5))
