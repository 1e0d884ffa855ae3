"""Migrations of the states of older versions of the operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from laggard.operators.calibration import anew
from laggard.operators.gaussian.cohorts import Cohorts
from laggard.operators.gaussian.episodes import Episodes
from laggard.operators.gaussian.rises import Rises


def from_1(state: dict[str, Any]) -> dict[str, Any]:
    """Migrate version 1. It had neither episodes nor cohorts, which begin empty, and counted ticks against the budget.

    It did not store the statistics of all rows: without features, these are computed at the first frame.
    """
    episodes = Episodes.empty(len(state["features"]), len(state["rows"]))
    last = state["times"][3]
    return {
        **state,
        **{f"episodes_{name}": getattr(episodes, name) for name in Episodes.__dataclass_fields__},
        "times": [*state["times"], last],
        "cohorts": Cohorts().snapshot(),
        "suspects": [],
        "rises": Rises.none().snapshot(),
        "pool_ts": last,
        "pool": np.zeros((3, 0)),
        "calibration": anew(state["calibration"]),
    }


MIGRATIONS = {1: from_1}
"""Migrations by the version of a state: each makes that of the next version."""
