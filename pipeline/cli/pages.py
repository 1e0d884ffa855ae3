"""The output of commands for people, to a terminal or into a pipe."""

from __future__ import annotations

import io
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.text import Text

from laggard.pipeline.alarms.text import feedback_sentence
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.models import ModelOutput, PredictionOutput
from laggard.pipeline.core.records.outputs import Anomaly, Incident, Notice, Progress, RankingOutput, ScoreOutput
from laggard.pipeline.core.records.pools import PoolOutput
from laggard.pipeline.core.records.requests import RequestOutput
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.text import sentence
from laggard.pipeline.explaining.units import readable, readable_duration
from laggard.pipeline.explaining.verdict import narrowed
from laggard.pipeline.history.report import (
    Page,
    findings,
    host_summary,
    moment,
    next_steps,
    plain_findings,
    plotted,
    ranked,
    score_digits,
    subject_of,
)
from laggard.pipeline.methods.pools.report import pool_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from laggard.operators.ranking import Ranking
    from laggard.pipeline.core.records.outputs import ReplayOutput
    from laggard.pipeline.history.answers import Answer
    from laggard.pipeline.history.series import Series
    from laggard.pipeline.history.watch import Watch

SILENT_TICKS: Final = 3.0
"""A live page reports missing frames after this many ticks."""

OTHER_LINES: Final = 14
"""The lines of a live page that are neither rows nor features, including its sentences."""

MARK_ROWS, MARK_FEATURES = 3, 3
"""The most rows and features that are shown of the ranking of a recorded mark."""

PIPED_WIDTH: Final = 100
"""The columns of an output that is no terminal; long lines are not broken there."""


