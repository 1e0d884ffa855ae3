"""What the commands for people write to a terminal, or into a pipe."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from laggard.pipeline.report import Page, findings, host_summary, look_closer, plotted, ranked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from laggard.pipeline.series import Series
    from laggard.pipeline.why import Answer

PIPED_WIDTH: Final = 100
"""Columns of what is no terminal; long lines are not broken there."""


def console_of(file: TextIO) -> Console:
    """A console that shows text as it is: no markup, no highlighting, colours only in a terminal that wants them."""
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")
    console = Console(file=file, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def page_of(console: Console) -> Page:
    """What the console can show."""
    return Page(console.width, console.encoding.startswith("utf"))


def write(lines: Iterable[Text], console: Console) -> None:
    """Write lines, broken at words where the terminal ends."""
    unicode = page_of(console).unicode
    for line in lines:
        shown = line if unicode else Text(line.plain.replace("±", "+-"))
        console.print(shown, soft_wrap=not console.is_terminal)


def page_lines(answer: Answer, series: Series | None, page: Page, header: str, *, here: bool) -> Iterator[Text]:
    """A whole answer.

    Args:
        answer: what was found.
        series: of the worst row's worst feature.
        page: where it is shown.
        header: the first line.
        here: whether the moment is now and the host this machine, so that a person can look closer.

    """
    yield Text(header, "dim")
    yield Text()
    yield from findings(answer)
    if answer.ranking.rows:
        worst = answer.ranking.rows[0]
        yield Text()
        yield from ranked(answer.ranking, answer.commands, page)
        if series is not None:
            yield Text()
            yield from plotted(series, worst.name, page)
        if here and (closer := look_closer(worst)):
            yield Text()
            yield Text(f"Look closer: {closer}")
    if answer.host_frame is not None:
        yield Text()
        yield host_summary(answer.host, answer.host_frame)
