"""The problems of parts of a trace: each kind once, with its first place and its count."""

from __future__ import annotations

from typing import Final

MOST: Final = 50
"""The most different problems that are reported."""


class Problems:
    """Problems, in the order of their first occurrence."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, int]] = {}

    def count(self, problem: str, place: object = "", times: int = 1) -> None:
        """Count a problem; its first place is remembered."""
        known = self._first.get(problem)
        if known is not None:
            self._first[problem] = known[0], known[1] + times
        elif len(self._first) < MOST:
            self._first[problem] = str(place), times

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems in words."""
        return tuple(
            f"{place}: {problem}" * bool(place) + problem * (not place) + (f" ({times:,} times)" if times > 1 else "")
            for problem, (place, times) in self._first.items()
        )
