"""A request's critical path as a self-contained SVG file: no script, no font; for light and dark pages.

It is drawn as in S4's figures 2 and 5. Each thread has a lane with its states in order. A vertical edge with an arrow
shows where the path continues in another thread. Each state has a color, and a name if there is room.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import readable
from laggard.pipeline.methods.pools.dendrogram import ticks
from laggard.pipeline.methods.requests.lanes import (
    colors_of,
    description,
    details_on,
    heading,
    label,
    lanes_of,
    ordered,
    times_on,
)
from laggard.pipeline.methods.requests.words import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records.requests import Request, Segment
    from laggard.pipeline.methods.requests.lanes import Link

MARGIN: Final = 16
PLOT: Final = 860
"""The margin, and the width of a request, in pixels."""

LANE: Final = 46
BAR: Final = 22
"""The height of a lane, and of the states on it, in pixels."""

LONGEST_NAME: Final = 40
"""The most characters of a thread's name; its tooltip has all of it."""

_CHARACTER: Final = 6.8  # the width of a character at 12 px, in pixels
_BOLD: Final = 7.6  # likewise in bold
_TITLE: Final = 9.0  # likewise in the title
_TOP: Final = 56
_ROW: Final = 22  # the height of a line of the legend, in pixels
_ARROW: Final = 4  # half the width of an arrow, in pixels
_LEAST: Final = 0.75  # the least width of a piece, in pixels, so that it is visible

_STYLE: Final = (
    "text{font:12px ui-sans-serif,system-ui,Helvetica,Arial,sans-serif;fill:#222}"
    ".bg{fill:#fff}.t{font-size:16px;font-weight:600}.n{font-size:11px;fill:#555}.own{font-weight:600}"
    ".b{fill:#16181c;font-size:11px;pointer-events:none}"
    ".a{fill:none;stroke:#555;stroke-width:1}.g{fill:none;stroke:#0001;stroke-width:1}.l{stroke:#ddd;stroke-width:1}"
    ".w{stroke:#333;stroke-width:1.4;fill:none}.h{fill:#333;stroke:none}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.bg{fill:#16181c}.n{fill:#9aa0a6}.b{fill:#16181c}"
    ".a{stroke:#9aa0a6}.g{stroke:#fff1}.l{stroke:#3a3d42}.w{stroke:#cfd3d8}.h{fill:#cfd3d8}}"
)


def path_svg(request: Request) -> str:
    """Return the critical path of a request as SVG text."""
    drawn = _Drawn(request)
    shown, size = (
        _text(heading(request)),
        f'width="{drawn.width}" height="{drawn.height}" viewBox="0 0 {drawn.width} {drawn.height}"',
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="path-title path-description">',
            f'<title id="path-title">{shown}</title>',
            f'<desc id="path-description">{_text(drawn.description)}</desc>',
            f"<style>{_STYLE}</style>",
            '<rect class="bg" width="100%" height="100%"/>',
            f'<text class="t" x="{MARGIN}" y="{MARGIN + 14}">{shown}</text>',
            *drawn.lines(),
            "</svg>\n",
        ]
    )


