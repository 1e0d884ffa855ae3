"""What every operator on frames promises, so that one runner and one suite of checks serve them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


class Layout(Protocol):
    """The names of a frame's rows and features.

    Layouts are immutable, and a stream whose names do not change passes the same object again and again: an operator
    may therefore remember, by identity, where it keeps what.
    """

    @property
    def rows(self) -> Sequence[str]:
        """Ids of the rows, unique in the frame, the same from tick to tick (`nginx[4711@99]`)."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the rows, one per row, not unique (`nginx`)."""

    @property
    def features(self) -> Sequence[str]:
        """Names of the features, unique in the frame, each with its base unit (`memory_rss_bytes`)."""

    @property
    def commands(self) -> Sequence[str]:
        """Command lines of the rows, one per row, or none at all."""


class FrameOperator(Protocol):
    """A stateful, deterministic statistic over the frames of one key and scope.

    Same constructor arguments, same state, same input: same outputs, bit for bit. `ts` is in seconds since the Unix
    epoch, `values` has the shape (rows, features), NaN where a value is not there at this tick.
    """

    state_version: ClassVar[int]
    """Of the form of `snapshot`'s result; raised when `restore` could not read the old form."""

    def score(self, ts: float, layout: Layout, values: Matrix) -> object:
        """How unusual this frame is, judged by what was learned before. Changes nothing."""

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Take the frame into the state."""

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data: arrays, numbers, strings, lists and dictionaries of those."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
