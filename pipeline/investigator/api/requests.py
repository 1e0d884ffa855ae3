"""Requests: their projection, clusters, and the path of one (S4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.pipeline.investigator.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = ()
