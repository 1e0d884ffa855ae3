"""A dendrogram in a terminal: a line for each leaf, heights to the right, p-values where clusters merge."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.pools.dendrogram import highest, order, short_labels, ticks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from laggard.pipeline.core.records.pools import Leaf, LevelOutput
    from laggard.pipeline.history.report import Page

WIDEST: Final = 100
"""The most columns of a dendrogram: the eye would lose a longer line."""

NARROWEST: Final = 16
"""The least columns of a tree; labels are cut for it."""

LONGEST_LABEL: Final = 40

INSIDE: Final = "inside"
"""The note on a group that does not deviate, but has a dendrogram of its own."""

HARMLESS: Final = "younger"
"""The kind of deviation that is harmless."""

_NORTH, _SOUTH, _EAST, _WEST = 1, 2, 4, 8
_LINES: Final = " │││─└┌├─┘┐┤─┴┬┼"
"""Line characters by their directions, as bits."""

_ASCII: Final = str.maketrans("│└┌├┘┐┤─┴┬┼═●○", "|++++++-+++=*o")
_TICK_EVERY: Final = 12  # columns
_ROOT: Final = 5  # columns right of the highest merge, for its p-value


def dendrogram_lines(level: LevelOutput, page: Page, inside: Collection[str] = ()) -> Iterator[Text]:
    """Draw a dendrogram of at least two leaves, the deviating ones first and marked, with an axis of heights below it.

    Args:
        level: the dendrogram.
        page: the page that shows it.
        inside: the paths of groups that have a dendrogram of their own.

    """
    ordered = order(level)
    leaves = [level.leaves[number] for number in ordered]
    labels = leaf_labels(leaves)
    kinds = [leaf_note(leaf) or (INSIDE if path_of(level, leaf) in inside else "") for leaf in leaves]
    width = min(page.width, WIDEST)
    notes = max(map(len, kinds))
    room = max(min(LONGEST_LABEL, width - NARROWEST - notes - 4), 8)
    labels = [_cut(label, room) for label in labels]
    longest = max(map(cell_len, labels))
    canvas = _Canvas(level, ordered, max(width - longest - notes - 4, NARROWEST))
    for row, leaf in enumerate(leaves):
        style = leaf_style(leaf)
        line = Text().append(f"{_mark(leaf)} {set_cell_size(labels[row], longest)}", style)
        line.append(f" {kinds[row]:<{notes}}" if notes else "", style).append(" ")
        yield _plain(line + canvas.line(row, style), page)
    indent = longest + notes + 3 + bool(notes)
    for name, axis in zip(("", "height "), canvas.axis(), strict=True):
        yield _plain(Text(f"{name:>{indent}}{axis}", "dim"), page)


def leaf_labels(leaves: Sequence[Leaf]) -> list[str]:
    """Return the labels of leaves: `worker-3`, or for several members `worker-3 and 11 more`."""
    labels = map(printable, short_labels([leaf.label for leaf in leaves]))
    return [
        f"{label} and {leaf.members - 1:,} more" if leaf.members > 1 else label
        for label, leaf in zip(labels, leaves, strict=True)
    ]


def path_of(level: LevelOutput, leaf: Leaf) -> str:
    """Return the path of a leaf that is a group."""
    return leaf.label if not level.path or leaf.label.startswith(f"{level.path}/") else f"{level.path}/{leaf.label}"


def leaf_note(leaf: Leaf) -> str:
    """Return the note on the deviation of a leaf: its kind, or how many members deviate; empty without one."""
    return f"{leaf.deviating:,} of them" if leaf.deviating < leaf.members and leaf.deviating else leaf.kind


def leaf_style(leaf: Leaf) -> str:
    """Return the style of a leaf."""
    return "" if not leaf.deviating else "yellow" if leaf.kind == HARMLESS else "bold red"


def _mark(leaf: Leaf) -> str:
    return " " if not leaf.deviating else "○" if leaf.kind == HARMLESS else "●"


def _cut(label: str, room: int) -> str:
    """Cut a label at its beginning: members differ at the end."""
    return label if len(label) <= room else f"...{label[len(label) - room + 3 :]}"


def _plain(line: Text, page: Page) -> Text:
    if page.unicode:
        return line
    plain = line.copy()
    plain.plain = line.plain.translate(_ASCII)
    return plain


class _Canvas:
    """The lines of a dendrogram, and the texts on them.

    Parameters:
        level: the dendrogram.
        ordered: its leaves from top to bottom.
        width: the width in columns.

    """

    def __init__(self, level: LevelOutput, ordered: Sequence[int], width: int) -> None:
        self._width = width
        self._height = highest(level)
        self._lines: dict[tuple[int, int], int] = defaultdict(int)
        self._texts: dict[tuple[int, int], str] = {}
        self._own: dict[int, int] = {}  # by row, the column at which the line of the leaf ends
        rows = {number: row for row, number in enumerate(ordered)}
        columns: dict[int, int] = {}
        for number, leaf in enumerate(level.leaves):
            columns[number] = self._column(leaf.height)
            self._texts |= {(rows[number], column): "═" for column in range(columns[number])}
        count = len(ordered)
        for number, merge in enumerate(level.merges, count):
            upper, lower = sorted((merge.first, merge.second), key=rows.__getitem__)
            column = max(self._column(merge.height), 1)
            for part in (upper, lower):
                self._across(rows[part], columns[part], column)
                if part < count:
                    self._own[rows[part]] = column
                    self._lines[rows[part], column] |= _WEST
            for row in range(rows[upper], rows[lower]):
                self._lines[row, column] |= _SOUTH
                self._lines[row + 1, column] |= _NORTH
            rows[number], columns[number] = (rows[upper] + rows[lower]) // 2, column
        for number, p_value in enumerate(level.p_values, count):
            self._write_p_value(rows[number], columns[number], p_value, root=number == 2 * count - 2)

    def _column(self, height: float) -> int:
        if not 0.0 < self._height < math.inf:
            return 0
        return round(height / self._height * (self._width - _ROOT))

    def _across(self, row: int, begin: int, end: int) -> None:
        for column in range(begin, end):
            self._lines[row, column] |= _EAST
            self._lines[row, column + 1] |= _WEST

    def _write_p_value(self, row: int, column: int, p_value: float, *, root: bool) -> None:
        """Write a p-value behind its merge, otherwise before it, if the line is long enough."""
        if math.isnan(p_value):
            return
        text = f"{p_value:.0f}"
        if root:
            self._lines[row, column] |= _EAST
        behind, before = column + 1, column - len(text)
        free = all(self._lines.get((row, behind + each)) == _EAST | _WEST for each in range(len(text)))
        if root or free:
            self._write(row, behind, text)
        elif all(self._lines.get((row, before + each)) == _EAST | _WEST for each in range(-1, len(text))):
            self._write(row, before, text)

    def _write(self, row: int, column: int, text: str) -> None:
        for number, each in enumerate(text):
            self._texts[row, column + number] = each
            self._lines[row, column + number] = 0  # taken

    def line(self, row: int, style: str) -> Text:
        """Return a row of the tree; the line of the leaf has its style."""
        glyphs = [
            self._texts.get((row, column)) or _LINES[self._lines.get((row, column), 0)] for column in range(self._width)
        ]
        line = Text("".join(glyphs).rstrip())
        line.stylize(style, 0, self._own.get(row, 0))
        return line

    def axis(self) -> Iterator[str]:
        """Return the axis of heights: a line with ticks, and the numbers below it."""
        places = {self._column(each): f"{each:g}" for each in ticks(self._height, max(self._width // _TICK_EVERY, 4))}
        yield "".join("┴" if column in places else "─" for column in range(max(places) + 1))
        numbers = ""
        for column, text in places.items():
            numbers = f"{numbers:<{column}}{text} "
        yield numbers.rstrip()
