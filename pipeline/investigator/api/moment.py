"""Now, and at a moment: processes by anomaly, their features, and time series (S0, Figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.pipeline.investigator.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = ()
