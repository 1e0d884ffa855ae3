"""Versions of Grafana."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

OLDEST: Final = 10
NEWEST: Final = 13
"""The major versions of Grafana whose API documents have all calls of laggard."""


@dataclass(frozen=True, slots=True)
class Version:
    """Grafana's version; 0 if it is hidden."""

    major: int
    minor: int
    text: str

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse a version such as `12.1.0-247386`; other texts count as hidden."""
        found = re.match(r"v?(\d+)\.(\d+)", text)
        return cls(int(found[1]), int(found[2]), text) if found else cls(0, 0, text)

    @property
    def keeps_firing(self) -> bool:
        """Whether alert rules have `keep_firing_for`: since 12.0. A hidden version counts as new."""
        return not self.major or self.major >= 12
