"""Remembered layouts, so that unchanged names are read once and shared."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.records.frame import Layout

MAX_LAYOUTS: Final = 4_096
MAX_BYTES: Final = 64 << 20
"""Bytes of all packed layouts. Their names need up to five times as much memory as objects."""

Names = TypeVar("Names")


class LayoutMemory(Generic[Names]):
    """Layouts by their names, in any form. For one thread at a time.

    It stores at most `most` layouts with at most `most_bytes` packed bytes, and drops the least recently used first.

    Attributes:
        most: the most layouts; it may be changed, from the next new layout on.

    """

    def __init__(self, most: int = MAX_LAYOUTS, most_bytes: int = MAX_BYTES) -> None:
        self.most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._layouts: OrderedDict[Names, Layout] = OrderedDict()

    def get(self, names: Names, make: Callable[[], Layout]) -> Layout:
        """Return the layout of these names: the remembered one, or the one that `make` returns."""
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
