"""The pipeline itself: tasks, lag, throughput, recovery, dead letters, cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.pipeline.investigator.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = ()
