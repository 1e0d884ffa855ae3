"""The finding of one check of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]
"""A warning means less evidence or less safety; with a problem laggard does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check.

    Attributes:
        check: the name of the check.
        level: the level.
        found: the observed state.
        advice: the remedy; empty if none is needed.

    """

    check: str
    level: Level
    found: str
    advice: str = ""
