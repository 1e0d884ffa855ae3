"""Dendrograms as one self-contained SVG file: no script, no font, no other file; for light and dark pages.

They are drawn as in S3's figures 1, 5 and 7. Leaves are at the bottom, and heights to the left. To the left of each
merge is its approximately unbiased p-value in percent. Deviating leaves have a color, a dot, a
thicker line and their kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.pools.dendrogram import highest, order, places, ticks
from laggard.pipeline.methods.pools.drawing import HARMLESS, INSIDE, leaf_labels, leaf_note, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records.pools import Leaf, LevelOutput

MARGIN: Final = 16
AXIS: Final = 64
"""The pixels left of a tree, for its axis."""

APART: Final = (22, 56)
"""The least and the most pixels from one leaf to the next."""

NARROWEST: Final = 360
TALLEST: Final = 280
"""The least width and the height of a tree, in pixels."""

LONGEST_LABEL: Final = 48
"""The most characters of a label; its tooltip has all of them."""

_CHARACTER: Final = 6.8  # pixels of a character, at 12 px
_TITLE: Final = 9.6  # pixels of a character of the title
_HEADING: Final = 44
_WIDE: Final = 7  # half of the foot of a folded leaf
_P_VALUE: Final = (20, 11)  # width and height of a p-value in pixels

_STYLE: Final = (
    "text{font:12px ui-sans-serif,system-ui,Helvetica,Arial,sans-serif;fill:#222}"
    ".bg{fill:#fff}.t{font-size:16px;font-weight:600}.h{font-size:13px;font-weight:600}"
    ".a,.m{fill:none;stroke:#555;stroke-width:1.2}.n,.p{font-size:11px}.p{fill:#0b5cad;stroke:#fff;stroke-width:3;paint-order:stroke}.n{fill:#555}"
    ".f{fill:#ddd;stroke:#555}"
    ".d{stroke:#c0271d;stroke-width:2.6}.dl{fill:#c0271d;font-weight:600}"
    ".y{stroke:#8a6100;stroke-width:2.6}.yl{fill:#8a6100}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.bg{fill:#16181c}.a,.m{stroke:#9aa0a6}.n{fill:#9aa0a6}"
    ".p{fill:#7fb8f5;stroke:#16181c}.f{fill:#3a3d42;stroke:#9aa0a6}.d{stroke:#ff7b6b}.dl{fill:#ff7b6b}.y{stroke:#e0b44c}"
    ".yl{fill:#e0b44c}}"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A dendrogram with its heading.

    Attributes:
        heading: the heading.
        level: the dendrogram, of at least two leaves.
        inside: the paths of groups that have a dendrogram of their own.

    """

    heading: str
    level: LevelOutput
    inside: frozenset[str] = frozenset()


def dendrogram_svg(title: str, description: str, pictures: Sequence[Picture]) -> str:
    """Return the SVG as text.

    Args:
        title: the title, in one line.
        description: the description, for screen readers.
        pictures: the dendrograms, from top to bottom.

    """
    body: list[str] = []
    top, width = 2 * MARGIN + 20, max(NARROWEST, math.ceil(_TITLE * len(title)))
    for picture in pictures:
        drawn = _Drawn(picture, top)
        body += drawn.lines()
        top, width = drawn.bottom, max(width, drawn.width)
    width += 2 * MARGIN
    shown, size = _text(title), f'width="{width}" height="{top}" viewBox="0 0 {width} {top}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="pool-title pool-description">',
            f'<title id="pool-title">{shown}</title>',
            f'<desc id="pool-description">{_text(description)}</desc>',
            f"<style>{_STYLE}</style>",
            '<rect class="bg" width="100%" height="100%"/>',
            f'<text class="t" x="{MARGIN}" y="{MARGIN + 14}">{shown}</text>',
            *body,
            "</svg>\n",
        ]
    )


