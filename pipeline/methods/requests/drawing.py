"""A request's critical path in a terminal: a lane for each thread, a block for each state, arrows between them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from laggard.pipeline.explaining.explain import shortened
from laggard.pipeline.explaining.units import readable
from laggard.pipeline.history.report import NARROW
from laggard.pipeline.methods.pools.dendrogram import ticks
from laggard.pipeline.methods.requests.lanes import details_on, label, lanes_of, ordered, times_on
from laggard.pipeline.methods.requests.words import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laggard.pipeline.core.records.requests import Request
    from laggard.pipeline.history.report import Page
    from laggard.pipeline.methods.requests.lanes import Lanes

WIDEST: Final = 160
"""The greatest width, in columns: on a wider terminal the eye would lose the lane."""

NARROWEST: Final = 20
"""The least width of lanes, in columns; names are cut for it."""

LONGEST_NAME: Final = 32

_TICK_EVERY: Final = 14  # columns


class Style(NamedTuple):
    """The style of a state, distinct even without colors."""

    block: str
    ascii: str
    style: str


STYLES: Final[Mapping[str, Style]] = {
    "RU": Style("█", "#", "green"),
    "RS": Style("▓", "=", "blue"),
    "BP": Style("▒", "P", "yellow"),
    "BI": Style("▪", "I", "white"),
    "BD": Style("▄", "D", "red"),
    "BN": Style("▞", "N", "magenta"),
    "BT": Style("░", "T", "bright_yellow"),
    "BF": Style("▚", "F", "bright_magenta"),
    "BS": Style("▁", "S", "cyan"),
    "UN": Style("·", ".", "bright_black"),
}

_OTHERS: Final = (
    Style("█", "A", "green"),
    Style("▒", "B", "yellow"),
    Style("▓", "C", "blue"),
    Style("░", "D", "magenta"),
)
"""The styles of other states than those of the method, in their order, repeated."""


def styles_of(states: list[str]) -> dict[str, Style]:
    """Return the style of each of these states."""
    others = [state for state in states if state not in STYLES]
    return {state: STYLES.get(state) or _OTHERS[others.index(state) % len(_OTHERS)] for state in states}


def path_lines(request: Request, page: Page) -> Iterator[Text]:
    """Yield the path of a request: its lanes, an axis in milliseconds, and the legend of the blocks.

    Args:
        request: a request with a path.
        page: the page.

    """
    lanes = lanes_of(request)
    width = min(page.width, WIDEST)
    longest = min(max(map(cell_len, lanes.names)), LONGEST_NAME, max(width - NARROWEST - 2, 8))
    styles = styles_of(ordered(piece.state for piece in lanes.pieces))
    canvas = _Canvas(lanes, styles, max(width - longest - 2, NARROWEST), unicode=page.unicode)
    for lane, name in enumerate(lanes.names):
        yield Text(set_cell_size(_cut(name, longest), longest), "bold" if lane == 0 else "").append("  ") + canvas.lane(
            lane
        )
        if lane + 1 < len(lanes.names):
            yield Text(" " * (longest + 2)) + canvas.between(lane)
    for name, axis in zip(("", "ms"), canvas.axis(), strict=True):
        yield Text(f"{name:>{longest}}  {axis}", "dim")
    yield Text()
    yield from state_lines(times_on(lanes), lanes.duration_s, page, styles, details_on(lanes))


def state_lines(
    times_s: Mapping[str, float],
    duration_s: float,
    page: Page,
    styles: Mapping[str, Style] | None = None,
    details: Mapping[str, str] | None = None,
) -> Iterator[Text]:
    """Yield the states of a request, the longest first: style, label, time and share.

    Args:
        times_s: seconds by state.
        duration_s: the whole, for the shares.
        page: the page.
        styles: the styles of the states; None without a drawing.
        details: texts at the end of the lines, by state.

    """
    states = sorted((state for state in ordered(times_s) if times_s[state]), key=lambda each: -times_s[each])
    words = max((len(label(state)) for state in states), default=0)
    for state in states:
        line = Text("  ")
        if styles is not None:
            style = styles[state]
            line.append((style.block if page.unicode else style.ascii) * 2, style.style).append(" ")
        named = f"{state}  {label(state):<{words}}" if state in STATES else f"{label(state):<{words + 4}}"
        line.append(named).append(f"  {readable('duration_s', times_s[state]):>8}", "bold")
        line.append(f"  {_share(times_s[state], duration_s):>6}")
        detail = (details or {}).get(state, "")
        if detail and page.width >= NARROW:
            line.append(f"  {shortened(detail, max(page.width - line.cell_len - 2, 12))}", "dim")
        yield line


def _share(time_s: float, duration_s: float) -> str:
    return readable("share_ratio", time_s / duration_s) if duration_s > 0.0 else "-"


def _cut(name: str, room: int) -> str:
    """Cut the beginning of a long name: the number of a thread is at the end."""
    return name if cell_len(name) <= room else f"...{name[len(name) - room + 3 :]}"


class _Canvas:
    """The cells of lanes, and of the rows between them.

    Parameters:
        lanes: the lanes.
        styles: the styles of the states.
        width: the number of columns.
        unicode: whether more than ASCII can be shown.

    """

    def __init__(self, lanes: Lanes, styles: Mapping[str, Style], width: int, *, unicode: bool) -> None:
        self._lanes, self._styles, self._width, self._unicode = lanes, styles, width, unicode
        self._cells = [self._of_lane(lane) for lane in range(len(lanes.names))]

    def _place(self, at_s: float) -> float:
        """Return the place of a time in columns from the left, not rounded."""
        return at_s / self._lanes.duration_s * self._width if self._lanes.duration_s > 0.0 else 0.0

    def _of_lane(self, lane: int) -> dict[int, str]:
        """Return the predominant state of a lane by column.

        A cell is filled if at least half of it is covered, or if it has the middle of a piece, so that each is visible.
        """
        times: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        middles = set()
        for piece in self._lanes.pieces:
            if piece.thread != lane:
                continue
            begin, end = self._place(piece.begin_s), self._place(piece.end_s)
            middles.add(min(int((begin + end) / 2), self._width - 1))
            for column in range(min(int(begin), self._width - 1), min(int(end) + 1, self._width)):
                times[column][piece.state] += max(min(end, column + 1) - max(begin, column), 0.0)
        return {
            column: max(states, key=states.__getitem__)
            for column, states in times.items()
            if column in middles or sum(states.values()) >= 0.5
        }

    def lane(self, lane: int) -> Text:
        """Return one lane; arrows between other lanes cross its empty cells."""
        crossed = {
            self._column(link.at_s)
            for link in self._lanes.links
            if min(link.source, link.target) < lane < max(link.source, link.target)
        }
        line = Text()
        for column in range(self._width):
            state = self._cells[lane].get(column)
            if state is not None:
                style = self._styles[state]
                line.append(style.block if self._unicode else style.ascii, style.style)
            else:
                line.append(self._upright if column in crossed else " ", "dim")
        line.rstrip()
        return line

    def between(self, lane: int) -> Text:
        """Return the row below a lane, with the arrows of the path to other lanes."""
        found: dict[int, set[str]] = defaultdict(set)
        for link in self._lanes.links:
            if min(link.source, link.target) <= lane < max(link.source, link.target):
                down = link.target > link.source
                ends = lane == (link.target - 1 if down else link.target)
                found[self._column(link.at_s)].add(("v" if down else "^") if ends else "|")
        line = Text(style="dim")
        for column in range(self._width):
            glyphs = found.get(column, set())
            glyph = " " if not glyphs else glyphs.pop() if len(glyphs) == 1 else "|"
            line.append({"v": "▼", "^": "▲", "|": "│"}.get(glyph, glyph) if self._unicode else glyph)
        line.rstrip()
        return line

    @property
    def _upright(self) -> str:
        return "│" if self._unicode else "|"

    def _column(self, at_s: float) -> int:
        """Return the column of the first cell of a piece that begins at this time."""
        return min(round(self._place(at_s)), self._width - 1)

    def axis(self) -> Iterator[str]:
        """Yield a line with ticks, and then the milliseconds."""
        tick, line = ("┴", "─") if self._unicode else ("+", "-")
        most = max(self._width // _TICK_EVERY, 4)
        places = {self._column(each / 1e3): f"{each:,.10g}" for each in ticks(self._lanes.duration_s * 1e3, most)}
        yield "".join(tick if column in places else line for column in range(self._width))
        numbers = ""
        for column, text in places.items():
            if len(numbers) <= column <= self._width - len(text):
                numbers = f"{numbers:<{column}}{text} "
        yield numbers.rstrip()
