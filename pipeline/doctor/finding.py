"""What one check of the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]
"""A warning costs some of the evidence or of the safety; with a problem laggard does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name.
        level: how bad it is.
        found: what there is.
        advice: what to do about it; empty where nothing is to be done.

    """

    check: str
    level: Level
    found: str
    advice: str = ""
