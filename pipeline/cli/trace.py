"""`laggard trace`: follows requests through the kernel, and publishes where the time of each went."""

from __future__ import annotations

import functools
import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import click

from laggard.pipeline.claims import Claimed, holder_of
from laggard.pipeline.cli.exits import BUSY, FAILED, NO_DATA, USAGE, CommandError
from laggard.pipeline.cli.options import (
    duration_option,
    give,
    given_settings,
    same_settings,
    setting_flag,
    settings_options,
    to_type,
    with_settings,
)
from laggard.pipeline.cli.part import session, supervised_option
from laggard.pipeline.cli.publishing import check_host, is_remote, publisher_of
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.settings.producing import AgentSettings, TraceSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.pipeline.claims import Holder, Part
    from laggard.pipeline.cli.part import Session
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.tracing import Figures

P = ParamSpec("P")
R = TypeVar("R")

SPOOL: Final = "spool-requests.db"
"""In the directory `state`."""

OWN_SPOOL: Final = "spool-trace.db"
"""Likewise, for what it tells of itself ..."""

OWN_SPOOL_BYTES: Final = 1 << 20
"""... some hours of that."""

LOG: Final = "trace.log"
"""Likewise: what a tracing that was started in the background says."""

MARKER: Final = "/run/laggard/trace_marker"
"""Where laggard's middleware looks for the marker where nothing else is said."""

PHP: Final = "php"
"""What the service of PHP is called where nothing else is said."""

STARTING_S: Final = 30.0
STOPPING_S: Final = 30.0
"""So long one waits for a tracing to begin, and to end."""

AGAIN_S: Final = 60.0
"""After so long it is tried again where nothing can be traced."""

_LOOK_S: Final = 0.1
_LAST_WORDS: Final = 5  # lines of the log
_FAILED: Final = "laggard: "  # so begins what it says at last where it fails
_TOLD_EVERY_S: Final = 1.0


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def trace() -> None:
    """Follow requests through the kernel, and publish where the time of each went.

    It takes root, and Linux with tracefs; `laggard doctor` says what is missing. What is published, `laggard requests`
    shows.
    """


def _tracing_options(command: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
    """The options that say what is traced: shorter ways to write settings; gives the command its settings."""

    @functools.wraps(command)
    def read_first(*args: P.args, **kwargs: P.kwargs) -> R:
        php, service = kwargs.pop("php"), kwargs.pop("service")
        if service and not php:
            raise click.UsageError("--service names PHP's requests; expected --php with it")
        if php:
            give(TraceSettings.php, str(service or PHP), "--php")
        if kwargs.pop("marker") and not given_settings()[TraceSettings].marker:
            give(TraceSettings.marker, MARKER, "--marker")
        for flag, setting, values in (
            ("--uprobe", TraceSettings.functions, kwargs.pop("functions")),
            ("--port", TraceSettings.ports, kwargs.pop("ports")),
        ):
            assert isinstance(values, tuple)
            if values:
                give(setting, ",".join(values), flag)
        return command(given_settings(), *args, **kwargs)

    wrapped: Callable[P, R] = read_first
    for option in (
        setting_flag(
            "--events-per-second",
            TraceSettings.events_per_s,
            "N",
            "Record so many of the kernel's events a second at most (setting trace.events_per_s).",
        ),
        click.option(
            "--port",
            "ports",
            metavar="SERVICE=PORT",
            multiple=True,
            help="Each connection to this port of this machine is a request; repeatable (setting trace.ports).",
        ),
        click.option(
            "--uprobe",
            "functions",
            metavar="SERVICE=BINARY:FUNCTION",
            multiple=True,
            help="Each call of this function is a request; repeatable (setting trace.functions).",
        ),
        click.option(
            "--marker", is_flag=True, help="Requests that programs tell of, such as by our middleware (trace.marker)."
        ),
        click.option("--service", metavar="NAME", help=f"What PHP's requests are called.  [default: {PHP}]"),
        click.option("--php", is_flag=True, help="Requests of PHP-FPM, by PHP's own probes (setting trace.php)."),
    ):
        wrapped = option(wrapped)
    return settings_options(wrapped)


_output_option = click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Record to this new folder, for `laggard trace read` later, instead of publishing.",
)