def console_of(file: TextIO) -> Console:
    """Return a console without markup and highlighting, and with colors only in a terminal that supports them."""
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")
    console = Console(file=file, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def page_of(console: Console) -> Page:
    """Return the width of a console, and whether it shows Unicode."""
    return Page(console.width, console.encoding.startswith("utf"))


def write(lines: Iterable[Text], console: Console) -> None:
    """Write lines, broken at words to the width of a terminal."""
    for line in lines:
        console.print(_shown(line, console), soft_wrap=not console.is_terminal)


def _shown(line: Text, console: Console) -> Text:
    return line if page_of(console).unicode else Text(line.plain.replace("±", "+-"))


def page_lines(
    answer: Answer,
    series: Series | None,
    page: Page,
    header: str,
    reported: Sequence[str] = (),
    *,
    shown: Ranking,
    here: bool,
    scored: bool = False,
) -> Iterator[Text]:
    """Yield the lines of a whole answer.

    Args:
        answer: the answer.
        series: the time series of its subject; None without one.
        page: the page.
        header: the first line.
        reported: a line for each incident that was open then.
        shown: its ranking, or the part of it to show.
        here: whether the moment is now and the host this machine, so that a closer look is possible.
        scored: see `story`.

    """
    yield Text(header, "dim")
    yield Text()
    for line in reported:
        yield Text(line, "bold")
        yield Text()
    yield from findings(answer, scored=scored)
    if shown.rows:
        yield Text()
        yield from ranked(shown, answer.commands, page, answer.verdict)
    if len(shown.rows) < len(answer.ranking.rows):
        yield Text()
        yield Text("Rows with a score below 0.1 are left out; --all shows them.", "dim")
    about = subject_of(answer, shown)
    if about is not None and series is not None:
        yield Text()
        yield from plotted(series, about.name, page)
    if about is not None and here and (closer := next_steps(answer.verdict, about)):
        yield Text()
        yield Text(f"Look closer: {closer}")
    if answer.host_frame is not None and (summary := host_summary(answer.host, answer.host_frame)):
        yield Text()
        yield summary


def tick_line(answer: Answer) -> str:
    """Return one tick as a line: its time, host, score and findings."""
    line = " ".join(plain_findings(answer, scored=True))
    return f"{moment(answer.ts)}  {printable(answer.host)}  {score_digits(answer.ranking.score)}  {line}"


class LivePage:
    """The live page of a host.

    Parameters:
        watched: the host.
        rows: the most rows.
        features: the features of each row.
        here: whether it is this machine.

    """

    def __init__(self, watched: Watch, rows: int, features: int, *, here: bool) -> None:
        self._watched = watched
        self._rows = rows
        self._features = features
        self._here = here

    def draw(self, console: Console, now: float) -> Group:
        """Return the present page, with as many rows as fit the terminal."""
        fitting = (console.height - OTHER_LINES) // (1 + self._features)
        answer = self._watched.answer(min(self._rows, max(fitting, 1)), self._features)
        host = printable(self._watched.host)
        if answer is None:
            return Group(Text(f"{host}: waiting for the first frame    q ends", "dim"))
        age_s = now - answer.ts
        silent = age_s > SILENT_TICKS * answer.tick_s + 1.0
        header = f"{host} at {moment(answer.ts)}    q ends"
        if silent:
            header += f"    no frame for {readable_duration(age_s)}: is the agent running?"
        about = answer.subject
        series = None if about is None else self._watched.series(answer, about.row, about.feature.feature, about.scope)
        lines = page_lines(
            answer, series, page_of(console), header, shown=answer.ranking, here=self._here and not silent
        )
        return Group(*(_shown(line, console) for line in lines))


class OutputWriter:
    """Writes the results of recorded data to standard output, for a person."""

    @cached_property
    def _console(self) -> Console:
        # Created for the first output: by then a progress bar may have replaced standard output.
        return console_of(sys.stdout)

    def write(self, output: ReplayOutput) -> None:
        """Write one output."""
        write(self._lines(output), self._console)

    def _lines(self, output: ReplayOutput) -> Iterator[Text]:
        begin = f"{moment(output.ts)}  {printable(_key(output))}  "
        match output:
            case Anomaly():
                yield Text(f"{begin}{score_digits(output.score)}  {output.sentence}")
            case Progress() if output.change == "extended":
                yield Text(f"{begin}{score_digits(output.score)} at worst  {output.sentence}")
            case Incident() if output.change == "closed" and not output.merged_into:
                yield Text(f"{begin}{output.sentence}")
            case Notice() if output.change == "opened":
                yield Text(f"{begin}notice  {output.sentence}", "dim")
            case Incident() | Progress() | Notice():
                pass  # its anomalies and its end show its content
            case RankingOutput():
                yield Text(f"{begin}marked {printable(output.mark)}".rstrip(), "bold")
                if output.ranking.rows:
                    yield Text(output.sentence or sentence(output.ranking, {}))
                    yield from ranked(narrowed(output.ranking, MARK_ROWS, MARK_FEATURES), {}, page_of(self._console))
                else:
                    yield Text("No answer: no frame is near it, or no row has been seen for long enough.")
            case ModelOutput():
                built = f"R2 {output.r2:.2f} of {output.samples} intervals, {output.reason}"
                yield Text(f"{begin}{output.equation}  ({built})")
                for term in output.terms:
                    yield Text(f"    {term.metric.row}:{term.metric.feature} is {term.metric.description}", "dim")
            case PoolOutput():
                yield from self._pool_lines(output)
            case FeedbackOutput() | RequestOutput() | PredictionOutput() | ScoreOutput():
                yield Text(f"{begin}{_in_a_line(output)}")

    def _pool_lines(self, output: PoolOutput) -> Iterator[Text]:
        if output.whole:  # the worst member of a moment is shown with its anomaly
            yield Text()
            yield from pool_lines(output, page_of(self._console), output.ts)


def _in_a_line(output: FeedbackOutput | RequestOutput | PredictionOutput | ScoreOutput) -> str:
    match output:
        case FeedbackOutput():
            return feedback_sentence(output.feedback)
        case RequestOutput():
            name = f" {printable(output.name)}" if output.name else ""
            took = readable("_s", output.duration_s)
            return f"{score_digits(output.score)}  {printable(output.request)}{name}, {took}: {output.cause}"
        case PredictionOutput():
            value, predicted = (readable(output.performance, each) for each in (output.value, output.predicted))
            return f"{printable(output.performance)} {value}, predicted {predicted}"
    request = f"  {printable(output.request)}" if output.request else ""
    return f"{output.operator}  {score_digits(output.score)}{request}"


def _key(output: ReplayOutput) -> str:
    match output:
        case RankingOutput():
            return output.host
        case ModelOutput() | PredictionOutput():
            return output.application
        case PoolOutput():
            return output.pool
        case RequestOutput():
            return output.service
        case _:
            return output.key
