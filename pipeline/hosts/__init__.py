"""The operators on the counters of hosts and their processes, as the settings ask for them."""

from __future__ import annotations

from typing import Final

RANKING: Final = ("gaussian", "cpu", "river")
"""Those that rank processes: the first of them that runs is asked what is slow."""