@trace.command(short_help="Begin to trace, in the background.")
@_tracing_options
@duration_option
@_output_option
def start(settings: Settings, *, duration_s: float | None, output: Path | None) -> None:
    """Begin to trace in the background, until `laggard trace stop`; says so once it records, or why it does not.

    What is traced stands in the settings `trace.*`, or in these options: PHP's requests by its own probes (Debian's
    php-fpm has them), programs that tell of their requests, calls of any function of any program, or connections to a
    port. `laggard up` traces by itself where the settings say what.
    """
    _check_asked(settings)
    if (holder := _holder(settings)) is not None:
        raise CommandError(str(Claimed("trace", settings[BusSettings].location, holder)), BUSY)
    log = settings[GeneralSettings].state / LOG
    command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "trace", "run", *same_settings()]
    command += [] if duration_s is None else ["--duration", f"{duration_s}s"]
    command += [] if output is None else ["--output", str(output)]
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"{log}: {error.strerror}; set state to a folder where you may write") from None
    with os.fdopen(descriptor, "wb") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True
        )
    figures = _await_recording(settings, process, log)
    where = "" if output is None else f" to {output}"
    click.echo(f"laggard traces {figures.what}{where}, as process {process.pid}; its log is {log}.")
    if output is None:
        if not is_remote(settings) and _holder(settings, "work") is None:
            up = to_type(settings, "up")
            click.echo(f"Note: no worker runs on {settings[BusSettings].location}, which would judge them: `{up}`")
        click.echo(
            f"Next: `{to_type(settings, 'requests')}` in a minute; `{to_type(settings, 'trace', 'stop')}` ends it"
        )
    else:
        click.echo(
            f"Next: `{to_type(settings, 'trace', 'stop')}`, then `{to_type(settings, 'trace', 'read', str(output))}`"
        )


@trace.command(short_help="Trace until ^C, in the foreground.")
@_tracing_options
@duration_option
@_output_option
@supervised_option
def run(settings: Settings, *, duration_s: float | None, output: Path | None, supervised: bool) -> None:
    """Trace until ^C: what `laggard trace start` does in the background, for service managers and containers."""
    _check_asked(settings)
    with session(settings, "trace", supervised=supervised, duration_s=duration_s) as running:
        from laggard.pipeline.tracing import begun  # noqa: PLC0415 - not for a refused claim
        from laggard.producers.trace.boundaries.elf import ProgramError  # noqa: PLC0415
        from laggard.producers.trace.ftrace.instance import TracingError  # noqa: PLC0415

        figures = begun(told_of(settings), supervised=supervised, output="" if output is None else str(output))
        status = _Status(settings, running, figures)
        running.stop.progress = lambda: figures.recording
        said = ""
        while True:
            try:
                if output is None:
                    _publish(settings, running, status)
                else:
                    _record(settings, running, status, output)
            except (TracingError, ProgramError, FileExistsError) as error:
                if not supervised:
                    raise CommandError(str(error), FAILED) from None
                # PHP may come later, and the other parts of `laggard up` go on without.
                if str(error) != said:
                    said = str(error)
                    click.echo(f"nothing is traced: {said}; it is tried again every {AGAIN_S:g} s", err=True)
                status.tell(now=True)
                if not running.stop.wait(AGAIN_S):
                    continue
            except OSError as error:
                if output is None:
                    raise
                raise CommandError(f"{error.filename or output}: {error.strerror or error}", FAILED) from None
            return