class _Drawn:
    """A path in pixels.

    Attributes:
        width: the width of the picture.
        height: its height.
        description: the picture as text.

    """

    def __init__(self, request: Request) -> None:
        self._lanes = lanes_of(request)
        self.description = description(self._lanes)
        self._times_s, self._details = times_on(self._lanes), details_on(self._lanes)
        self._states = sorted(ordered(self._times_s), key=lambda each: -self._times_s[each])
        self._colours = colors_of(self._times_s)
        longest = max(len(self._shown(name)) for name in self._lanes.names)
        self._left = MARGIN + math.ceil(_BOLD * longest) + MARGIN
        self._bottom = _TOP + LANE * len(self._lanes.names)
        self._legend = self._bottom + 56
        self.height = self._legend + _ROW * len(self._states) + MARGIN
        self.width = max(self._left + PLOT + 2 * MARGIN, 2 * MARGIN + math.ceil(_TITLE * len(heading(request))))

    def lines(self) -> Iterator[str]:
        """Yield its elements."""
        yield from self._axis()
        for lane, name in enumerate(self._lanes.names):
            middle = self._middle(lane)
            own = ' class="own"' if lane == 0 else ""
            yield f"<g><title>{_text(name)}</title>"
            yield (
                f'<text{own} x="{self._left - MARGIN}" y="{middle + 4}" text-anchor="end">'
                f"{_text(self._shown(name))}</text></g>"
            )
            yield f'<path class="l" d="M{self._left} {middle}H{self._left + PLOT}"/>'
        for link in self._lanes.links:
            yield self._link(link)
        for piece in self._lanes.pieces:
            yield from self._piece(piece)
        yield from self._heads()
        yield from self._meanings()

    def _x(self, at_s: float) -> float:
        return self._left + (at_s / self._lanes.duration_s * PLOT if self._lanes.duration_s > 0.0 else 0.0)

    def _middle(self, lane: int) -> int:
        return _TOP + LANE * lane + LANE // 2

    def _axis(self) -> Iterator[str]:
        y = self._bottom + 6
        yield f'<path class="a" d="M{self._left} {y}H{self._left + PLOT}"/>'
        for each in ticks(self._lanes.duration_s * 1e3, 10):
            x = self._x(each / 1e3)
            yield f'<path class="g" d="M{x:.1f} {_TOP}V{y}"/><path class="a" d="M{x:.1f} {y}v5"/>'
            yield f'<text class="n" x="{x:.1f}" y="{y + 18}" text-anchor="middle">{each:,.10g}</text>'
        yield f'<text class="n" x="{self._left - MARGIN}" y="{y + 18}" text-anchor="end">ms</text>'

    def _piece(self, piece: Segment) -> Iterator[str]:
        begin, end = self._x(piece.begin_s), self._x(piece.end_s)
        width, y = max(end - begin, _LEAST), self._middle(piece.thread) - BAR // 2
        took = readable("duration_s", piece.end_s - piece.begin_s)
        detail = f", {piece.detail}" if piece.detail else ""
        begins = readable("duration_s", piece.begin_s)
        tooltip = f"{self._lanes.names[piece.thread]} {label(piece.state)}{detail}: {took}, from {begins} on"
        yield f"<g><title>{_text(tooltip)}</title>"
        yield (
            f'<rect x="{begin:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{self._colours[piece.state]}"/>'
        )
        for longer in (f"{piece.state} {piece.detail} {took}", f"{piece.state} {took}", piece.state):
            shown = printable(" ".join(longer.split()))
            if _CHARACTER * len(shown) + 6 <= width:
                middle = (begin + end) / 2
                yield (
                    f'<text class="b" x="{middle:.1f}" y="{self._middle(piece.thread) + 4}" text-anchor="middle">'
                    f"{escape(shown)}</text>"
                )
                break
        yield "</g>"

    def _link(self, link: Link) -> str:
        source, target = self._ends(link)
        x = self._x(link.at_s)
        names = self._lanes.names
        tooltip = f"{readable('duration_s', link.at_s)}: from {names[link.source]} to {names[link.target]}"
        return f'<g><title>{_text(tooltip)}</title><path class="w" d="M{x:.1f} {source}V{target}"/></g>'

    def _heads(self) -> Iterator[str]:
        """Yield the heads of arrows, without those that would overlap the one before."""
        drawn: dict[int, float] = {}  # the place of the last head at each height
        for link in self._lanes.links:
            _, target = self._ends(link)
            x, back = self._x(link.at_s), 6 if link.target < link.source else -6
            if x - drawn.get(target, -math.inf) >= 2 * _ARROW:
                drawn[target] = x
                yield f'<path class="h" d="M{x:.1f} {target}L{x - _ARROW:.1f} {target + back}H{x + _ARROW:.1f}Z"/>'

    def _ends(self, link: Link) -> tuple[int, int]:
        """Return the ends of a link: the middle of the source lane, and the nearer edge of the target lane."""
        nearer = BAR // 2 if link.target < link.source else -BAR // 2
        return self._middle(link.source), self._middle(link.target) + nearer

    def _meanings(self) -> Iterator[str]:
        """Yield the legend of colors, with the time of the path in each state."""
        for number, state in enumerate(self._states):
            y, time_s = self._legend + _ROW * number, self._times_s[state]
            named = f"{state}  {label(state)}" if state in STATES else state
            share = readable("share_ratio", time_s / self._lanes.duration_s) if self._lanes.duration_s else ""
            yield f'<rect x="{MARGIN}" y="{y - 11}" width="22" height="14" fill="{self._colours[state]}"/>'
            yield f'<text x="{MARGIN + 32}" y="{y}">{_text(named)}</text>'
            yield f'<text x="{MARGIN + 270}" y="{y}" text-anchor="end">{readable("duration_s", time_s)}</text>'
            yield f'<text x="{MARGIN + 334}" y="{y}" text-anchor="end">{share}</text>'
            if detail := self._details.get(state):
                yield f'<text class="n" x="{MARGIN + 354}" y="{y}">{_text(detail)}</text>'

    @staticmethod
    def _shown(name: str) -> str:
        return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"


def _text(text: str) -> str:
    """Return the text escaped for XML, since names of threads and files are untrusted."""
    return escape(printable(text))
