"""Layouts that were seen before, so that names that do not change are read once and shared."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.records.frame import Layout

MAX_LAYOUTS: Final = 4_096
MAX_BYTES: Final = 64 << 20
"""Of the packed layouts together. Their names as objects take up to five times as much."""

Names = TypeVar("Names")


class LayoutMemory(Generic[Names]):
    """Layouts by the names they were made of, in whatever form those came. For one thread at a time.

    At most `most` layouts are kept, and at most `most_bytes` of them as packed. The one that was not asked for longest
    goes first.

    Attributes:
        most: may be changed; it holds from the next layout on.

    """

    def __init__(self, most: int = MAX_LAYOUTS, most_bytes: int = MAX_BYTES) -> None:
        self.most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._layouts: OrderedDict[Names, Layout] = OrderedDict()

    def get(self, names: Names, make: Callable[[], Layout]) -> Layout:
        """The layout of these names: the one that is remembered, or what `make` makes."""
        known = self._layouts.get(names)
        if known is not None:
            self._layouts.move_to_end(names)
            return known
        layout = make()
        self._layouts[names] = layout
        self._bytes += len(layout.packed)
        while len(self._layouts) > self.most or self._bytes > self._most_bytes:
            _, oldest = self._layouts.popitem(last=False)
            self._bytes -= len(oldest.packed)
        return layout
