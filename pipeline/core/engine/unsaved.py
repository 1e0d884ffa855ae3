"""The places of records that are in no snapshot: where a replay has to begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Place:
    """A place in the partition.

    Attributes:
        offset: the offset of a record.
        counted: the number of records before it.

    """

    offset: int
    counted: int


@dataclass(slots=True)
class _Unsaved(Place):
    """The place of a key's first record that is not in its snapshot, or a place before that.

    Attributes:
        last: the offset of the key's last record.

    """

    last: int


class Unsaved:
    """The keys with records after their snapshots, the lowest place first."""

    def __init__(self) -> None:
        self._places: dict[str, _Unsaved] = {}
        self._passed: list[Place] = []  # places that a standby has passed

    def keys(self) -> list[str]:
        """Return the keys."""
        return list(self._places)

    def note(self, key: str, offset: int, counted: int) -> None:
        """Note a record of a key."""
        self._places.setdefault(key, _Unsaved(offset, counted, offset)).last = offset

    def drop(self, key: str) -> None:
        """Drop a key: it is saved, or has no state any more."""
        self._places.pop(key, None)

    def lowest(self) -> tuple[str, Place] | None:
        """Return the key whose records have waited longest, and their place; None without any."""
        return next(iter(self._places.items()), None)

    def base(self, end: Place) -> Place:
        """Return the place at which a replay begins; `end` if everything before it is saved."""
        return next(iter(self._places.values()), end)

    def sort(self) -> None:
        """Restore the order by offset."""
        self._places = dict(sorted(self._places.items(), key=lambda item: item[1].offset))

    def confirm(self, saved: Mapping[str, int], end: Place) -> None:
        """Note the snapshots that another member has saved.

        Args:
            saved: by key, the first offset that is not in its snapshot.
            end: the place of the replay.

        """
        for key in self._places.keys() & saved.keys():
            unsaved = self._places[key]
            if unsaved.last < saved[key]:
                del self._places[key]
                continue
            for place in self._passed:  # the number of records before these is known
                if unsaved.offset < place.offset <= saved[key]:
                    unsaved.offset, unsaved.counted = place.offset, place.counted
        self.sort()
        self._passed.append(end)
        least = self.base(end).offset
        self._passed = [each for each in self._passed if each.offset > least]
