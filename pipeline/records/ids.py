"""Ids that follow from what they name, so that whoever says a thing again says it under the same id."""

from __future__ import annotations

import json
import uuid
from typing import Final

# Drawn once, for laggard's ids alone.
_NAMESPACE: Final = uuid.UUID("0f6dd2b6-5c41-4b0e-9d52-8f8f1f6a2c37")


def derived_id(*parts: str | float) -> str:
    """A UUID of version 5 (RFC 9562) of these parts; the same parts give the same one, in every version of laggard."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))
