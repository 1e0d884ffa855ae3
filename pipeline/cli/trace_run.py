"""The run of a tracing: requests to the bus, or a recording to a folder, and reports of its progress."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import FAILED, CommandError
from laggard.pipeline.cli.opening import bus_of
from laggard.pipeline.cli.publishing import publisher_of
from laggard.pipeline.cli.traced import traced_text
from laggard.pipeline.core.topics import COUNTERS, REQUESTS
from laggard.pipeline.explaining.units import counted
from laggard.pipeline.probing import live_of, recorder_of
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.settings.producing import AgentSettings
from laggard.pipeline.tracing import STATUS, Own, Rates, Tracing, begun
from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.boundaries.elf import ProgramError
from laggard.producers.trace.ftrace.tracefs import TracingError
from laggard.producers.trace.priority import raise_priority

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from laggard.pipeline.cli.part import Session
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.tracing import Figures

SPOOL: Final = "spool-requests.db"
"""The spool of requests, in the directory `state`."""

OWN_SPOOL: Final = "spool-trace.db"
"""The spool of the tracing's own counters, in the same directory."""

OWN_SPOOL_BYTES: Final = 1 << 20
"""The limit of its size: some hours of these counters."""

AGAIN_S: Final = 60.0
"""The time between two attempts while nothing can be traced, in seconds."""

_REPORT_EVERY_S: Final = 1.0


def follow(settings: Settings, running: Session, output: Path | None, *, supervised: bool) -> None:
    """Trace until it is stopped: publish requests, or record to the folder `output`."""
    figures = begun(traced_text(settings), supervised=supervised, output="" if output is None else str(output))
    figures.priority, refusal = raise_priority()
    status = _Progress(settings, running, figures, [refusal] if refusal else [])
    running.stop.progress = lambda: figures.recording
    last_error = ""
    while True:
        try:
            if output is None:
                _publish(settings, running, status)
            else:
                _record(settings, running, status, output)
        except (TracingError, ProgramError, FileExistsError) as error:
            if not supervised:
                raise CommandError(str(error), FAILED) from None
            # PHP may start later, and the other parts of `laggard up` run without it.
            if str(error) != last_error:
                last_error = str(error)
                click.echo(f"not tracing: {last_error}; retrying every {AGAIN_S:g} s", err=True)
            status.show(now=True)
            if not running.stop.wait(AGAIN_S):
                continue
        except OSError as error:
            if output is None:
                raise
            raise CommandError(f"{error.filename or output}: {error.strerror or error}", FAILED) from None
        return


class _Progress:
    """Reports the progress: in the file that `status` reads, to the supervisor, and to the service manager."""

    def __init__(self, settings: Settings, running: Session, figures: Figures, notes: Sequence[str]) -> None:
        self.figures = figures
        self._notes = notes
        self._running = running
        self._path = settings[GeneralSettings].state / STATUS
        self._rates = Rates()
        self._next = 0.0

    def show(self, *, now: bool = False) -> None:
        """Report it, at most once per second unless `now` is set."""
        at_s = time.monotonic()
        if not now and at_s < self._next:
            return
        self._next = at_s + _REPORT_EVERY_S
        figures = self.figures
        figures.ts, figures.cpu_s = time.time(), time.process_time()
        figures.events_per_s, figures.lost_per_s, figures.requests_per_s = self._rates.of(
            at_s, figures.events, figures.lost, figures.requests
        )
        figures.write(self._path)
        self._running.report(requests=figures.requests, events_per_s=figures.events_per_s)
        self._running.manager.status(f"{counted(figures.requests, 'request')}, {figures.events_per_s:,.0f} events/s")

    def limited(self, notes: Sequence[str]) -> None:
        """Set the limitations of the tracing that begins, in addition to those of the process."""
        self.figures.notes = [*self._notes, *notes]

    def recording(self) -> None:
        """Report that events arrive from now on."""
        self.figures.recording = True
        self.show(now=True)
        self._running.print_line(f"laggard trace follows {self.figures.what}. ^C stops it.")
        for note in self.figures.notes:
            self._running.print_line(f"Note: {note}")


def _publish(settings: Settings, running: Session, status: _Progress) -> None:
    """Trace, and publish requests as they end."""
    figures, host = status.figures, settings[GeneralSettings].host
    with ExitStack() as stack:
        bus = stack.enter_context(bus_of(settings))
        spool_bytes = settings[AgentSettings].spool_bytes
        publisher = publisher_of(settings, bus, REQUESTS, stack, spool=SPOOL, spool_bytes=spool_bytes)
        beside = publisher_of(settings, bus, COUNTERS, stack, spool=OWN_SPOOL, spool_bytes=OWN_SPOOL_BYTES)
        own = Own(beside.publish, host)
        live = stack.enter_context(live_of(settings))
        analysis = Analysis(host=host, clock_offset_s=live.wall_offset_s)
        status.limited(live.notes)
        tracing = Tracing(publisher.publish, publisher, host, analysis)

        def update_status() -> None:
            report, cost = analysis.report, live.cost()
            figures.events, figures.discarded = report.events, dict(report.discarded)
            figures.requests, figures.services = tracing.requests, dict(tracing.services)
            figures.waiting, figures.dropped = tracing.waiting, tracing.dropped
            figures.lost, figures.recorded_ratio, figures.lag_s = cost.lost, cost.recorded_ratio, cost.lag_s
            if figures.recording:
                status.show()
            else:
                status.recording()
            own.publish(figures)

        tracing.run(live.batches(running.stop), update_status)
        status.show(now=True)


def _record(settings: Settings, running: Session, status: _Progress, output: Path) -> None:
    """Trace into a folder."""
    figures = status.figures
    with recorder_of(settings, output) as recorder:
        status.limited(recorder.session.notes)

        def wanted() -> bool:
            figures.bytes, figures.lost = recorder.bytes, recorder.session.instance.overruns()
            if figures.recording:
                status.show()
            else:
                status.recording()
            return not running.stop.is_set()

        recorder.run(math.inf, wanted=wanted)
    figures.bytes = recorder.bytes
    status.show(now=True)
