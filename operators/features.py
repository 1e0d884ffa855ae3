"""The names of features, each of which ends with a base unit: `memory_rss_bytes`, and what they imply."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def by_end(name: str, values: Mapping[str, float], default: float) -> float:
    """Return the value of the longest key that a name ends with."""
    return values[max(found, key=len)] if (found := [end for end in values if name.endswith(end)]) else default


class Directions(NamedTuple):
    """In which direction features get worse: in both, if neither or both are said.

    Attributes:
        rising: the ends of the names of features that only a rise makes worse, such as a latency.
        falling: those that only a fall makes worse, such as an availability.

    """

    rising: Collection[str] = ()
    falling: Collection[str] = ()

    def one_sided(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the places of the features of which only a rise is worse, and of those of which only a fall is."""
        rises = [any(name.endswith(end) for end in self.rising) for name in names]
        falls = [any(name.endswith(end) for end in self.falling) for name in names]
        places = range(len(names))
        return (
            [place for place in places if rises[place] and not falls[place]],
            [place for place in places if falls[place] and not rises[place]],
        )


BOTH = Directions()
