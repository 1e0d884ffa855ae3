"""The names of features, each of which ends with a base unit: `memory_rss_bytes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def by_end(name: str, values: Mapping[str, float], default: float) -> float:
    """Return the value of the longest key that a name ends with."""
    return values[max(found, key=len)] if (found := [end for end in values if name.endswith(end)]) else default
