"""The diagnosis of a process of this machine, now, with a progress bar, until a limit or the user ends it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import NO_DATA, CommandError
from laggard.pipeline.core.records.diagnosis_json import diagnosis_id
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.diagnoses.words import ASKED, percent
from laggard.pipeline.processes import UnknownProcessError, by_use, candidates
from laggard.producers.diagnosis.bounds import Budget, Limits
from laggard.producers.diagnosis.helper import HelperError
from laggard.producers.diagnosis.session import Session
from laggard.producers.diagnosis.symbols import symbolizer
from laggard.producers.diagnosis.target import TargetError, find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.core.records.diagnosis import Diagnosis

COMPARED_S: Final = 0.3
"""The time for which processes of one name are watched to find the busiest, in seconds."""

LISTED: Final = 4
"""The most other processes of this name that are listed."""


def sample(
    process: str,
    host: str,
    *,
    samples: int,
    duration_s: float,
    methods: tuple[str, ...] | None,
    budget: float,
) -> Diagnosis:
    """Sample a process now, and return its diagnosis. ^C or SIGTERM ends it early.

    Args:
        process: its id, row id or name, see `candidates`.
        host: the name of this machine.
        samples: the most samples.
        duration_s: the longest duration in seconds.
        methods: see `Session`.
        budget: the share of one core that the diagnosis may use.

    Raises:
        CommandError: there is no such process, or it has ended.

    """
    try:
        target = find(_pid(process))
    except (UnknownProcessError, TargetError) as error:
        raise CommandError(str(error), NO_DATA) from None
    with contextlib.suppress(HelperError):  # reported where it is needed
        symbolizer().helper()  # before anything is counted
    session = Session(
        target,
        id=diagnosis_id(host, target.row, ASKED, time.time()),
        host=host,
        reason=ASKED,
        budget=Budget(budget),
        limits=Limits(duration_s=duration_s, samples=samples),
        methods=methods,
    )
    try:
        with _stopped_by_signals() as stop, _progress(target.row, samples, duration_s) as report_progress:
            taken = 0
            while not session.ended and not stop.wait(session.delay_s()):
                session.sample()
                taken += 1
                report_progress(taken)
        return session.diagnosis("closed")
    finally:
        session.close()


def _pid(process: str) -> int:
    """Return the id of the process; of several with this name that of the busiest, named on standard error."""
    found = candidates(process)
    if len(found) == 1:
        return found[0].pid
    used = by_use(found, COMPARED_S)
    if not used:
        raise UnknownProcessError(f"the {len(found)} processes that were called {process} have ended")
    (busiest, share), *others = used
    listed = ", ".join(printable(each.row) for each, _ in others[:LISTED]) + (", ..." if len(others) > LISTED else "")
    click.echo(
        f"{len(found):,} processes are called {printable(process)}; this is about the busiest, "
        f"{printable(busiest.row)}, with {percent(share)} of one core. Others: {listed}",
        err=True,
    )
    return busiest.pid


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that ^C or SIGTERM sets; a second one ends the command at once."""
    stop = threading.Event()

    def ask(_: int, __: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextlib.contextmanager
def _progress(row: str, samples: int, duration_s: float) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error if that is a terminal. Yields a function of the number of samples."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    began = time.monotonic()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"sampling {printable(row)}; ^C shows the result so far", total=1.0)
        yield lambda taken: progress.update(
            bar, completed=max(taken / samples, (time.monotonic() - began) / duration_s)
        )
