"""Names similar to an unknown one, as suggestions."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.explain import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

NEAR: Final = 5
"""The number of names in an error message."""


def nearest(name: str, known: Sequence[str], most: int = NEAR) -> list[str]:
    """Return the names that are most similar to this one: those that contain it first, then by similarity.

    Example:
        >>> nearest("web1:cpu_busy_ratio", ["db-1:cpu_busy_ratio", "web-1:cpu_busy_ratio", "web-1:load_1m"])
        ['web-1:cpu_busy_ratio', 'db-1:cpu_busy_ratio']

    """
    containing = sorted((each for each in known if name in each), key=len)[:most]
    like = difflib.get_close_matches(name, known, n=most, cutoff=0.7)
    return list(dict.fromkeys((*containing, *like)))[:most]


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names as text, `a, b, ...` if there are more than `most`."""
    return ", ".join(map(printable, names[:most])) + (", ..." if len(names) > most else "")


def similar_or_first(name: str, known: Sequence[str], most: int) -> str:
    """Return the names that an error about an unknown one lists: `similar: a, b`, or else `recorded: a, b, ...`."""
    near = nearest(name, known)
    return f"similar: {first_of(near, len(near))}" if near else f"recorded: {first_of(known, most)}"