@trace.command(short_help="End the tracing that runs here.")
@with_settings
def stop(settings: Settings) -> None:
    """End the tracing that runs in the background, and wait until what it recorded is published."""
    from laggard.producers.trace.ftrace.instance import remove_stale  # noqa: PLC0415 - not to read a wrong option

    holder = _holder(settings)
    if holder is None:
        removed = remove_stale()
        also = f"; removed {', '.join(removed)}, which a killed one had left" if removed else ""
        click.echo(f"Nothing is traced here{also}.")
        return
    figures = _figures(settings, holder)
    if figures is not None and figures.supervised:
        raise CommandError(
            f"`laggard up` runs it (process {holder.pid}), and would start it again; take trace.* out of the settings, "
            "and start that anew",
            BUSY,
        )
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise CommandError(f"process {holder.pid} is another user's; stop it as that one, or as root") from None
    until = time.monotonic() + STOPPING_S
    while (left := _holder(settings)) is not None and left.pid == holder.pid:
        if time.monotonic() > until:
            raise CommandError(
                f"process {holder.pid} does not end; `kill -9 {holder.pid}` will do, and lose nothing else"
            )
        time.sleep(_LOOK_S)
    click.echo("Stopped." if figures is None else f"Stopped: {_told(_last_figures(settings, figures))}.")


@trace.command(short_help="Say how the tracing goes that runs here.")
@with_settings
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def status(settings: Settings, *, as_json: bool) -> int:
    """Say what is traced, how much comes and what that costs. The exit code is 3 where nothing is traced."""
    holder = _holder(settings)
    figures = None if holder is None else _figures(settings, holder)
    if as_json:
        click.echo(json.dumps({"running": holder is not None} | ({} if figures is None else asdict(figures))))
    elif holder is None:
        click.echo(f"Nothing is traced here; `{to_type(settings, 'trace', 'start', '--help')}` says how to begin.")
        if failure := _failure(settings[GeneralSettings].state / LOG):
            click.echo(f"The last one that was started failed: {failure}")
    elif figures is None:
        click.echo(f"Process {holder.pid} is beginning to trace.")
    else:
        for line in _status_lines(figures, time.time()):
            click.echo(line)
    return NO_DATA if holder is None else 0


@trace.command(short_help="Read recordings, LTTng's traces and OpenTelemetry's spans.")
@with_settings
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the requests as JSON lines, for `laggard replay`.")
def read(settings: Settings, *, paths: tuple[Path, ...], as_json: bool) -> int:
    """Read what was recorded, and publish the requests in it.

    PATH is a folder that `laggard trace start --output` recorded to, one of LTTng's (CTF), a folder of several hosts'
    such folders, or a file of OpenTelemetry's spans (OTLP, as JSON or protobuf). On a bus to which newer requests of
    the same service have come, those older than an hour are late; `--json` and `laggard replay` know no late ones.
    """
    from laggard.pipeline.cli.trace_read import read_all  # noqa: PLC0415 - a wrong option is said without

    return read_all(settings, paths, as_json=as_json)


def traces(settings: Settings) -> bool:
    """Whether the settings name anything to trace."""
    trace = settings[TraceSettings]
    return bool(trace.php or trace.marker or trace.functions or trace.ports)


def told_of(settings: Settings) -> str:
    """What is traced, in words."""
    trace = settings[TraceSettings]
    told = [f"PHP as {trace.php}"] if trace.php else []
    if trace.marker:
        told.append("programs that mark their requests")
    told += [f"{function} as {service}" for service, function in trace.functions.items()]
    told += [f"port {port} as {service}" for service, port in trace.ports.items()]
    return ", ".join(told)


# What runs.


