"""The state of the members of a pool as arrays, which grow, are cleared, saved and restored together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LONGEST_LIFE: Final = 4096
"""The time constant, in ticks, with which the life of a member fades."""


class Arrays:
    """Arrays with the slots of members along the last axis.

    Parameters:
        empty: makes the arrays of this number of new members, by name.

    """

    def __init__(self, empty: Callable[[int], dict[str, NDArray[Any]]]) -> None:
        self._empty = empty
        self._parts = empty(0)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._parts[name]

    def grow(self, slots: int) -> None:
        """Add slots, up to this number."""
        grown = self._empty(slots)
        for name, part in grown.items():
            before = self._parts[name]
            part[..., : before.shape[-1]] = before
        self._parts = grown

    def release(self, slots: NDArray[np.intp]) -> None:
        """Forget members."""
        for name, part in self._empty(len(slots)).items():
            self._parts[name][..., slots] = part

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return a copy of the arrays."""
        return {name: part.copy() for name, part in self._parts.items()}

    def restore(self, state: dict[str, Any], slots: int) -> None:
        """Restore a `snapshot` of this number of slots. Raises `ValueError` that names the array that does not fit."""
        self._parts = {name: fitting(state, name, part) for name, part in self._empty(slots).items()}


def fitting(state: dict[str, Any], name: str, like: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array of a state. Raises `ValueError` unless its shape is that of `like`."""
    found = np.array(state[name], like.dtype)
    if found.shape != like.shape:
        raise ValueError(f"{name}: expected the shape {like.shape}, got {found.shape}")
    return found
