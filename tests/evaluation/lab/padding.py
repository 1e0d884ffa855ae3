"""Metrics of the hosts that have nothing to do with the shop: everyday processes and sensors that are not there."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.host.processes import FEATURES
from tests.evaluation.simulated import Kind, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

FIRST_TICK: Final = 1800
"""Of the simulated day, which begins at midnight with what begins then."""
SENSORS: Final = ("temperature_celsius", "fan_per_s", "supply_volts", "supply_amperes")


class Padding:
    """So many metrics for each host, from a seed.

    Most are counters of simulated processes (`simulated.py`), the rest are sensors: slow first-order autoregressions.

    Args:
        hosts: that get them.
        metrics: of all together.
        interval_s: between intervals.
        seed: of the random numbers.

    """

    def __init__(self, hosts: Sequence[str], metrics: int, interval_s: float, seed: int) -> None:
        self._random = np.random.default_rng([seed, 8])
        shares = [metrics // len(hosts) + (number < metrics % len(hosts)) for number in range(len(hosts))]
        self._states = [self._random.standard_normal(share % len(FEATURES)) for share in shares]
        self._ticks = [
            _ticks(max(share // len(FEATURES), 1), interval_s, seed * len(hosts) + number)
            for number, share in enumerate(shares)
        ]
        self._numbers = {host: number for number, host in enumerate(hosts)}
        self._counts = [share // len(FEATURES) for share in shares]

    def next(self, host: str) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
        """Of the next interval of a host, by process its `FEATURES`, and its sensors."""
        number = self._numbers[host]
        state = self._states[number]
        state += -0.05 * state + 0.3 * self._random.standard_normal(len(state))
        readings = np.round(40.0 + 10.0 * np.arange(len(state)) % 37 + state, 1).tolist()
        sensors = {f"sensor_{place}_{SENSORS[place % len(SENSORS)]}": each for place, each in enumerate(readings)}
        names, values = next(self._ticks[number])
        return dict(list(zip(names, values, strict=True))[: self._counts[number]]), sensors


def _ticks(count: int, interval_s: float, seed: int) -> Iterator[tuple[list[str], NDArray[np.float64]]]:
    machine = Machine(Kind("padding", count, interval_s, 2, 0.0), 0.25, seed)
    names = [f"{name.rpartition('-')[0]}-{number}" for number, name in enumerate(machine.names)]
    for tick in islice(machine.ticks(), FIRST_TICK, None):
        yield names, tick.values[:count]