class _Status:
    """Tells how it goes: the file that `status` reads, the supervisor, the service manager."""

    def __init__(self, settings: Settings, running: Session, figures: Figures) -> None:
        from laggard.pipeline.tracing import STATUS, Rates  # noqa: PLC0415 - see above

        self.figures = figures
        self._running = running
        self._path = settings[GeneralSettings].state / STATUS
        self._rates = Rates()
        self._next = 0.0

    def tell(self, *, now: bool = False) -> None:
        """Tell it, once a second at most unless it has to be now."""
        from laggard.pipeline.explaining.units import counted  # noqa: PLC0415 - see above

        at_s = time.monotonic()
        if not now and at_s < self._next:
            return
        self._next = at_s + _TOLD_EVERY_S
        figures = self.figures
        figures.ts, figures.cpu_s = time.time(), time.process_time()
        figures.events_per_s, figures.requests_per_s = self._rates.of(at_s, figures.events, figures.requests)
        figures.write(self._path)
        self._running.report(requests=figures.requests, events_per_s=figures.events_per_s)
        self._running.manager.status(f"{counted(figures.requests, 'request')}, {figures.events_per_s:,.0f} events/s")

    def recording(self) -> None:
        """Events come from now on."""
        self.figures.recording = True
        self.tell(now=True)
        self._running.say(f"laggard trace follows {self.figures.what}. ^C stops it.")
        for note in self.figures.notes:
            self._running.say(f"Note: {note}")


def _publish(settings: Settings, running: Session, status: _Status) -> None:
    """Trace, and publish requests as they end."""
    from laggard.pipeline.cli.opening import bus_of  # noqa: PLC0415 - not for a recording
    from laggard.pipeline.topics import COUNTERS, REQUESTS  # noqa: PLC0415
    from laggard.pipeline.tracing import Own, Tracing, live_of  # noqa: PLC0415
    from laggard.producers.trace.analysis import Analysis  # noqa: PLC0415

    figures, host = status.figures, settings[GeneralSettings].host
    with ExitStack() as stack:
        bus = stack.enter_context(bus_of(settings))
        spool_bytes = settings[AgentSettings].spool_bytes
        publisher = publisher_of(settings, bus, REQUESTS, stack, spool=SPOOL, spool_bytes=spool_bytes)
        beside = publisher_of(settings, bus, COUNTERS, stack, spool=OWN_SPOOL, spool_bytes=OWN_SPOOL_BYTES)
        own = Own(beside.publish, host)
        live = stack.enter_context(live_of(settings))
        analysis = Analysis(host=host, clock_offset_s=live.wall_offset_s)
        figures.notes = list(live.notes)
        tracing = Tracing(publisher.publish, publisher, host, analysis)

        def tell() -> None:
            report, cost = analysis.report, live.cost()
            figures.events, figures.discarded = report.events, dict(report.discarded)
            figures.requests, figures.services = tracing.requests, dict(tracing.services)
            figures.waiting, figures.dropped = tracing.waiting, tracing.dropped
            figures.lost, figures.recorded_ratio = cost.lost, cost.recorded_ratio
            if figures.recording:
                status.tell()
            else:
                status.recording()
            own.tell(figures)

        tracing.run(live.batches(running.stop), tell)
        status.tell(now=True)


def _record(settings: Settings, running: Session, status: _Status, output: Path) -> None:
    """Trace into a folder."""
    from laggard.pipeline.tracing import recorder_of  # noqa: PLC0415 - not for what is published

    figures = status.figures
    with recorder_of(settings, output) as recorder:
        figures.notes = list(recorder.session.notes)

        def wanted() -> bool:
            figures.bytes = recorder.bytes
            if figures.recording:
                status.tell()
            else:
                status.recording()
            return not running.stop.is_set()

        recorder.run(math.inf, wanted=wanted)
    figures.bytes = recorder.bytes
    status.tell(now=True)


# What is asked of it.


def _check_asked(settings: Settings) -> None:
    check_host(settings)
    if not traces(settings):
        command = to_type(settings, "trace", "start", "--help")
        raise CommandError(
            f"nothing is said to be traced; expected --php, --marker, --uprobe or --port, or settings: `{command}`",
            USAGE,
        )


def _holder(settings: Settings, part: Part = "trace") -> Holder | None:
    try:
        return holder_of(settings[BusSettings].location, settings[GeneralSettings].state, part)
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}; ask as the user that traces, or as root") from None


def _figures(settings: Settings, holder: Holder) -> Figures | None:
    from laggard.pipeline.tracing import STATUS, read_figures  # noqa: PLC0415 - see above

    return read_figures(settings[GeneralSettings].state / STATUS, holder.pid)


