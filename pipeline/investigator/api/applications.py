"""Applications: tracking, analysis and diagnosis of performance models (S2, Figures 10 and 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.pipeline.investigator.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = ()
