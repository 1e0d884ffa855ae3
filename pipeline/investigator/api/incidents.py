"""Incidents: what was wrong, each once, and all that is known of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.pipeline.investigator.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = ()