def _last_figures(settings: Settings, before: Figures) -> Figures:
    """Those that a process has written at its end."""
    from laggard.pipeline.tracing import STATUS, read_figures  # noqa: PLC0415 - see above

    return read_figures(settings[GeneralSettings].state / STATUS, before.pid) or before


def _await_recording(settings: Settings, process: subprocess.Popen[bytes], log: Path) -> Figures:
    """Wait until a process records. Raises `CommandError` with what it said where it does not."""
    from laggard.pipeline.tracing import STATUS, read_figures  # noqa: PLC0415 - see above

    until = time.monotonic() + STARTING_S
    while True:
        ended = process.poll() is not None
        figures = read_figures(settings[GeneralSettings].state / STATUS, process.pid)
        if figures is not None and figures.recording:
            return figures
        if ended:
            raise CommandError(_last_words(log), process.returncode if process.returncode > 0 else FAILED)
        if time.monotonic() > until:
            process.kill()
            process.wait()
            raise CommandError(f"it does not record after {STARTING_S:g} s; {log} says: {_last_words(log)}")
        time.sleep(_LOOK_S)


def _last_words(log: Path) -> str:
    """What a process said before it ended, without who said it."""
    lines = log.read_text(errors="replace").splitlines()[-_LAST_WORDS:]
    return " ".join(line.removeprefix(_FAILED) for line in lines) or "it said nothing"


def _failure(log: Path) -> str:
    """Why the last one ended that was started in the background; empty if it did not fail, or left no word."""
    try:
        last = log.read_text(errors="replace").splitlines()[-1:]
    except OSError:
        return ""
    return last[0].removeprefix(_FAILED) if last and last[0].startswith(_FAILED) else ""


def _told(figures: Figures) -> str:
    from laggard.pipeline.explaining.units import counted, readable, readable_duration  # noqa: PLC0415

    over = readable_duration(max(figures.ts - figures.began_ts, 0.0))
    if figures.output:
        return f"{readable('recorded_bytes', figures.bytes)} recorded over {over} to {figures.output}"
    return f"{counted(figures.requests, 'request')} out of {counted(figures.events, 'event')} over {over}"


def _status_lines(figures: Figures, now: float) -> Iterator[str]:
    from laggard.pipeline.explaining.units import readable, readable_duration  # noqa: PLC0415
    from laggard.pipeline.history.report import moment  # noqa: PLC0415

    lasted_s = max(now - figures.began_ts, 0.0)
    by = ", of `laggard up`" if figures.supervised else ""
    yield (
        f"laggard traces {figures.what}, since {moment(figures.began_ts)} ({readable_duration(lasted_s)}), "
        f"as process {figures.pid}{by}."
    )
    took = max(figures.ts - figures.began_ts, 1e-9)
    cost = f"{readable('share_ratio', figures.cpu_s / took)} of one core"
    if figures.output:
        yield f"  recorded  {readable('recorded_bytes', figures.bytes)} to {figures.output}"
        yield f"  cost      {cost}"
        yield from (f"  note      {note}" for note in figures.notes)
        return
    recorded = readable("share_ratio", figures.recorded_ratio)
    came = figures.events + figures.lost
    lost = f", {figures.lost:,} ({readable('share_ratio', figures.lost / came)}) lost" if figures.lost else ""
    rate = f"{figures.events_per_s:,.0f}/s, {figures.events:,} so far{lost}"
    yield f"  events    {rate}; {recorded} of the time is recorded"
    services = ", ".join(f"{service} {count:,}" for service, count in figures.services.items())
    yield f"  requests  {figures.requests_per_s:,.1f}/s, {figures.requests:,} so far{': ' * bool(services)}{services}"
    if figures.discarded:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in figures.discarded.items())
        yield f"  not told  {reasons}"
    if figures.waiting or figures.dropped:
        yield f"  waiting   {figures.waiting:,} for the bus; {figures.dropped:,} lost"
    yield f"  cost      {cost}"
    yield from (f"  note      {note}" for note in figures.notes)
