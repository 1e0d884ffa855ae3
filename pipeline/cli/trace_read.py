"""`laggard trace read`: the requests in recordings, to the bus or as JSON lines."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import FAILED, NO_DATA, CommandError
from laggard.pipeline.cli.opening import bus_of, topics_of
from laggard.pipeline.cli.options import to_type
from laggard.pipeline.core.bus import BusUnavailable
from laggard.pipeline.core.records import write_line
from laggard.pipeline.core.sending.outbox import Outbox
from laggard.pipeline.core.topics import REQUESTS
from laggard.pipeline.explaining.units import counted
from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.reading import TraceError, open_trace, read_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from laggard.pipeline.core.records import Request
    from laggard.pipeline.settings import Settings

BATCH: Final = 200
"""The most requests that are published at once."""

_AGAIN_S: Final = 1.0  # the time between two attempts while the bus is unavailable
_PATIENCE_S: Final = 30.0


def read_all(settings: Settings, paths: Sequence[Path], *, as_json: bool) -> int:
    """Read recordings one after the other, and return the exit code. Raises `CommandError`."""
    found = 0
    with contextlib.ExitStack() as stack:
        take = _print if as_json else stack.enter_context(_published(settings))
        for path in paths:
            try:
                for request in requests_in(path, _warn):
                    take(request)
                    found += 1
            except TraceError as error:
                raise CommandError(str(error), FAILED) from None
    if not found:
        raise CommandError(f"{', '.join(map(str, paths))}: there is no whole request in it", NO_DATA)
    if not as_json:
        click.echo(f"Published {counted(found, 'request')}.")
        click.echo(f"Next: `{to_type(settings, 'requests', '--since', '365d')}`")
    return 0


def requests_in(path: Path, warn: Callable[[str], None]) -> Iterator[Request]:
    """Yield the requests of a trace or of a file of spans.

    Args:
        path: the folder of a trace, or the file.
        warn: receives the defects of parts of it, in words.

    Raises:
        TraceError: it is neither.

    """
    if not path.is_dir():
        spans = read_spans(path)
        yield from spans
        for each in spans.warnings:
            warn(each)
        return
    trace = open_trace(path)
    analysis = Analysis(host=trace.host, clock_offset_s=trace.wall_offset_s)
    for batch in trace:
        yield from analysis.feed(batch)
    yield from analysis.finish()
    for each in trace.warnings:
        warn(each)
    for each in analysis.report.warnings:
        warn(f"{path}: {each}")


def _warn(line: str) -> None:
    click.echo(f"laggard: {line}", err=True)


def _print(request: Request) -> None:
    sys.stdout.write(f"{write_line(request)}\n")


@contextlib.contextmanager
def _published(settings: Settings) -> Iterator[Callable[[Request], None]]:
    """Yield a function that publishes a request. All requests are on the bus at the end of the context."""
    waiting: list[Request] = []
    with bus_of(settings) as bus:
        outbox = Outbox(bus, topics_of(settings).name(REQUESTS))

        def bring() -> None:
            outbox.publish(waiting)
            waiting.clear()
            until = time.monotonic() + _PATIENCE_S
            while outbox.waiting:
                if time.monotonic() > until:
                    raise BusUnavailable(f"{outbox.waiting} requests were not delivered; those before them were")
                time.sleep(_AGAIN_S)
                outbox.flush()

        def take(request: Request) -> None:
            waiting.append(request)
            if len(waiting) >= BATCH:
                bring()

        yield take
        bring()
