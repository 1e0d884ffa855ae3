"""The quantities by which a unit is judged, and those of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

RATES: Final[Mapping[str, float]] = {
    "cpu_user_ratio": 0.001,
    "cpu_system_ratio": 0.001,
    "io_read_characters_per_s": 32768.0,
    "io_write_characters_per_s": 32768.0,
    "io_read_bytes_per_s": 32768.0,
    "io_write_bytes_per_s": 32768.0,
    "page_faults_major_per_s": 1.0,
}
"""The use of a process, with r: a negligible difference."""

STOCKS: Final[Mapping[str, tuple[float, float]]] = {
    "memory_rss_bytes": (2.0**20, 2.0**14),
    "descriptors": (1.0, 0.05),
    "sockets": (1.0, 0.05),
    "threads": (0.5, 0.05),
}
"""The stocks of a process, with r, and r of their growth per second. Address space is only reserved."""


class Quantities:
    """The evaluated quantities of a unit: levels, and the growth of those levels that are stocks.

    Attributes:
        levels: names of features: rates, then stocks.
        stocks: the places of the stocks among the levels.
        resolution: r of each level and then of each growth per second, shape (quantities, 1).

    """

    def __init__(self, rates: dict[str, float], stocks: dict[str, tuple[float, float]]) -> None:
        self.levels = (*rates, *stocks)
        self.stocks = slice(len(rates), len(self.levels))
        self.resolution = np.array(
            [*rates.values(), *(level for level, _ in stocks.values()), *(growth for _, growth in stocks.values())],
            np.float32,
        )[:, None]

    def __len__(self) -> int:
        return len(self.resolution)

    def level(self, quantity: int) -> int:
        """Return the level of a quantity: itself, or the level whose growth it is."""
        grows = quantity - len(self.levels)
        return quantity if grows < 0 else self.stocks.start + grows
