"""Ids that are derived from their subjects, so that a record that is published again has the same id."""

from __future__ import annotations

import json
import uuid
from typing import Final

# A random UUID, for the ids of laggard only.
_NAMESPACE: Final = uuid.UUID("0f6dd2b6-5c41-4b0e-9d52-8f8f1f6a2c37")


def derived_id(*parts: str | float) -> str:
    """Return the UUID of version 5 (RFC 9562) of these parts. It is the same in every version of laggard."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))
