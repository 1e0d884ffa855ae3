"""`laggard replay`: recorded data through the same operators, at full speed."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import FAILED, NO_DATA, CommandError
from laggard.pipeline.cli.options import setting_flag, with_settings
from laggard.pipeline.cli.pages import OutputWriter
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.methods.applications.serving import ServedByFrames
from laggard.pipeline.replay import Replay
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.wiring import replayed
from laggard.producers.sources.files import Recording, UnreadableError, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records.outputs import ReplayOutput
    from laggard.pipeline.settings import Settings
    from laggard.producers.sources.files import Placed

REPORTED: Final = 100
"""The most unusable lines that are reported; further ones are only counted."""

PROGRESS_RECORDS: Final = 20
"""The progress bar is updated after this many records."""


@click.command()
@with_settings
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, as in the topics.")
@click.option("--scores", is_flag=True, help="Print the score of each tick and request, and predictions, too.")
@setting_flag("--operators", GeneralSettings.operators, "NAME,...", "Run only these (setting operators).")
def replay(settings: Settings, *, files: tuple[str, ...], as_json: bool, scores: bool) -> int:
    """Run recorded data through the operators: files of JSON lines, also .gz and .zst, or - for standard input.

    Several files are merged by time; records of one file stay in its order. Unusable lines are reported on standard
    error, with their places, and skipped; the exit code is then 1.
    """
    problems = _Problems()
    began = time.monotonic()
    with ExitStack() as stack:
        try:
            recordings = [stack.enter_context(Recording(name)) for name in files]
        except UnreadableError as error:
            raise CommandError(str(error), NO_DATA) from None
        served, write = ServedByFrames(), _echo_json if as_json else OutputWriter().write
        run = Replay(replayed(settings, served), write, problems.report, scores=scores, served=served)
        for place, record in _with_progress(merged(recordings, problems.report), recordings):
            run.take(place, record)
        run.finish()
    sys.stdout.flush()
    _summarise(run, problems.count, time.monotonic() - began)
    if not run.records and not problems.count:
        raise CommandError("the input has no records", NO_DATA)
    return FAILED if problems.count else 0


class _Problems:
    """Reports unusable lines on standard error, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def report(self, problem: str) -> None:
        self.count += 1
        if self.count <= REPORTED:
            click.echo(f"laggard: {problem}", err=True)
        if self.count == REPORTED:
            click.echo("laggard: further ones are only counted", err=True)


def _echo_json(output: ReplayOutput) -> None:
    click.echo(write_output(output))


def _with_progress(records: Iterator[Placed], recordings: Sequence[Recording]) -> Iterator[Placed]:
    """Yield the records, with a progress bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield from records
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    sizes = [each.size for each in recordings]
    total = None if None in sizes else sum(each for each in sizes if each is not None)
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    # Results on the same terminal go above the bar.
    to_terminal = sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=to_terminal) as progress:
        bar = progress.add_task("", total=total)
        for number, placed in enumerate(records):
            if number % PROGRESS_RECORDS == 0:
                progress.update(bar, completed=sum(each.bytes_read for each in recordings))
            yield placed


def _summarise(replayed: Replay, problems: int, took_s: float) -> None:
    """Print a summary on standard error."""
    span = f" over {readable_duration(replayed.last_ts - replayed.first_ts)}" if replayed.keys else ""
    found = _counted(replayed.incidents, "incident", "incidents")
    inputs, unit = [_counted(replayed.frames, "frame", "frames")], "frames"
    if replayed.requests:
        inputs = [*(inputs if replayed.frames else []), _counted(replayed.requests, "request", "requests")]
        unit = "records" if replayed.frames else "requests"
    parts = [
        f"{' and '.join(inputs)} of {_counted(len(replayed.keys), 'key', 'keys')}{span}",
        *([f"{replayed.outlying:,} outlying"] if replayed.requests else []),
        _counted(replayed.marks, "mark", "marks"),
        f"{_counted(replayed.anomalies, 'anomaly', 'anomalies')} of {found}",
        *([_counted(replayed.models, "model", "models")] if replayed.models else []),
        f"{took_s:.1f} s ({(replayed.frames + replayed.requests) / max(took_s, 1e-9):,.0f} {unit}/s)",
    ]
    if replayed.unused:
        parts.append(f"{_counted(replayed.unused, 'record', 'records')} that no operator reads")
    if problems:
        parts.append(f"{_counted(problems, 'line', 'lines')} that could not be used")
    click.echo(f"Replayed {', '.join(parts)}", err=True)


def _counted(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