class _Drawn:
    """One dendrogram, drawn from a top edge down.

    Attributes:
        width: its width in pixels.
        bottom: its bottom edge.

    """

    def __init__(self, picture: Picture, top: int) -> None:
        self._heading, self._level, self._top = picture.heading, picture.level, top
        self._order, self._inside = order(picture.level), picture.inside
        leaves = picture.level.leaves
        self._labels = dict(zip(self._order, leaf_labels([leaves[each] for each in self._order]), strict=True))
        longest = max(len(self._shown(number)) for number in self._order)
        self._apart = min(max((NARROWEST - AXIS) // len(self._order), APART[0]), APART[1])
        room = len(self._order) * self._apart
        self._left = MARGIN + AXIS + self._apart // 2
        self._base = top + _HEADING + TALLEST
        self.width = max(AXIS + room, math.ceil(_CHARACTER * len(picture.heading)))
        self.bottom = self._base + MARGIN + math.ceil(_CHARACTER * longest) + 2 * MARGIN

    def lines(self) -> Iterator[str]:
        """Return its elements."""
        yield f'<text class="h" x="{MARGIN}" y="{self._top + 14}">{_text(self._heading)}</text>'
        yield from self._axis()
        merges, count = self._level.merges, len(self._level.leaves)
        xs = [self._left + place * self._apart for place in places(self._level)]
        above = {}  # by leaf, the height of the merge that joins it
        for merge in merges:
            above.update(dict.fromkeys((merge.first, merge.second), merge.height))
        labels = []
        for number, (merge, p_value) in enumerate(zip(merges, self._level.p_values, strict=True), count):
            y = self._y(merge.height)
            feet = [
                (xs[part], self._y(merges[part - count].height if part >= count else merge.height))
                for part in (merge.first, merge.second)
            ]
            (x1, y1), (x2, y2) = feet
            tooltip = f"height {merge.height:.3g}"
            if not math.isnan(p_value):
                tooltip += f", au p-value {p_value:.1f} %"
                labels.append((merge.height, xs[number], y, p_value))
            yield (f'<g><title>{tooltip}</title><path class="m" d="M{x1:.1f} {y1:.1f}V{y:.1f}H{x2:.1f}V{y2:.1f}"/></g>')
        for number in self._order:
            yield from self._leaf(number, xs[number], self._y(above[number]))
        yield from _p_values(labels)

    def _y(self, height: float) -> float:
        most = highest(self._level)
        return self._base - (height / most * TALLEST if 0.0 < most < math.inf else 0.0)

    def _axis(self) -> Iterator[str]:
        x, middle = MARGIN + AXIS - 18, self._base - TALLEST // 2
        yield f'<path class="a" d="M{x} {self._base}V{self._base - TALLEST}"/>'
        for each in ticks(highest(self._level), 6):
            y = self._y(each)
            yield f'<path class="a" d="M{x - 5} {y:.1f}H{x}"/>'
            yield f'<text class="n" x="{x - 8}" y="{y + 4:.1f}" text-anchor="end">{each:g}</text>'
        x = MARGIN + 8
        yield (
            f'<text class="n" x="{x}" y="{middle}" text-anchor="middle" transform="rotate(-90 {x} {middle})">'
            "height</text>"
        )

    def _leaf(self, number: int, x: float, until: float) -> Iterator[str]:
        """Return a leaf from the bottom up to its merge, and its label."""
        leaf = self._level.leaves[number]
        colour = "" if not leaf.deviating else "y" if leaf.kind == HARMLESS else "d"
        yield f"<g><title>{_text(self._tooltip(number))}</title>"
        begin = self._y(leaf.height)
        if leaf.members > 1:
            yield (f'<path class="f {colour}" d="M{x - _WIDE:.1f} {self._base}H{x + _WIDE:.1f}L{x:.1f} {begin:.1f}Z"/>')
        yield f'<path class="m {colour}" d="M{x:.1f} {begin:.1f}V{until:.1f}"/>'
        foot = self._base + MARGIN
        yield (
            f'<text class="{colour and colour + "l"}" x="{x:.1f}" y="{foot}" text-anchor="end" '
            f'transform="rotate(-90 {x:.1f} {foot})" dy="4">{_text(self._shown(number))}</text></g>'
        )

    def _shown(self, number: int) -> str:
        leaf, label = self._level.leaves[number], self._labels[number]
        if len(label) > LONGEST_LABEL:
            label = f"...{label[3 - LONGEST_LABEL :]}"
        return f"{label} {leaf_note(leaf)} ●" if leaf.deviating else f"{label} {self._note(leaf)}".rstrip()

    def _note(self, leaf: Leaf) -> str:
        return leaf_note(leaf) or (INSIDE if path_of(self._level, leaf) in self._inside else "")

    def _tooltip(self, number: int) -> str:
        """Return the tooltip of a leaf."""
        note = self._note(self._level.leaves[number])
        return f"{self._labels[number]}: {note}" if note else self._labels[number]


def _p_values(labels: list[tuple[float, float, float, float]]) -> Iterator[str]:
    """Return the p-values of merges, given by height, place and value: the highest merge first, without overlaps."""
    drawn: list[tuple[float, float]] = []
    across, down = _P_VALUE
    for _, x, y, p_value in sorted(labels, reverse=True):
        if all(abs(x - other_x) >= across or abs(y - other_y) >= down for other_x, other_y in drawn):
            drawn.append((x, y))
            yield f'<text class="p" x="{x - 3:.1f}" y="{y - 3:.1f}" text-anchor="end">{p_value:.0f}</text>'


def _text(text: str) -> str:
    """Escape text for XML, since members may have any name."""
    return escape(printable(text))
