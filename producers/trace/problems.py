"""What is wrong with parts of a trace: each kind of trouble once, with its first place and how often it was."""

from __future__ import annotations

from typing import Final

MOST: Final = 50
"""So many different ones are told."""


class Told:
    """Troubles, in the order in which they first came."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, int]] = {}

    def tell(self, problem: str, place: object = "", times: int = 1) -> None:
        """It was found at a place; the first is remembered."""
        known = self._first.get(problem)
        if known is not None:
            self._first[problem] = known[0], known[1] + times
        elif len(self._first) < MOST:
            self._first[problem] = str(place), times

    @property
    def warnings(self) -> tuple[str, ...]:
        """In words."""
        return tuple(
            f"{place}: {problem}" * bool(place) + problem * (not place) + (f" ({times:,} times)" if times > 1 else "")
            for problem, (place, times) in self._first.items()
        )
